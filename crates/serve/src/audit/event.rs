//! An audit event (`audit.k8s.io/v1`) and its serialization as one line of JSON.

use super::Audit;
use optik_auth::audit_policy::{AuditLevel, AuditStage};
use optik_object::{Map, Timestamp, Value};
use optik_platform::UnixMillis;
use std::sync::Arc;

#[derive(Clone)]
pub(super) struct AuditEvent {
    audit: Arc<Audit>,
    members: Map,
    annotations: Map,
}

impl AuditEvent {
    pub(super) fn new(audit: &Arc<Audit>, members: Map) -> Self {
        Self {
            audit: Arc::clone(audit),
            members,
            annotations: Map::new(),
        }
    }

    pub(super) fn get_mut(&mut self, member: &str) -> Option<&mut Value> {
        self.members.get_mut(member)
    }

    pub(super) fn insert(&mut self, member: &str, value: impl Into<Value>) {
        self.members.insert(member.into(), value.into());
    }

    pub(super) fn insert_if_new(&mut self, member: &str, value: Value) {
        self.members.entry(member).or_insert(value);
    }

    pub(super) fn annotate(&mut self, key: &str, value: String) {
        self.annotations.insert(key.into(), value.into());
    }

    /// Moves all members out; the event is empty afterwards.
    pub(super) fn take(&mut self) -> Self {
        Self {
            audit: Arc::clone(&self.audit),
            members: std::mem::take(&mut self.members),
            annotations: std::mem::take(&mut self.annotations),
        }
    }

    pub(super) fn write(self, level: AuditLevel, stage: AuditStage) {
        let file = &self.audit.file;
        let mut event = Map::new();
        event.insert("kind".into(), "Event".into());
        event.insert("apiVersion".into(), "audit.k8s.io/v1".into());
        event.insert("level".into(), level.name().into());
        event.insert("stage".into(), stage.name().into());
        event.extend(self.members);
        let now = micro_time(file.clock().wall());
        event.insert("stageTimestamp".into(), now.into());
        if !self.annotations.is_empty() {
            event.insert("annotations".into(), Value::Object(self.annotations));
        }
        let mut line = optik_object::to_bytes(&event);
        line.push(b'\n');
        file.write(&line);
    }
}

pub(super) fn micro_time(at: UnixMillis) -> String {
    let millis = i64::try_from(at.0).unwrap_or(i64::MAX);
    Timestamp::from_millis(millis).to_rfc3339_micros()
}
