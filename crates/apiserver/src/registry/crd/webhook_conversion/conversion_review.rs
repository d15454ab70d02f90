//! The `ConversionReview` request sent to a conversion webhook, and its response.

use bytes::Bytes;
use optik_object::{Map, Object, Value, quote};
use serde_json::json;

const GROUP: &str = "apiextensions.k8s.io";
const KIND: &str = "ConversionReview";

/// Objects to convert to another version.
pub(super) struct ConversionRequest<'a> {
    pub(super) uid: &'a str,
    /// `v1`
    pub(super) version: &'a str,
    /// `example.com/v1`
    pub(super) desired_version: &'a str,
    pub(super) objects: &'a [&'a Object],
}

impl ConversionRequest<'_> {
    pub(super) fn to_json(&self) -> Bytes {
        let objects = self.objects.iter();
        let objects = objects.map(|object| Value::from((*object).clone()));
        let objects: Vec<Value> = objects.collect();
        let review = json!({
            "kind": KIND, "apiVersion": format!("{GROUP}/{}", self.version),
            "request": {"uid": self.uid, "desiredAPIVersion": self.desired_version, "objects": objects},
        });
        optik_object::to_bytes(&review).into()
    }
}

/// The converted objects, in the order of the request. Errors are prefixed with `conversion webhook
/// for g/v, Kind=K`.
pub(super) fn converted_objects(
    question: &ConversionRequest<'_>,
    review: &Value,
) -> Result<Vec<Object>, String> {
    let converted = objects(question, review).map_err(|error| format!("failed: {error}"))?;
    let (got, expected) = (converted.len(), question.objects.len());
    if got != expected {
        return Err(format!("returned {got} objects, expected {expected}"));
    }
    let pairs = question.objects.iter().zip(converted).enumerate();
    pairs
        .map(|(at, (original, converted))| {
            let invalid = |error: String| match expected {
                1 => format!("returned invalid object: {error}"),
                _ => format!("returned invalid converted object at index {at}: {error}"),
            };
            with_original_metadata(question.desired_version, original, converted).map_err(|error| {
                match error {
                    ConversionError::Version(error) if expected == 1 => {
                        format!("returned invalid object at index 0: {error}")
                    }
                    ConversionError::Version(error) | ConversionError::Identity(error) => {
                        invalid(error)
                    }
                    ConversionError::Metadata(error) if expected == 1 => {
                        format!("returned invalid metadata: {error}")
                    }
                    ConversionError::Metadata(error) => {
                        format!("returned invalid metadata in object at index {at}: {error}")
                    }
                }
            })
        })
        .collect()
}

fn objects(question: &ConversionRequest<'_>, review: &Value) -> Result<Vec<Value>, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, api_version) = (text(&review["kind"]), text(&review["apiVersion"]));
    let strict = question.version == "v1";
    if kind.is_empty() {
        return Err(format!("Object 'Kind' is missing in '{review}'"));
    }
    if strict && (kind != KIND || api_version != format!("{GROUP}/v1")) {
        return Err(format!(
            "expected webhook response of {GROUP}/v1, Kind={KIND}, got {api_version}, Kind={kind}"
        ));
    }
    let response = &review["response"];
    if response.is_null() {
        return Err("no response provided".into());
    }
    let uid = text(&response["uid"]);
    if strict && uid != question.uid {
        let (expected, got) = (quote(question.uid), quote(&uid));
        return Err(format!("expected response.uid={expected}, got {got}"));
    }
    let result = &response["result"];
    let status = text(&result["status"]);
    if status != "Success" {
        return Err(match text(&result["message"]) {
            message if !message.is_empty() => message,
            _ => format!("response.result.status was '{status}', not 'Success'"),
        });
    }
    let list = response["convertedObjects"].as_array();
    Ok(list.cloned().unwrap_or_default())
}

enum ConversionError {
    Version(String),
    Identity(String),
    Metadata(String),
}

/// A converted object with the metadata of the original: a webhook may only change labels and
/// annotations.
fn with_original_metadata(
    to: &str,
    original: &Object,
    converted: Value,
) -> Result<Object, ConversionError> {
    let converted = Object::try_from(converted);
    let mut converted =
        converted.map_err(|_| ConversionError::Version("invalid type, not an object".into()))?;
    if converted.api_version() != to {
        return Err(ConversionError::Version(format!(
            "invalid groupVersion (expected {to}, received {})",
            converted.api_version()
        )));
    }
    if converted.kind() != original.kind() {
        return Err(ConversionError::Version(format!(
            "invalid kind (expected {}, received {})",
            original.kind(),
            converted.kind()
        )));
    }
    for (what, expected, got) in [
        ("name", original.name(), converted.name()),
        ("namespace", original.namespace(), converted.namespace()),
        ("UID", original.uid(), converted.uid()),
    ] {
        if expected != got {
            return Err(ConversionError::Identity(format!(
                "must have the same {what}: {expected} != {got}"
            )));
        }
    }
    if converted.metadata().is_none() {
        let text = "missing metadata in converted object";
        return Err(ConversionError::Metadata(text.into()));
    }
    let mut metadata: Map = original.metadata().cloned().unwrap_or_default();
    for name in ["labels", "annotations"] {
        match converted.metadata_mut().remove(name) {
            Some(Value::Object(members)) if !members.is_empty() => {
                metadata.insert(name.into(), members.into());
            }
            Some(Value::Object(_) | Value::Null) | None => drop(metadata.remove(name)),
            Some(other) => {
                let text = format!("invalid metadata.{name} in converted object: {other}");
                return Err(ConversionError::Metadata(text));
            }
        }
    }
    *converted.metadata_mut() = metadata;
    Ok(converted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        value.try_into().unwrap()
    }

    fn original() -> Object {
        object(json!({
            "apiVersion": "g/v1", "kind": "K",
            "metadata": {"name": "a", "uid": "u", "labels": {"x": "1"}, "generation": 3},
        }))
    }

    fn converted(response: &Value) -> Result<Vec<Object>, String> {
        let original = original();
        let question = ConversionRequest {
            uid: "q",
            version: "v1",
            desired_version: "g/v2",
            objects: &[&original],
        };
        let review = json!({
            "kind": KIND, "apiVersion": "apiextensions.k8s.io/v1", "response": response,
        });
        converted_objects(&question, &review)
    }

    fn success(objects: &Value) -> Value {
        json!({"uid": "q", "result": {"status": "Success"}, "convertedObjects": objects})
    }

    #[test]
    fn conversion_may_change_only_labels_and_annotations_of_metadata() {
        let answer = json!({"apiVersion": "g/v2", "kind": "K", "spec": {"b": 1}, "metadata": {
            "name": "a", "uid": "u", "labels": {"y": "2"}, "generation": 9, "finalizers": ["f"],
        }});
        let made = converted(&success(&json!([answer]))).unwrap();
        let expected = json!({"apiVersion": "g/v2", "kind": "K", "spec": {"b": 1}, "metadata": {
            "name": "a", "uid": "u", "labels": {"y": "2"}, "generation": 3,
        }});
        assert_eq!(made, [object(expected)]);
    }

    #[test]
    fn invalid_conversion_responses_are_rejected() {
        let with = |name: &str, value: &str| {
            let mut answer = json!({
                "apiVersion": "g/v2", "kind": "K", "metadata": {"name": "a", "uid": "u"},
            });
            *answer.pointer_mut(name).unwrap() = value.into();
            success(&json!([answer]))
        };
        for (response, expected) in [
            (
                json!({"uid": "q", "result": {"status": "Failed", "message": "no"}}),
                "failed: no",
            ),
            (
                json!({"uid": "q", "result": {}}),
                "failed: response.result.status was '', not 'Success'",
            ),
            (
                json!({"uid": "x"}),
                r#"failed: expected response.uid="q", got "x""#,
            ),
            (success(&json!([])), "returned 0 objects, expected 1"),
            (
                with("/metadata/name", "zzz"),
                "returned invalid object: must have the same name: a != zzz",
            ),
            (
                with("/apiVersion", "g/v3"),
                "returned invalid object at index 0: invalid groupVersion (expected g/v2, \
                 received g/v3)",
            ),
        ] {
            assert_eq!(converted(&response).unwrap_err(), expected);
        }
    }
}
