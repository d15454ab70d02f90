//! Matches requests to FlowSchemas and their priority levels.
//!
//! The match only sets response headers, which clients and proxies expect. Requests are queued
//! elsewhere, by user.

use crate::registry::compiled::{CompileFrom, Compiled};
use http::HeaderValue;
use optik_auth::{AuthorizationAttributes, FlowSchema, FlowSchemaSet, User};
use optik_catalog::key_prefix;
use optik_store::{KeyRange, Snapshot};
use serde::Deserialize;
use std::collections::BTreeMap;

const FLOW_SCHEMAS_DIRECTORY: &str = key_prefix("flowcontrol.apiserver.k8s.io", "flowschemas");
const PRIORITY_LEVELS_DIRECTORY: &str = key_prefix(
    "flowcontrol.apiserver.k8s.io",
    "prioritylevelconfigurations",
);
/// The directories of FlowSchemas and PriorityLevelConfigurations in the store.
pub(crate) const FLOW_CONTROL_DIRECTORIES: [&str; 2] =
    [FLOW_SCHEMAS_DIRECTORY, PRIORITY_LEVELS_DIRECTORY];

/// The uids of a FlowSchema and of its priority level, as response headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowHeaders {
    pub flow_schema: HeaderValue,
    pub priority_level: HeaderValue,
}

/// The compiled FlowSchemas, kept up to date with the store.
pub(crate) type FlowSchemas = Compiled<CompiledFlowSchemas>;

#[derive(Debug, Default)]
pub(crate) struct CompiledFlowSchemas(FlowSchemaSet<FlowHeaders>);

impl FlowSchemas {
    pub(crate) fn match_request(
        &self,
        user: &User,
        asked: &AuthorizationAttributes<'_>,
    ) -> Option<FlowHeaders> {
        self.with(|CompiledFlowSchemas(flows)| flows.find(user, asked).cloned())
    }
}

impl CompileFrom for CompiledFlowSchemas {
    type Read = ();

    fn compile((): &mut (), state: &Snapshot) -> Self {
        let levels = priority_level_uids(state);
        let schemas = state.entries(&KeyRange::prefix(FLOW_SCHEMAS_DIRECTORY));
        let schemas = schemas.filter_map(|entry| match FlowSchema::from_json(entry.value()) {
            Ok(schema) => {
                let marks = FlowHeaders {
                    flow_schema: uid_header(&schema.uid)?,
                    // A FlowSchema whose priority level does not exist matches nothing.
                    priority_level: levels.get(&schema.level)?.clone(),
                };
                Some((schema, marks))
            }
            Err(error) => {
                let key = String::from_utf8_lossy(entry.key());
                tracing::error!(%key, %error, "stored object is not a valid FlowSchema; ignored");
                None
            }
        });
        Self(FlowSchemaSet::new(schemas.collect()))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The uids of priority levels, by name.
fn priority_level_uids(state: &Snapshot) -> BTreeMap<String, HeaderValue> {
    #[derive(Deserialize)]
    struct PriorityLevel {
        metadata: PriorityLevelMetadata,
    }
    #[derive(Deserialize)]
    struct PriorityLevelMetadata {
        name: String,
        uid: String,
    }
    let levels = state.entries(&KeyRange::prefix(PRIORITY_LEVELS_DIRECTORY));
    let read = levels.filter_map(|entry| serde_json::from_slice(entry.value()).ok());
    read.filter_map(|PriorityLevel { metadata }| Some((metadata.name, uid_header(&metadata.uid)?)))
        .collect()
}

fn uid_header(uid: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(uid).ok()
}
