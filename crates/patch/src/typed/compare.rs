//! Comparison of two objects: the fields that were added, modified or removed.

use super::OwnedNodes;
use super::shape::{ListShape, MapShape, ValueShape, items, members, root, shape};
use crate::fieldset::{FieldSet, PathElement};
use crate::value::is_equal;
use optik_object::{Map, Value};
use optik_schema::TypeRef;
use std::collections::BTreeMap;

/// Changed paths by the kind of change. A new or removed container includes itself and everything
/// in it; one on both sides includes only its changed fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    pub added: FieldSet,
    pub modified: FieldSet,
    pub removed: FieldSet,
}

impl Comparison {
    /// The modified and the added fields.
    #[must_use]
    pub fn written(&self) -> FieldSet {
        self.modified.union(&self.added)
    }

    /// As [`Self::written`], consuming the comparison.
    #[must_use]
    pub fn into_written(self) -> FieldSet {
        self.modified.into_union(self.added)
    }

    /// Removes some fields and everything below them.
    #[must_use]
    pub fn without(self, fields: &FieldSet) -> Self {
        if fields.is_empty() {
            return self;
        }
        Self {
            added: self.added.recursive_difference(fields),
            modified: self.modified.recursive_difference(fields),
            removed: self.removed.recursive_difference(fields),
        }
    }
}

/// Compares two objects of one type.
#[must_use]
pub fn compare(of: TypeRef<'_>, old: &Map, new: &Map) -> Comparison {
    let mut change = ComparisonNodes::default();
    visit_members(root(of), Some(old), Some(new), &mut change);
    Comparison {
        added: change.added.into_set(),
        modified: change.modified.into_set(),
        removed: change.removed.into_set(),
    }
}

#[derive(Default)]
struct ComparisonNodes {
    added: OwnedNodes,
    modified: OwnedNodes,
    removed: OwnedNodes,
}

impl ComparisonNodes {
    fn push(&mut self, element: &PathElement, child: ComparisonNodes) {
        for (side, below) in [
            (&mut self.added, child.added),
            (&mut self.modified, child.modified),
            (&mut self.removed, child.removed),
        ] {
            if !below.is_empty() {
                side.push(element.clone(), below);
            }
        }
    }

    fn is_empty(&self) -> bool {
        let sides = [&self.added, &self.modified, &self.removed];
        sides.iter().all(|side| side.is_empty())
    }
}

/// At least one side is present.
fn visit(of: TypeRef<'_>, old: Option<&Value>, new: Option<&Value>, change: &mut ComparisonNodes) {
    let (before, after) = (shape(of, old), shape(of, new));
    let is_leaf = if new.is_none() {
        visit_as(before, old, new, change)
    } else {
        // The kind of an untyped value may have changed.
        if old.is_some() && !before.is_same_kind(&after) {
            visit_as(before, old, new, change);
        }
        visit_as(after, old, new, change)
    };
    if !is_leaf {
        change.added.this |= old.is_none();
        change.removed.this |= new.is_none();
    }
}

/// Returns whether the value was compared as a leaf. Empty containers are leaves: otherwise the
/// difference between `{}` and null would be lost.
fn visit_as(
    shape: ValueShape<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    change: &mut ComparisonNodes,
) -> bool {
    match shape {
        ValueShape::Map(map) if !map.atomic => match (members(old), members(new)) {
            (None, None) => leaf(old, new, change),
            (old, new) => {
                visit_members(map, old, new, change);
                return false;
            }
        },
        ValueShape::List(list) if !list.is_atomic() => match (items(old), items(new)) {
            ([], []) => leaf(old, new, change),
            (old, new) => {
                visit_items(list, old, new, change);
                return false;
            }
        },
        _ => leaf(old, new, change),
    }
    true
}

fn leaf(old: Option<&Value>, new: Option<&Value>, change: &mut ComparisonNodes) {
    match (old, new) {
        (None, _) => change.added.this = true,
        (_, None) => change.removed.this = true,
        (Some(old), Some(new)) => change.modified.this |= !is_equal(old, new),
    }
}

fn visit_members(
    map: MapShape<'_>,
    old: Option<&Map>,
    new: Option<&Map>,
    change: &mut ComparisonNodes,
) {
    let mut olds = old.into_iter().flatten().peekable();
    let mut news = new.into_iter().flatten().peekable();
    loop {
        let order = match (olds.peek(), news.peek()) {
            (None, None) => return,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((old, _)), Some((new, _))) => old.cmp(new),
        };
        let old = if order.is_le() { olds.next() } else { None };
        let new = if order.is_ge() { news.next() } else { None };
        let Some((name, _)) = old.or(new) else {
            return;
        };
        let mut below = ComparisonNodes::default();
        let (old, new) = (old.map(|(_, value)| value), new.map(|(_, value)| value));
        visit(map.member(name).type_ref(), old, new, &mut below);
        if !below.is_empty() {
            change.push(&PathElement::field(name), below);
        }
    }
}

/// The items of one identity, on both sides.
#[derive(Default)]
struct MatchedItems<'v> {
    old: Vec<&'v Value>,
    new: Vec<&'v Value>,
}

fn visit_items(list: ListShape<'_>, old: &[Value], new: &[Value], change: &mut ComparisonNodes) {
    let mut twins: BTreeMap<PathElement, MatchedItems<'_>> = BTreeMap::new();
    for item in old {
        if let Ok(element) = list.identity(item) {
            twins.entry(element).or_default().old.push(item);
        }
    }
    for item in new {
        if let Ok(element) = list.identity(item) {
            twins.entry(element).or_default().new.push(item);
        }
    }
    for (element, twins) in twins {
        let mut below = ComparisonNodes::default();
        visit_twins(list.of, &twins, &mut below);
        if !below.is_empty() {
            change.push(&element, below);
        }
    }
}

/// Items with the same identity are compared as one value, which a single item may replace, and the
/// other way round.
fn visit_twins(of: TypeRef<'_>, twins: &MatchedItems<'_>, change: &mut ComparisonNodes) {
    match (&twins.old[..], &twins.new[..]) {
        ([], []) => {}
        ([], [new]) => visit(of, None, Some(new), change),
        ([old], []) => visit(of, Some(old), None, change),
        ([old], [new]) => visit(of, Some(old), Some(new), change),
        ([_, _, ..], [_, _, ..]) => {
            let is_same = twins.old.len() == twins.new.len()
                && twins
                    .old
                    .iter()
                    .zip(&twins.new)
                    .all(|(a, b)| is_equal(a, b));
            change.modified.this = !is_same;
        }
        ([_, _, ..], new) => {
            if let Some(new) = new.first() {
                visit(of, None, Some(new), change);
            }
            change.removed.this = true;
        }
        (old, [_, _, ..]) => {
            if let Some(old) = old.first() {
                visit(of, Some(old), None, change);
            }
            change.added.this = true;
        }
    }
}
