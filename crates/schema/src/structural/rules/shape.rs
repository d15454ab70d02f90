//! What expressions see of a schema.

use crate::structural::{Additional, Checks, ListType, Structural, TypeName};
use optik_rules::{FieldShape, ObjectShape, Order, REQUEST_BYTES_MAX, Shape, ShapeKind, escape};
use std::sync::Arc;

/// The fewest and the most bytes that values of some formats have in JSON.
const DURATION: (u64, u64) = (3, 32);
const DATE: (u64, u64) = (12, 12);
const DATE_TIME: (u64, u64) = (21, 32);
const STRING_MIN: u64 = 2;
const BOOL_MIN: u64 = 4;
const NUMBER_MIN: u64 = 1;

/// The shape of a place; `None` if expressions cannot see it. `resource`: it has a type
/// and metadata, whatever it declares.
#[must_use]
pub fn shape_of(node: &Structural, resource: bool, name: &str) -> Option<Shape> {
    let nullable = node.nullable;
    let with = |kind, elements_max, bytes_min| {
        Some(Shape {
            kind,
            elements_max,
            bytes_min,
            nullable,
        })
    };
    let checks = node.checks.as_deref();
    let count = |number: Option<i64>| number.map(|number| u64::try_from(number).unwrap_or(0));
    if node.int_or_string {
        let most = text_max(checks, |length| length.saturating_mul(4));
        return with(ShapeKind::IntOrString, most, NUMBER_MIN);
    }
    match node.type_name {
        TypeName::Array => {
            let items = node.items.as_deref()?;
            let items = shape_of(items, items.embedded, &format!("{name}.@idx"))?;
            let most = count(checks.and_then(|checks| checks.max_items));
            let most = most.unwrap_or((REQUEST_BYTES_MAX - 2) / (items.bytes_min + 1));
            let kind = ShapeKind::List {
                items: Arc::new(items),
                order: order(node),
            };
            with(kind, most, 2)
        }
        TypeName::Object => match node.additional() {
            Some(Additional::Of(of)) if !resource => {
                let values = shape_of(of, of.embedded, &format!("{name}.@elem"))?;
                let most = count(checks.and_then(|checks| checks.max_properties));
                let most = most.unwrap_or((REQUEST_BYTES_MAX - 2) / (values.bytes_min + 6));
                with(ShapeKind::Map(Arc::new(values)), most, 2)
            }
            _ => {
                let (object, bytes_min) = object(node, resource, name);
                with(ShapeKind::Object(Arc::new(object)), 0, bytes_min)
            }
        },
        TypeName::String => match node.format() {
            "byte" => with(
                ShapeKind::Bytes,
                text_max(checks, |length| length),
                STRING_MIN,
            ),
            "duration" => with(ShapeKind::Duration, DURATION.1, DURATION.0),
            "date" => with(ShapeKind::Date, DATE.1, DATE.0),
            "date-time" => with(ShapeKind::DateTime, DATE_TIME.1, DATE_TIME.0),
            _ => with(ShapeKind::String, string_max(checks), STRING_MIN),
        },
        TypeName::Boolean => with(ShapeKind::Bool, 0, BOOL_MIN),
        TypeName::Number => with(ShapeKind::Double, 0, NUMBER_MIN),
        TypeName::Integer => with(ShapeKind::Int, 0, NUMBER_MIN),
        TypeName::Unset | TypeName::Other(_) => None,
    }
}

fn order(node: &Structural) -> Order {
    match node.list {
        ListType::Set => Order::Set,
        ListType::Map => Order::Keyed(node.list_keys().into()),
        ListType::Unset | ListType::Atomic | ListType::Other => Order::Matters,
    }
}

fn text_max(checks: Option<&Checks>, bytes: impl Fn(u64) -> u64) -> u64 {
    let length = checks.and_then(|checks| checks.max_length);
    match length {
        Some(length) => bytes(u64::try_from(length).unwrap_or(0)),
        None => REQUEST_BYTES_MAX - 2,
    }
}

/// What nothing bounds is bounded by the values it can have.
fn string_max(checks: Option<&Checks>) -> u64 {
    match checks {
        Some(checks) if checks.max_length.is_none() && !checks.enumeration.is_empty() => {
            let texts = checks.enumeration.iter().filter_map(|value| value.as_str());
            texts.map(|text| text.len() as u64).max().unwrap_or(0)
        }
        checks => text_max(checks, |length| length.saturating_mul(4)),
    }
}

/// The fields of an object, and the fewest bytes it has.
fn object(node: &Structural, resource: bool, name: &str) -> (ObjectShape, u64) {
    let required = node.checks.as_ref().map(|checks| &checks.required);
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
        let metadata = ObjectShape::new(format!("{name}.metadata"), metadata.collect());
        let metadata = Shape {
            kind: ShapeKind::Object(Arc::new(metadata)),
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
    (ObjectShape::new(name.to_owned(), fields), bytes_min)
}

fn field(key: &str, shape: Shape) -> Option<FieldShape> {
    Some(FieldShape {
        name: escape(key)?.into(),
        key: key.into(),
        shape,
    })
}

fn text() -> Shape {
    Shape {
        kind: ShapeKind::String,
        elements_max: REQUEST_BYTES_MAX - 2,
        bytes_min: STRING_MIN,
        nullable: false,
    }
}
