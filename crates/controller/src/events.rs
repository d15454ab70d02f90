//! The event recorder: creates `events.k8s.io/v1` Events in the background. Repeated events are
//! counted in a series, and excess events are dropped, so that recording never blocks.

use crate::api_client::{ApiClient, ClientRequest, MERGE, SendError};
use crate::controller_shared::{wait_until_set, wall_rounded};
use crate::key::ObjectKey;
use crate::kind::KindInfo;
use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use optik_platform::Clock;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tracing::debug;
use xxhash_rust::xxh3::xxh3_64;

/// The maximum number of events that wait to be sent. More are dropped.
const PENDING_EVENTS_MAX: usize = 1000;
/// The maximum number of event series that are remembered, to count repetitions.
const SERIES_MAX: usize = 4096;
/// The minimum interval between two updates of a series.
const SERIES_INTERVAL_MIN: Duration = Duration::from_secs(10);
/// A series ends after this time without a repetition.
const SERIES_TTL: Duration = Duration::from_secs(360);

/// An event about an object, for people to read.
///
/// ```
/// # use optik_controller::EventRecord;
/// let event = EventRecord::warning("JobFailed", "Backup", "the job failed three times");
/// # let _ = event;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    kind: &'static str,
    reason: String,
    action: String,
    note: String,
}

impl EventRecord {
    /// Creates an event of type `Normal`. Reason and action are short, in CamelCase.
    ///
    /// ```
    /// # use optik_controller::EventRecord;
    /// let _ = EventRecord::normal("JobCreated", "Backup", "created job nightly-1");
    /// ```
    pub fn normal(
        reason: impl Into<String>,
        action: impl Into<String>,
        note: impl Into<String>,
    ) -> Self {
        Self {
            kind: "Normal",
            reason: reason.into(),
            action: action.into(),
            note: note.into(),
        }
    }

    /// Creates an event of type `Warning`, for something that needs attention.
    ///
    /// ```
    /// # use optik_controller::EventRecord;
    /// let _ = EventRecord::warning("JobFailed", "Backup", "job nightly-1 failed");
    /// ```
    pub fn warning(
        reason: impl Into<String>,
        action: impl Into<String>,
        note: impl Into<String>,
    ) -> Self {
        Self {
            kind: "Warning",
            ..Self::normal(reason, action, note)
        }
    }
}

struct PendingEvent {
    controller: &'static str,
    regarding: Value,
    key: ObjectKey,
    event: EventRecord,
}

/// Accepts events and queues them for the [`EventSink`].
#[derive(Clone)]
pub(crate) struct EventRecorder {
    sender: mpsc::Sender<PendingEvent>,
    api: ApiClient,
}

impl EventRecorder {
    pub(crate) fn new(
        api: ApiClient,
        clock: Arc<dyn Clock>,
        instance: String,
    ) -> (Self, EventSink) {
        let (sender, receiver) = mpsc::channel(PENDING_EVENTS_MAX);
        let sink = EventSink {
            receiver,
            api: api.clone(),
            clock,
            instance,
            series: BTreeMap::new(),
        };
        (Self { sender, api }, sink)
    }

    pub(crate) fn record(
        &self,
        controller: &'static str,
        kind: &KindInfo,
        key: &ObjectKey,
        uid: &str,
        event: EventRecord,
    ) {
        let regarding = json!({
            "apiVersion": kind.api_version, "kind": kind.kind,
            "namespace": key.namespace(), "name": key.name(), "uid": uid,
        });
        let pending = PendingEvent {
            controller,
            regarding,
            key: key.clone(),
            event,
        };
        if self.sender.try_send(pending).is_err() {
            self.api.metrics.recorded_events_dropped.add(1);
        }
    }
}

/// Sends queued events to the server.
pub(crate) struct EventSink {
    receiver: mpsc::Receiver<PendingEvent>,
    api: ApiClient,
    clock: Arc<dyn Clock>,
    instance: String,
    series: BTreeMap<String, EventSeries>,
}

struct EventSeries {
    count: u32,
    last_seen: Instant,
    last_sent: Instant,
}

impl EventSink {
    /// Runs until `stop` is set, and then sends the remaining events.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            let next = tokio::select! {
                next = self.receiver.recv() => next,
                () = wait_until_set(&mut stop) => None,
            };
            let Some(next) = next else {
                break;
            };
            self.try_send(&next).await;
        }
        while let Ok(pending) = self.receiver.try_recv() {
            self.try_send(&pending).await;
        }
    }

    async fn try_send(&mut self, pending: &PendingEvent) {
        if let Err(cause) = self.send(pending).await {
            debug!(%cause, "an event was not recorded");
        }
    }

    async fn send(&mut self, pending: &PendingEvent) -> Result<(), SendError> {
        let now = Instant::now();
        self.series
            .retain(|_, series| now - series.last_seen < SERIES_TTL);
        let namespace = pending.key.namespace().unwrap_or("default");
        let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        let name = self.event_name(pending);
        let Some(series) = self.series.get_mut(&name) else {
            let series = EventSeries {
                count: 1,
                last_seen: now,
                last_sent: now,
            };
            let create = ClientRequest::with_body(
                Method::POST,
                &path,
                &self.event_body(&name, namespace, pending),
            );
            if self.series.len() < SERIES_MAX {
                self.series.insert(name, series);
            }
            return match self.api.send(create).await {
                // The event was created before this process started, or the response to it was
                // lost.
                Err(SendError::Refused(refusal)) if refusal.code == 409 => Ok(()),
                sent => sent.map(drop),
            };
        };
        series.count += 1;
        series.last_seen = now;
        if now - series.last_sent < SERIES_INTERVAL_MIN {
            return Ok(());
        }
        series.last_sent = now;
        let last = MicroTime(wall_rounded(&*self.clock, 1));
        let patch = json!({"series": {"count": series.count, "lastObservedTime": last}});
        let path = format!("{path}/{name}");
        let request = ClientRequest {
            content_type: MERGE,
            ..ClientRequest::with_body(Method::PATCH, &path, &patch)
        };
        self.api.send(request).await.map(drop)
    }

    /// The name of an Event. Equal events have equal names, so that none is created twice.
    fn event_name(&self, pending: &PendingEvent) -> String {
        let event = &pending.event;
        let what = format!(
            "{}\n{}\n{}\n{}\n{}\n{}\n{}",
            pending.controller,
            self.instance,
            pending.regarding,
            event.kind,
            event.reason,
            event.action,
            event.note
        );
        let object = pending.key.name().get(..200).unwrap_or(pending.key.name());
        format!("{object}.{:016x}", xxh3_64(what.as_bytes()))
    }

    fn event_body(&self, name: &str, namespace: &str, pending: &PendingEvent) -> Value {
        let event = &pending.event;
        json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": MicroTime(wall_rounded(&*self.clock, 1)),
            "reportingController": pending.controller,
            "reportingInstance": self.instance,
            "regarding": pending.regarding,
            "type": event.kind, "reason": event.reason,
            "action": event.action, "note": event.note,
        })
    }
}
