//! Applies the JSON Patch of a webhook or policy to an object.

use crate::handlers::write::apply_defaults;
use crate::registry::crd::custom_resource;
use crate::registry::served_resource::ServedResource;
use crate::request::body::default_and_normalize;
use optik_object::{Object, Value};
use optik_patch::{JsonPatch, JsonPatchError, Rejection, StrictDecoding};
use optik_schema::{check_types, drop_declared_nulls, prune};

/// Applies a patch to an object of a kind, and defaults the result. `None` if the patch is empty.
/// Errors are those of upstream's library.
pub(crate) fn apply_json_patch(
    of: &ServedResource,
    object: &Object,
    patch: &[u8],
) -> Result<Option<Object>, String> {
    let read = JsonPatch::decode(patch, StrictDecoding::Off).map_err(|error| error.to_string())?;
    let operations = optik_object::parse(patch).map(|parsed| parsed.value);
    let operations = operations.unwrap_or_default();
    if operations.as_array().is_none_or(Vec::is_empty) {
        return Ok(None);
    }
    let document = Value::from(object.clone());
    let applied = read.apply(document.clone());
    let applied = applied.map_err(|error| upstream_message(&error, &operations, &document))?;
    decode_as(of, applied).map(Some)
}

/// Decodes a document as an object of a kind: checks types, prunes unknown fields and applies
/// defaulting.
pub(crate) fn decode_as(of: &ServedResource, mut value: Value) -> Result<Object, String> {
    if let Some(custom) = &of.custom {
        custom_resource::coerce_patched(custom, &mut value)?;
    } else if let Some(schema) = of.schema() {
        check_types(schema, &value).map_err(|error| error.to_string())?;
        prune(schema, &mut value);
        drop_declared_nulls(schema, &mut value);
    }
    let object = Object::try_from(value);
    let mut object = object.map_err(|_| "the patched document is not an object".to_owned())?;
    default_and_normalize(of, &mut object).map_err(|error| error.to_string())?;
    of.storage_conversion.to_client(&mut object);
    object.set_type(&of.resource.kind, &of.api_version);
    apply_defaults(of, &mut object);
    Ok(object)
}

fn upstream_message(error: &JsonPatchError, operations: &Value, document: &Value) -> String {
    let JsonPatchError::Rejected { operation, why } = error else {
        return error.to_string();
    };
    let operation = &operations[*operation];
    let name = operation["op"].as_str().unwrap_or_default();
    let path = operation["path"].as_str().unwrap_or_default();
    let (parent, key) = path.rsplit_once('/').unwrap_or(("", path));
    let key = key.replace("~1", "/").replace("~0", "~");
    match (why, name) {
        (Rejection::TestFailed, _) => format!("testing value {path} failed: test failed"),
        (Rejection::UnknownOperation, _) => format!("Unexpected kind: {name}"),
        (Rejection::NoSuchPath, "remove") if document.pointer(parent).is_some() => format!(
            "error in remove for path: '{path}': Unable to remove nonexistent key: {key}: missing \
             value"
        ),
        (Rejection::NoSuchPath, "replace") => {
            format!("replace operation does not apply: doc is missing path: {path}: missing value")
        }
        (Rejection::NoSuchPath, name) => {
            format!(
                "{name} operation does not apply: doc is missing path: \"{path}\": missing value"
            )
        }
        (why, _) => why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn webhook_json_patch_errors_match_upstream() {
        let document = json!({"data": {"a": "1"}});
        for (operation, expected) in [
            (
                json!({"op": "remove", "path": "/data/nope"}),
                "error in remove for path: '/data/nope': Unable to remove nonexistent key: nope: \
                 missing value",
            ),
            (
                json!({"op": "add", "path": "/nope/a", "value": 1}),
                "add operation does not apply: doc is missing path: \"/nope/a\": missing value",
            ),
            (
                json!({"op": "test", "path": "/data/a", "value": "2"}),
                "testing value /data/a failed: test failed",
            ),
        ] {
            let operations = json!([operation]);
            let patch =
                JsonPatch::decode(operations.to_string().as_bytes(), StrictDecoding::Off).unwrap();
            let error = patch.apply(document.clone()).unwrap_err();
            assert_eq!(upstream_message(&error, &operations, &document), expected);
        }
    }
}
