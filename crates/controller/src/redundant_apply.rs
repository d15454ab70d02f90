//! Decides before a server-side apply is sent whether it would change anything.
//!
//! The cache keeps the `managedFields` of the controllers of this process. If such an entry names
//! exactly the desired fields, and the live object has the desired values in them, the apply is
//! redundant.

use optik_object::Tape;
use serde_json::{Map, Value};

/// Whether `manager` owns exactly the desired fields, with the desired values.
pub(crate) fn is_redundant_apply(desired: &Value, live: &Value, manager: &str) -> bool {
    let records = live["metadata"]["managedFields"].as_array();
    let own = records.into_iter().flatten().find(|record| {
        record["manager"] == manager
            && record["operation"] == "Apply"
            && record.get("subresource").is_none()
    });
    let Some(Value::Object(fields)) = own.and_then(|record| record.get("fieldsV1")) else {
        return false;
    };
    let (Value::Object(desired), Value::Object(live)) = (desired, live) else {
        return false;
    };
    let named = |name: &str| matches!(name, "apiVersion" | "kind" | "metadata");
    let rest = |object: &Map<String, Value>| -> Map<String, Value> {
        let rest = object.iter().filter(|(name, _)| !named(name));
        rest.map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    let metadata = |object: &Map<String, Value>| -> Value {
        let mut metadata = object.get("metadata").cloned().unwrap_or_default();
        if let Value::Object(members) = &mut metadata {
            members.remove("name");
            members.remove("namespace");
        }
        metadata
    };
    let mut others = fields.clone();
    let owned_metadata = others
        .remove("f:metadata")
        .unwrap_or(Value::Object(Map::new()));
    let wanted_metadata = metadata(desired);
    let same_metadata = match &wanted_metadata {
        Value::Object(wanted) if wanted.is_empty() => {
            owned_metadata.as_object().is_some_and(Map::is_empty)
        }
        wanted => owned_fields_match(wanted, &metadata(live), &owned_metadata),
    };
    let (desired, live) = (Value::Object(rest(desired)), Value::Object(rest(live)));
    same_metadata && owned_fields_match(&desired, &live, &Value::Object(others))
}

/// Whether the owned fields are those of `desired`, and `live` has the same values in them.
fn owned_fields_match(desired: &Value, live: &Value, owned: &Value) -> bool {
    let Value::Object(owned) = owned else {
        return false;
    };
    let inner: Vec<(&String, &Value)> = owned.iter().filter(|(name, _)| *name != ".").collect();
    if inner.is_empty() {
        return desired == live || is_empty(desired) && is_empty(live);
    }
    match (desired, live) {
        (Value::Object(desired), Value::Object(live)) => {
            let field = |name: &str| owned.get(&format!("f:{name}"));
            inner.len() == desired.len()
                && desired.iter().all(|(name, value)| {
                    let (Some(owned), Some(live)) = (field(name), live.get(name)) else {
                        return false;
                    };
                    owned_fields_match(value, live, owned)
                })
        }
        (Value::Array(desired), Value::Array(live)) => {
            inner.len() == desired.len()
                && inner
                    .iter()
                    .all(|(name, owned)| owned_item_matches(name, owned, desired, live))
        }
        _ => false,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Null => true,
        _ => false,
    }
}

/// Compares a list item: `k:{"name":"a"}` selects it by its keys, `v:"a"` by its value.
fn owned_item_matches(name: &str, owned: &Value, desired: &[Value], live: &[Value]) -> bool {
    let Some((how, text)) = name.split_once(':') else {
        return false;
    };
    let mut tape = Tape::default();
    let Some(which) = tape
        .read(text.as_bytes())
        .ok()
        .and_then(|view| view.to_value().ok())
    else {
        return false;
    };
    match how {
        "v" => desired.contains(&which) && live.contains(&which),
        "k" => {
            let Value::Object(keys) = &which else {
                return false;
            };
            // A key field that is absent has its default, which only the server knows.
            let is = |item: &&Value| {
                let same = |(key, value)| item.get(key).is_none_or(|own: &Value| own == value);
                keys.iter().all(same)
            };
            match (desired.iter().find(is), live.iter().find(is)) {
                (Some(desired), Some(live)) => owned_fields_match(desired, live, owned),
                _ => false,
            }
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn live() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "a", "namespace": "n", "uid": "u", "labels": {"app": "web", "other": "1"},
                "ownerReferences": [{"uid": "p", "name": "p", "kind": "Backup", "apiVersion": "e/v1"}],
                "managedFields": [{
                    "manager": "me", "operation": "Apply",
                    "fieldsV1": {
                        "f:metadata": {
                            "f:labels": {"f:app": {}},
                            "f:ownerReferences": {"k:{\"uid\":\"p\"}": {}},
                        },
                        "f:spec": {
                            "f:replicas": {},
                            "f:template": {"f:spec": {"f:containers": {
                                "k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:image": {},
                                    "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {
                                        ".": {}, "f:containerPort": {}}}},
                            }}},
                        },
                    },
                }],
            },
            "spec": {"replicas": 2, "paused": false, "template": {"spec": {"containers": [
                {"name": "side", "image": "x"},
                {"name": "c", "image": "i", "pullPolicy": "Always",
                 "ports": [{"containerPort": 80, "protocol": "TCP"}]},
            ]}}},
            "status": {"replicas": 1},
        })
    }

    fn desired() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "a", "namespace": "n", "labels": {"app": "web"},
                "ownerReferences": [{"uid": "p", "name": "p", "kind": "Backup", "apiVersion": "e/v1"}],
            },
            "spec": {"replicas": 2, "template": {"spec": {"containers": [
                {"name": "c", "image": "i", "ports": [{"containerPort": 80}]},
            ]}}},
        })
    }

    #[test]
    fn apply_is_redundant_when_owned_fields_equal_desired() {
        assert!(is_redundant_apply(&desired(), &live(), "me"));
        assert!(!is_redundant_apply(&desired(), &live(), "somebody"));
    }

    #[test]
    fn apply_is_needed_on_any_field_or_value_difference() {
        let other = |change: &dyn Fn(&mut Value)| {
            let mut desired = desired();
            change(&mut desired);
            desired
        };
        let changes: [&dyn Fn(&mut Value); 6] = [
            &|d| d["spec"]["replicas"] = json!(3),
            &|d| d["spec"]["paused"] = json!(false),
            &|d| d["metadata"]["labels"] = json!({}),
            &|d| d["metadata"]["labels"]["other"] = json!("1"),
            &|d| d["spec"]["template"]["spec"]["containers"][0]["image"] = json!("j"),
            &|d| d["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([]),
        ];
        for (number, change) in changes.iter().enumerate() {
            assert!(
                !is_redundant_apply(&other(change), &live(), "me"),
                "change {number}"
            );
        }
    }
}
