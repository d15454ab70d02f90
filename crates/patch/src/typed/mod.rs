//! Values seen through their types: what is one value, what is a container of owned
//! fields, and what identifies the items of a list.

mod atomic_paths;
mod compare;
mod merge;
mod reconcile;
mod remove;
mod shape;
mod to_field_set;
mod validate;

pub use atomic_paths::atomic_paths;
pub use compare::{Comparison, compare};
pub use merge::merge;
pub use reconcile::{reconcile, with_declared};
pub use remove::{extract, remove};
pub use to_field_set::to_field_set;
pub use validate::{DuplicateItems, ValidationErrors, validate};

use crate::fieldset::{FieldNode, FieldSet, PathElement};

/// What is owned at and below a node, while a set is made from the inside out.
#[derive(Default)]
struct OwnedNodes {
    this: bool,
    below: Vec<FieldNode>,
}

impl OwnedNodes {
    fn is_empty(&self) -> bool {
        !self.this && self.below.is_empty()
    }

    /// Hangs what a child owns below this, if it owns anything.
    fn push(&mut self, element: PathElement, child: OwnedNodes) {
        if !child.is_empty() {
            self.below.push(FieldNode {
                element,
                is_member: child.this,
                below: FieldSet::from_unique_nodes(child.below),
            });
        }
    }

    fn into_set(self) -> FieldSet {
        FieldSet::from_unique_nodes(self.below)
    }
}
