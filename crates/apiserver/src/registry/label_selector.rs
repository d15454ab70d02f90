//! Parser of label selectors in objects: `matchLabels` and `matchExpressions`.

use optik_object::Value;
use optik_object::selector::{LabelOperator, LabelRequirement, LabelSelector};

/// An empty selector selects everything.
pub(crate) fn parse_label_selector(value: &Value) -> LabelSelector {
    LabelSelector::from_requirements(requirements(value))
}

/// The requirements of a selector, in the order of keys.
pub(crate) fn requirements(value: &Value) -> Vec<LabelRequirement> {
    let expressions = value["matchExpressions"].as_array().into_iter().flatten();
    let mut all = match_labels_requirements(&value["matchLabels"]);
    all.extend(expressions.filter_map(requirement));
    all.sort_by(|a, b| a.key.cmp(&b.key));
    all
}

/// Equality requirements of `matchLabels`.
pub(crate) fn match_labels_requirements(labels: &Value) -> Vec<LabelRequirement> {
    let labels = labels.as_object().into_iter().flatten();
    labels
        .map(|(key, value)| LabelRequirement {
            key: key.clone(),
            operator: LabelOperator::Equals,
            values: [value.as_str().unwrap_or_default().to_owned()].into(),
        })
        .collect()
}

fn requirement(expression: &Value) -> Option<LabelRequirement> {
    let values = expression["values"].as_array().into_iter().flatten();
    Some(LabelRequirement {
        key: expression["key"].as_str()?.to_owned(),
        operator: match expression["operator"].as_str()? {
            "In" => LabelOperator::In,
            "NotIn" => LabelOperator::NotIn,
            "Exists" => LabelOperator::Exists,
            "DoesNotExist" => LabelOperator::DoesNotExist,
            _ => return None,
        },
        values: values
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
    })
}
