//! Selectors as objects spell them: `matchLabels` and `matchExpressions`.

use optik_object::Value;
use optik_object::selector::{LabelRequirement, LabelSelector, Operator};

/// Nothing selects everything.
pub(crate) fn selector_of(value: &Value) -> LabelSelector {
    LabelSelector::from_requirements(requirements(value))
}

/// What a selector asks of labels, in the order of keys.
pub(crate) fn requirements(value: &Value) -> Vec<LabelRequirement> {
    let expressions = value["matchExpressions"].as_array().into_iter().flatten();
    let mut all = equalities(&value["matchLabels"]);
    all.extend(expressions.filter_map(requirement));
    all.sort_by(|a, b| a.key.cmp(&b.key));
    all
}

/// Labels that are to be exactly these.
pub(crate) fn equalities(labels: &Value) -> Vec<LabelRequirement> {
    let labels = labels.as_object().into_iter().flatten();
    labels
        .map(|(key, value)| LabelRequirement {
            key: key.clone(),
            operator: Operator::Equals,
            values: [value.as_str().unwrap_or_default().to_owned()].into(),
        })
        .collect()
}

fn requirement(expression: &Value) -> Option<LabelRequirement> {
    let values = expression["values"].as_array().into_iter().flatten();
    Some(LabelRequirement {
        key: expression["key"].as_str()?.to_owned(),
        operator: match expression["operator"].as_str()? {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            _ => return None,
        },
        values: values
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
    })
}
