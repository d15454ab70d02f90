//! Changes of field ownership by a write; applies and updates both use it.

use crate::conflict::Conflicts;
use crate::fieldset::FieldSet;
use crate::managed::Managed;
use crate::typed::{Comparison, compare, reconcile};
use crate::versions::{VersionConversionError, VersionConverter};
use optik_object::Map;
use std::collections::BTreeMap;

/// An object before and after a write, in the version of the request. It may contain managedFields,
/// which are never owned.
#[derive(Clone, Copy)]
pub(crate) struct ObjectChange<'a> {
    pub(crate) old: &'a Map,
    pub(crate) new: &'a Map,
    pub(crate) api_version: &'a str,
}

/// Whether a write may take fields from other managers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForceConflicts {
    No,
    Yes,
}

pub(crate) enum OwnershipError {
    Conflicts(Conflicts),
    Unconvertible(VersionConversionError),
}

/// Reconciles all field sets with the current schema, and drops entries of versions that are no
/// longer served.
pub(crate) fn reconcile_with_schema(managed: &mut Managed, versions: &dyn VersionConverter) {
    managed.entries_mut().retain_mut(|entry| {
        let Some(of) = versions.type_at(&entry.manager.api_version) else {
            return false;
        };
        if let Some(fields) = reconcile(of, &entry.fields) {
            entry.fields = fields;
        }
        true
    });
}

/// The comparisons of one change, cached for each version of an entry.
pub(crate) struct Comparisons<'a> {
    change: ObjectChange<'a>,
    versions: &'a dyn VersionConverter,
    by_version: BTreeMap<String, Comparison>,
}

impl<'a> Comparisons<'a> {
    pub(crate) fn new(change: ObjectChange<'a>, versions: &'a dyn VersionConverter) -> Self {
        Self {
            change,
            versions,
            by_version: BTreeMap::new(),
        }
    }

    /// The comparison in a version, without the fields the endpoint resets. `None` for a version
    /// that is no longer served.
    pub(crate) fn at(
        &mut self,
        api_version: &str,
    ) -> Result<Option<&Comparison>, VersionConversionError> {
        if !self.by_version.contains_key(api_version) {
            let Some(made) = self.compare_at(api_version)? else {
                return Ok(None);
            };
            self.by_version.insert(api_version.to_owned(), made);
        }
        Ok(self.by_version.get(api_version))
    }

    /// The fields the change wrote, in a version; empty for a version that is no longer served.
    pub(crate) fn into_written(
        mut self,
        api_version: &str,
    ) -> Result<FieldSet, VersionConversionError> {
        self.at(api_version)?;
        let made = self.by_version.remove(api_version);
        Ok(made.map_or_else(FieldSet::new, Comparison::into_written))
    }

    fn compare_at(&self, api_version: &str) -> Result<Option<Comparison>, VersionConversionError> {
        let Some(of) = self.versions.type_at(api_version) else {
            return Ok(None);
        };
        let from = self.change.api_version;
        let comparison = if from == api_version {
            compare(of, self.change.old, self.change.new)
        } else {
            let old = self.versions.convert(self.change.old, from, api_version)?;
            let new = self.versions.convert(self.change.new, from, api_version)?;
            compare(of, &old, &new)
        };
        Ok(Some(match self.versions.reset_fields(api_version) {
            Some(reset) => comparison.without(reset),
            None => comparison,
        }))
    }
}

/// Removes the written and the removed fields from all entries, or fails with conflicts. The entry
/// of the applier must not be among them: it owns the fields it applies, whatever changed.
pub(crate) fn reassign(
    managed: &mut Managed,
    comparisons: &mut Comparisons<'_>,
    force: ForceConflicts,
) -> Result<(), OwnershipError> {
    let mut conflicts = Conflicts::default();
    let mut kept: Vec<(usize, FieldSet)> = Vec::new();
    for (at, entry) in managed.entries().iter().enumerate() {
        let comparison = comparisons.at(&entry.manager.api_version);
        let Some(comparison) = comparison.map_err(OwnershipError::Unconvertible)? else {
            kept.push((at, FieldSet::new()));
            continue;
        };
        let taken = entry.fields.intersection(&comparison.modified);
        let taken = taken.union(&entry.fields.intersection(&comparison.added));
        let is_touched = !taken.is_empty() || !entry.fields.is_disjoint_from(&comparison.removed);
        if is_touched {
            let fields = entry.fields.difference(&taken);
            kept.push((at, fields.difference(&comparison.removed)));
        }
        if !taken.is_empty() {
            conflicts.add(&entry.manager, taken);
        }
    }
    if force == ForceConflicts::No && !conflicts.is_empty() {
        return Err(OwnershipError::Conflicts(conflicts));
    }
    for (at, fields) in kept {
        managed.entries_mut()[at].fields = fields;
    }
    managed.drop_empty();
    Ok(())
}

/// Removes the fields that are never owned. Fields below `metadata` may be owned.
pub(crate) fn strip_meta_fields(mut fields: FieldSet) -> FieldSet {
    use std::sync::OnceLock;
    static STRIP_SET: OnceLock<FieldSet> = OnceLock::new();
    let unrecorded = STRIP_SET.get_or_init(|| {
        FieldSet::from_fields(&[
            &["apiVersion"],
            &["kind"],
            &["metadata"],
            &["metadata", "name"],
            &["metadata", "namespace"],
            &["metadata", "creationTimestamp"],
            &["metadata", "selfLink"],
            &["metadata", "uid"],
            &["metadata", "clusterName"],
            &["metadata", "generation"],
            &["metadata", "managedFields"],
            &["metadata", "resourceVersion"],
        ])
    });
    fields.subtract(unrecorded);
    fields
}
