//! Typed values: which values are atomic, which are containers of owned fields, and how the items
//! of lists are identified (upstream: `structured-merge-diff`).

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

/// The owned nodes at and below a node, while a set is built from the leaves up.
#[derive(Default)]
struct OwnedNodes {
    this: bool,
    below: Vec<FieldNode>,
}

impl OwnedNodes {
    fn is_empty(&self) -> bool {
        !self.this && self.below.is_empty()
    }

    /// Adds the owned nodes of a child, if there are any.
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
