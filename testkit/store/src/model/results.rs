//! Results of store and model in a common form.

use optik_store::{Event, OpResult, RangeResult, TxnResult, Version};

/// A key as a read returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelEntry {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    pub create_revision: u64,
    pub mod_revision: u64,
    pub version: u64,
    pub lease: i64,
}

impl From<&Version> for ModelEntry {
    fn from(version: &Version) -> Self {
        Self {
            key: version.key().to_vec(),
            value: version.value().to_vec(),
            create_revision: version.create_revision().get(),
            mod_revision: version.mod_revision().get(),
            version: version.version(),
            lease: version.lease().0,
        }
    }
}

/// A change of a key as a watch delivers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelEvent {
    pub key: Vec<u8>,
    pub revision: u64,
    /// The new state of the key; `None` if it was deleted.
    pub entry: Option<ModelEntry>,
    pub prior: Option<ModelEntry>,
    pub created: bool,
}

impl From<&Event> for ModelEvent {
    fn from(event: &Event) -> Self {
        let version = event.version();
        Self {
            key: version.key().to_vec(),
            revision: version.mod_revision().get(),
            entry: (!version.is_deletion()).then(|| ModelEntry::from(&**version)),
            prior: event.prior().map(|prior| ModelEntry::from(&**prior)),
            created: event.is_creation(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelResult {
    Range {
        entries: Vec<ModelEntry>,
        more: bool,
        count: u64,
    },
    Put {
        prior: Option<ModelEntry>,
    },
    Delete {
        deleted: Vec<ModelEntry>,
    },
    Txn {
        revision: u64,
        succeeded: bool,
        answers: Vec<ModelResult>,
    },
}

impl From<&RangeResult> for ModelResult {
    fn from(result: &RangeResult) -> Self {
        Self::Range {
            entries: result
                .entries
                .iter()
                .map(|e| ModelEntry::from(&**e))
                .collect(),
            more: result.more,
            count: result.count,
        }
    }
}

impl From<&TxnResult> for ModelResult {
    fn from(result: &TxnResult) -> Self {
        Self::Txn {
            revision: result.revision.get(),
            succeeded: result.succeeded,
            answers: result.results.iter().map(Self::from).collect(),
        }
    }
}

impl From<&OpResult> for ModelResult {
    fn from(result: &OpResult) -> Self {
        match result {
            OpResult::Range(range) => Self::from(range),
            OpResult::Put { prior } => Self::Put {
                prior: prior.as_ref().map(|prior| ModelEntry::from(&**prior)),
            },
            OpResult::Delete { deleted } => Self::Delete {
                deleted: deleted.iter().map(|e| ModelEntry::from(&**e)).collect(),
            },
            OpResult::Txn(inner) => Self::from(inner),
        }
    }
}
