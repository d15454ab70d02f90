//! Objects of kinds that a definition made: how they are read, settled and checked.

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

/// What a kind has that was defined at run time, in one of its versions.
#[derive(Debug)]
pub(crate) struct CustomResource {
    pub(crate) versions: Arc<CustomVersions>,
    /// Which of them this is.
    pub(crate) version_index: usize,
    pub(crate) scale: Option<ScalePaths>,
    pub(crate) source: CrdSource,
    /// What every request to this version is told.
    pub(crate) deprecation: Option<String>,
    /// The definition is being deleted: nothing new is made.
    pub(crate) terminating: bool,
    /// Discovery knows it.
    pub(crate) established: bool,
    /// Ends when the definition changes or goes.
    pub(crate) replaced: watch::Receiver<()>,
}

/// The definition itself, for what is asked of it so rarely that it is read again.
#[derive(Clone, Debug)]
pub(crate) struct CrdSource {
    pub(crate) stored: Arc<Version>,
    /// Another one whenever the definition says something else.
    pub(crate) identity: String,
}

impl CrdSource {
    /// The schema of a version as it was written, with its descriptions.
    pub(crate) fn schema(&self, version: &str) -> Value {
        let schema = parse_stored(self.stored.value()).ok().and_then(|object| {
            let mut versions = crd::versions(&object).iter();
            let found = versions.find(|own| own["name"] == version)?;
            crd::version_schema(found).cloned()
        });
        schema.unwrap_or_default()
    }
}

/// All versions of a kind.
#[derive(Debug)]
pub(crate) struct CustomVersions {
    /// Without one, nothing but the apiVersion differs between them.
    pub(crate) converter: Option<WebhookConverter>,
    pub(crate) all: Vec<VersionSchema>,
    /// Which of them is kept.
    stored: usize,
    /// Where they are, sorted by what they are called.
    by_name: Vec<usize>,
}

#[derive(Debug)]
pub(crate) struct VersionSchema {
    /// `example.com/v1`
    pub(crate) api_version: String,
    pub(crate) schema: Arc<Structural>,
    /// For server-side apply; most kinds never need it.
    types: OnceLock<Schema>,
    has_rules: bool,
    /// Compiled when the first object is written: most kinds are only read.
    rules: OnceLock<Option<RuleTree>>,
    costly: OnceLock<bool>,
}

/// About half a millisecond of evaluation.
const CHEAP_RULES_COST_MAX: u64 = 10_000;

/// Where a scale finds its numbers: `.spec.replicas`.
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

    /// The rules that objects must keep, if there are any.
    pub(crate) fn rules(&self) -> Option<&RuleTree> {
        if !self.has_rules {
            return None;
        }
        let rules = self.rules.get_or_init(|| RuleTree::compile(&self.schema));
        rules.as_ref()
    }

    /// Whether the rules may cost more than a moment, even of a short object.
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

    /// What was stored, as its schema is today: undeclared members are gone, defaults
    /// that were added since are there. Its type becomes the stored one.
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
        // It has been converted: a version that is not kept has no say in what it lacks.
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

    /// What was stored, as the schema of its version is today.
    pub(crate) fn normalize_stored(&self, object: &mut Object) {
        let version = self.versions.find(object.api_version());
        let version = version.unwrap_or(self.versions.stored());
        in_place(object, |value| {
            prune_structural(&version.schema, value, true);
            normalize(&version.schema, value);
        });
    }

    /// Drops what a version does not declare.
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

    /// What a client sent, pruned before, as it is kept.
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
