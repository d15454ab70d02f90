//! Where kinds keep what their subresource `scale` shows.

use crate::field_selectors;
use crate::resource::{ApiResource, Scope, Text, Verb, Verbs};
use crate::strategy_options::StrategyOptions;

/// Names of members, from the object down to a value.
pub type FieldSegments = Vec<Text>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleMapping {
    /// How many there should be: `spec.replicas`.
    pub replicas: FieldSegments,
    /// What it means if that is not there; `None`: then there is no scale to show.
    pub unset: Option<i64>,
    /// How many there are: `status.replicas`.
    pub observed: FieldSegments,
    pub selector: ScaleSelector,
}

/// Which pods are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScaleSelector {
    /// The kind does not say.
    None,
    /// A text that is shown as it is.
    Text(FieldSegments),
    /// Labels and their values.
    Labels(FieldSegments),
    /// `matchLabels` and `matchExpressions`.
    Selector(FieldSegments),
}

fn path(names: [&'static str; 2]) -> FieldSegments {
    names.map(Text::from).to_vec()
}

/// The built-in kinds that can be scaled keep it all in the same places.
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

/// The kind that `scale` speaks. There are no such objects: each is a view of another.
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
