//! The field paths that the `scale` subresource of a kind maps to.

use crate::field_selectors;
use crate::resource::{ApiResource, Scope, Text, Verb, Verbs};
use crate::strategy_options::StrategyOptions;

/// The member names from the object down to a field.
pub type FieldSegments = Vec<Text>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleMapping {
    /// The desired replicas, for example `spec.replicas`.
    pub replicas: FieldSegments,
    /// The value of an absent `replicas` field; `None`: an object without it has no scale.
    pub unset: Option<i64>,
    /// The observed replicas, for example `status.replicas`.
    pub observed: FieldSegments,
    pub selector: ScaleSelector,
}

/// The label selector of the counted pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScaleSelector {
    /// The kind has no selector.
    None,
    /// A string field with a serialized selector, shown unchanged.
    Text(FieldSegments),
    /// A map of label names to values.
    Labels(FieldSegments),
    /// A label selector with `matchLabels` and `matchExpressions`.
    Selector(FieldSegments),
}

fn path(names: [&'static str; 2]) -> FieldSegments {
    names.map(Text::from).to_vec()
}

/// Returns the mapping of a built-in kind; all scalable ones use the same replica fields.
pub(crate) fn for_resource(plural: &str) -> ScaleMapping {
    let selector = path(["spec", "selector"]);
    ScaleMapping {
        replicas: path(["spec", "replicas"]),
        unset: Some(1),
        observed: path(["status", "replicas"]),
        selector: match plural {
            "replicationcontrollers" => ScaleSelector::Labels(selector),
            _ => ScaleSelector::Selector(selector),
        },
    }
}

/// Returns the kind `Scale`. It is never stored: each object is a view of another object.
#[must_use]
pub fn scale() -> ApiResource {
    ApiResource {
        group: "autoscaling".into(),
        version: "v1".into(),
        plural: "scales".into(),
        singular: "scale".into(),
        kind: "Scale".into(),
        list_kind: "ScaleList".into(),
        verb_order: &Verb::ALL,
        scope: Scope::Namespaced,
        verbs: Verbs::default(),
        short_names: Vec::new(),
        categories: Vec::new(),
        subresources: Vec::new(),
        key_prefix: None,
        strategy_options: StrategyOptions::default(),
        selectable_fields: field_selectors::selectable_fields("autoscaling", "scales"),
        scale: None,
        columns: Vec::new(),
    }
}
