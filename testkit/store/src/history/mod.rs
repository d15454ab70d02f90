//! Histories: the operations of clients, their results, and the events of watches.
//!
//! This module is independent of the store: a history may be recorded over HTTP, stored as lines of
//! JSON, and checked by [`crate::validate`] later.

mod jsonl;
mod recorder;

pub use recorder::{HistoryRecorder, OperationStart};

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationHistory {
    pub start: InitialState,
    pub operations: Vec<RecordedOperation>,
    pub sessions: Vec<WatchRecording>,
}

/// The state before the first write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitialState {
    pub revision: u64,
    pub items: Vec<KeyState>,
}

/// A key as a client saw it. Fields that the protocol does not expose are omitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyState {
    pub key: String,
    pub value: String,
    pub mod_revision: u64,
    pub create_revision: Option<u64>,
    pub version: Option<u64>,
}

impl KeyState {
    /// Whether `seen` can be an observation of this state.
    #[must_use]
    pub fn is_consistent_with(&self, seen: &Self) -> bool {
        let agree = |real: Option<u64>, seen: Option<u64>| seen.is_none() || real == seen;
        self.key == seen.key
            && self.value == seen.value
            && self.mod_revision == seen.mod_revision
            && agree(self.create_revision, seen.create_revision)
            && agree(self.version, seen.version)
    }
}

/// Keys from `start` to before `end`, or to the end of all keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySpan {
    pub start: String,
    pub end: Option<String>,
}

impl KeySpan {
    #[must_use]
    pub fn single(key: &str) -> Self {
        Self {
            start: key.to_owned(),
            end: Some(format!("{key}\0")),
        }
    }

    /// Every key under `directory`, which ends in a slash.
    ///
    /// # Panics
    /// If it does not.
    #[must_use]
    pub fn prefix(directory: &str) -> Self {
        let name = directory.strip_suffix('/').expect("ends in a slash");
        Self {
            start: directory.to_owned(),
            // The character behind the slash.
            end: Some(format!("{name}0")),
        }
    }

    #[must_use]
    pub fn all() -> Self {
        Self {
            start: String::new(),
            end: None,
        }
    }

    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        *self.start <= *key && self.end.as_deref().is_none_or(|end| key < end)
    }
}

/// One request of one client, with the times of a clock that all clients share. A
/// client begins none before the one before has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedOperation {
    pub client: u32,
    pub begun: u64,
    pub ended: u64,
    pub request: OperationRequest,
    pub outcome: OperationOutcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationRequest {
    /// Make the changes if all expectations hold.
    Write {
        expects: Vec<Expectation>,
        changes: Vec<KeyChange>,
    },
    Read {
        span: KeySpan,
        state: ReadFreshness,
    },
}

/// The freshness that a read requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadFreshness {
    /// One with everything that was acknowledged before.
    Latest,
    /// Any state not older than the newest one the client has seen.
    Any,
    At(u64),
}

/// That a key was last written at this revision; zero, that it is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expectation {
    pub key: String,
    pub mod_revision: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyChange {
    Put { key: String, value: String },
    Delete { key: String },
}

impl KeyChange {
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationOutcome {
    Written {
        revision: u64,
    },
    /// The expectations held, and the write changed nothing.
    Unchanged {
        revision: u64,
    },
    /// An expectation did not hold; perhaps with the current state of its keys.
    Refused {
        revision: u64,
        found: Option<Vec<KeyState>>,
    },
    Found {
        revision: u64,
        items: Vec<KeyState>,
    },
    /// It was applied, and the response does not contain the revision. Then a watch must have seen
    /// it.
    Done,
    /// An expectation did not hold at some moment between request and response.
    Denied,
    /// The state at some moment between request and response.
    Glimpsed {
        items: Vec<KeyState>,
    },
    /// It was certainly not carried out.
    Failed,
    /// The outcome is unknown. If it was applied, a watch must have seen it.
    Unknown,
}

impl OperationOutcome {
    #[must_use]
    pub fn revision(&self) -> Option<u64> {
        match self {
            Self::Written { revision }
            | Self::Unchanged { revision }
            | Self::Refused { revision, .. }
            | Self::Found { revision, .. } => Some(*revision),
            Self::Done | Self::Denied | Self::Glimpsed { .. } | Self::Failed | Self::Unknown => {
                None
            }
        }
    }
}

/// A watch from its start to its end. One that is resumed is another session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchRecording {
    pub watcher: String,
    pub span: KeySpan,
    /// The first requested revision.
    pub from: u64,
    pub notes: Vec<WatchObservation>,
    pub ending: WatchRecordingEnd,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchObservation {
    /// Events that came together.
    Batch(Vec<SeenEvent>),
    /// Everything up to this revision has been shown.
    Bookmark(u64),
}

/// An event as a watch showed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenEvent {
    pub revision: u64,
    pub key: String,
    /// The new state of the key; `None` if it was deleted.
    pub item: Option<KeyState>,
    pub prior: Option<KeyState>,
    pub created: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchRecordingEnd {
    /// The watcher had enough.
    Left,
    Compacted {
        oldest: u64,
    },
    Stopped,
}

impl WatchRecording {
    pub fn events(&self) -> impl Iterator<Item = &SeenEvent> {
        self.notes.iter().flat_map(|note| match note {
            WatchObservation::Batch(events) => events.as_slice(),
            WatchObservation::Bookmark(_) => &[],
        })
    }
}
