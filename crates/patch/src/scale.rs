//! Ownership of `replicas` through the subresource `scale` (upstream: `ScaleHandler`).
//!
//! A `Scale` is a view of its parent. The managers that own the replicas of the parent are shown as
//! the owners of `spec.replicas` of the view. After a write, the owners in the view become the
//! owners of the replicas of the parent.

use crate::fieldset::{FieldSet, PathElement};
use crate::managed::{FieldManager, Managed, ManagedFieldsEntry};

/// The apiVersion of the view.
const SCALE: &str = "autoscaling/v1";

/// The path of the replicas in a kind.
#[derive(Clone, Copy)]
pub struct ScaleHandler<'a> {
    /// The version of new entries of the parent.
    pub api_version: &'a str,
    /// The path of the replicas in a version, such as `spec.replicas`; `None` for versions that are
    /// not served.
    pub path: &'a dyn Fn(&str) -> Option<Vec<PathElement>>,
}

impl ScaleHandler<'_> {
    /// The managers of the view.
    #[must_use]
    pub fn to_subresource(&self, parent: &Managed) -> Managed {
        let owners = parent.entries().iter().filter(|entry| {
            let path = (self.path)(&entry.manager.api_version);
            path.is_some_and(|path| entry.fields.contains(&path))
        });
        let entries = owners.map(|entry| ManagedFieldsEntry {
            manager: in_version(&entry.manager, SCALE),
            fields: in_view(),
            time: entry.time,
        });
        Managed::from_entries(entries.collect())
    }

    /// The managers of the parent after a write to the view. A manager that lost the replicas in
    /// the view loses them in the parent; a new manager gets an entry without a time.
    #[must_use]
    pub fn to_parent(&self, parent: &Managed, view: &Managed) -> Managed {
        let viewers = view.index();
        let owns = |manager: &FieldManager| {
            let entry = viewers.find(&in_version(manager, SCALE));
            entry.is_some_and(|entry| !entry.fields.intersection(&in_view()).is_empty())
        };
        let mut after = Managed::default();
        for entry in parent.entries() {
            let Some(path) = (self.path)(&entry.manager.api_version) else {
                continue;
            };
            let mut entry = entry.clone();
            if entry.fields.contains(&path) && !owns(&entry.manager) {
                let mut lost = FieldSet::new();
                lost.insert(&path);
                entry.fields = entry.fields.difference(&lost);
            }
            after.add(entry);
        }
        let Some(path) = (self.path)(self.api_version) else {
            return after;
        };
        let before = self.to_subresource(parent);
        let before = before.index();
        for entry in view.entries() {
            if before.find(&entry.manager).is_some() || !owns(&entry.manager) {
                continue;
            }
            let manager = in_version(&entry.manager, self.api_version);
            let mut fields = FieldSet::new();
            fields.insert(&path);
            if let Some(known) = after.find(&manager) {
                fields = fields.union(&known.fields);
            }
            after.set(ManagedFieldsEntry {
                manager,
                fields,
                time: None,
            });
        }
        after
    }
}

fn in_version(manager: &FieldManager, api_version: &str) -> FieldManager {
    FieldManager {
        api_version: api_version.into(),
        ..manager.clone()
    }
}

/// The only field that can be owned in a view.
fn in_view() -> FieldSet {
    FieldSet::from_fields(&[&["spec", "replicas"]])
}
