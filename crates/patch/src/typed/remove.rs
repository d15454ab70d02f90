//! Removal of fields from objects, and extraction of fields.

use super::shape::{MapShape, ValueShape, root, shape};
use crate::fieldset::{FieldSet, PathElement};
use optik_object::{Map, Value};
use optik_schema::TypeRef;

/// Removes the fields of a set with everything in them. A container left empty becomes null.
pub fn remove(of: TypeRef<'_>, object: &mut Map, fields: &FieldSet) {
    remove_members(root(of), object, fields);
}

fn remove_members(map: MapShape<'_>, members: &mut Map, fields: &FieldSet) {
    for node in &fields.nodes {
        let PathElement::Field(name) = &node.element else {
            continue;
        };
        if node.is_member {
            members.remove(&**name);
        } else if let Some(member) = members.get_mut(&**name) {
            remove_within(map.member(name).type_ref(), member, &node.below);
        }
    }
}

fn remove_within(of: TypeRef<'_>, value: &mut Value, fields: &FieldSet) {
    if fields.is_empty() {
        return;
    }
    match (shape(of, Some(value)), &mut *value) {
        (ValueShape::Scalar(_), _) => return,
        (ValueShape::Map(map), Value::Object(members)) if !map.atomic => {
            remove_members(map, members, fields);
            if !members.is_empty() {
                return;
            }
        }
        (ValueShape::List(list), Value::Array(items)) if !list.is_atomic() => {
            items.retain_mut(|item| {
                let element = list.identity(item).ok();
                match element.and_then(|element| fields.node(&element)) {
                    Some(node) if node.is_member => false,
                    Some(node) => {
                        remove_within(list.of, item, &node.below);
                        true
                    }
                    None => true,
                }
            });
            if !items.is_empty() {
                return;
            }
        }
        _ => {}
    }
    *value = Value::Null;
}

/// Keeps only the fields of a set. An atomic value is kept or dropped as a whole; an item on the
/// path to a field keeps only its keys, if they are in the set.
#[must_use]
pub fn extract(of: TypeRef<'_>, object: &Map, fields: &FieldSet) -> Map {
    extract_members(root(of), object, fields)
}

fn extract_members(map: MapShape<'_>, members: &Map, fields: &FieldSet) -> Map {
    let kept = members.iter().filter_map(|(name, member)| {
        let node = fields.node(&PathElement::field(name))?;
        let kept = extract_within(map.member(name).type_ref(), member, &node.below);
        Some((name.clone(), kept))
    });
    kept.collect()
}

fn extract_within(of: TypeRef<'_>, value: &Value, fields: &FieldSet) -> Value {
    match (shape(of, Some(value)), value) {
        (ValueShape::Map(map), Value::Object(members)) if !map.atomic && !members.is_empty() => {
            let kept = extract_members(map, members, fields);
            if kept.is_empty() {
                Value::Null
            } else {
                kept.into()
            }
        }
        (ValueShape::List(list), Value::Array(items)) if !list.is_atomic() && !items.is_empty() => {
            let kept = items.iter().filter_map(|item| {
                let node = fields.node(&list.identity(item).ok()?)?;
                if node.below.is_empty() {
                    return Some(item.clone());
                }
                Some(extract_within(list.of, item, &node.below))
            });
            let kept: Vec<Value> = kept.collect();
            if kept.is_empty() {
                Value::Null
            } else {
                kept.into()
            }
        }
        _ => value.clone(),
    }
}
