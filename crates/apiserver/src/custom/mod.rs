//! Objects of kinds that a definition made: how they are read, settled and checked.

mod body;
mod check;

pub(crate) use body::{check_body, patched};
pub(crate) use check::{check, warnings};

use crate::conversion::Converter;
use crate::definitions;
use crate::kinds::parse_stored;
use optik_object::{Object, Value};
use optik_schema::Schema;
use optik_schema::structural::{
    Rules, Structural, drop_unset, fill, prune_structural, settle_embedded, types_of,
};
use optik_store::Version;
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;

/// What a kind has that was defined at run time, in one of its versions.
#[derive(Debug)]
pub(crate) struct Custom {
    pub(crate) versions: Arc<Versions>,
    /// Which of them this is.
    pub(crate) own: usize,
    pub(crate) scale: Option<ScalePaths>,
    pub(crate) source: Source,
    /// What every request to this version is told.
    pub(crate) deprecation: Option<String>,
    /// The definition is being deleted: nothing new is made.
    pub(crate) terminating: bool,
    /// Discovery knows it.
    pub(crate) established: bool,
    /// Ends when the definition changes or goes.
    pub(crate) life: watch::Receiver<()>,
}

/// The definition itself, for what is asked of it so rarely that it is read again.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) stored: Arc<Version>,
    /// Another one whenever the definition says something else.
    pub(crate) identity: String,
}

impl Source {
    /// The schema of a version as it was written, with its descriptions.
    pub(crate) fn schema(&self, version: &str) -> Value {
        let schema = parse_stored(self.stored.value()).ok().and_then(|object| {
            let mut versions = definitions::versions(&object).iter();
            let found = versions.find(|own| own["name"] == version)?;
            definitions::of_version(found).cloned()
        });
        schema.unwrap_or_default()
    }
}

/// All versions of a kind.
#[derive(Debug)]
pub(crate) struct Versions {
    /// Without one, nothing but the apiVersion differs between them.
    pub(crate) converter: Option<Converter>,
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
    rules: OnceLock<Option<Rules>>,
    costly: OnceLock<bool>,
}

/// About half a millisecond of evaluation.
const MOMENT_COST: u64 = 10_000;

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
    pub(crate) fn rules(&self) -> Option<&Rules> {
        if !self.has_rules {
            return None;
        }
        let rules = self.rules.get_or_init(|| Rules::compile(&self.schema));
        rules.as_ref()
    }

    /// Whether the rules may cost more than a moment, even of a short object.
    pub(crate) fn has_costly_rules(&self) -> bool {
        let costs = |rules: &Rules| rules.cost_max() > MOMENT_COST;
        self.has_rules && *self.costly.get_or_init(|| self.rules().is_some_and(costs))
    }

    pub(crate) fn types(&self) -> &Schema {
        self.types.get_or_init(|| types_of(&self.schema))
    }
}

impl Versions {
    pub(crate) fn new(
        converter: Option<Converter>,
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

impl Custom {
    pub(crate) fn own(&self) -> &VersionSchema {
        &self.versions.all[self.own]
    }

    /// What was stored, as its schema is today: undeclared members are gone, defaults
    /// that were added since are there. Its type becomes the stored one.
    pub(crate) fn refresh(&self, object: &mut Object, kind: &str) {
        let stored = self.versions.stored();
        let version = self.versions.find(object.api_version()).unwrap_or(stored);
        if self.versions.converter.is_none() {
            in_place(object, |value| {
                prune_structural(&version.schema, value, true);
                settle(&version.schema, value);
            });
            object.set_type(kind, &stored.api_version);
            return;
        }
        // It has been converted: a version that is not kept has no say in what it lacks.
        let fills = version.api_version == stored.api_version;
        in_place(object, |value| {
            prune_structural(&version.schema, value, true);
            settle_embedded(&version.schema, value);
            drop_unset(&version.schema, value);
            if fills {
                fill(&version.schema, value);
            }
        });
    }

    /// What was stored, as the schema of its version is today.
    pub(crate) fn renew(&self, object: &mut Object) {
        let version = self.versions.find(object.api_version());
        let version = version.unwrap_or(self.versions.stored());
        in_place(object, |value| {
            prune_structural(&version.schema, value, true);
            settle(&version.schema, value);
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
        self.prune_as(&self.own().api_version, object);
    }

    /// What a client sent, pruned before, as it is kept.
    pub(crate) fn settle(&self, value: &mut Value) {
        settle(&self.own().schema, value);
    }
}

fn in_place(object: &mut Object, change: impl FnOnce(&mut Value)) {
    let mut value = Value::Object(std::mem::take(object.members_mut()));
    change(&mut value);
    if let Value::Object(members) = value {
        *object.members_mut() = members;
    }
}

fn settle(schema: &Structural, value: &mut Value) {
    settle_embedded(schema, value);
    drop_unset(schema, value);
    fill(schema, value);
}
