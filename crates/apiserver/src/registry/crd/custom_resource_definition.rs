//! A parsed CustomResourceDefinition.

use crate::registry::crd::condition_helpers;
use optik_catalog::is_builtin;
use optik_object::{Object, Value};

/// A CustomResourceDefinition without its schemas.
#[derive(Clone, Debug)]
pub(crate) struct CustomResourceDefinition {
    /// `widgets.example.com`
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) generation: i64,
    pub(crate) group: String,
    pub(crate) namespaced: bool,
    /// The names in the spec.
    pub(crate) spec_names: CrdNames,
    /// The accepted names in the status.
    pub(crate) accepted_names: CrdNames,
    pub(crate) names_accepted: bool,
    pub(crate) established: bool,
    pub(crate) terminating: bool,
    /// The group needs no approval, or the approval condition is current.
    pub(crate) approval_condition_current: bool,
}

/// The names of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CrdNames {
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
}

impl CrdNames {
    pub(crate) fn read(value: Option<&Value>) -> Self {
        let text = |name: &str| {
            let text = value.and_then(|value| value.get(name)?.as_str());
            text.unwrap_or_default().to_owned()
        };
        let texts = |name: &str| strs_of(value.and_then(|value| value.get(name)));
        Self {
            plural: text("plural"),
            singular: text("singular"),
            kind: text("kind"),
            list_kind: text("listKind"),
            short_names: texts("shortNames"),
            categories: texts("categories"),
        }
    }

    /// As in a CRD's status.
    pub(crate) fn to_value(&self) -> Value {
        let mut value = serde_json::json!({"plural": self.plural, "kind": self.kind});
        for (name, text) in [("singular", &self.singular), ("listKind", &self.list_kind)] {
            if !text.is_empty() {
                value[name] = text.as_str().into();
            }
        }
        for (name, list) in [
            ("shortNames", &self.short_names),
            ("categories", &self.categories),
        ] {
            if !list.is_empty() {
                value[name] = list.clone().into();
            }
        }
        value
    }
}

pub(crate) fn strs_of(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

impl CustomResourceDefinition {
    pub(crate) fn read(object: &Object) -> Self {
        let spec = |name: &str| object.get("spec").and_then(|spec| spec.get(name));
        let status = object.get("status");
        Self {
            name: object.name().into(),
            uid: object.uid().into(),
            generation: object.generation(),
            group: spec("group")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .into(),
            namespaced: spec("scope").and_then(Value::as_str) != Some("Cluster"),
            spec_names: CrdNames::read(spec("names")),
            accepted_names: CrdNames::read(status.and_then(|status| status.get("acceptedNames"))),
            names_accepted: condition_helpers::is_true(object, condition_helpers::NAMES_ACCEPTED),
            established: condition_helpers::is_true(object, condition_helpers::ESTABLISHED),
            terminating: object.is_being_deleted(),
            approval_condition_current:
                crate::registry::crd::crd_validation::is_approval_condition_current(object),
        }
    }

    /// Whether the accepted names are those of the spec and the conditions are current.
    pub(crate) fn names_are_current(&self) -> bool {
        self.established
            && self.names_accepted
            && self.spec_names == self.accepted_names
            && self.approval_condition_current
    }

    /// Whether the CRD's kinds are served. A CRD never replaces a built-in kind, whatever was
    /// stored before such CRDs were rejected.
    pub(crate) fn is_served(&self) -> bool {
        (self.names_accepted || self.established)
            && !is_builtin(&self.group, &self.spec_names.plural)
    }
}

/// The versions of a CRD, in their order there.
pub(crate) fn versions(object: &Object) -> &[Value] {
    let versions = object.get("spec").and_then(|spec| spec.get("versions"));
    let list = versions.and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// The storage version of a CRD.
pub(crate) fn storage_version(object: &Object) -> Option<&str> {
    let mut versions = versions(object).iter();
    let storage = versions.find(|version| version["storage"] == Value::Bool(true))?;
    storage["name"].as_str()
}
