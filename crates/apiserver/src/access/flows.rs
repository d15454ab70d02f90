//! Which flow a request belongs to, as the stored schemas and priority levels say.
//!
//! Requests are marked with it, as clients and proxies expect. Whose turn it is is decided
//! elsewhere, by user.

use crate::kept::{Kept, Made};
use http::HeaderValue;
use optik_access::{Attributes, FlowSchema, FlowSet, User};
use optik_store::{KeyRange, Snapshot};
use serde::Deserialize;
use std::collections::BTreeMap;

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

/// The flows of this moment, kept what the stored schemas and levels say.
pub(crate) type Flows = Kept<Marked>;

#[derive(Debug, Default)]
pub(crate) struct Marked(FlowSet<FlowMarks>);

impl Flows {
    pub(crate) fn find(&self, user: &User, asked: &Attributes<'_>) -> Option<FlowMarks> {
        self.look(|Marked(flows)| flows.find(user, asked).cloned())
    }
}

impl Made for Marked {
    type Read = ();

    fn make((): &mut (), state: &Snapshot) -> Self {
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
        Self(FlowSet::new(schemas.collect()))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
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
