//! `matchConditions` of webhooks and policies: CEL conditions, behind a trait that the evaluator
//! implements.

use crate::admission::AdmissionAttributes;
use optik_object::{Object, Status, Value};

/// A match condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MatchCondition {
    pub(crate) name: String,
    pub(crate) expression: String,
}

impl MatchCondition {
    /// The match conditions of a webhook or a policy.
    pub(crate) fn read_all(conditions: &Value) -> Vec<Self> {
        let list = conditions.as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        list.map(|condition| Self {
            name: text(&condition["name"]),
            expression: text(&condition["expression"]),
        })
        .collect()
    }
}

/// Evaluates match conditions.
pub(crate) trait MatchConditionEvaluator: Send + Sync {
    /// Whether a condition is met; an error if it cannot be evaluated.
    fn is_met(
        &self,
        condition: &MatchCondition,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Object>,
    ) -> Result<bool, String>;
}

/// Whether all conditions are met. A condition that is false decides, even if others fail.
/// Otherwise errors refuse the write if `fail_closed`, and count as not met if not.
pub(crate) fn all_met(
    judge: &dyn MatchConditionEvaluator,
    conditions: &[MatchCondition],
    attributes: &AdmissionAttributes<'_>,
    object: Option<&Object>,
    fail_closed: bool,
) -> Result<bool, Status> {
    let mut wrong: Vec<String> = Vec::new();
    for condition in conditions {
        match judge.is_met(condition, attributes, object) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(why) if wrong.contains(&why) => {}
            Err(why) => wrong.push(why),
        }
    }
    let text = match wrong.as_slice() {
        [] => return Ok(true),
        _ if !fail_closed => return Ok(false),
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    let resource = attributes.resource.resource.name();
    Err(Status::forbidden(resource, attributes.name, &text))
}
