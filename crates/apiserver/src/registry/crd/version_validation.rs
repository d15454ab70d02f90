//! Validation of the versions of a CRD: schemas, subresources, columns, selectable fields.

use crate::registry::crd::crd_validation::text;
use crate::registry::crd::custom_resource_definition::versions;
use crate::registry::crd::version_schemas::{version_members, version_schema};
use optik_object::{FieldError, Object, Value};
use optik_schema::structural::{
    Ratcheting, SchemaTypeName, Structural, check_defaults, check_keywords, check_rules,
    check_structural,
};
use std::collections::{BTreeMap, BTreeSet};

/// Ratcheting: violations that are allowed because the stored CRD has them already.
#[derive(Clone, Copy, Default)]
struct CrdRatcheting {
    non_structural: bool,
    unpruned_defaults: bool,
    keyword_leniency: Ratcheting,
}

fn ratcheting_for(old: &Object) -> CrdRatcheting {
    let mut forgiven = CrdRatcheting::default();
    for schema in versions(old).iter().filter_map(version_schema) {
        let schema = Structural::from_json(schema);
        let structural = schema.is_supported() && check_structural(&schema, "").is_empty();
        forgiven.non_structural |= !structural;
        if structural {
            let strict = check_defaults(&schema, "", true).len();
            forgiven.unpruned_defaults |= strict > check_defaults(&schema, "", false).len();
        }
        let errors_with = |lenient| check_keywords(&schema, "", lenient).len();
        let strict = errors_with(Ratcheting::default());
        let keywords = &mut forgiven.keyword_leniency;
        let alone = |types, sets, list_keys| Ratcheting {
            types,
            sets,
            list_keys,
        };
        keywords.types |= errors_with(alone(true, false, false)) < strict;
        keywords.sets |= errors_with(alone(false, true, false)) < strict;
        keywords.list_keys |= errors_with(alone(false, false, true)) < strict;
    }
    forgiven
}

fn has_status(version: &Value) -> bool {
    let subresources = version.get("subresources");
    let status = subresources.and_then(|subresources| subresources.get("status"));
    status.is_some_and(|status| !status.is_null())
}

pub(super) fn check_schemas(object: &Object, old: Option<&Object>, errors: &mut Vec<FieldError>) {
    let forgiven = old.map(ratcheting_for).unwrap_or_default();
    let names = ("validation.openAPIV3Schema", "schema.openAPIV3Schema");
    let parts = version_members(object, "schema", names);
    let common = parts.len() == 1;
    let known = old
        .into_iter()
        .flat_map(versions)
        .filter_map(version_schema);
    let known: BTreeSet<String> = known.map(Value::to_string).collect();
    for (path, schema, version) in parts {
        let Some(schema) = schema.and_then(|schema| schema.get("openAPIV3Schema")) else {
            continue;
        };
        let with_status = if common {
            versions(object).iter().any(has_status)
        } else {
            has_status(version)
        };
        if with_status {
            check_root(schema, &path, errors);
        }
        let known = !known.is_empty() && known.contains(&schema.to_string());
        check_schema(schema, &path, forgiven, known, errors);
    }
}

/// Validates a schema. `known`: a schema that is stored already is exempt from cost limits.
fn check_schema(
    value: &Value,
    path: &str,
    forgiven: CrdRatcheting,
    known: bool,
    errors: &mut Vec<FieldError>,
) {
    let schema = Structural::from_json(value);
    let before = errors.len();
    if schema.nullable {
        let text = "nullable cannot be true at the root";
        errors.push(FieldError::forbidden(format!("{path}.nullable"), text));
    }
    if schema.is_supported() {
        let structural = check_structural(&schema, path);
        if structural.is_empty() {
            errors.extend(check_defaults(&schema, path, !forgiven.unpruned_defaults));
        } else if !forgiven.non_structural {
            errors.extend(structural);
        }
    }
    errors.extend(check_keywords(&schema, path, forgiven.keyword_leniency));
    // The CEL rules of an invalid schema are not compiled.
    if errors.len() == before {
        errors.extend(check_rules(&schema, path, known));
    }
}

/// With a status subresource the status schema is used separately, so these keywords are not
/// allowed at the root.
const AT_ROOT: &[(&str, &str)] = &[
    ("description", "Description"),
    ("type", "Type"),
    ("format", "Format"),
    ("title", "Title"),
    ("maximum", "Maximum"),
    ("exclusiveMaximum", "ExclusiveMaximum"),
    ("minimum", "Minimum"),
    ("exclusiveMinimum", "ExclusiveMinimum"),
    ("maxLength", "MaxLength"),
    ("minLength", "MinLength"),
    ("pattern", "Pattern"),
    ("maxItems", "MaxItems"),
    ("minItems", "MinItems"),
    ("uniqueItems", "UniqueItems"),
    ("multipleOf", "MultipleOf"),
    ("required", "Required"),
    ("items", "Items"),
    ("properties", "Properties"),
    ("externalDocs", "ExternalDocs"),
    ("example", "Example"),
    (
        "x-kubernetes-preserve-unknown-fields",
        "XPreserveUnknownFields",
    ),
    ("x-kubernetes-validations", "XValidations"),
];

fn check_root(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let given = text(Some(schema), "type");
    if !given.is_empty() && given != "object" {
        let text = "only \"object\" is allowed as the type at the root of the schema if the status \
                    subresource is enabled";
        errors.push(FieldError::invalid(format!("{path}.type"), given, text));
        return;
    }
    let says = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => true,
    };
    let Value::Object(members) = schema else {
        return;
    };
    let lost = members
        .iter()
        .any(|(name, value)| says(value) && !AT_ROOT.iter().any(|(known, _)| known == name));
    if lost {
        let names: Vec<&str> = AT_ROOT.iter().map(|(_, name)| *name).collect();
        let text = format!(
            "only [{}] fields are allowed at the root of the schema if the status subresource is \
             enabled",
            names.join(" ")
        );
        errors.push(FieldError::invalid(path, schema.clone(), text));
    }
}

pub(super) fn check_subresources(object: &Object, errors: &mut Vec<FieldError>) {
    let names = ("subresources", "subresources");
    for (path, subresources, _) in version_members(object, "subresources", names) {
        let scale = subresources.and_then(|subresources| subresources.get("scale"));
        let Some(scale) = scale.filter(|scale| scale.is_object()) else {
            continue;
        };
        for (name, below) in [
            ("specReplicasPath", &[".spec."][..]),
            ("statusReplicasPath", &[".status."]),
            ("labelSelectorPath", &[".spec.", ".status."]),
        ] {
            let given = text(Some(scale), name);
            let path = format!("{path}.scale.{name}");
            if given.is_empty() {
                if name != "labelSelectorPath" {
                    errors.push(FieldError::required(path, ""));
                }
            } else if !given.starts_with('.') {
                let text = "must be a simple json path starting with .";
                errors.push(FieldError::invalid(path, given, text));
            } else if !below.iter().any(|prefix| given.starts_with(prefix)) {
                let text = match below {
                    [".spec."] => "should be a json path under .spec",
                    [".status."] => "should be a json path under .status",
                    _ => "should be a json path under either .spec or .status",
                };
                errors.push(FieldError::invalid(path, given, text));
            }
        }
    }
}

const COLUMN_TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: &[&str] = &[
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];

pub(super) fn check_printer_columns(object: &Object, errors: &mut Vec<FieldError>) {
    let member = "additionalPrinterColumns";
    for (path, columns, _) in version_members(object, member, (member, member)) {
        let columns = columns.and_then(Value::as_array).into_iter().flatten();
        for (index, column) in columns.enumerate() {
            check_printer_column(column, &format!("{path}[{index}]"), errors);
        }
    }
}

fn check_printer_column(column: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let given = |name: &str| text(Some(column), name);
    if given("name").is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
    let one_of = |list: &[&str]| format!("must be one of {}", list.join(","));
    match given("type") {
        "" => {
            let error = FieldError::required(format!("{path}.type"), one_of(COLUMN_TYPES));
            errors.push(error);
        }
        known if COLUMN_TYPES.contains(&known) => {}
        other => {
            let path = format!("{path}.type");
            errors.push(FieldError::invalid(path, other, one_of(COLUMN_TYPES)));
        }
    }
    let format = given("format");
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        let path = format!("{path}.format");
        errors.push(FieldError::invalid(path, format, one_of(COLUMN_FORMATS)));
    }
    let json_path = given("jsonPath");
    let path = format!("{path}.JSONPath");
    if json_path.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !json_path.starts_with('.') {
        let text = "must be a simple json path starting with .";
        errors.push(FieldError::invalid(path, json_path, text));
    }
}

const SELECTABLE_FIELDS_MAX: usize = 8;

pub(super) fn check_selectable_fields(
    object: &Object,
    old: Option<&Object>,
    errors: &mut Vec<FieldError>,
) {
    let member = "selectableFields";
    let before = old.into_iter().flat_map(versions);
    let before: BTreeMap<&str, Option<&Value>> = before
        .map(|version| (text(Some(version), "name"), version.get(member)))
        .collect();
    for (path, fields, version) in version_members(object, member, (member, member)) {
        let Some(Value::Array(fields)) = fields else {
            continue;
        };
        let schema = version_schema(version).map(Structural::from_json);
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        for (index, field) in fields.iter().enumerate() {
            let path = format!("{path}[{index}].jsonPath");
            let given = text(Some(field), "jsonPath");
            check_selectable_field(given, schema.as_ref(), path, &mut seen, errors);
        }
        let name = text(Some(version), "name");
        let had = before.get(name).copied().flatten();
        let had = had.and_then(Value::as_array) == Some(fields);
        if seen.len() > SELECTABLE_FIELDS_MAX && !had {
            errors.push(FieldError::too_many(
                path,
                seen.len(),
                SELECTABLE_FIELDS_MAX,
            ));
        }
    }
}

fn check_selectable_field<'f>(
    given: &'f str,
    schema: Option<&Structural>,
    path: String,
    seen: &mut BTreeSet<&'f str>,
    errors: &mut Vec<FieldError>,
) {
    if given.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let found = match resolve_field_path(given, schema) {
        Ok(found) => found,
        Err(problem) => {
            let text = format!("is an invalid path: {problem}");
            errors.push(FieldError::invalid(path, given, text));
            return;
        }
    };
    if given.split('.').nth(1) == Some("metadata") {
        let text = "must not point to fields in metadata";
        errors.push(FieldError::invalid(path.clone(), given, text));
    }
    let simple = matches!(
        found.type_name,
        SchemaTypeName::String | SchemaTypeName::Boolean | SchemaTypeName::Integer
    );
    if !simple {
        let text = "must point to a field of type string, boolean or integer. Enum string fields \
                    and strings with formats are allowed.";
        errors.push(FieldError::invalid(path.clone(), given, text));
    }
    if !seen.insert(given) {
        errors.push(FieldError::duplicate(path, given));
    }
}

/// The schema at a path such as `.spec.color`.
fn resolve_field_path<'s>(
    path: &str,
    schema: Option<&'s Structural>,
) -> Result<&'s Structural, String> {
    const NO_FIELD: &str = "does not refer to a valid field";
    let mut at = schema.ok_or(NO_FIELD)?;
    if path.contains('[') {
        return Err("array notation is not allowed".into());
    }
    let Some(rest) = path.strip_prefix('.') else {
        let first = path.split('.').next().unwrap_or_default();
        return Err(format!("expected [ or . but got: {first}"));
    };
    for name in rest.split('.') {
        if name.is_empty() {
            return Err("unexpected end of JSON path".into());
        }
        at = if at.properties.is_empty() {
            at.additional_schema().ok_or(NO_FIELD)?
        } else {
            at.property(name).ok_or(NO_FIELD)?
        };
    }
    Ok(at)
}
