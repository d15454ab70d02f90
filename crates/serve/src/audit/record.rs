//! One request, as it is written down.

use super::Audit;
use super::beside::{self, Beside};
use super::entry::{Entry, micros};
use crate::access::Asked;
use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, USER_AGENT};
use optik_access::User;
use optik_access::audit::{Level, Recording, Stage};
use optik_apiserver::{Body, Response, readable};
use optik_object::{Map, Value};
use serde_json::json;
use std::net::IpAddr;
use std::sync::Arc;

/// Longer paths and messages are cut.
const TEXT_BYTES_MAX: usize = 4096;
/// Longer agents are cut, as upstream does it.
const AGENT_BYTES_MAX: usize = 1024;
const CUT: &str = "...TRUNCATED";
/// Longer names are cut: there are none that are good for anything.
const NAME_BYTES_MAX: usize = 512;
/// Proxies beyond this many are not told.
const PROXIES_MAX: usize = 16;
/// Longer details of an answer are left out: they repeat what was sent.
const DETAILS_BYTES_MAX: usize = 4096;

/// What is known of a request when it comes.
pub(crate) struct Heard<'a> {
    pub(crate) id: &'a str,
    pub(crate) asked: Asked<'a>,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) from: Option<IpAddr>,
    pub(crate) user: &'a User,
}

/// A request that is written down. Its end is written when this is dropped.
pub(crate) struct Record {
    entry: Entry,
    recording: Recording,
    /// How it ended so far; `None` when that has been written.
    end: Option<Stage>,
    /// About how long what was sent and answered is, as far as it is written down.
    bytes: usize,
}

impl Record {
    /// `None` if the policy does not want to know.
    pub(crate) fn begin(audit: &Arc<Audit>, heard: &Heard<'_>) -> Option<Self> {
        let attributes = heard.asked.info.attributes();
        let recording = audit.policy.recording(heard.user, &attributes);
        if recording.level == Level::None {
            return None;
        }
        let mut entry = Entry::new(audit, described(heard));
        let now = micros(audit.file.clock().wall());
        entry.insert("requestReceivedTimestamp", now);
        let record = Self {
            entry,
            recording,
            end: Some(Stage::ResponseComplete),
            bytes: 0,
        };
        record.write(Stage::RequestReceived);
        Some(record)
    }

    pub(crate) fn acting_as(&mut self, user: &User) {
        self.entry.insert("impersonatedUser", shown(user));
    }

    pub(crate) fn decided(&mut self, allowed: bool, reason: String) {
        let decision = if allowed { "allow" } else { "forbid" };
        let entry = &mut self.entry;
        entry.annotate("authorization.k8s.io/decision", decision.to_owned());
        entry.annotate("authorization.k8s.io/reason", reason);
    }

    fn note_sent(&mut self, of_kind: &str, body: &[u8]) {
        let Some(sent) = readable(of_kind, body) else {
            return;
        };
        // Who makes an object names it in the body.
        if let Some(Value::Object(object)) = self.entry.get_mut("objectRef") {
            for member in ["name", "uid"] {
                let given = sent["metadata"][member].as_str().unwrap_or_default();
                if !given.is_empty() {
                    let given = cut(given, NAME_BYTES_MAX);
                    object.entry(member).or_insert_with(|| given.into());
                }
            }
        }
        if self.recording.level >= Level::Request {
            let sent = self.trimmed(sent);
            self.entry.insert("requestObject", sent);
            self.bytes += body.len();
        }
    }

    fn note_answer(&mut self, code: u16, of_kind: &str, body: &[u8]) {
        let object = Some(body).filter(|body| !body.is_empty());
        let object = object.and_then(|body| readable(of_kind, body));
        let mut status = match &object {
            Some(Value::Object(members)) if members.get("kind") == Some(&json!("Status")) => {
                // A complaint about a body may quote it.
                let quotes = self.recording.secret && matches!(code, 400 | 422);
                let own = |name: &&String| match name.as_str() {
                    "kind" | "apiVersion" => false,
                    "message" | "details" => !quotes,
                    _ => true,
                };
                members
                    .iter()
                    .filter(|(name, _)| own(name))
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect()
            }
            _ => Map::new(),
        };
        shorten(&mut status);
        status.entry("metadata").or_insert_with(|| json!({}));
        status.insert("code".into(), code.into());
        self.entry.insert("responseStatus", Value::Object(status));
        if self.recording.level >= Level::RequestResponse
            && let Some(object) = object
        {
            let object = self.trimmed(object);
            self.entry.insert("responseObject", object);
            self.bytes += body.len();
        }
    }

    fn trimmed(&self, mut object: Value) -> Value {
        if self.recording.omit_managed_fields {
            let forget = |object: &mut Value| {
                if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                    metadata.remove("managedFields");
                }
            };
            forget(&mut object);
            let items = object.get_mut("items").and_then(Value::as_array_mut);
            items.into_iter().flatten().for_each(forget);
        }
        object
    }

    pub(crate) fn panicked(&mut self) {
        self.end = Some(Stage::Panic);
    }

    fn write(&self, stage: Stage) {
        if self.wants(stage) {
            self.entry.clone().write(self.recording.level, stage);
        }
    }

    /// Writes the end, unless that has been done.
    fn last_words(&mut self) -> Option<impl FnOnce() + Send + 'static> {
        let stage = self.end.take().filter(|stage| self.wants(*stage))?;
        let (entry, level) = (self.entry.take(), self.recording.level);
        Some(move || entry.write(level, stage))
    }

    fn wants(&self, stage: Stage) -> bool {
        !self.recording.omit_stages.contains(&stage)
    }
}

/// What may be long is understood and written by another thread.
impl Beside<Record> {
    /// What was sent.
    pub(crate) async fn sent(&mut self, headers: &HeaderMap, body: &Bytes) {
        if body.is_empty() {
            return;
        }
        let (of_kind, body, bytes) = (media_type(headers), body.clone(), body.len());
        let note = move |record: &mut Record| record.note_sent(&of_kind, &body);
        self.work(bytes, note).await;
    }

    /// What is answered.
    pub(crate) fn answered(&mut self, response: &Response) -> impl Future<Output = ()> + use<'_> {
        let wanted = self.here().map(|record| {
            for (key, value) in &response.annotations {
                record.entry.annotate(key, value.clone());
            }
            record.recording.level >= Level::RequestResponse || response.status.as_u16() >= 400
        });
        let body = match &response.body {
            Body::Whole(bytes) if wanted == Some(true) => bytes.clone(),
            Body::Whole(_) | Body::Stream(_) => Bytes::new(),
        };
        let (of_kind, bytes) = (media_type(&response.headers), body.len());
        let code = response.status.as_u16();
        let note = move |record: &mut Record| record.note_answer(code, &of_kind, &body);
        self.work(bytes, note)
    }

    /// The head of the answer is made. A stream ends later; everything else ends now.
    pub(crate) async fn ended(&mut self, code: u16, long_running: bool) -> Option<Box<Record>> {
        let mut record = self.take().await?;
        let status = json!({"metadata": {}, "code": code});
        record.entry.insert_if_new("responseStatus", status);
        if long_running {
            record.write(Stage::ResponseStarted);
            return Some(record);
        }
        let bytes = record.bytes;
        *self = Self::Here(record);
        let end = |record: &mut Record| {
            if let Some(write) = record.last_words() {
                write();
            }
        };
        self.work(bytes, end).await;
        None
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if let Some(write) = self.last_words() {
            beside::leave(self.bytes, write);
        }
    }
}

fn described(heard: &Heard<'_>) -> Map {
    let Asked {
        path, query, info, ..
    } = heard.asked;
    let mut event = Map::new();
    let question = if query.is_empty() { "" } else { "?" };
    event.insert("auditID".into(), heard.id.into());
    event.insert(
        "requestURI".into(),
        cut(&format!("{path}{question}{query}"), TEXT_BYTES_MAX).into(),
    );
    let verb = cut(info.verb(), NAME_BYTES_MAX);
    event.insert("verb".into(), verb.into());
    event.insert("user".into(), shown(heard.user));
    event.insert(
        "sourceIPs".into(),
        sources(heard.headers, heard.from).into(),
    );
    let agent = heard
        .headers
        .get(USER_AGENT)
        .and_then(|agent| agent.to_str().ok());
    if let Some(agent) = agent {
        event.insert("userAgent".into(), shown_agent(agent).into());
    }
    if let Some(of) = info.resource() {
        let mut object = Map::new();
        let parts = [
            ("resource", of.resource),
            ("namespace", of.namespace),
            ("name", of.name),
            ("apiGroup", of.group),
            ("apiVersion", of.version),
            ("subresource", of.subresource),
        ];
        for (member, value) in parts.into_iter().filter(|(_, value)| !value.is_empty()) {
            object.insert(member.into(), cut(value, NAME_BYTES_MAX).into());
        }
        event.insert("objectRef".into(), Value::Object(object));
    }
    event
}

fn cut(text: &str, bytes_max: usize) -> &str {
    let ends = (0..=text.len().min(bytes_max)).rev();
    let mut ends = ends.filter(|at| text.is_char_boundary(*at));
    &text[..ends.next().unwrap_or(0)]
}

fn shown_agent(agent: &str) -> String {
    let shown = cut(agent, AGENT_BYTES_MAX);
    let suffix = if shown.len() < agent.len() { CUT } else { "" };
    format!("{shown}{suffix}")
}

/// What an answer says quotes what was asked.
fn shorten(status: &mut Map) {
    if let Some(Value::String(message)) = status.get_mut("message") {
        let length = cut(message, TEXT_BYTES_MAX).len();
        message.truncate(length);
    }
    let details = status.get("details");
    if details.is_some_and(|details| optik_object::to_bytes(details).len() > DETAILS_BYTES_MAX) {
        status.remove("details");
    }
}

fn shown(user: &User) -> Value {
    let mut shown = json!({"username": user.name});
    if !user.uid.is_empty() {
        shown["uid"] = user.uid.as_str().into();
    }
    if !user.groups.is_empty() {
        shown["groups"] = user.groups.clone().into();
    }
    if !user.extra.is_empty() {
        shown["extra"] = json!(user.extra);
    }
    shown
}

/// Those that proxies name, then the other end.
fn sources(headers: &HeaderMap, from: Option<IpAddr>) -> Vec<String> {
    let listed = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        let parts = value.unwrap_or_default().split(',');
        parts
            .filter_map(|part| part.trim().parse::<IpAddr>().ok())
            .take(PROXIES_MAX)
            .collect::<Vec<_>>()
    };
    let mut all = listed("x-forwarded-for");
    for ip in listed("x-real-ip").into_iter().take(1).chain(from) {
        if all.last() != Some(&ip) {
            all.push(ip);
        }
    }
    all.iter().map(IpAddr::to_string).collect()
}

fn media_type(headers: &HeaderMap) -> String {
    let value = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::asked_for;
    use crate::audit::{AuditFile, Rotation};
    use futures::FutureExt;
    use http::Method;
    use optik_access::audit::AuditPolicy;
    use optik_platform::SystemClock;
    use std::path::Path;
    use std::time::Duration;
    use tempfile::TempDir;

    fn audit(directory: &TempDir, level: &str) -> Arc<Audit> {
        let policy = format!(
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n\
             rules: [{{level: {level}}}]\n"
        );
        let rotation = Rotation {
            bytes_max: u64::MAX,
            files_max: 0,
            age_max: Duration::ZERO,
        };
        let clock = Arc::new(SystemClock::default());
        let file = AuditFile::open(&log(directory), rotation, clock);
        Arc::new(Audit {
            policy: AuditPolicy::parse(policy.as_bytes()).unwrap(),
            file: file.unwrap(),
        })
    }

    fn log(directory: &TempDir) -> std::path::PathBuf {
        directory.path().join("audit.log")
    }

    fn lines(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap();
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    fn begin(audit: &Arc<Audit>) -> Beside<Record> {
        let (headers, user) = (HeaderMap::new(), User::default());
        let path = "/api/v1/namespaces/n/configmaps";
        let record = asked_for(&Method::POST, path, |asked| {
            let heard = Heard {
                id: "id",
                asked,
                headers: &headers,
                from: None,
                user: &user,
            };
            Record::begin(audit, &heard)
        });
        Beside::Here(Box::new(record.unwrap()))
    }

    fn yaml(bytes: usize) -> (HeaderMap, Bytes) {
        let kind = [(CONTENT_TYPE, "application/yaml".parse().unwrap())];
        let text = format!(
            "metadata: {{name: a}}\ndata: {{x: {}}}\n",
            "y".repeat(bytes)
        );
        (kind.into_iter().collect(), text.into())
    }

    /// Whoever has a connection on this thread does not wait for it.
    #[tokio::test]
    async fn what_is_long_is_understood_beside_connections() {
        let directory = tempfile::tempdir().unwrap();
        for level in ["Metadata", "Request"] {
            let audit = audit(&directory, level);
            for (bytes, at_once) in [(10, true), (100_000, false)] {
                let (headers, body) = yaml(bytes);
                let mut record = begin(&audit);
                let now = record.sent(&headers, &body).now_or_never();
                assert_eq!(now.is_some(), at_once, "{level} {bytes}");
                // Whoever waited for that is too late; what was sent is not lost.
                let ended = record.take().await.unwrap();
                let mut record = Beside::Here(ended);
                let now = record.ended(201, false).now_or_never();
                let brief = at_once || level == "Metadata";
                assert_eq!(now.is_some(), brief, "{level} {bytes}");
                record.take().await.unwrap();
                let written = lines(&log(&directory)).pop().unwrap();
                assert_eq!(written["objectRef"]["name"], "a");
                let long = written["requestObject"]["data"]["x"].as_str();
                let expected = (level == "Request").then_some(bytes);
                assert_eq!(long.map(str::len), expected);
            }
        }
    }

    #[tokio::test]
    async fn a_long_answer_is_understood_beside_connections() {
        let directory = tempfile::tempdir().unwrap();
        let audit = audit(&directory, "RequestResponse");
        let text = json!({"data": "y".repeat(100_000)}).to_string();
        let response = Response::json(http::StatusCode::OK, text);
        let mut record = begin(&audit);
        assert!(record.answered(&response).now_or_never().is_none());
        record.ended(200, false).await;
        let written = lines(&log(&directory)).pop().unwrap();
        assert_eq!(written["responseStatus"]["code"], 200);
        let data = written["responseObject"]["data"].as_str();
        assert_eq!(data.map(str::len), Some(100_000));
    }

    /// The client has gone: nobody waits for what is written.
    #[tokio::test]
    async fn what_is_given_up_is_written_once() {
        let directory = tempfile::tempdir().unwrap();
        let audit = audit(&directory, "Request");
        for (bytes, count) in [(10, 1), (100_000, 2)] {
            let (headers, body) = yaml(bytes);
            let mut record = begin(&audit);
            record.sent(&headers, &body).await;
            drop(record);
            let written = async {
                while lines_there(&log(&directory)) < count {
                    tokio::task::yield_now().await;
                }
            };
            let patience = Duration::from_secs(20);
            tokio::time::timeout(patience, written).await.unwrap();
            assert_eq!(lines(&log(&directory)).len(), count);
        }
    }

    fn lines_there(path: &Path) -> usize {
        std::fs::read_to_string(path).unwrap().matches('\n').count()
    }
}
