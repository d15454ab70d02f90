//! Helpers for the status conditions of a CRD.

use optik_object::{Map, Object, Timestamp, Value};
use serde_json::json;

pub(crate) const NAMES_ACCEPTED: &str = "NamesAccepted";
pub(crate) const ESTABLISHED: &str = "Established";
pub(crate) const TERMINATING: &str = "Terminating";
pub(crate) const APPROVED: &str = "KubernetesAPIApprovalPolicyConformant";

/// A condition to set in a CRD's status.
pub(crate) struct CrdCondition<'a> {
    pub(crate) condition_type: &'a str,
    pub(crate) is_true: bool,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

fn status_text(holds: bool) -> &'static str {
    if holds { "True" } else { "False" }
}

pub(crate) fn find<'o>(object: &'o Object, kind: &str) -> Option<&'o Value> {
    let list = object.get("status")?.get("conditions")?.as_array()?;
    list.iter().find(|condition| condition["type"] == kind)
}

pub(crate) fn is_true(object: &Object, kind: &str) -> bool {
    find(object, kind).is_some_and(|condition| condition["status"] == "True")
}

/// Whether the condition is set already, ignoring its time.
pub(crate) fn is_current(object: &Object, condition: &CrdCondition<'_>) -> bool {
    find(object, condition.condition_type).is_some_and(|found| {
        found["status"] == status_text(condition.is_true)
            && found["reason"] == condition.reason
            && found["message"] == condition.message
    })
}

/// Sets a condition; lastTransitionTime changes only with the status.
pub(crate) fn set(object: &mut Object, condition: &CrdCondition<'_>, now: Timestamp) {
    let status = object.members_mut().entry("status").or_insert(Value::Null);
    if !status.is_object() {
        *status = Map::new().into();
    }
    let list = &mut status["conditions"];
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    let Value::Array(list) = list else { return };
    let holds = status_text(condition.is_true);
    let made = json!({
        "type": condition.condition_type, "status": holds, "lastTransitionTime": now.to_string(),
        "reason": condition.reason, "message": condition.message,
    });
    let known = list
        .iter_mut()
        .find(|known| known["type"] == condition.condition_type);
    match known {
        None => list.push(made),
        Some(known) => {
            let since = known["lastTransitionTime"].clone();
            let unchanged = known["status"] == holds && since.is_string();
            *known = made;
            if unchanged {
                known["lastTransitionTime"] = since;
            }
        }
    }
}
