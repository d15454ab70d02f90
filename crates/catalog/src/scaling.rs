//! Where kinds keep what their subresource `scale` shows.

use crate::behaviour::Behaviour;
use crate::fields;
use crate::resource::{Resource, Scope, Text, Verb, Verbs};

/// Names of members, from the object down to a value.
pub type Path = Vec<Text>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaling {
    /// How many there should be: `spec.replicas`.
    pub replicas: Path,
    /// What it means if that is not there; `None`: then there is no scale to show.
    pub unset: Option<i64>,
    /// How many there are: `status.replicas`.
    pub observed: Path,
    pub selector: ScaleSelector,
}

/// Which pods are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScaleSelector {
    /// The kind does not say.
    None,
    /// A text that is shown as it is.
    Text(Path),
    /// Labels and their values.
    Labels(Path),
    /// `matchLabels` and `matchExpressions`.
    Selector(Path),
}

fn path(names: [&'static str; 2]) -> Path {
    names.map(Text::from).to_vec()
}

/// The built-in kinds that can be scaled keep it all in the same places.
pub(crate) fn of(plural: &str) -> Scaling {
    let selector = path(["spec", "selector"]);
    Scaling {
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
pub fn scale() -> Resource {
    Resource {
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
        storage: None,
        behaviour: Behaviour::default(),
        fields: fields::selectable("autoscaling", "scales"),
        scaling: None,
        columns: Vec::new(),
    }
}
