//! The audit record of one request: its stages, and what of its bodies is logged.

use super::Audit;
use super::event::{AuditEvent, micro_time};
use super::offload::{self, Offload};
use crate::access::RequestMeta;
use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, USER_AGENT};
use optik_apiserver::{ApiResponse, ResponseBody, parse_document};
use optik_auth::User;
use optik_auth::audit_policy::{AuditLevel, AuditStage, RequestAuditConfig};
use optik_object::{Map, Value};
use serde_json::json;
use std::net::IpAddr;
use std::sync::Arc;

/// Longer paths and messages are truncated.
const TEXT_BYTES_MAX: usize = 4096;
/// Longer user agents are truncated, as upstream does.
const USER_AGENT_BYTES_MAX: usize = 1024;
const TRUNCATED_SUFFIX: &str = "...TRUNCATED";
/// Longer names are truncated; no valid name is that long.
const NAME_BYTES_MAX: usize = 512;
/// Proxy addresses beyond this number are omitted.
const PROXIES_MAX: usize = 16;
/// Longer details of a response status are omitted: they repeat the request.
const DETAILS_BYTES_MAX: usize = 4096;

/// What is known of a request when it is received.
pub(crate) struct AuditContext<'a> {
    pub(crate) id: &'a str,
    pub(crate) meta: RequestMeta<'a>,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) client_ip: Option<IpAddr>,
    pub(crate) user: &'a User,
}

/// The audit record of a request. Its final event is written when it is dropped.
pub(crate) struct AuditRecord {
    event: AuditEvent,
    recording: RequestAuditConfig,
    /// The stage of the final event; `None` once it has been written.
    final_stage: Option<AuditStage>,
    /// The approximate size of the request and response bodies, as far as they are logged.
    bytes: usize,
}

impl AuditRecord {
    /// Begins a record; `None` if the policy level is `None`.
    pub(crate) fn begin(audit: &Arc<Audit>, heard: &AuditContext<'_>) -> Option<Self> {
        let attributes = heard.meta.info.attributes();
        let recording = audit.policy.evaluate(heard.user, &attributes);
        if recording.level == AuditLevel::None {
            return None;
        }
        let mut entry = AuditEvent::new(audit, event_members(heard));
        let now = micro_time(audit.file.clock().wall());
        entry.insert("requestReceivedTimestamp", now);
        let record = Self {
            event: entry,
            recording,
            final_stage: Some(AuditStage::ResponseComplete),
            bytes: 0,
        };
        record.write_stage(AuditStage::RequestReceived);
        Some(record)
    }

    pub(crate) fn set_impersonated_user(&mut self, user: &User) {
        self.event.insert("impersonatedUser", user_info(user));
    }

    pub(crate) fn set_decision(&mut self, allowed: bool, reason: String) {
        let decision = if allowed { "allow" } else { "forbid" };
        let entry = &mut self.event;
        entry.annotate("authorization.k8s.io/decision", decision.to_owned());
        entry.annotate("authorization.k8s.io/reason", reason);
    }

    fn set_request_object(&mut self, of_kind: &str, body: &[u8]) {
        let Some(sent) = parse_document(of_kind, body) else {
            return;
        };
        // A create request names its object in the body.
        if let Some(Value::Object(object)) = self.event.get_mut("objectRef") {
            for member in ["name", "uid"] {
                let given = sent["metadata"][member].as_str().unwrap_or_default();
                if !given.is_empty() {
                    let given = truncate(given, NAME_BYTES_MAX);
                    object.entry(member).or_insert_with(|| given.into());
                }
            }
        }
        if self.recording.level >= AuditLevel::Request {
            let sent = self.without_managed_fields(sent);
            self.event.insert("requestObject", sent);
            self.bytes += body.len();
        }
    }

    fn set_response(&mut self, code: u16, of_kind: &str, body: &[u8]) {
        let object = Some(body).filter(|body| !body.is_empty());
        let object = object.and_then(|body| parse_document(of_kind, body));
        let mut status = match &object {
            Some(Value::Object(members)) if members.get("kind") == Some(&json!("Status")) => {
                // The message of a validation error may quote the body.
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
        truncate_status(&mut status);
        status.entry("metadata").or_insert_with(|| json!({}));
        status.insert("code".into(), code.into());
        self.event.insert("responseStatus", Value::Object(status));
        if self.recording.level >= AuditLevel::RequestResponse
            && let Some(object) = object
        {
            let object = self.without_managed_fields(object);
            self.event.insert("responseObject", object);
            self.bytes += body.len();
        }
    }

    fn without_managed_fields(&self, mut object: Value) -> Value {
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

    pub(crate) fn set_panicked(&mut self) {
        self.final_stage = Some(AuditStage::Panic);
    }

    fn write_stage(&self, stage: AuditStage) {
        if self.records_stage(stage) {
            self.event.clone().write(self.recording.level, stage);
        }
    }

    /// Takes the final event to write; `None` if it has been written.
    fn take_final_event(&mut self) -> Option<impl FnOnce() + Send + 'static> {
        let stage = self
            .final_stage
            .take()
            .filter(|stage| self.records_stage(*stage))?;
        let (entry, level) = (self.event.take(), self.recording.level);
        Some(move || entry.write(level, stage))
    }

    fn records_stage(&self, stage: AuditStage) -> bool {
        !self.recording.omit_stages.contains(&stage)
    }
}

/// Bodies that may be long are parsed and written on a blocking thread.
impl Offload<AuditRecord> {
    /// Records the body of the request.
    pub(crate) async fn record_request(&mut self, headers: &HeaderMap, body: &Bytes) {
        if body.is_empty() {
            return;
        }
        let (of_kind, body, bytes) = (media_type(headers), body.clone(), body.len());
        let note = move |record: &mut AuditRecord| record.set_request_object(&of_kind, &body);
        self.run(bytes, note).await;
    }

    /// Records the body of the response.
    pub(crate) fn record_response(
        &mut self,
        response: &ApiResponse,
    ) -> impl Future<Output = ()> + use<'_> {
        let wanted = self.ready_mut().map(|record| {
            for (key, value) in &response.audit_annotations {
                record.event.annotate(key, value.clone());
            }
            record.recording.level >= AuditLevel::RequestResponse || response.status.as_u16() >= 400
        });
        let body = match &response.body {
            ResponseBody::Whole(bytes) if wanted == Some(true) => bytes.clone(),
            ResponseBody::Whole(_) | ResponseBody::Stream(_) => Bytes::new(),
        };
        let (of_kind, bytes) = (media_type(&response.headers), body.len());
        let code = response.status.as_u16();
        let note = move |record: &mut AuditRecord| record.set_response(code, &of_kind, &body);
        self.run(bytes, note)
    }

    /// Completes the record when the head of the response is made. A long-running request is
    /// completed later, all others now.
    pub(crate) async fn finish(
        &mut self,
        code: u16,
        long_running: bool,
    ) -> Option<Box<AuditRecord>> {
        let mut record = self.take().await?;
        let status = json!({"metadata": {}, "code": code});
        record.event.insert_if_new("responseStatus", status);
        if long_running {
            record.write_stage(AuditStage::ResponseStarted);
            return Some(record);
        }
        let bytes = record.bytes;
        *self = Self::Ready(record);
        let end = |record: &mut AuditRecord| {
            if let Some(write) = record.take_final_event() {
                write();
            }
        };
        self.run(bytes, end).await;
        None
    }
}

impl Drop for AuditRecord {
    fn drop(&mut self) {
        if let Some(write) = self.take_final_event() {
            offload::run_detached(self.bytes, write);
        }
    }
}

fn event_members(heard: &AuditContext<'_>) -> Map {
    let RequestMeta {
        path, query, info, ..
    } = heard.meta;
    let mut event = Map::new();
    let question = if query.is_empty() { "" } else { "?" };
    event.insert("auditID".into(), heard.id.into());
    event.insert(
        "requestURI".into(),
        truncate(&format!("{path}{question}{query}"), TEXT_BYTES_MAX).into(),
    );
    let verb = truncate(info.verb(), NAME_BYTES_MAX);
    event.insert("verb".into(), verb.into());
    event.insert("user".into(), user_info(heard.user));
    event.insert(
        "sourceIPs".into(),
        source_ips(heard.headers, heard.client_ip).into(),
    );
    let agent = heard
        .headers
        .get(USER_AGENT)
        .and_then(|agent| agent.to_str().ok());
    if let Some(agent) = agent {
        event.insert("userAgent".into(), truncated_user_agent(agent).into());
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
            object.insert(member.into(), truncate(value, NAME_BYTES_MAX).into());
        }
        event.insert("objectRef".into(), Value::Object(object));
    }
    event
}

fn truncate(text: &str, bytes_max: usize) -> &str {
    let ends = (0..=text.len().min(bytes_max)).rev();
    let mut ends = ends.filter(|at| text.is_char_boundary(*at));
    &text[..ends.next().unwrap_or(0)]
}

fn truncated_user_agent(agent: &str) -> String {
    let shown = truncate(agent, USER_AGENT_BYTES_MAX);
    let suffix = if shown.len() < agent.len() {
        TRUNCATED_SUFFIX
    } else {
        ""
    };
    format!("{shown}{suffix}")
}

/// The message and details of a status may quote the request.
fn truncate_status(status: &mut Map) {
    if let Some(Value::String(message)) = status.get_mut("message") {
        let length = truncate(message, TEXT_BYTES_MAX).len();
        message.truncate(length);
    }
    let details = status.get("details");
    if details.is_some_and(|details| optik_object::to_bytes(details).len() > DETAILS_BYTES_MAX) {
        status.remove("details");
    }
}

fn user_info(user: &User) -> Value {
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

/// The addresses that proxies added to the headers, then the peer's address.
fn source_ips(headers: &HeaderMap, from: Option<IpAddr>) -> Vec<String> {
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
    use crate::access::with_request_meta;
    use crate::audit::{AuditFile, Rotation};
    use futures::FutureExt;
    use http::Method;
    use optik_auth::audit_policy::AuditPolicy;
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

    fn begin(audit: &Arc<Audit>) -> Offload<AuditRecord> {
        let (headers, user) = (HeaderMap::new(), User::default());
        let path = "/api/v1/namespaces/n/configmaps";
        let record = with_request_meta(&Method::POST, path, |asked| {
            let heard = AuditContext {
                id: "id",
                meta: asked,
                headers: &headers,
                client_ip: None,
                user: &user,
            };
            AuditRecord::begin(audit, &heard)
        });
        Offload::Ready(Box::new(record.unwrap()))
    }

    fn yaml(bytes: usize) -> (HeaderMap, Bytes) {
        let kind = [(CONTENT_TYPE, "application/yaml".parse().unwrap())];
        let text = format!(
            "metadata: {{name: a}}\ndata: {{x: {}}}\n",
            "y".repeat(bytes)
        );
        (kind.into_iter().collect(), text.into())
    }

    /// The task of the connection does not wait for the parsing.
    #[tokio::test]
    async fn audit_parses_long_request_bodies_off_the_connection_task() {
        let directory = tempfile::tempdir().unwrap();
        for level in ["Metadata", "Request"] {
            let audit = audit(&directory, level);
            for (bytes, at_once) in [(10, true), (100_000, false)] {
                let (headers, body) = yaml(bytes);
                let mut record = begin(&audit);
                let now = record.record_request(&headers, &body).now_or_never();
                assert_eq!(now.is_some(), at_once, "{level} {bytes}");
                // The future that awaited the parsing was dropped; the request body is still
                // recorded.
                let ended = record.take().await.unwrap();
                let mut record = Offload::Ready(ended);
                let now = record.finish(201, false).now_or_never();
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
    async fn audit_parses_long_responses_off_the_connection_task() {
        let directory = tempfile::tempdir().unwrap();
        let audit = audit(&directory, "RequestResponse");
        let text = json!({"data": "y".repeat(100_000)}).to_string();
        let response = ApiResponse::json(http::StatusCode::OK, text);
        let mut record = begin(&audit);
        assert!(record.record_response(&response).now_or_never().is_none());
        record.finish(200, false).await;
        let written = lines(&log(&directory)).pop().unwrap();
        assert_eq!(written["responseStatus"]["code"], 200);
        let data = written["responseObject"]["data"].as_str();
        assert_eq!(data.map(str::len), Some(100_000));
    }

    /// The client disconnected: no task waits for the write.
    #[tokio::test]
    async fn audit_record_of_a_cancelled_request_is_written_once() {
        let directory = tempfile::tempdir().unwrap();
        let audit = audit(&directory, "Request");
        for (bytes, count) in [(10, 1), (100_000, 2)] {
            let (headers, body) = yaml(bytes);
            let mut record = begin(&audit);
            record.record_request(&headers, &body).await;
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
