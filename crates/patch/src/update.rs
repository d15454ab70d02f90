//! Ownership for creates, updates and patches: the writer owns the fields it changed.

use crate::endpoint::Endpoint;
use crate::managed::{MANAGED_FIELDS, Managed, ManagedFieldsEntry, ManagedFieldsOperation};
use crate::ownership::{
    Comparisons, ForceConflicts, ObjectChange, reassign, reconcile_with_schema, strip_meta_fields,
};
use optik_object::{Map, Object, Timestamp, Value};
use optik_schema::zero_value;
use std::borrow::Cow;

/// Which rule applies to `managedFields: []` in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// An empty list removes all managers.
    BuiltIn,
    /// An empty list is ignored.
    Custom,
}

/// A create, update or patch on its way to the store, after defaulting and before
/// admission.
#[derive(Clone, Copy)]
pub struct UpdateRequest<'a> {
    /// The stored object; `None` if the object is being created.
    pub live: Option<&'a Object>,
    /// The `fieldManager` parameter, or a name from the user agent.
    pub manager: &'a str,
    pub now: Timestamp,
    pub family: Family,
}

/// Updates the managedFields of `new` for the write. Never fails: a change that cannot be tracked
/// is not recorded.
pub fn update(endpoint: &Endpoint<'_>, write: &UpdateRequest<'_>, new: &mut Object) {
    let mut managed = managed_before(endpoint, write, new);
    new.remove_metadata_member(MANAGED_FIELDS);
    if managed.is_empty() && write.live.is_some() {
        return;
    }
    track(endpoint, write, new, &mut managed);
    managed.cap_update_managers();
    managed.write_to(new);
}

/// The managers before the write: those in the request if they are valid and not empty, otherwise
/// those of the live object.
fn managed_before(endpoint: &Endpoint<'_>, write: &UpdateRequest<'_>, new: &Object) -> Managed {
    let live = || {
        let live = write.live.map(Managed::from_object);
        live.and_then(Result::ok).unwrap_or_default()
    };
    let sent = new.metadata().and_then(|it| it.get(MANAGED_FIELDS));
    if !endpoint.subresource.is_empty() {
        return live();
    }
    match sent.and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) if write.family == Family::BuiltIn => Managed::default(),
        Some([Value::Object(only)]) if only.is_empty() => Managed::default(),
        Some(list) => match Managed::decode(list) {
            Ok(managed) if !managed.is_empty() => managed,
            _ => live(),
        },
        None => live(),
    }
}

/// Makes the writer the owner of the fields it changed. Without a live object, changes are relative
/// to an empty object.
pub(crate) fn track(
    endpoint: &Endpoint<'_>,
    write: &UpdateRequest<'_>,
    new: &Object,
    managed: &mut Managed,
) {
    let Some(of) = endpoint.object_type() else {
        return;
    };
    reconcile_with_schema(managed, endpoint.versions);
    let old = write
        .live
        .or_else(|| endpoint.versions.empty_object(endpoint.api_version));
    let old = match old {
        Some(old) => Cow::Borrowed(old),
        None => Cow::Owned(Object::try_from(zero_value(of)).unwrap_or_default()),
    };
    let change = ObjectChange {
        old: old.members(),
        new: new.members(),
        api_version: endpoint.api_version,
    };
    let mut comparisons = Comparisons::new(change, endpoint.versions);
    // Forced, so there are no conflicts. A change that cannot be compared is not tracked.
    if reassign(managed, &mut comparisons, ForceConflicts::Yes).is_err() {
        return;
    }
    let written = comparisons.into_written(endpoint.api_version);
    let written = strip_meta_fields(written.unwrap_or_default());
    if written.is_empty() {
        return;
    }
    let manager = endpoint.manager(write.manager, ManagedFieldsOperation::Update);
    let before = managed.find(&manager).map(|entry| &entry.fields);
    let fields = match before {
        Some(before) => before.union(&written),
        None => written,
    };
    managed.set(ManagedFieldsEntry {
        manager,
        fields,
        time: Some(write.now),
    });
}

/// Whether a write changes only times in managedFields, and is therefore a no-op. Entries are
/// compared in order: a new time that moves an entry past another one is a change.
#[must_use]
pub fn only_managed_fields_times_differ(live: &Object, new: &Object) -> bool {
    let list = |object: &Object| {
        let list = object.metadata().and_then(|it| it.get(MANAGED_FIELDS));
        list.and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let timeless = |mut list: Vec<Value>| {
        for entry in list.iter_mut().filter_map(Value::as_object_mut) {
            entry.remove("time");
        }
        list
    };
    timeless(list(live)) == timeless(list(new)) && without_managers(live) == without_managers(new)
}

/// A copy of an object without managedFields, which are often the larger part of it.
pub(crate) fn without_managers(object: &Object) -> Map {
    let members = object.members().iter();
    let members = members.map(|(name, value)| match value {
        Value::Object(metadata) if name == "metadata" => {
            let kept = metadata.iter().filter(|(name, _)| *name != MANAGED_FIELDS);
            let kept = kept.map(|(name, value)| (name.clone(), value.clone()));
            (name.clone(), Value::Object(kept.collect()))
        }
        other => (name.clone(), other.clone()),
    });
    members.collect()
}
