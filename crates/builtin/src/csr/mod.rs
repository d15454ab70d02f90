//! The CertificateSigningRequest strategy: what its endpoints may change, and parsing of the
//! PKCS#10 request.

mod pem;
mod pkcs10;

pub use pkcs10::{CsrError, organizations};

pub(crate) use pem::blocks;
pub(crate) use pkcs10::verify;

use crate::validation::{items, text};
use optik_object::{Map, Object, Timestamp, Value};

/// The authenticated user who sends a request.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    pub name: &'a str,
    pub uid: &'a str,
    pub groups: &'a [String],
    pub extra: &'a std::collections::BTreeMap<String, Vec<String>>,
}

/// The condition types of an approval decision.
pub(crate) const APPROVED: &str = "Approved";
pub(crate) const DENIED: &str = "Denied";
pub(crate) const FAILED: &str = "Failed";

fn member<'o>(object: &'o mut Object, name: &str) -> &'o mut Map {
    let value = object.members_mut().entry(name).or_insert(Value::Null);
    if !value.is_object() {
        *value = Map::new().into();
    }
    value
        .as_object_mut()
        .expect("an object, by the lines above")
}

/// Sets the requester fields of `spec` (`username`, `uid`, `groups`, `extra`). Values in the
/// request body or set by mutating admission are discarded.
pub(crate) fn set_requester(request: &mut Object, requester: &Requester<'_>) {
    let spec = member(request, "spec");
    for name in ["username", "uid", "groups", "extra"] {
        spec.remove(name);
    }
    for (name, value) in [("username", requester.name), ("uid", requester.uid)] {
        if !value.is_empty() {
            spec.insert(name.into(), value.into());
        }
    }
    if !requester.groups.is_empty() {
        spec.insert("groups".into(), requester.groups.into());
    }
    if !requester.extra.is_empty() {
        let extra = requester.extra.iter();
        let extra = extra.map(|(name, values)| (name.clone(), values.as_slice().into()));
        spec.insert("extra".into(), Value::Object(extra.collect()));
    }
}

fn copy_member(object: &mut Object, from: &Object, name: &str) {
    match from.get(name).cloned() {
        Some(value) => drop(object.members_mut().insert(name.into(), value)),
        None => drop(object.members_mut().remove(name)),
    }
}

/// Updates keep the old `spec`: it is immutable.
pub(crate) fn prepare_for_update(request: &mut Object, old: &Object) {
    copy_member(request, old, "spec");
}

/// Status updates (by signers) keep the old `spec` and the approval conditions.
pub(crate) fn prepare_for_status_update(request: &mut Object, old: &Object, now: Timestamp) {
    copy_member(request, old, "spec");
    for decision in [APPROVED, DENIED] {
        restore_conditions(request, old, decision);
    }
    stamp_conditions(request, old, now);
}

/// Approval updates may change the status conditions and nothing else.
pub(crate) fn prepare_for_approval_update(request: &mut Object, old: &Object, now: Timestamp) {
    stamp_conditions(request, old, now);
    let status = request.get("status");
    let decided = status.and_then(|status| status.get("conditions").cloned());
    copy_member(request, old, "spec");
    copy_member(request, old, "status");
    let status = member(request, "status");
    match decided {
        Some(conditions) => drop(status.insert("conditions".into(), conditions)),
        None => drop(status.remove("conditions")),
    }
}

pub(crate) fn conditions(request: &Object) -> &[Value] {
    let status = request.get("status").unwrap_or(&Value::Null);
    items(&status["conditions"])
}

pub(crate) fn conditions_of<'o>(
    request: &'o Object,
    kind: &'o str,
) -> impl Iterator<Item = &'o Value> {
    let all = conditions(request).iter();
    all.filter(move |one| text(&one["type"]) == kind)
}

/// Restores the old conditions of a type. If their number differs, they are left to validation,
/// which rejects the change.
fn restore_conditions(request: &mut Object, old: &Object, kind: &str) {
    let kept: Vec<Value> = conditions_of(old, kind).cloned().collect();
    if conditions_of(request, kind).count() != kept.len() {
        return;
    }
    let own = conditions_mut(request).filter(|one| text(&one["type"]) == kind);
    for (condition, kept) in own.zip(kept) {
        *condition = kept;
    }
}

fn conditions_mut(request: &mut Object) -> impl Iterator<Item = &mut Value> {
    let status = request.members_mut().get_mut("status");
    let list = status.and_then(|status| status.get_mut("conditions"));
    list.and_then(Value::as_array_mut).into_iter().flatten()
}

/// Sets missing `lastUpdateTime` and `lastTransitionTime` of conditions. The old transition time is
/// kept while the status is unchanged.
fn stamp_conditions(request: &mut Object, old: &Object, now: Timestamp) {
    let before = conditions(old);
    let now = now.to_string();
    for condition in conditions_mut(request).filter(|one| one.is_object()) {
        if text(&condition["lastUpdateTime"]).is_empty() {
            condition["lastUpdateTime"] = now.as_str().into();
        }
        if text(&condition["lastTransitionTime"]).is_empty() {
            let held = before.iter().find(|one| {
                let same = |name: &str| one[name] == condition[name];
                same("type") && same("status") && !text(&one["lastTransitionTime"]).is_empty()
            });
            let since = held.map(|one| one["lastTransitionTime"].clone());
            condition["lastTransitionTime"] = since.unwrap_or_else(|| now.as_str().into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(spec: &Value, status: &Value) -> Object {
        let value = json!({"metadata": {"name": "r"}, "spec": spec, "status": status});
        Object::try_from(value).unwrap()
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    #[test]
    fn csr_requester_is_set_by_the_server() {
        let mut forged = request(
            &json!({"username": "root", "groups": ["system:masters"], "extra": {"a": ["b"]}}),
            &json!({}),
        );
        let extra = [("k".to_owned(), vec!["v".to_owned()])].into();
        let requester = Requester {
            name: "kim",
            uid: "",
            groups: &["devs".to_owned()],
            extra: &extra,
        };
        set_requester(&mut forged, &requester);
        let expected = json!({"username": "kim", "groups": ["devs"], "extra": {"k": ["v"]}});
        assert_eq!(forged.get("spec"), Some(&expected));
    }

    #[test]
    fn csr_approval_update_changes_only_conditions() {
        let old = request(&json!({"a": 1}), &json!({"certificate": "old"}));
        let sent = json!({"certificate": "new", "x": 1,
            "conditions": [{"type": "Approved", "status": "True"}]});
        let mut new = request(&json!({"a": 2}), &sent);
        prepare_for_approval_update(&mut new, &old, at(0));
        let now = "1970-01-01T00:00:00Z";
        assert_eq!(new.get("spec"), old.get("spec"));
        let expected = json!({"certificate": "old", "conditions": [{"type": "Approved",
            "status": "True", "lastUpdateTime": now, "lastTransitionTime": now}]});
        assert_eq!(new.get("status"), Some(&expected));
    }

    #[test]
    fn csr_status_update_keeps_approval_conditions() {
        let decided = json!({"type": "Approved", "status": "True", "reason": "ok",
            "lastUpdateTime": "x", "lastTransitionTime": "y"});
        let old = request(&json!({"a": 1}), &json!({"conditions": [decided]}));
        let sent = json!({"certificate": "new", "conditions": [
            {"type": "Approved", "status": "False", "reason": "forged"},
            {"type": "Failed", "status": "True"}]});
        let mut new = request(&json!({"a": 2}), &sent);
        prepare_for_status_update(&mut new, &old, at(0));
        let status = new.get("status").unwrap();
        assert_eq!(status["conditions"][0], decided);
        assert_eq!(
            status["conditions"][1]["lastUpdateTime"],
            "1970-01-01T00:00:00Z"
        );
        assert_eq!(status["certificate"], "new");
        assert_eq!(new.get("spec"), old.get("spec"));
    }
}
