//! Sets joined, intersected, subtracted. Both sides are sorted, so each operation is one
//! walk over both.

use super::{FieldSet, Node};
use std::cmp::Ordering;

/// What the two sides have at one step.
enum Pair<'a> {
    Left(&'a Node),
    Right(&'a Node),
    Both(&'a Node, &'a Node),
}

/// Steps through both sides in order.
struct Zip<'a> {
    left: &'a [Node],
    right: &'a [Node],
}

impl<'a> Iterator for Zip<'a> {
    type Item = Pair<'a>;

    fn next(&mut self) -> Option<Pair<'a>> {
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
            Ordering::Less => Pair::Left(left?.0),
            Ordering::Greater => Pair::Right(right?.0),
            Ordering::Equal => Pair::Both(left?.0, right?.0),
        })
    }
}

impl FieldSet {
    fn zip<'a>(&'a self, other: &'a Self) -> Zip<'a> {
        Zip {
            left: &self.nodes,
            right: &other.nodes,
        }
    }

    /// What is in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        if self.is_empty() {
            return other.clone();
        }
        let nodes = self.zip(other).map(|pair| match pair {
            Pair::Left(node) | Pair::Right(node) => node.clone(),
            Pair::Both(left, right) => Node {
                element: left.element.clone(),
                is_member: left.is_member || right.is_member,
                below: left.below.union(&right.below),
            },
        });
        Self {
            nodes: nodes.collect(),
        }
    }

    /// What is in either, made of both.
    #[must_use]
    pub fn joined(self, other: Self) -> Self {
        if other.is_empty() {
            return self;
        }
        if self.is_empty() {
            return other;
        }
        self.union(&other)
    }

    /// What is in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let nodes = self.zip(other).filter_map(|pair| match pair {
            Pair::Both(left, right) => kept(
                left,
                left.is_member && right.is_member,
                left.below.intersection(&right.below),
            ),
            Pair::Left(_) | Pair::Right(_) => None,
        });
        Self {
            nodes: nodes.collect(),
        }
    }

    /// What is in this but not in the other. What is below a member of the other stays.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        let nodes = self.zip(other).filter_map(|pair| match pair {
            Pair::Left(node) => Some(node.clone()),
            Pair::Right(_) => None,
            Pair::Both(left, right) => kept(
                left,
                left.is_member && !right.is_member,
                left.below.difference(&right.below),
            ),
        });
        Self {
            nodes: nodes.collect(),
        }
    }

    /// Takes away what is in the other, as [`Self::difference`] does.
    pub fn subtract(&mut self, other: &Self) {
        let mut others = other.nodes.iter().peekable();
        self.nodes.retain_mut(|node| {
            while others.next_if(|it| it.element < node.element).is_some() {}
            let Some(other) = others.next_if(|it| it.element == node.element) else {
                return true;
            };
            node.is_member &= !other.is_member;
            node.below.subtract(&other.below);
            node.is_member || !node.below.is_empty()
        });
    }

    /// What is neither in the other nor below a member of it.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        let nodes = self.zip(other).filter_map(|pair| match pair {
            Pair::Left(node) => Some(node.clone()),
            Pair::Right(_) => None,
            Pair::Both(_, right) if right.is_member => None,
            Pair::Both(left, right) => kept(
                left,
                left.is_member,
                left.below.recursive_difference(&right.below),
            ),
        });
        Self {
            nodes: nodes.collect(),
        }
    }

    #[must_use]
    pub fn is_subset_of(&self, other: &Self) -> bool {
        self.zip(other).all(|pair| match pair {
            Pair::Left(_) => false,
            Pair::Right(_) => true,
            Pair::Both(left, right) => {
                (right.is_member || !left.is_member) && left.below.is_subset_of(&right.below)
            }
        })
    }

    #[must_use]
    pub fn is_disjoint_from(&self, other: &Self) -> bool {
        self.zip(other).all(|pair| match pair {
            Pair::Left(_) | Pair::Right(_) => true,
            Pair::Both(left, right) => {
                !(left.is_member && right.is_member) && left.below.is_disjoint_from(&right.below)
            }
        })
    }
}

/// A node, if anything is left of it.
fn kept(node: &Node, is_member: bool, below: FieldSet) -> Option<Node> {
    (is_member || !below.is_empty()).then(|| Node {
        element: node.element.clone(),
        is_member,
        below,
    })
}
