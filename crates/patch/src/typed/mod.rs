//! Values seen through their types: what is one value, what is a container of owned
//! fields, and what identifies the items of a list.

mod atomics;
mod compare;
mod merge;
mod reconcile;
mod remove;
mod shape;
mod to_set;
mod validate;

pub use atomics::atomics;
pub use compare::{Comparison, compare};
pub use merge::merge;
pub use reconcile::{reconcile, with_declared};
pub use remove::{extract, remove};
pub use to_set::to_set;
pub use validate::{Duplicates, Invalid, validate};

use crate::fieldset::{FieldSet, Node, PathElement};

/// What is owned at and below a node, while a set is made from the inside out.
#[derive(Default)]
struct Owned {
    this: bool,
    below: Vec<Node>,
}

impl Owned {
    fn is_empty(&self) -> bool {
        !self.this && self.below.is_empty()
    }

    /// Hangs what a child owns below this, if it owns anything.
    fn push(&mut self, element: PathElement, child: Owned) {
        if !child.is_empty() {
            self.below.push(Node {
                element,
                is_member: child.this,
                below: FieldSet::of_nodes(child.below),
            });
        }
    }

    fn into_set(self) -> FieldSet {
        FieldSet::of_nodes(self.below)
    }
}
