//! The CEL types that mutating policies construct: `Object{…}` and `JSONPatch{…}`.

use optik_cel::{CelType, StructValue, TypeProvider, Value};
use optik_object::Value as Json;

pub(super) const OBJECT_TYPE: &str = "Object";
pub(super) const JSON_PATCH_TYPE: &str = "JSONPatch";

/// The type `Object` and its nested types, named by path: `Object.spec.template`.
#[derive(Debug)]
pub(super) struct MutationTypes;

impl TypeProvider for MutationTypes {
    fn field_type(&self, type_name: &str, field: &str) -> Option<CelType> {
        match (type_name, field) {
            (JSON_PATCH_TYPE, "op" | "path" | "from") => Some(CelType::String),
            (JSON_PATCH_TYPE, "value") => Some(CelType::Dyn),
            (JSON_PATCH_TYPE, _) => None,
            _ => Some(CelType::Dyn),
        }
    }

    fn has_type(&self, type_name: &str) -> bool {
        type_name == JSON_PATCH_TYPE || type_name == OBJECT_TYPE || type_name.starts_with("Object.")
    }
}

/// Checks that nested objects are of the type that their path requires.
pub(super) fn check_object_types(made: &StructValue<'_>) -> Result<(), String> {
    check_at(made, &made.name)
}

fn check_at(made: &StructValue<'_>, path: &str) -> Result<(), String> {
    if *made.name != *path {
        return Err(format!(
            "unexpected type name {}, expected {}, which matches field name path from root \
             Object type",
            optik_object::quote(&made.name),
            optik_object::quote(path)
        ));
    }
    for (name, value) in &made.fields {
        check_value(value, &format!("{path}.{name}"))?;
    }
    Ok(())
}

fn check_value(value: &Value<'_>, path: &str) -> Result<(), String> {
    match value {
        Value::Struct(made) => check_at(made, path),
        Value::List(optik_cel::ListValue::Owned(items)) => {
            items.iter().try_for_each(|item| check_value(item, path))
        }
        Value::Map(optik_cel::MapValue::Owned(entries)) => entries
            .values()
            .try_for_each(|value| check_value(value, path)),
        _ => Ok(()),
    }
}

/// Converts a list of `JSONPatch` values to a JSON Patch document.
pub(super) fn to_json_patch(value: &Value<'_>) -> Result<Json, String> {
    let not_json =
        || "JSONPath valueExpression evaluated to a type that could not marshal to JSON".to_owned();
    let Value::List(optik_cel::ListValue::Owned(operations)) = value else {
        return Ok(Json::Array(Vec::new()));
    };
    let mut made = Vec::new();
    for operation in operations.iter() {
        if let Value::Struct(operation) = operation {
            let value = operation.fields.iter().find(|(name, _)| &**name == "value");
            if let Some((_, Value::Struct(value))) = value {
                check_object_types(value).map_err(|why| format!("type mismatch: {why}"))?;
            }
        }
        made.push(operation.to_json().ok_or_else(not_json)?);
    }
    Ok(Json::Array(made))
}
