//! The fields a configuration names.

use super::Owned;
use super::shape::{ListShape, MapShape, Shape, root, shape};
use crate::fieldset::{FieldSet, PathElement};
use optik_object::{Map, Value};
use optik_schema::Type;

/// Scalars and whatever is one value; items of lists and entries of maps, with what is
/// in them; declared members only if they are empty.
#[must_use]
pub fn to_set(of: Type<'_>, object: &Map) -> FieldSet {
    visit_members(root(of), object).into_set()
}

fn visit(of: Type<'_>, value: &Value) -> Owned {
    const LEAF: Owned = Owned {
        this: true,
        below: Vec::new(),
    };
    match (shape(of, Some(value)), value) {
        (Shape::Scalar(_), _) => LEAF,
        (Shape::List(list), _) if list.is_atomic() => LEAF,
        (Shape::Map(map), _) if map.atomic => LEAF,
        (Shape::List(list), Value::Array(items)) => visit_items(list, items),
        (Shape::Map(map), Value::Object(members)) => visit_members(map, members),
        _ => Owned::default(),
    }
}

fn visit_members(map: MapShape<'_>, members: &Map) -> Owned {
    let mut owned = Owned::default();
    for (name, value) in members {
        let member = map.member(name);
        let mut below = visit(member.of(), value);
        let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        below.this |= is_empty || !member.is_declared();
        owned.push(PathElement::field(name), below);
    }
    owned
}

/// Items that share an identity are owned as one.
fn visit_items(list: ListShape<'_>, items: &[Value]) -> Owned {
    let identified = items
        .iter()
        .filter_map(|item| Some((list.identity(item).ok()?, item)));
    let mut identified: Vec<_> = identified.collect();
    identified.sort_by(|a, b| a.0.cmp(&b.0));
    let mut owned = Owned::default();
    for group in identified.chunk_by(|a, b| a.0 == b.0) {
        let mut below = match group {
            [(_, item)] => visit(list.of, item),
            _ => Owned::default(),
        };
        below.this = true;
        if let Some((element, _)) = group.first() {
            owned.push(element.clone(), below);
        }
    }
    owned
}
