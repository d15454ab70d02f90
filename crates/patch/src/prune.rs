//! What a manager no longer applies goes away, unless somebody owns it.

use crate::fieldset::FieldSet;
use crate::managed::{Entry, Managed};
use crate::typed::{remove, to_set, with_declared};
use crate::versions::{Unconvertible, Versions};
use optik_object::Map;

/// Removes from the merged object what the manager applied `last` and neither applies
/// `now` nor anybody else owns. `managed` already contains `now`.
pub(crate) fn prune(
    merged: Map,
    last: &Entry,
    now: &Entry,
    managed: &Managed,
    versions: &dyn Versions,
) -> Result<Map, Unconvertible> {
    let then = last.manager.api_version.as_str();
    let today = now.manager.api_version.as_str();
    // Who only adds removes nothing.
    if then == today && last.fields.is_subset_of(&now.fields) {
        return Ok(merged);
    }
    // In the version of the last apply, because that is what its fields mean.
    let Some(of) = versions.type_at(then) else {
        return Ok(merged);
    };
    let merged = convert(merged, today, then, versions)?;
    let dropped = with_declared(of, &last.fields);
    let mut pruned = merged.clone();
    remove(of, &mut pruned, &dropped);
    let pruned = add_back_owned(&merged, pruned, then, managed, versions)?;

    // Nothing else goes: what was never applied is not pruned.
    let left = with_declared(of, &to_set(of, &pruned));
    let before = with_declared(of, &to_set(of, &merged));
    let mut result = merged;
    remove(
        of,
        &mut result,
        &before.difference(&left).intersection(&dropped),
    );
    convert(result, then, today, versions)
}

fn convert(
    object: Map,
    from: &str,
    to: &str,
    versions: &dyn Versions,
) -> Result<Map, Unconvertible> {
    if from == to {
        return Ok(object);
    }
    Ok(versions.convert(&object, from, to)?.into_owned())
}

/// Adds back what anybody owns, in the version each of them means; the version at hand
/// first.
fn add_back_owned(
    merged: &Map,
    pruned: Map,
    first: &str,
    managed: &Managed,
    versions: &dyn Versions,
) -> Result<Map, Unconvertible> {
    let mut owned: Vec<(&str, FieldSet)> = vec![(first, FieldSet::new())];
    for entry in managed.entries() {
        let version = entry.manager.api_version.as_str();
        match owned.iter_mut().find(|(known, _)| *known == version) {
            Some((_, fields)) => *fields = fields.union(&entry.fields),
            None => owned.push((version, entry.fields.clone())),
        }
    }
    let mut pruned = pruned;
    for (version, fields) in owned {
        let Some(of) = versions.type_at(version) else {
            continue;
        };
        if fields.is_empty() {
            continue;
        }
        let mut merged = convert(merged.clone(), first, version, versions)?;
        let left = convert(pruned, first, version, versions)?;
        let kept = with_declared(of, &to_set(of, &left)).union(&with_declared(of, &fields));
        let gone = with_declared(of, &to_set(of, &merged)).difference(&kept);
        remove(of, &mut merged, &gone);
        pruned = convert(merged, version, first, versions)?;
    }
    Ok(pruned)
}
