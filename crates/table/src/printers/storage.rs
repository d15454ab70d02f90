//! Cells of volumes, claims, storage classes and CSI kinds.

use crate::format::{flag_at, items, joined, length, lookup, scalar, text_at};
use crate::row_writer::RowWriter;
use optik_object::JsonView;

/// Access modes without duplicates, in a fixed order: `RWO,ROX`.
fn access_modes(object: JsonView<'_>, path: &[&str]) -> String {
    let has = |mode: &str| items(object, path).any(|own| own.equals_str(mode));
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let found = known.into_iter().filter(|(mode, _)| has(mode));
    found.map(|(_, short)| short).collect::<Vec<_>>().join(",")
}

fn capacity(object: JsonView<'_>, path: &[&str]) -> String {
    object.get_path(path).map_or_else(|| "0".into(), scalar)
}

/// The storage class; the older annotation takes precedence over the field.
fn class_name(object: JsonView<'_>) -> String {
    let annotations = object.get_path(&["metadata", "annotations"]);
    let old = annotations.and_then(|map| map.get("volume.beta.kubernetes.io/storage-class"));
    match old.and_then(JsonView::as_str) {
        Some(old) => old.into_owned(),
        None => text_at(object, &["spec", "storageClassName"]).into_owned(),
    }
}

fn phase(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    match lookup(object, &["metadata", "deletionTimestamp"]) {
        Some(_) => row.text("Terminating"),
        None => row.text_or(object, &["status", "phase"], ""),
    }
}

pub(crate) fn volume(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    row.text(&capacity(object, &["spec", "capacity", "storage"]));
    row.text(&access_modes(object, &["spec", "accessModes"]));
    row.text_or(object, &["spec", "persistentVolumeReclaimPolicy"], "Retain");
    phase(object, row);
    let claim = lookup(object, &["spec", "claimRef"]).map(|claim| {
        let of = |name: &str| text_at(claim, &[name]);
        format!("{}/{}", of("namespace"), of("name"))
    });
    row.text(&claim.unwrap_or_default());
    row.text(&class_name(object));
    row.text_or(object, &["spec", "volumeAttributesClassName"], "<unset>");
    row.text_or(object, &["status", "reason"], "");
    row.age(object);
    row.text_or(object, &["spec", "volumeMode"], "Filesystem");
}

pub(crate) fn claim(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    let bound = !text_at(object, &["spec", "volumeName"]).is_empty();
    row.name(object);
    phase(object, row);
    row.text_or(object, &["spec", "volumeName"], "");
    let size = bound.then(|| capacity(object, &["status", "capacity", "storage"]));
    row.text(&size.unwrap_or_default());
    let modes = bound.then(|| access_modes(object, &["status", "accessModes"]));
    row.text(&modes.unwrap_or_default());
    row.text(&class_name(object));
    row.text_or(object, &["spec", "volumeAttributesClassName"], "<unset>");
    row.age(object);
    row.text_or(object, &["spec", "volumeMode"], "Filesystem");
}

pub(crate) fn class(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    let name = text_at(object, &["metadata", "name"]);
    let annotations = object.get_path(&["metadata", "annotations"]);
    let marks = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ];
    let default = marks.into_iter().any(|mark| {
        let mark = annotations.and_then(|map| map.get(mark));
        mark.is_some_and(|value| value.equals_str("true"))
    });
    match default {
        true => row.text(&format!("{name} (default)")),
        false => row.text(&name),
    }
    row.text_or(object, &["provisioner"], "");
    row.text_or(object, &["reclaimPolicy"], "Delete");
    row.text_or(object, &["volumeBindingMode"], "Immediate");
    row.flag(flag_at(object, &["allowVolumeExpansion"]) == Some(true));
    row.age(object);
}

pub(crate) fn csi_driver(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    row.flag(flag_at(object, &["spec", "attachRequired"]) != Some(false));
    for name in ["podInfoOnMount", "storageCapacity"] {
        row.flag(flag_at(object, &["spec", name]) == Some(true));
    }
    let audiences = lookup(object, &["spec", "tokenRequests"]).map(|list| {
        let audiences = list.items().map(|one| text_at(one, &["audience"]));
        audiences.collect::<Vec<_>>().join(",")
    });
    row.text(audiences.as_deref().unwrap_or("<unset>"));
    row.flag(flag_at(object, &["spec", "requiresRepublish"]) == Some(true));
    let modes = joined(items(object, &["spec", "volumeLifecycleModes"]), ",");
    // The default of `volumeLifecycleModes`.
    row.text(if modes.is_empty() {
        "Persistent"
    } else {
        &modes
    });
    row.age(object);
}

pub(crate) fn csi_node(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    row.number(length(object, &["spec", "drivers"]));
    row.age(object);
}

pub(crate) fn attachment(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    row.text_or(object, &["spec", "attacher"], "");
    row.text_or(object, &["spec", "source", "persistentVolumeName"], "");
    row.text_or(object, &["spec", "nodeName"], "");
    row.flag(flag_at(object, &["status", "attached"]) == Some(true));
    row.age(object);
}

pub(crate) fn attributes_class(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    row.text_or(object, &["driverName"], "");
    row.age(object);
}
