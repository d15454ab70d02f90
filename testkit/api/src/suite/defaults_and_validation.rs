//! Defaulting and validation of built-in kinds.
//!
//! The cases of `recordings/objects` are responses of kube-apiserver: `made.json` has objects and
//! their stored form, `refused.json` rejected objects with code and message. Values that differ
//! between runs are placeholders: `U` a uid, `T` a time, `IP` an address of a service, `NP` a node
//! port; `UNIQ` is the namespace.

use crate::check::checks;
use crate::failure::{RowFailures, same_json};
use crate::{ApiResponse, Outcome, Scope};
use serde_json::{Value, json};

checks! { defaults_and_validation:
    [] built_in_kinds_are_defaulted_like_upstream [Admission],
    [] built_in_validation_errors_match_upstream [Admission],
}

const MADE: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../recordings/objects/made.json"
));
const REFUSED: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../recordings/objects/refused.json"
));

fn cases(text: &str) -> Outcome<Vec<Value>> {
    let read: Result<Vec<Value>, _> = serde_json::from_str(text);
    read.map_err(|error| crate::Failure::new(format!("the cases cannot be read: {error}")))
}

fn in_namespace(value: &Value, namespace: &str) -> Outcome<Value> {
    let text = value.to_string();
    let text = text.replace("\"NS\"", &format!("\"{namespace}\""));
    let text = text.replace("UNIQ", namespace);
    serde_json::from_str(&text).map_err(|error| crate::Failure::new(error.to_string()))
}

/// Plays a case in a namespace of its own.
async fn run_case(scope: &Scope, number: usize, case: &Value) -> Outcome<(ApiResponse, String)> {
    let own = scope.second_namespace(&format!("-{number}")).await?;
    let namespace = own.namespace.clone();
    let path = case["path"].as_str().unwrap_or_default();
    let path = path.replace("NS", &namespace);
    let object = in_namespace(&case["object"], &namespace)?;
    let mut answer = own.client.post(&path, &object).await?;
    let made = answer.status == 201;
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let place = format!("{path}/{name}");
    if let Some(changes) = case["changes"].as_array() {
        let mut live = answer.expect_json(201)?;
        for change in changes {
            let pointer = change[0].as_str().unwrap_or_default();
            let (parent, member) = pointer.rsplit_once('/').unwrap_or(("", pointer));
            match live.pointer_mut(parent) {
                Some(Value::Object(members)) if change[1].is_null() => {
                    members.remove(member);
                }
                Some(Value::Object(members)) => {
                    members.insert(member.into(), in_namespace(&change[1], &namespace)?);
                }
                _ => {}
            }
        }
        answer = own.client.put(&place, &live).await?;
    }
    if made {
        // It may not be in the namespace, and so would not go with it.
        own.client.delete(&place).await?;
    }
    own.cleanup().await;
    Ok((answer, namespace))
}

/// Replaces values that differ between runs by placeholders.
fn normalize(value: &Value, namespace: &str) -> Value {
    match value {
        Value::Object(members) => {
            let plain = members.iter().map(|(name, value)| {
                let value = match (name.as_str(), value) {
                    (
                        "uid" | "controller-uid" | "batch.kubernetes.io/controller-uid",
                        Value::String(_),
                    ) => json!("U"),
                    (
                        "creationTimestamp" | "deletionTimestamp" | "lastTransitionTime" | "time",
                        Value::String(_),
                    ) => json!("T"),
                    ("nodePort", Value::Number(port)) if port.as_i64() >= Some(30000) => {
                        json!("NP")
                    }
                    (_, value) => normalize(value, namespace),
                };
                (name.clone(), value)
            });
            Value::Object(plain.collect())
        }
        Value::Array(items) => items
            .iter()
            .map(|item| normalize(item, namespace))
            .collect(),
        Value::String(text) => normalize_text(text, namespace).into(),
        other => other.clone(),
    }
}

fn normalize_text(text: &str, namespace: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(length) = uid_at(rest) {
            out.push('U');
            rest = &rest[length..];
        } else if let Some(length) = address_at(rest, out.chars().last()) {
            out.push_str("IP");
            rest = &rest[length..];
        } else if let Some(length) = time_at(rest) {
            out.push('T');
            rest = &rest[length..];
        } else if let Some(c) = rest.chars().next() {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out.replace(namespace, "UNIQ")
}

fn uid_at(text: &str) -> Option<usize> {
    let head = text.get(..36)?;
    let fits = head.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
    });
    fits.then_some(36)
}

/// `10.x.y.z`
fn address_at(text: &str, before: Option<char>) -> Option<usize> {
    if before.is_some_and(|c| c.is_ascii_digit()) || !text.starts_with("10.") {
        return None;
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let address = &text[..end.unwrap_or(text.len())];
    let address = address.trim_end_matches('.');
    let parts = address.split('.').filter(|part| !part.is_empty()).count();
    (parts == 4).then_some(address.len())
}

/// `2026-01-02T03:04:05Z`
fn time_at(text: &str) -> Option<usize> {
    let head = text.get(..20)?;
    let fits = head.bytes().enumerate().all(|(at, byte)| match at {
        0 => byte == b'2',
        1 => byte == b'0',
        4 | 7 => byte == b'-',
        10 => byte == b'T',
        13 | 16 => byte == b':',
        19 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    });
    fits.then_some(20)
}

/// Removes the metadata that the server sets on every object.
fn without_bookkeeping(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for member in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
            "namespace",
        ] {
            metadata.remove(member);
        }
    }
    object
}

async fn built_in_kinds_are_defaulted_like_upstream(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    for (number, case) in cases(MADE)?.iter().enumerate() {
        let (answer, namespace) = run_case(&scope, number, case).await?;
        let name = case["name"].as_str().unwrap_or_default();
        let made = without_bookkeeping(normalize(&answer.json()?, &namespace));
        rows.record(name, same_json(name, &case["made"], &made));
    }
    rows.outcome()
}

async fn built_in_validation_errors_match_upstream(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    for (number, case) in cases(REFUSED)?.iter().enumerate() {
        let (answer, namespace) = run_case(&scope, number, case).await?;
        let name = case["name"].as_str().unwrap_or_default();
        let status = normalize(&answer.json()?, &namespace);
        let causes = match &status["details"]["causes"] {
            Value::Null => json!([]),
            causes => causes.clone(),
        };
        let told = json!({"code": status["code"], "message": status["message"], "causes": causes});
        let expected = json!({
            "code": case["code"], "message": case["message"], "causes": case["causes"],
        });
        rows.record(name, same_json(name, &expected, &told));
    }
    rows.outcome()
}
