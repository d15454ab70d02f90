//! What a write does to everybody's fields. Applying and updating both end here.

use crate::conflict::Conflicts;
use crate::fieldset::FieldSet;
use crate::managed::Managed;
use crate::typed::{Comparison, compare, reconcile};
use crate::versions::{VersionConversionError, VersionConverter};
use optik_object::Map;
use std::collections::BTreeMap;

/// An object before and after, in the version of the request. Records of managers may
/// be part of them: nobody owns those.
#[derive(Clone, Copy)]
pub(crate) struct ObjectChange<'a> {
    pub(crate) old: &'a Map,
    pub(crate) new: &'a Map,
    pub(crate) api_version: &'a str,
}

/// Whether a write may take fields from others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForceConflicts {
    No,
    Yes,
}

pub(crate) enum OwnershipError {
    Conflicts(Conflicts),
    Unconvertible(VersionConversionError),
}

/// Brings the sets up to the types of today, and forgets those of versions that are gone.
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

/// Comparisons of one change, for each version somebody's fields are of.
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

    /// Without what the endpoint does not let anybody change. `None` for a version that
    /// is gone.
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

    /// What the change wrote, in a version; nothing in one that is gone.
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

/// Takes from everybody what the change wrote, or says that it may not; and what it
/// removed. Who applies is not among them: it owns what it names, whatever changed.
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

/// Fields that nobody is ever recorded to own; what is below `metadata` may be owned.
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
