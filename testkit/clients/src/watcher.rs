//! A watch client that keeps a replica of a collection and records the events.
//!
//! The protocol does not include the previous value of an object; the replica supplies it. So an
//! event is compared with the replica, and a wrong replica appears to the validator as a previous
//! value that never existed.

use crate::collection::{Collection, item_of, revision_of};
use crate::connection::{Connection, JsonLineStream};
use optik_store_testkit::history::{
    HistoryRecorder, KeySpan, KeyState, OperationOutcome, OperationRequest, ReadFreshness,
    SeenEvent, WatchObservation, WatchRecording, WatchRecordingEnd,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a watcher begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchStartMode {
    /// With a list, and a watch from there.
    List,
    /// With a watch that sends the initial state, at least this fresh.
    Stream(ReadFreshness),
    /// With an empty state, at a revision at which the collection was empty.
    Nothing(u64),
}

#[derive(Clone, Debug)]
pub struct WatcherBehavior {
    pub name: &'static str,
    pub start_mode: WatchStartMode,
    /// It disconnects after this number of events, and reconnects.
    pub leaves_after: usize,
    /// The only object it watches.
    pub only: Option<&'static str>,
    /// It waits for a bookmark before it disconnects.
    pub wants_bookmark: bool,
}

#[derive(Debug)]
pub struct RecordingHttpWatcher {
    pub url: String,
    pub collection: Collection,
    pub recorder: Arc<HistoryRecorder>,
    pub number: u32,
    pub behavior: WatcherBehavior,
}

/// The replica: the state seen so far.
#[derive(Debug, Default)]
struct CollectionReplica {
    /// The revision up to which it is right.
    revision: u64,
    items: BTreeMap<String, KeyState>,
}

impl RecordingHttpWatcher {
    /// Watches until the last event is seen: an object with this value.
    pub async fn watch_until(self, last: &str) {
        let (mut replica, mut begun) = self.start().await;
        loop {
            let lines = match begun.take() {
                Some(lines) => Ok(lines),
                None => self.open(&self.query_from(replica.revision)).await,
            };
            let Ok(lines) = lines else { continue };
            let mut session = self.watch_session(replica.revision + 1);
            let finished = self.read(lines, &mut replica, &mut session, last).await;
            self.recorder.add_watch(session);
            if finished {
                return;
            }
        }
    }

    fn watch_session(&self, from: u64) -> WatchRecording {
        WatchRecording {
            watcher: format!("{} {}", self.behavior.name, self.number),
            span: self.span(),
            from,
            notes: Vec::new(),
            ending: WatchRecordingEnd::Stopped,
        }
    }

    fn span(&self) -> KeySpan {
        match self.behavior.only {
            Some(name) => KeySpan::single(&self.collection.key(name)),
            None => self.collection.span(),
        }
    }

    fn path(&self, query: &str) -> String {
        let selector = match self.behavior.only {
            Some(name) => format!("&fieldSelector=metadata.name%3D{name}"),
            None => String::new(),
        };
        format!("{}?{query}{selector}", self.collection.path())
    }

    fn query_from(&self, revision: u64) -> String {
        // The bookmark before the end comes two seconds before it.
        let life = if self.behavior.wants_bookmark { 3 } else { 300 };
        self.path(&format!(
            "watch=true&allowWatchBookmarks=true&resourceVersion={revision}&timeoutSeconds={life}"
        ))
    }

    async fn open(
        &self,
        path: &str,
    ) -> Result<JsonLineStream, crate::connection::HttpRequestError> {
        Connection::new(&self.url).stream(path).await
    }

    /// The state to begin with, and perhaps the stream that told it.
    async fn start(&self) -> (CollectionReplica, Option<JsonLineStream>) {
        loop {
            let wanted = match self.behavior.start_mode {
                WatchStartMode::Nothing(revision) => {
                    let items = BTreeMap::new();
                    return (CollectionReplica { revision, items }, None);
                }
                WatchStartMode::List => ReadFreshness::Latest,
                WatchStartMode::Stream(wanted) => wanted,
            };
            let begun = self.recorder.begin();
            let (replica, lines) = match self.behavior.start_mode {
                WatchStartMode::Stream(wanted) => self.start_with_stream(wanted).await.unzip(),
                _ => (self.start_with_list().await, None),
            };
            let outcome = match &replica {
                Some(replica) => OperationOutcome::Found {
                    revision: replica.revision,
                    items: replica.items.values().cloned().collect(),
                },
                None => OperationOutcome::Failed,
            };
            let request = OperationRequest::Read {
                span: self.span(),
                state: wanted,
            };
            self.recorder.end(self.number, begun, request, outcome);
            if let Some(replica) = replica {
                return (replica, lines);
            }
        }
    }

    async fn start_with_list(&self) -> Option<CollectionReplica> {
        let mut connection = Connection::new(&self.url);
        let path = self.path("");
        let list = connection
            .request(http::Method::GET, &path, None)
            .await
            .ok()?;
        let items = list.body["items"].as_array().expect("a list has items");
        let items = items.iter().map(item_of);
        Some(CollectionReplica {
            revision: revision_of(&list.body),
            items: items.map(|item| (item.key.clone(), item)).collect(),
        })
    }

    async fn start_with_stream(
        &self,
        wanted: ReadFreshness,
    ) -> Option<(CollectionReplica, JsonLineStream)> {
        let age = match wanted {
            ReadFreshness::Any => "&resourceVersion=0",
            _ => "",
        };
        let query = format!(
            "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
             &allowWatchBookmarks=true{age}"
        );
        let mut lines = self.open(&self.path(&query)).await.ok()?;
        let mut replica = CollectionReplica::default();
        loop {
            let line = lines.next().await?;
            let object = &line["object"];
            match line["type"].as_str() {
                Some("ADDED") => {
                    let item = item_of(object);
                    replica.items.insert(item.key.clone(), item);
                }
                Some("BOOKMARK") => {
                    let end = &object["metadata"]["annotations"]["k8s.io/initial-events-end"];
                    assert_eq!(*end, "true", "the first bookmark ends the state");
                    replica.revision = revision_of(object);
                    return Some((replica, lines));
                }
                _ => panic!("unexpected line in the initial list: {line}"),
            }
        }
    }

    /// Reads to the end of the stream, or as long as the behavior says. True if the last event has
    /// been seen.
    async fn read(
        &self,
        mut lines: JsonLineStream,
        replica: &mut CollectionReplica,
        session: &mut WatchRecording,
        last: &str,
    ) -> bool {
        let mut events = 0;
        let mut last_at = None;
        while let Some(line) = lines.next().await {
            let note = replica.record_line(&line);
            if let WatchObservation::Batch(seen) = &note {
                events += 1;
                let is_last = |item: &KeyState| item.value == last;
                let found = seen.iter().find(|e| e.item.as_ref().is_some_and(is_last));
                last_at = last_at.or(found.map(|event| event.revision));
            }
            let bookmark = matches!(note, WatchObservation::Bookmark(_));
            session.notes.push(note);
            let finished = last_at.is_some_and(|at| replica.revision >= at)
                && (bookmark || !self.behavior.wants_bookmark);
            if finished || events >= self.behavior.leaves_after {
                session.ending = WatchRecordingEnd::Left;
                return finished;
            }
        }
        assert!(
            last_at.is_none(),
            "a stream ends only with the bookmark that was asked for"
        );
        false
    }
}

impl CollectionReplica {
    /// Records a line, with the previous state from the replica.
    fn record_line(&mut self, line: &Value) -> WatchObservation {
        let object = &line["object"];
        let event_type = line["type"].as_str().unwrap_or_default();
        let revision = match event_type {
            "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" => revision_of(object),
            _ => panic!("unexpected watch line: {line}"),
        };
        self.revision = self.revision.max(revision);
        if event_type == "BOOKMARK" {
            return WatchObservation::Bookmark(revision);
        }
        let shown = item_of(object);
        let key = shown.key.clone();
        let (prior, item) = if event_type == "DELETED" {
            // A DELETED event contains the last object; only its revision is known from before.
            let known = self.items.remove(&key);
            let mod_revision = known.map_or(0, |known| known.mod_revision);
            let prior = KeyState {
                mod_revision,
                ..shown
            };
            (Some(prior), None)
        } else {
            (self.items.insert(key.clone(), shown.clone()), Some(shown))
        };
        WatchObservation::Batch(vec![SeenEvent {
            revision,
            key,
            item,
            prior,
            created: event_type == "ADDED",
        }])
    }
}
