//! Sets seen through types.

use super::shape::{Shape, shape};
use crate::fieldset::{FieldSet, Node, PathElement};
use optik_schema::{Node as TypeNode, Type, Untyped};

/// A set that was recorded when the types may have been others: who owned something
/// inside of what has become one value owns that value. `None` if nothing changes.
#[must_use]
pub fn reconcile(of: Type<'_>, fields: &FieldSet) -> Option<FieldSet> {
    if is_deduced_map(of) {
        return None;
    }
    let changed = fields.nodes.iter().map(|node| {
        let of = inner(of, &node.element)?;
        reconcile_node(of, node)
    });
    let changed: Vec<Option<Node>> = changed.collect();
    if changed.iter().all(Option::is_none) {
        return None;
    }
    let nodes = fields.nodes.iter().zip(changed);
    let nodes = nodes.map(|(node, changed)| changed.unwrap_or_else(|| node.clone()));
    Some(FieldSet {
        nodes: nodes.collect(),
    })
}

fn reconcile_node(of: Type<'_>, node: &Node) -> Option<Node> {
    let is_whole = node.is_member && node.below.is_empty();
    let is_atomic = match shape(of, None) {
        _ if is_deduced_map(of) => return None,
        Shape::Scalar(_) => return None,
        Shape::List(list) => list.is_atomic(),
        Shape::Map(map) => map.atomic,
    };
    if is_atomic && !is_whole {
        return Some(Node {
            element: node.element.clone(),
            is_member: true,
            below: FieldSet::new(),
        });
    }
    let below = reconcile(of, &node.below)?;
    Some(Node {
        element: node.element.clone(),
        is_member: node.is_member,
        below,
    })
}

/// Types that nobody declared cannot have changed.
fn is_deduced_map(of: Type<'_>) -> bool {
    match of.node() {
        TypeNode::Untyped(untyped) => *untyped == Untyped::Deduced,
        TypeNode::Map(map) => {
            matches!(of.at(map.value).node(), TypeNode::Untyped(Untyped::Deduced))
        }
        _ => false,
    }
}

/// The type one step further in; `None` for what no type declares.
fn inner<'a>(of: Type<'a>, element: &PathElement) -> Option<Type<'a>> {
    match (shape(of, None), element) {
        (Shape::Map(map), PathElement::Field(name)) => {
            let member = map.member(name);
            (member.is_declared() || map.others.is_some()).then(|| member.of())
        }
        (Shape::List(list), _) => Some(list.of),
        _ => None,
    }
}

/// The set, and every declared member that leads to something in it.
#[must_use]
pub fn with_declared(of: Type<'_>, fields: &FieldSet) -> FieldSet {
    let nodes = fields.nodes.iter().map(|node| {
        let declares = match (&node.element, of.as_struct()) {
            (PathElement::Field(name), Some(structure)) => structure.field(name).is_some(),
            _ => false,
        };
        let inner = inner(of, &node.element).unwrap_or_else(|| of.deduced());
        Node {
            element: node.element.clone(),
            is_member: node.is_member || (declares && !node.below.is_empty()),
            below: with_declared(inner, &node.below),
        }
    });
    FieldSet {
        nodes: nodes.collect(),
    }
}
