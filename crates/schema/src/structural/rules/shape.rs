//! The CEL types of schema nodes, with size estimates.

use crate::structural::{
    AdditionalProperties, ListType, SchemaTypeName, Structural, ValueValidation,
};
use optik_cel::{
    CelListType, DeclField, DeclKind, DeclType, ObjectDecl, REQUEST_BYTES_MAX, escape,
};
use std::sync::Arc;

/// The minimum and maximum bytes of values of some formats in JSON.
const DURATION: (u64, u64) = (3, 32);
const DATE: (u64, u64) = (12, 12);
const DATE_TIME: (u64, u64) = (21, 32);
const STRING_MIN: u64 = 2;
const BOOL_MIN: u64 = 4;
const NUMBER_MIN: u64 = 1;

/// The CEL type of a node; `None` if it is not accessible in CEL. `resource`: the node has
/// apiVersion, kind and metadata, whatever it declares.
#[must_use]
pub fn shape_of(node: &Structural, resource: bool, name: &str) -> Option<DeclType> {
    let nullable = node.nullable;
    let with = |kind, elements_max, bytes_min| {
        Some(DeclType {
            kind,
            elements_max,
            bytes_min,
            nullable,
        })
    };
    let checks = node.value_validation.as_deref();
    let count = |number: Option<i64>| number.map(|number| u64::try_from(number).unwrap_or(0));
    if node.int_or_string {
        let most = text_max(checks, |length| length.saturating_mul(4));
        return with(DeclKind::IntOrString, most, NUMBER_MIN);
    }
    match node.type_name {
        SchemaTypeName::Array => {
            let items = node.items.as_deref()?;
            let items = shape_of(items, items.embedded, &format!("{name}.@idx"))?;
            let most = count(checks.and_then(|checks| checks.max_items));
            let most = most.unwrap_or((REQUEST_BYTES_MAX - 2) / (items.bytes_min + 1));
            let kind = DeclKind::List {
                items: Arc::new(items),
                list_type: order(node),
            };
            with(kind, most, 2)
        }
        SchemaTypeName::Object => match node.additional() {
            Some(AdditionalProperties::Of(of)) if !resource => {
                let values = shape_of(of, of.embedded, &format!("{name}.@elem"))?;
                let most = count(checks.and_then(|checks| checks.max_properties));
                let most = most.unwrap_or((REQUEST_BYTES_MAX - 2) / (values.bytes_min + 6));
                with(DeclKind::Map(Arc::new(values)), most, 2)
            }
            _ => {
                let (object, bytes_min) = object(node, resource, name);
                with(DeclKind::Object(Arc::new(object)), 0, bytes_min)
            }
        },
        SchemaTypeName::String => match node.format() {
            "byte" => with(
                DeclKind::Bytes,
                text_max(checks, |length| length),
                STRING_MIN,
            ),
            "duration" => with(DeclKind::Duration, DURATION.1, DURATION.0),
            "date" => with(DeclKind::Date, DATE.1, DATE.0),
            "date-time" => with(DeclKind::DateTime, DATE_TIME.1, DATE_TIME.0),
            _ => with(DeclKind::String, string_max(checks), STRING_MIN),
        },
        SchemaTypeName::Boolean => with(DeclKind::Bool, 0, BOOL_MIN),
        SchemaTypeName::Number => with(DeclKind::Double, 0, NUMBER_MIN),
        SchemaTypeName::Integer => with(DeclKind::Int, 0, NUMBER_MIN),
        SchemaTypeName::Unset | SchemaTypeName::Other(_) => None,
    }
}

fn order(node: &Structural) -> CelListType {
    match node.list {
        ListType::Set => CelListType::Set,
        ListType::Map => CelListType::Map(node.list_keys().into()),
        ListType::Unset | ListType::Atomic | ListType::Other => CelListType::Atomic,
    }
}

fn text_max(checks: Option<&ValueValidation>, bytes: impl Fn(u64) -> u64) -> u64 {
    let length = checks.and_then(|checks| checks.max_length);
    match length {
        Some(length) => bytes(u64::try_from(length).unwrap_or(0)),
        None => REQUEST_BYTES_MAX - 2,
    }
}

/// Without `maxLength`, an enum bounds the length by its longest value.
fn string_max(checks: Option<&ValueValidation>) -> u64 {
    match checks {
        Some(checks) if checks.max_length.is_none() && !checks.enumeration.is_empty() => {
            let texts = checks.enumeration.iter().filter_map(|value| value.as_str());
            texts.map(|text| text.len() as u64).max().unwrap_or(0)
        }
        checks => text_max(checks, |length| length.saturating_mul(4)),
    }
}

/// The fields of an object, and its minimum size in bytes.
fn object(node: &Structural, resource: bool, name: &str) -> (ObjectDecl, u64) {
    let required = node
        .value_validation
        .as_ref()
        .map(|checks| &checks.required);
    let is_required = |name: &str| {
        let mut required = required.into_iter().flatten();
        required.any(|known| **known == *name)
    };
    let mut bytes_min = 2;
    let mut fields = Vec::new();
    for (key, child) in &node.properties {
        if resource && matches!(&**key, "apiVersion" | "kind" | "metadata") {
            continue;
        }
        let Some(shape) = shape_of(child, child.embedded, &format!("{name}.{key}")) else {
            continue;
        };
        if is_required(key) && child.default_value().is_none() {
            bytes_min += key.len() as u64 + shape.bytes_min + 4;
        }
        fields.extend(field(key, shape));
    }
    if resource {
        let metadata = ["name", "generateName"];
        let metadata = metadata.into_iter().filter_map(|key| field(key, text()));
        let metadata = ObjectDecl::new(format!("{name}.metadata"), metadata.collect());
        let metadata = DeclType {
            kind: DeclKind::Object(Arc::new(metadata)),
            elements_max: 0,
            bytes_min: 2,
            nullable: false,
        };
        for (key, shape) in [
            ("apiVersion", text()),
            ("kind", text()),
            ("metadata", metadata),
        ] {
            if is_required(key) {
                bytes_min += key.len() as u64 + shape.bytes_min + 4;
            }
            fields.extend(field(key, shape));
        }
    }
    (ObjectDecl::new(name.to_owned(), fields), bytes_min)
}

fn field(key: &str, shape: DeclType) -> Option<DeclField> {
    Some(DeclField {
        name: escape(key)?.into(),
        key: key.into(),
        shape,
    })
}

fn text() -> DeclType {
    DeclType {
        kind: DeclKind::String,
        elements_max: REQUEST_BYTES_MAX - 2,
        bytes_min: STRING_MIN,
        nullable: false,
    }
}
