//! Field sets under the current schema.

use super::shape::{ValueShape, shape};
use crate::fieldset::{FieldNode, FieldSet, PathElement};
use optik_schema::{TypeNode, TypeRef, Untyped};

/// Reconciles a set that was recorded under an older schema: an owner of fields in a value that has
/// become atomic owns the whole value. `None` if nothing changes.
#[must_use]
pub fn reconcile(of: TypeRef<'_>, fields: &FieldSet) -> Option<FieldSet> {
    if is_deduced_map(of) {
        return None;
    }
    let changed = fields.nodes.iter().map(|node| {
        let of = child_type(of, &node.element)?;
        reconcile_node(of, node)
    });
    let changed: Vec<Option<FieldNode>> = changed.collect();
    if changed.iter().all(Option::is_none) {
        return None;
    }
    let nodes = fields.nodes.iter().zip(changed);
    let nodes = nodes.map(|(node, changed)| changed.unwrap_or_else(|| node.clone()));
    Some(FieldSet {
        nodes: nodes.collect(),
    })
}

fn reconcile_node(of: TypeRef<'_>, node: &FieldNode) -> Option<FieldNode> {
    let is_whole = node.is_member && node.below.is_empty();
    let is_atomic = match shape(of, None) {
        _ if is_deduced_map(of) => return None,
        ValueShape::Scalar(_) => return None,
        ValueShape::List(list) => list.is_atomic(),
        ValueShape::Map(map) => map.atomic,
    };
    if is_atomic && !is_whole {
        return Some(FieldNode {
            element: node.element.clone(),
            is_member: true,
            below: FieldSet::new(),
        });
    }
    let below = reconcile(of, &node.below)?;
    Some(FieldNode {
        element: node.element.clone(),
        is_member: node.is_member,
        below,
    })
}

/// An untyped map cannot have become atomic.
fn is_deduced_map(of: TypeRef<'_>) -> bool {
    match of.node() {
        TypeNode::Untyped(untyped) => *untyped == Untyped::Deduced,
        TypeNode::Map(map) => {
            matches!(of.at(map.value).node(), TypeNode::Untyped(Untyped::Deduced))
        }
        _ => false,
    }
}

/// The type of a child; `None` if no type declares it.
fn child_type<'a>(of: TypeRef<'a>, element: &PathElement) -> Option<TypeRef<'a>> {
    match (shape(of, None), element) {
        (ValueShape::Map(map), PathElement::Field(name)) => {
            let member = map.member(name);
            (member.is_declared() || map.others.is_some()).then(|| member.type_ref())
        }
        (ValueShape::List(list), _) => Some(list.of),
        _ => None,
    }
}

/// The set, and all declared members on the paths of its fields.
#[must_use]
pub fn with_declared(of: TypeRef<'_>, fields: &FieldSet) -> FieldSet {
    let nodes = fields.nodes.iter().map(|node| {
        let declares = match (&node.element, of.as_struct()) {
            (PathElement::Field(name), Some(structure)) => structure.field(name).is_some(),
            _ => false,
        };
        let inner = child_type(of, &node.element).unwrap_or_else(|| of.deduced());
        FieldNode {
            element: node.element.clone(),
            is_member: node.is_member || (declares && !node.below.is_empty()),
            below: with_declared(inner, &node.below),
        }
    });
    FieldSet {
        nodes: nodes.collect(),
    }
}
