//! The field set of a configuration.

use super::OwnedNodes;
use super::shape::{ListShape, MapShape, ValueShape, root, shape};
use crate::fieldset::{FieldSet, PathElement};
use optik_object::{Map, Value};
use optik_schema::TypeRef;

/// Collects scalars and atomic values; items of lists and entries of maps, with everything in them;
/// declared members only if they are empty.
#[must_use]
pub fn to_field_set(of: TypeRef<'_>, object: &Map) -> FieldSet {
    visit_members(root(of), object).into_set()
}

fn visit(of: TypeRef<'_>, value: &Value) -> OwnedNodes {
    const LEAF: OwnedNodes = OwnedNodes {
        this: true,
        below: Vec::new(),
    };
    match (shape(of, Some(value)), value) {
        (ValueShape::Scalar(_), _) => LEAF,
        (ValueShape::List(list), _) if list.is_atomic() => LEAF,
        (ValueShape::Map(map), _) if map.atomic => LEAF,
        (ValueShape::List(list), Value::Array(items)) => visit_items(list, items),
        (ValueShape::Map(map), Value::Object(members)) => visit_members(map, members),
        _ => OwnedNodes::default(),
    }
}

fn visit_members(map: MapShape<'_>, members: &Map) -> OwnedNodes {
    let mut owned = OwnedNodes::default();
    for (name, value) in members {
        let member = map.member(name);
        let mut below = visit(member.type_ref(), value);
        let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        below.this |= is_empty || !member.is_declared();
        owned.push(PathElement::field(name), below);
    }
    owned
}

/// Items with the same identity are owned as one.
fn visit_items(list: ListShape<'_>, items: &[Value]) -> OwnedNodes {
    let identified = items
        .iter()
        .filter_map(|item| Some((list.identity(item).ok()?, item)));
    let mut identified: Vec<_> = identified.collect();
    identified.sort_by(|a, b| a.0.cmp(&b.0));
    let mut owned = OwnedNodes::default();
    for group in identified.chunk_by(|a, b| a.0 == b.0) {
        let mut below = match group {
            [(_, item)] => visit(list.of, item),
            _ => OwnedNodes::default(),
        };
        below.this = true;
        if let Some((element, _)) = group.first() {
            owned.push(element.clone(), below);
        }
    }
    owned
}
