//! Custom resources (objects of CRDs): versions, schemas, defaulting, normalization and rules.

mod custom_validation;
mod schema_coercion;

pub(crate) use crate::registry::crd::custom_resource::custom_validation::{
    finalizer_warnings, validate_object,
};
pub(crate) use crate::registry::crd::custom_resource::schema_coercion::{
    coerce_body, coerce_patched,
};

use crate::registry::crd;
use crate::registry::crd::webhook_conversion::WebhookConverter;
use crate::registry::served_resource::parse_stored;
use optik_object::{Object, Value};
use optik_schema::Schema;
use optik_schema::structural::{
    RuleTree, Structural, apply_defaults, coerce_embedded_metadata, prune_non_nullable_nulls,
    prune_structural, to_typed_schema,
};
use optik_store::Version;
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;

/// A version of a custom resource.
#[derive(Debug)]
pub(crate) struct CustomResource {
    pub(crate) versions: Arc<CustomVersions>,
    /// The index of this version.
    pub(crate) version_index: usize,
    pub(crate) scale: Option<ScalePaths>,
    pub(crate) source: CrdSource,
    /// The deprecation warning sent for every request to this version.
    pub(crate) deprecation: Option<String>,
    /// The CRD is being deleted: no objects are created.
    pub(crate) terminating: bool,
    /// The resource is in discovery.
    pub(crate) established: bool,
    /// Closed when the CRD changes or is deleted.
    pub(crate) replaced: watch::Receiver<()>,
}

/// The stored CRD, which is parsed again for rarely needed parts.
#[derive(Clone, Debug)]
pub(crate) struct CrdSource {
    pub(crate) stored: Arc<Version>,
    /// Changes whenever the CRD's content changes.
    pub(crate) identity: String,
}

impl CrdSource {
    /// The schema of a version as written in the CRD, with descriptions.
    pub(crate) fn schema(&self, version: &str) -> Value {
        let schema = parse_stored(self.stored.value()).ok().and_then(|object| {
            let mut versions = crd::versions(&object).iter();
            let found = versions.find(|own| own["name"] == version)?;
            crd::version_schema(found).cloned()
        });
        schema.unwrap_or_default()
    }
}

/// All versions of a custom resource.
#[derive(Debug)]
pub(crate) struct CustomVersions {
    /// The conversion webhook; without one the versions differ only in their apiVersion.
    pub(crate) converter: Option<WebhookConverter>,
    pub(crate) all: Vec<VersionSchema>,
    /// The index of the storage version.
    stored: usize,
    /// Indexes sorted by version name.
    by_name: Vec<usize>,
}

#[derive(Debug)]
pub(crate) struct VersionSchema {
    /// `example.com/v1`
    pub(crate) api_version: String,
    pub(crate) schema: Arc<Structural>,
    /// For server-side apply; built on first use because most kinds never need it.
    types: OnceLock<Schema>,
    has_rules: bool,
    /// CEL rules, compiled when the first object is written: most kinds are only read.
    rules: OnceLock<Option<RuleTree>>,
    costly: OnceLock<bool>,
}

/// About half a millisecond of evaluation.
const CHEAP_RULES_COST_MAX: u64 = 10_000;

/// The JSON paths of the scale subresource, such as `.spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) spec: String,
    pub(crate) status: String,
    pub(crate) selector: Option<String>,
}

impl VersionSchema {
    pub(crate) fn new(api_version: String, schema: Arc<Structural>) -> Self {
        Self {
            api_version,
            has_rules: schema.has_rules(),
            schema,
            types: OnceLock::new(),
            rules: OnceLock::new(),
            costly: OnceLock::new(),
        }
    }

    /// The CEL rules, if the schema has any.
    pub(crate) fn rules(&self) -> Option<&RuleTree> {
        if !self.has_rules {
            return None;
        }
        let rules = self.rules.get_or_init(|| RuleTree::compile(&self.schema));
        rules.as_ref()
    }

    /// Whether the rules may be slow even for a short object.
    pub(crate) fn has_costly_rules(&self) -> bool {
        let costs = |rules: &RuleTree| rules.cost_max() > CHEAP_RULES_COST_MAX;
        self.has_rules && *self.costly.get_or_init(|| self.rules().is_some_and(costs))
    }

    pub(crate) fn types(&self) -> &Schema {
        self.types.get_or_init(|| to_typed_schema(&self.schema))
    }
}

impl CustomVersions {
    pub(crate) fn new(
        converter: Option<WebhookConverter>,
        all: Vec<VersionSchema>,
        stored: usize,
    ) -> Self {
        let mut by_name: Vec<usize> = (0..all.len()).collect();
        by_name.sort_by_key(|at| &all[*at].api_version);
        Self {
            converter,
            all,
            stored,
            by_name,
        }
    }

    pub(crate) fn find(&self, api_version: &str) -> Option<&VersionSchema> {
        let name = |at: &usize| self.all[*at].api_version.as_str();
        let found = self
            .by_name
            .binary_search_by(|at| name(at).cmp(api_version));
        found.ok().map(|found| &self.all[self.by_name[found]])
    }

    pub(crate) fn stored(&self) -> &VersionSchema {
        &self.all[self.stored]
    }
}

impl CustomResource {
    pub(crate) fn version(&self) -> &VersionSchema {
        &self.versions.all[self.version_index]
    }

    /// Normalizes a stored object to today's schema: undeclared fields are pruned, newer defaults
    /// are applied. Its type becomes that of the storage version.
    pub(crate) fn normalize_to_storage_version(&self, object: &mut Object, kind: &str) {
        let stored = self.versions.stored();
        let version = self.versions.find(object.api_version()).unwrap_or(stored);
        if self.versions.converter.is_none() {
            in_place(object, |value| {
                prune_structural(&version.schema, value, true);
                normalize(&version.schema, value);
            });
            object.set_type(kind, &stored.api_version);
            return;
        }
        // An object of another version has been converted: only the storage version's schema sets
        // defaults.
        let fills = version.api_version == stored.api_version;
        in_place(object, |value| {
            prune_structural(&version.schema, value, true);
            coerce_embedded_metadata(&version.schema, value);
            prune_non_nullable_nulls(&version.schema, value);
            if fills {
                apply_defaults(&version.schema, value);
            }
        });
    }

    /// Normalizes a stored object to today's schema of its own version.
    pub(crate) fn normalize_stored(&self, object: &mut Object) {
        let version = self.versions.find(object.api_version());
        let version = version.unwrap_or(self.versions.stored());
        in_place(object, |value| {
            prune_structural(&version.schema, value, true);
            normalize(&version.schema, value);
        });
    }

    /// Prunes fields that a version does not declare.
    pub(crate) fn prune_as(&self, api_version: &str, object: &mut Object) {
        if let Some(version) = self.versions.find(api_version) {
            in_place(object, |value| {
                prune_structural(&version.schema, value, true);
            });
        }
    }

    pub(crate) fn prune_own(&self, object: &mut Object) {
        self.prune_as(&self.version().api_version, object);
    }

    /// Applies defaults to a pruned object sent by a client and normalizes it for storage.
    pub(crate) fn default_and_normalize(&self, value: &mut Value) {
        normalize(&self.version().schema, value);
    }
}

fn in_place(object: &mut Object, change: impl FnOnce(&mut Value)) {
    let mut value = Value::Object(std::mem::take(object.members_mut()));
    change(&mut value);
    if let Value::Object(members) = value {
        *object.members_mut() = members;
    }
}

fn normalize(schema: &Structural, value: &mut Value) {
    coerce_embedded_metadata(schema, value);
    prune_non_nullable_nulls(schema, value);
    apply_defaults(schema, value);
}
