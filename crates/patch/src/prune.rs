//! Pruning of server-side apply: removes fields that a manager no longer applies and no other
//! manager owns.

use crate::fieldset::FieldSet;
use crate::managed::{Managed, ManagedFieldsEntry};
use crate::typed::{remove, to_field_set, with_declared};
use crate::versions::{VersionConversionError, VersionConverter};
use optik_object::Map;
use optik_schema::TypeRef;
use std::collections::BTreeMap;

/// Removes from the merged object the fields in `last` that are neither in `now` nor owned by
/// another manager.
pub(crate) fn prune(
    merged: Map,
    last: &ManagedFieldsEntry,
    now: &ManagedFieldsEntry,
    others: &Managed,
    versions: &dyn VersionConverter,
) -> Result<Map, VersionConversionError> {
    let then = last.manager.api_version.as_str();
    let today = now.manager.api_version.as_str();
    // If no field was dropped, nothing is removed.
    if then == today && last.fields.is_subset_of(&now.fields) {
        return Ok(merged);
    }
    // Computed in the version of the last apply, which its field set refers to.
    let Some(of) = versions.type_at(then) else {
        return Ok(merged);
    };
    let merged = convert(merged, today, then, versions)?;
    let before = present(of, &merged);
    let dropped = with_declared(of, &last.fields);
    let mut pruned = merged.clone();
    remove(of, &mut pruned, &dropped);
    for (version, owned) in owned_by_version(then, now, others) {
        let Some(of) = versions.type_at(version) else {
            continue;
        };
        let kept = with_declared(of, &owned);
        pruned = if version == then {
            add_back(of, &merged, &before, &pruned, &kept)
        } else {
            let merged = convert(merged.clone(), then, version, versions)?;
            let pruned = convert(pruned, then, version, versions)?;
            let back = add_back(of, &merged, &present(of, &merged), &pruned, &kept);
            convert(back, version, then, versions)?
        };
    }
    // Only fields that were applied are pruned.
    let gone = before
        .difference(&present(of, &pruned))
        .intersection(&dropped);
    let mut result = merged;
    remove(of, &mut result, &gone);
    convert(result, then, today, versions)
}

/// The owned fields of all managers, by version; the version `first` comes first.
fn owned_by_version<'a>(
    first: &'a str,
    now: &'a ManagedFieldsEntry,
    others: &'a Managed,
) -> Vec<(&'a str, FieldSet)> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut owned: Vec<(&str, Vec<FieldSet>)> = Vec::new();
    for entry in others.entries().iter().chain([now]) {
        let version = entry.manager.api_version.as_str();
        let place = *places.entry(version).or_insert(owned.len());
        let fields = entry.fields.clone();
        match owned.get_mut(place) {
            Some((_, sets)) => sets.push(fields),
            None => owned.push((version, vec![fields])),
        }
    }
    let owned = owned.into_iter();
    let mut owned: Vec<_> = owned
        .map(|(version, sets)| (version, FieldSet::union_all(sets)))
        .collect();
    owned.sort_by_key(|(version, _)| *version != first);
    owned
}

/// The merged object, reduced to the fields in `pruned` and the owned ones.
fn add_back(
    of: TypeRef<'_>,
    merged: &Map,
    present_in_merged: &FieldSet,
    pruned: &Map,
    owned: &FieldSet,
) -> Map {
    let kept = present(of, pruned).union(owned);
    let mut back = merged.clone();
    remove(of, &mut back, &present_in_merged.difference(&kept));
    back
}

/// The fields of an object, and the declared members on their paths.
fn present(of: TypeRef<'_>, object: &Map) -> FieldSet {
    with_declared(of, &to_field_set(of, object))
}

fn convert(
    object: Map,
    from: &str,
    to: &str,
    versions: &dyn VersionConverter,
) -> Result<Map, VersionConversionError> {
    if from == to {
        return Ok(object);
    }
    Ok(versions.convert(&object, from, to)?.into_owned())
}
