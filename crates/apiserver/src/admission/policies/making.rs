//! Objects that expressions make: `Object{…}`, `JSONPatch{…}`.

use optik_object::Value as Json;
use optik_rules::{Made, Makers, Type, Value};

pub(super) const OBJECT: &str = "Object";
pub(super) const PATCH: &str = "JSONPatch";

/// `Object` and what lies below it, by the path: `Object.spec.template`.
#[derive(Debug)]
pub(super) struct Making;

impl Makers for Making {
    fn field(&self, type_name: &str, field: &str) -> Option<Type> {
        match (type_name, field) {
            (PATCH, "op" | "path" | "from") => Some(Type::String),
            (PATCH, "value") => Some(Type::Dyn),
            (PATCH, _) => None,
            _ => Some(Type::Dyn),
        }
    }

    fn exists(&self, type_name: &str) -> bool {
        type_name == PATCH || type_name == OBJECT || type_name.starts_with("Object.")
    }
}

/// Whether what was made stands where its type says.
pub(super) fn check_paths(made: &Made<'_>) -> Result<(), String> {
    check_at(made, &made.name)
}

fn check_at(made: &Made<'_>, path: &str) -> Result<(), String> {
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
        Value::Made(made) => check_at(made, path),
        Value::List(optik_rules::List::Owned(items)) => {
            items.iter().try_for_each(|item| check_value(item, path))
        }
        Value::Map(optik_rules::Map::Owned(entries)) => entries
            .values()
            .try_for_each(|value| check_value(value, path)),
        _ => Ok(()),
    }
}

/// A list of operations as a JSON patch.
pub(super) fn patch(value: &Value<'_>) -> Result<Json, String> {
    let not_json =
        || "JSONPath valueExpression evaluated to a type that could not marshal to JSON".to_owned();
    let Value::List(optik_rules::List::Owned(operations)) = value else {
        return Ok(Json::Array(Vec::new()));
    };
    let mut made = Vec::new();
    for operation in operations.iter() {
        if let Value::Made(operation) = operation {
            let value = operation.fields.iter().find(|(name, _)| &**name == "value");
            if let Some((_, Value::Made(value))) = value {
                check_paths(value).map_err(|why| format!("type mismatch: {why}"))?;
            }
        }
        made.push(operation.to_json().ok_or_else(not_json)?);
    }
    Ok(Json::Array(made))
}
