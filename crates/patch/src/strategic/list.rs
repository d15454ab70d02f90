//! Merging and ordering of lists in strategic merge patches.
//!
//! Items of the patch keep the order of the patch, items only the live list has keep theirs. Where
//! either could be next, the live item goes first only if the live list has both and had it
//! earlier: live `[a,b]` and patch `[new,b]` give `[new,a,b]`.

use super::{PATCH, StrategicError, merge_maps};
use crate::go;
use optik_object::{Map, Value};
use optik_schema::{PatchStrategy, TypeRef};
use std::collections::{BTreeMap, BTreeSet};

/// The live list and the patch list of a field.
pub(super) struct ListMerge<'a> {
    pub(super) live: Vec<Value>,
    pub(super) patch: Vec<Value>,
    /// The type of the items.
    pub(super) of: TypeRef<'a>,
    pub(super) merge: &'a PatchStrategy,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ItemKind {
    Scalars,
    Maps,
}

/// The identity of an item: the value of its merge key, or the whole scalar.
type Identity = String;

impl ListMerge<'_> {
    fn key(&self) -> &str {
        &self.merge.key
    }

    /// Checks that all items are of one type, and not lists.
    fn item_kind(&self) -> Result<ItemKind, StrategicError> {
        let mut all = self.live.iter().chain(&self.patch);
        let first = all.next().ok_or(StrategicError::NoItems)?;
        if first.is_array() {
            return Err(StrategicError::ListOfLists);
        }
        if all.any(|item| go::type_name(item) != go::type_name(first)) || first.is_null() {
            let lists = [&self.live, &self.patch].map(|list| go::print_list(list));
            return Err(StrategicError::MixedItems(format!("[{}]", lists.join(" "))));
        }
        Ok(if first.is_object() {
            ItemKind::Maps
        } else {
            ItemKind::Scalars
        })
    }

    /// Checks that a `$setElementOrder` list contains the items the patch adds or changes, in the
    /// order of the patch.
    pub(super) fn check_order(&self, order: &[Value]) -> Result<(), StrategicError> {
        if order.is_empty() || self.patch.is_empty() {
            return Ok(());
        }
        let mut items = Vec::with_capacity(self.patch.len());
        for item in &self.patch {
            let is_deletion = !self.key().is_empty()
                && map(item)?.get(PATCH).and_then(Value::as_str) == Some("delete");
            if !is_deletion {
                items.push(item);
            }
        }
        let (mut items, mut order_left) = (items.into_iter().peekable(), order.iter());
        // Items after the end of the order list are not checked, only reported as missing.
        while items.peek().is_some() && order_left.len() > 0 {
            if items.next_if(|item| item.get(PATCH).is_some()).is_some() {
                continue;
            }
            if let (Some(item), Some(next)) = (items.peek(), order_left.next())
                && identity(item, self.key())? == identity(next, self.key())?
            {
                items.next();
            }
        }
        if items.peek().is_some() {
            return Err(StrategicError::OrderDiffers {
                patch: go::print_list(&self.patch),
                order: go::print_list(order),
            });
        }
        Ok(())
    }

    /// The live list after Go's in-place merge, which decides the position of items that
    /// `$setElementOrder` does not mention. The merge works in the memory of the live list: items
    /// after a deleted item move up, and new items fill the freed positions, as if they had been
    /// live. Live `[a,b,c]` without `a` and with a new `n` is `[b,c,n]`.
    fn live_after_go_merge(&self) -> Result<Vec<Value>, StrategicError> {
        if self.key().is_empty() || self.patch.is_empty() || !self.merge.merge {
            return Ok(self.live.clone());
        }
        let special = DirectiveItems::from_patch(self)?;
        let mut left = special.retain_live(&self.live, self.key());
        if special.replaces {
            return Ok(left);
        }
        let values = left.iter().filter_map(|item| item.get(self.key()));
        let mut known: BTreeSet<Identity> = values.map(Value::to_string).collect();
        for item in &special.plain {
            if left.len() < self.live.len() && known.insert(identity(item, self.key())?) {
                left.push(item.clone());
            }
        }
        Ok(left)
    }

    /// The live scalars that the patch does not list.
    pub(super) fn without_patch(self) -> Result<Vec<Value>, StrategicError> {
        if self.live.is_empty() && self.patch.is_empty() {
            return Ok(self.live);
        }
        if self.item_kind()? == ItemKind::Maps {
            return merge_lists(&self);
        }
        let deleted: BTreeSet<Identity> = self.patch.iter().map(Value::to_string).collect();
        let kept = self.live.into_iter();
        Ok(kept
            .filter(|item| !deleted.contains(&item.to_string()))
            .collect())
    }
}

/// Merges two lists whose strategy is to merge.
pub(super) fn merge_lists(lists: &ListMerge<'_>) -> Result<Vec<Value>, StrategicError> {
    if lists.live.is_empty() && lists.patch.is_empty() {
        return Ok(Vec::new());
    }
    match lists.item_kind()? {
        ItemKind::Scalars => {
            let both = lists.live.iter().chain(&lists.patch);
            let mut seen = BTreeSet::new();
            let union = both.filter(|item| seen.insert(item.to_string()));
            interleave(
                union.cloned().collect(),
                &lists.patch,
                &lists.live,
                lists.key(),
            )
        }
        ItemKind::Maps if lists.key().is_empty() => Err(StrategicError::NoKeyDeclared),
        ItemKind::Maps => merge_items(lists),
    }
}

fn merge_items(lists: &ListMerge<'_>) -> Result<Vec<Value>, StrategicError> {
    let special = DirectiveItems::from_patch(lists)?;
    let live = if special.replaces {
        special.plain.clone()
    } else {
        special.retain_live(&lists.live, lists.key())
    };
    let patch = if special.replaces {
        Vec::new()
    } else {
        special.plain
    };
    let mut merged = live.clone();
    let mut places: BTreeMap<Identity, usize> = BTreeMap::new();
    for (at, item) in merged.iter().enumerate() {
        if let Some(value) = item.get(lists.key()) {
            places.entry(value.to_string()).or_insert(at);
        }
    }
    for item in &patch {
        let identity = identity(item, lists.key())?;
        match places.get(&identity) {
            Some(at) => {
                let live = std::mem::take(&mut merged[*at]);
                let (Value::Object(live), Value::Object(patch)) = (live, item.clone()) else {
                    return Err(StrategicError::NoItems);
                };
                merged[*at] = merge_maps(live, patch, lists.of)?.into();
            }
            None => {
                places.insert(identity, merged.len());
                merged.push(item.clone());
            }
        }
    }
    interleave(merged, &patch, &live, lists.key())
}

/// The items of a patch, grouped by their `$patch` directive.
struct DirectiveItems {
    plain: Vec<Value>,
    deleted: BTreeSet<Identity>,
    replaces: bool,
}

impl DirectiveItems {
    fn from_patch(lists: &ListMerge<'_>) -> Result<Self, StrategicError> {
        let mut special = Self {
            plain: Vec::new(),
            deleted: BTreeSet::new(),
            replaces: false,
        };
        for item in &lists.patch {
            let members = map(item)?;
            match members.get(PATCH).map(Value::as_str) {
                None => special.plain.push(item.clone()),
                Some(Some("delete")) => {
                    special.deleted.insert(identity(item, lists.key())?);
                }
                Some(Some("replace")) => special.replaces = true,
                Some(Some("merge")) => return Err(StrategicError::MergeDirective),
                Some(_) => return Err(StrategicError::unknown_directive(members)),
            }
        }
        Ok(special)
    }

    /// The live items that are not deleted.
    fn retain_live(&self, live: &[Value], key: &str) -> Vec<Value> {
        let is_deleted = |item: &&Value| {
            let value = item.get(key).map(Value::to_string);
            value.is_some_and(|value| self.deleted.contains(&value))
        };
        live.iter()
            .filter(|item| !is_deleted(item))
            .cloned()
            .collect()
    }
}

/// Sorts a merged list into the order the patch requests.
pub(super) fn order_by(
    merged: Vec<Value>,
    order: &[Value],
    lists: &ListMerge<'_>,
) -> Result<Vec<Value>, StrategicError> {
    if lists.key().is_empty() {
        lists.item_kind()?;
    }
    let ordered = interleave(merged, order, &lists.live_after_go_merge()?, lists.key())?;
    lists.item_kind()?;
    Ok(ordered)
}

/// Merges the items that `order` lists, in its order, with the others, in the order of the live
/// list.
fn interleave(
    merged: Vec<Value>,
    order: &[Value],
    live: &[Value],
    key: &str,
) -> Result<Vec<Value>, StrategicError> {
    let (wanted, lived) = (
        ItemPositions::new(order, key)?,
        ItemPositions::new(live, key)?,
    );
    let mut ordered: Vec<(usize, Option<usize>, Value)> = Vec::new();
    let mut others: Vec<(Option<usize>, Value)> = Vec::new();
    for item in merged {
        let identity = identity(&item, key)?;
        let in_live = lived.at(&identity);
        match wanted.at(&identity) {
            Some(at) => ordered.push((at, in_live, item)),
            None => others.push((in_live, item)),
        }
    }
    // Stable: live lists may have several items of one identity.
    ordered.sort_by_key(|(at, _, _)| *at);
    others.sort_by_key(|(at, _)| *at);
    let mut out = Vec::with_capacity(ordered.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, in_live, item) in ordered {
        while let (Some((Some(other), _)), Some(this)) = (others.peek(), in_live)
            && *other < this
        {
            out.extend(others.next().map(|(_, item)| item));
        }
        out.push(item);
    }
    out.extend(others.map(|(_, item)| item));
    Ok(out)
}

/// The index of the first item of each identity.
struct ItemPositions(BTreeMap<Identity, usize>);

impl ItemPositions {
    fn new(list: &[Value], key: &str) -> Result<Self, StrategicError> {
        let mut places = BTreeMap::new();
        for (at, item) in list.iter().enumerate() {
            places.entry(identity(item, key)?).or_insert(at);
        }
        Ok(Self(places))
    }

    fn at(&self, identity: &Identity) -> Option<usize> {
        self.0.get(identity).copied()
    }
}

/// The JSON of the value, so that `1`, `1.0` and `"1"` differ.
fn identity(item: &Value, key: &str) -> Result<Identity, StrategicError> {
    if key.is_empty() {
        return Ok(item.to_string());
    }
    let members = map(item)?;
    match members.get(key) {
        Some(value) => Ok(value.to_string()),
        None => Err(StrategicError::no_merge_key(members, key)),
    }
}

fn map(item: &Value) -> Result<&Map, StrategicError> {
    item.as_object()
        .ok_or_else(|| StrategicError::wrong_type("map[string]interface {}", item))
}
