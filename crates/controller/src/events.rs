//! Events for people. They are told in the background, repeated ones are counted, and
//! too many are dropped: nothing ever waits for them.

use crate::api::{Api, Ask, MERGE, SendError};
use crate::desk::{told, wall};
use crate::key::ObjectKey;
use crate::kind::Kind;
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

/// More than this waiting to be told are dropped.
const EVENTS_WAITING_MAX: usize = 1000;
/// How many kinds of events are remembered, to count them instead of repeating them.
const SERIES_MAX: usize = 4096;
/// An event that repeats is told again at most so often.
const SERIES_PAUSE: Duration = Duration::from_secs(10);
/// After so long without a repetition a series is over.
const SERIES_END: Duration = Duration::from_secs(360);

/// Something worth telling a person.
///
/// ```
/// # use optik_controller::Event;
/// let event = Event::warning("JobFailed", "Backup", "the job failed three times");
/// # let _ = event;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    kind: &'static str,
    reason: String,
    action: String,
    note: String,
}

impl Event {
    /// Things go as they should. Reason and action are short, in CamelCase.
    ///
    /// ```
    /// # use optik_controller::Event;
    /// let _ = Event::normal("JobCreated", "Backup", "created job nightly-1");
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

    /// Somebody should have a look.
    ///
    /// ```
    /// # use optik_controller::Event;
    /// let _ = Event::warning("JobFailed", "Backup", "job nightly-1 failed");
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

struct Told {
    controller: &'static str,
    regarding: Value,
    key: ObjectKey,
    event: Event,
}

/// Where events are handed in.
#[derive(Clone)]
pub(crate) struct Recorder {
    sender: mpsc::Sender<Told>,
    api: Api,
}

impl Recorder {
    pub(crate) fn new(api: Api, clock: Arc<dyn Clock>, instance: String) -> (Self, Teller) {
        let (sender, receiver) = mpsc::channel(EVENTS_WAITING_MAX);
        let teller = Teller {
            receiver,
            api: api.clone(),
            clock,
            instance,
            series: BTreeMap::new(),
        };
        (Self { sender, api }, teller)
    }

    pub(crate) fn record(
        &self,
        controller: &'static str,
        kind: &Kind,
        key: &ObjectKey,
        uid: &str,
        event: Event,
    ) {
        let regarding = json!({
            "apiVersion": kind.api_version, "kind": kind.kind,
            "namespace": key.namespace(), "name": key.name(), "uid": uid,
        });
        let told = Told {
            controller,
            regarding,
            key: key.clone(),
            event,
        };
        if self.sender.try_send(told).is_err() {
            self.api.metrics.recorded_events_dropped.add(1);
        }
    }
}

/// Tells the server.
pub(crate) struct Teller {
    receiver: mpsc::Receiver<Told>,
    api: Api,
    clock: Arc<dyn Clock>,
    instance: String,
    series: BTreeMap<String, Series>,
}

struct Series {
    count: u32,
    last: Instant,
    told: Instant,
}

impl Teller {
    /// Goes on until it is told to stop, and then tells what is left.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            let next = tokio::select! {
                next = self.receiver.recv() => next,
                () = told(&mut stop) => None,
            };
            let Some(next) = next else {
                break;
            };
            self.try_tell(&next).await;
        }
        while let Ok(told) = self.receiver.try_recv() {
            self.try_tell(&told).await;
        }
    }

    async fn try_tell(&mut self, told: &Told) {
        if let Err(cause) = self.tell(told).await {
            debug!(%cause, "an event was not recorded");
        }
    }

    async fn tell(&mut self, told: &Told) -> Result<(), SendError> {
        let now = Instant::now();
        self.series
            .retain(|_, series| now - series.last < SERIES_END);
        let namespace = told.key.namespace().unwrap_or("default");
        let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        let name = self.name(told);
        let Some(series) = self.series.get_mut(&name) else {
            let series = Series {
                count: 1,
                last: now,
                told: now,
            };
            let create = Ask::with_body(Method::POST, &path, &self.body(&name, namespace, told));
            if self.series.len() < SERIES_MAX {
                self.series.insert(name, series);
            }
            return match self.api.send(create).await {
                // Told before this process started, or the answer was lost.
                Err(SendError::Refused(refusal)) if refusal.code == 409 => Ok(()),
                sent => sent.map(drop),
            };
        };
        series.count += 1;
        series.last = now;
        if now - series.told < SERIES_PAUSE {
            return Ok(());
        }
        series.told = now;
        let last = MicroTime(wall(&*self.clock, 1));
        let patch = json!({"series": {"count": series.count, "lastObservedTime": last}});
        let path = format!("{path}/{name}");
        let ask = Ask {
            content_type: MERGE,
            ..Ask::with_body(Method::PATCH, &path, &patch)
        };
        self.api.send(ask).await.map(drop)
    }

    /// The same event has the same name, so that nothing is told twice.
    fn name(&self, told: &Told) -> String {
        let event = &told.event;
        let what = format!(
            "{}\n{}\n{}\n{}\n{}\n{}\n{}",
            told.controller,
            self.instance,
            told.regarding,
            event.kind,
            event.reason,
            event.action,
            event.note
        );
        let object = told.key.name().get(..200).unwrap_or(told.key.name());
        format!("{object}.{:016x}", xxh3_64(what.as_bytes()))
    }

    fn body(&self, name: &str, namespace: &str, told: &Told) -> Value {
        let event = &told.event;
        json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": MicroTime(wall(&*self.clock, 1)),
            "reportingController": told.controller,
            "reportingInstance": self.instance,
            "regarding": told.regarding,
            "type": event.kind, "reason": event.reason,
            "action": event.action, "note": event.note,
        })
    }
}
