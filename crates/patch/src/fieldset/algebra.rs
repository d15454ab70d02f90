//! Set operations on field sets: union, intersection, difference. Both sides are sorted, so each
//! operation is one walk: over both sides if nodes of both can be in the result, otherwise over
//! their common nodes. Intersecting a small set with a large one is fast: the fields of each of
//! many managers are intersected with everything a write changed.

use super::{FieldNode, FieldSet, PathElement};
use std::cmp::Ordering;

/// The nodes of the two sides for one element.
enum NodePair<'a> {
    Left(&'a FieldNode),
    Right(&'a FieldNode),
    Both(&'a FieldNode, &'a FieldNode),
}

/// Iterates over both sides in order.
struct Zip<'a> {
    left: &'a [FieldNode],
    right: &'a [FieldNode],
}

impl<'a> Iterator for Zip<'a> {
    type Item = NodePair<'a>;

    fn next(&mut self) -> Option<NodePair<'a>> {
        let order = match (self.left.first(), self.right.first()) {
            (None, None) => return None,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(left), Some(right)) => left.element.cmp(&right.element),
        };
        let left = self.left.split_first();
        let right = self.right.split_first();
        if order.is_le() {
            self.left = left?.1;
        }
        if order.is_ge() {
            self.right = right?.1;
        }
        Some(match order {
            Ordering::Less => NodePair::Left(left?.0),
            Ordering::Greater => NodePair::Right(right?.0),
            Ordering::Equal => NodePair::Both(left?.0, right?.0),
        })
    }
}

/// Iterates over the nodes that both sides have, skipping those in between.
struct CommonNodes<'a> {
    left: &'a [FieldNode],
    right: &'a [FieldNode],
}

impl<'a> Iterator for CommonNodes<'a> {
    type Item = (&'a FieldNode, &'a FieldNode);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (left, right) = (self.left.first()?, self.right.first()?);
            match left.element.cmp(&right.element) {
                Ordering::Less => self.left = from(self.left, &right.element),
                Ordering::Greater => self.right = from(self.right, &left.element),
                Ordering::Equal => {
                    (self.left, self.right) = (&self.left[1..], &self.right[1..]);
                    return Some((left, right));
                }
            }
        }
    }
}

/// The nodes from an element on. Exponential search: steps double, then a binary search follows, so
/// that a near element is found as fast as by a linear walk.
fn from<'a>(nodes: &'a [FieldNode], element: &PathElement) -> &'a [FieldNode] {
    let is_before = |node: &FieldNode| node.element < *element;
    let mut passed = 0;
    let mut step = 1;
    while nodes.get(passed + step - 1).is_some_and(is_before) {
        passed += step;
        step *= 2;
    }
    let rest = &nodes[passed..];
    let near = &rest[..rest.len().min(step)];
    &rest[near.partition_point(is_before)..]
}

/// Every node of the left side, with the node of the same element on the right side.
fn with_matches<'a>(
    left: &'a [FieldNode],
    mut right: &'a [FieldNode],
) -> impl Iterator<Item = (&'a FieldNode, Option<&'a FieldNode>)> {
    left.iter().map(move |node| {
        right = from(right, &node.element);
        let twin = right.first().filter(|twin| twin.element == node.element);
        (node, twin)
    })
}

impl FieldSet {
    fn zip<'a>(&'a self, other: &'a Self) -> Zip<'a> {
        Zip {
            left: &self.nodes,
            right: &other.nodes,
        }
    }

    /// The union of two sets.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        if self.is_empty() {
            return other.clone();
        }
        let nodes = self.zip(other).map(|pair| match pair {
            NodePair::Left(node) | NodePair::Right(node) => node.clone(),
            NodePair::Both(left, right) => FieldNode {
                element: left.element.clone(),
                is_member: left.is_member || right.is_member,
                below: left.below.union(&right.below),
            },
        });
        Self {
            nodes: nodes.collect(),
        }
    }

    /// The union of two sets, consuming both.
    #[must_use]
    pub fn into_union(self, other: Self) -> Self {
        if other.is_empty() {
            return self;
        }
        if self.is_empty() {
            return other;
        }
        self.union(&other)
    }

    /// The union of all sets, computed at once. Equal elements keep the spelling of the first set
    /// that has them.
    #[must_use]
    pub(crate) fn union_all(sets: impl IntoIterator<Item = Self>) -> Self {
        Self::from_unsorted_nodes(sets.into_iter().flat_map(|set| set.nodes).collect())
    }

    /// A set of nodes in any order. Nodes of equal elements are merged.
    pub(crate) fn from_unsorted_nodes(mut nodes: Vec<FieldNode>) -> Self {
        if nodes.is_sorted_by(|a, b| a.element < b.element) {
            return Self { nodes };
        }
        nodes.sort_by(|a, b| a.element.cmp(&b.element));
        let mut sorted = nodes.into_iter().peekable();
        let mut nodes = Vec::new();
        while let Some(mut node) = sorted.next() {
            let mut twins = Vec::new();
            while let Some(twin) = sorted.next_if(|twin| twin.element == node.element) {
                node.is_member |= twin.is_member;
                twins.push(twin.below);
            }
            if !twins.is_empty() {
                node.below = Self::union_all([node.below].into_iter().chain(twins));
            }
            nodes.push(node);
        }
        Self { nodes }
    }

    fn common<'a>(&'a self, other: &'a Self) -> CommonNodes<'a> {
        CommonNodes {
            left: &self.nodes,
            right: &other.nodes,
        }
    }

    /// The intersection of two sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let nodes = self.common(other).filter_map(|(left, right)| {
            non_empty_node(
                left,
                left.is_member && right.is_member,
                left.below.intersection(&right.below),
            )
        });
        Self {
            nodes: nodes.collect(),
        }
    }

    /// The fields that are not in `other`. Fields below a member of `other` stay.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        let nodes = with_matches(&self.nodes, &other.nodes).filter_map(|(node, twin)| match twin {
            None => Some(node.clone()),
            Some(twin) => non_empty_node(
                node,
                node.is_member && !twin.is_member,
                node.below.difference(&twin.below),
            ),
        });
        Self {
            nodes: nodes.collect(),
        }
    }

    /// Removes the fields of `other`, as [`Self::difference`] does.
    pub fn subtract(&mut self, other: &Self) {
        let mut others = &other.nodes[..];
        self.nodes.retain_mut(|node| {
            others = from(others, &node.element);
            let Some(other) = others.first().filter(|it| it.element == node.element) else {
                return true;
            };
            node.is_member &= !other.is_member;
            node.below.subtract(&other.below);
            node.is_member || !node.below.is_empty()
        });
    }

    /// The fields that are neither in `other` nor below a member of it.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        let nodes = with_matches(&self.nodes, &other.nodes).filter_map(|(node, twin)| match twin {
            None => Some(node.clone()),
            Some(twin) if twin.is_member => None,
            Some(twin) => non_empty_node(
                node,
                node.is_member,
                node.below.recursive_difference(&twin.below),
            ),
        });
        Self {
            nodes: nodes.collect(),
        }
    }

    #[must_use]
    pub fn is_subset_of(&self, other: &Self) -> bool {
        with_matches(&self.nodes, &other.nodes).all(|(node, twin)| {
            twin.is_some_and(|twin| {
                (twin.is_member || !node.is_member) && node.below.is_subset_of(&twin.below)
            })
        })
    }

    #[must_use]
    pub fn is_disjoint_from(&self, other: &Self) -> bool {
        self.common(other).all(|(left, right)| {
            !(left.is_member && right.is_member) && left.below.is_disjoint_from(&right.below)
        })
    }
}

/// A node, or `None` if it is empty.
fn non_empty_node(node: &FieldNode, is_member: bool, below: FieldSet) -> Option<FieldNode> {
    (is_member || !below.is_empty()).then(|| FieldNode {
        element: node.element.clone(),
        is_member,
        below,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use std::collections::BTreeSet;

    fn set(of: &BTreeSet<i64>) -> FieldSet {
        let nodes = of.iter().map(|at| FieldNode {
            element: PathElement::Index(*at),
            is_member: true,
            below: FieldSet::new(),
        });
        FieldSet {
            nodes: nodes.collect(),
        }
    }

    fn indices() -> impl Strategy<Value = BTreeSet<i64>> {
        prop::collection::btree_set(0_i64..400, 0..100)
    }

    proptest! {
        /// Skipping finds the right nodes, near and far.
        #[test]
        fn fieldset_operations_match_btreeset(left in indices(), right in indices()) {
            let (a, b) = (set(&left), set(&right));
            prop_assert_eq!(a.union(&b), set(&(&left | &right)));
            prop_assert_eq!(a.intersection(&b), set(&(&left & &right)));
            prop_assert_eq!(a.difference(&b), set(&(&left - &right)));
            prop_assert_eq!(a.recursive_difference(&b), set(&(&left - &right)));
            let mut less = a.clone();
            less.subtract(&b);
            prop_assert_eq!(less, set(&(&left - &right)));
            prop_assert_eq!(a.is_disjoint_from(&b), left.is_disjoint(&right));
            prop_assert_eq!(a.is_subset_of(&b), left.is_subset(&right));
            prop_assert!(a.intersection(&b).is_subset_of(&b));
        }
    }

    /// The result equals joining the sets one after the other.
    #[test]
    fn fieldset_union_all_equals_repeated_union() {
        let read = |fields| FieldSet::decode(&fields).unwrap();
        let sets = [
            read(json!({"f:a": {"v:1": {}}, "f:b": {"f:x": {}}})),
            read(json!({"f:a": {".": {}, "v:1.0": {}, "v:2.0": {}}})),
            read(json!({})),
            read(json!({"f:a": {"v:2": {}}, "f:b": {}, "f:c": {}})),
        ];
        let one_by_one = sets.iter().fold(FieldSet::new(), |all, set| all.union(set));
        let at_once = FieldSet::union_all(sets.clone());
        assert_eq!(at_once.encode(), one_by_one.encode());
        let expected = json!({"f:a": {".": {}, "v:1": {}, "v:2": {}},
            "f:b": {".": {}, "f:x": {}}, "f:c": {}});
        assert_eq!(at_once.encode(), expected);
    }
}
