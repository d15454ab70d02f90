//! Which flow a request belongs to, as the stored schemas and priority levels say.
//!
//! Requests are marked with it, as clients and proxies expect. Whose turn it is is decided
//! elsewhere, by user.

use http::HeaderValue;
use optik_access::{Attributes, FlowSchema, FlowSet, User};
use optik_store::{KeyRange, Revision, Snapshot};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

const SCHEMAS: &str = "/registry/flowschemas/";
const LEVELS: &str = "/registry/prioritylevelconfigurations/";
/// Where schemas and levels are kept.
pub(crate) const DIRECTORIES: [&str; 2] = [SCHEMAS, LEVELS];

/// The uids of the schema and of the level of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMarks {
    pub schema: HeaderValue,
    pub level: HeaderValue,
}

#[derive(Default)]
pub(crate) struct Flows {
    current: RwLock<Arc<FlowSet<FlowMarks>>>,
    /// The revision that was last looked at.
    at: Mutex<Revision>,
}

impl Flows {
    pub(crate) fn find(&self, user: &User, asked: &Attributes<'_>) -> Option<FlowMarks> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.find(user, asked).cloned()
    }

    /// Brings the flows to what a snapshot says; what is known to be newer stays.
    pub(crate) fn catch_up(&self, state: &Snapshot) {
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        if state.revision() <= *at {
            return;
        }
        let levels = levels(state);
        let schemas = state.entries(&KeyRange::prefix(SCHEMAS));
        let schemas = schemas.filter_map(|entry| match FlowSchema::read(entry.value()) {
            Ok(schema) => {
                let marks = FlowMarks {
                    schema: mark(&schema.uid)?,
                    // A schema of a level that is not there matches nothing.
                    level: levels.get(&schema.level)?.clone(),
                };
                Some((schema, marks))
            }
            Err(error) => {
                let key = String::from_utf8_lossy(entry.key());
                tracing::error!(%key, %error, "what is stored there is no flow schema");
                None
            }
        });
        let newer = Arc::new(FlowSet::new(schemas.collect()));
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = newer;
        *at = state.revision();
    }
}

/// The marks of levels, by name.
fn levels(state: &Snapshot) -> BTreeMap<String, HeaderValue> {
    #[derive(Deserialize)]
    struct Level {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        name: String,
        uid: String,
    }
    let levels = state.entries(&KeyRange::prefix(LEVELS));
    let read = levels.filter_map(|entry| serde_json::from_slice(entry.value()).ok());
    read.filter_map(|Level { metadata }| Some((metadata.name, mark(&metadata.uid)?)))
        .collect()
}

fn mark(uid: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(uid).ok()
}
