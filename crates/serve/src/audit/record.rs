//! One request, as it is written down.

use super::Audit;
use crate::access::Asked;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, USER_AGENT};
use optik_access::User;
use optik_access::audit::{Level, Recording, Stage};
use optik_apiserver::{Body, Response, readable};
use optik_object::{Map, Timestamp, Value};
use optik_platform::UnixMillis;
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
    audit: Arc<Audit>,
    recording: Recording,
    event: Map,
    annotations: Map,
    /// How it ended so far.
    end: Stage,
    managed_fields: bool,
}

impl Record {
    /// `None` if the policy does not want to know.
    pub(crate) fn begin(audit: &Arc<Audit>, heard: &Heard<'_>) -> Option<Self> {
        let attributes = heard.asked.info.attributes();
        let recording = audit.policy.recording(heard.user, &attributes);
        if recording.level == Level::None {
            return None;
        }
        let mut record = Self {
            audit: Arc::clone(audit),
            managed_fields: !recording.omit_managed_fields,
            event: described(heard),
            recording,
            annotations: Map::new(),
            end: Stage::ResponseComplete,
        };
        let now = record.now();
        record
            .event
            .insert("requestReceivedTimestamp".into(), now.into());
        record.write(Stage::RequestReceived);
        Some(record)
    }

    fn now(&self) -> String {
        micros(self.audit.file.clock().wall())
    }

    pub(crate) fn acting_as(&mut self, user: &User) {
        self.event.insert("impersonatedUser".into(), shown(user));
    }

    pub(crate) fn decided(&mut self, allowed: bool, reason: String) {
        let decision = if allowed { "allow" } else { "forbid" };
        self.annotate("authorization.k8s.io/decision", decision.into());
        self.annotate("authorization.k8s.io/reason", reason);
    }

    fn annotate(&mut self, key: &str, value: String) {
        self.annotations.insert(key.into(), value.into());
    }

    /// What was sent.
    pub(crate) fn sent(&mut self, headers: &HeaderMap, body: &[u8]) {
        if body.is_empty() {
            return;
        }
        let Some(sent) = readable(&media_type(headers), body) else {
            return;
        };
        // Who makes an object names it in the body.
        if let Some(Value::Object(object)) = self.event.get_mut("objectRef") {
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
            self.event.insert("requestObject".into(), sent);
        }
    }

    /// What is answered.
    pub(crate) fn answered(&mut self, response: &Response) {
        let code = response.status.as_u16();
        for (key, value) in &response.annotations {
            self.annotate(key, value.clone());
        }
        let bytes = match &response.body {
            Body::Whole(bytes) => bytes.as_ref(),
            Body::Stream(_) => &[],
        };
        let wanted = self.recording.level >= Level::RequestResponse || code >= 400;
        let of_kind = media_type(&response.headers);
        let object = Some(bytes).filter(|bytes| wanted && !bytes.is_empty());
        let object = object.and_then(|bytes| readable(&of_kind, bytes));
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
        self.event
            .insert("responseStatus".into(), Value::Object(status));
        if self.recording.level >= Level::RequestResponse
            && let Some(object) = object
        {
            let object = self.trimmed(object);
            self.event.insert("responseObject".into(), object);
        }
    }

    fn trimmed(&self, mut object: Value) -> Value {
        if !self.managed_fields {
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

    /// The head of the answer is made; what follows of a stream may take for ever.
    pub(crate) fn ended(&mut self, code: u16, long_running: bool) {
        let status = || json!({"metadata": {}, "code": code});
        self.event.entry("responseStatus").or_insert_with(status);
        if long_running {
            self.write(Stage::ResponseStarted);
        }
    }

    pub(crate) fn panicked(&mut self) {
        self.end = Stage::Panic;
    }

    fn write(&self, stage: Stage) {
        if self.recording.omit_stages.contains(&stage) {
            return;
        }
        let mut event = Map::new();
        event.insert("kind".into(), "Event".into());
        event.insert("apiVersion".into(), "audit.k8s.io/v1".into());
        event.insert("level".into(), self.recording.level.name().into());
        event.insert("stage".into(), stage.name().into());
        event.extend(self.event.clone());
        event.insert("stageTimestamp".into(), self.now().into());
        if !self.annotations.is_empty() {
            event.insert(
                "annotations".into(),
                Value::Object(self.annotations.clone()),
            );
        }
        let mut line = optik_object::to_bytes(&event);
        line.push(b'\n');
        self.audit.file.write(&line);
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.write(self.end);
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

fn micros(at: UnixMillis) -> String {
    let millis = i64::try_from(at.0).unwrap_or(i64::MAX);
    Timestamp::from_millis(millis).with_micros()
}
