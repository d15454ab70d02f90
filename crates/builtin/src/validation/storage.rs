//! Validation of PersistentVolume, PersistentVolumeClaim, StorageClass and related kinds.

use super::accessors::{entries, is_set, items, text};
use super::errors::Errors;
use super::field_path::FieldPath;
use super::go_diff;
use super::pods::validate_node_selector;
use super::selectors::validate_label_selector;
use super::volumes::validate_host_path;
use crate::quantity::Quantity;
use optik_object::{Object, Value, dns1123_subdomain, qualified_name};

const SPEC: FieldPath<'static> = FieldPath::root("spec");
const ACCESS_MODES: &[&str] = &[
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];
const SOURCES: &[&str] = &[
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

fn spec(object: &Object) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

fn member<'a>(object: &'a Object, name: &str) -> &'a Value {
    object.get(name).unwrap_or(&Value::Null)
}

fn validate_access_modes(path: FieldPath<'_>, modes: &Value, errors: &mut Errors) {
    let modes = items(modes);
    for mode in modes {
        errors.one_of_or_nothing(path, text(mode), ACCESS_MODES);
    }
    let alone = modes.iter().any(|mode| mode == "ReadWriteOncePod");
    let others = modes.iter().map(text);
    let others = others.filter(|mode| ACCESS_MODES.contains(mode));
    if alone && others.clone().any(|mode| mode != "ReadWriteOncePod") {
        let message = "may not use ReadWriteOncePod with other access modes";
        errors.forbidden(path, message);
    }
}

/// Validates the spec of a claim, or of a claim template.
pub(crate) fn validate_persistent_volume_claim_spec(
    path: FieldPath<'_>,
    spec: &Value,
    errors: &mut Errors,
) {
    let modes = path.child("accessModes");
    if items(&spec["accessModes"]).is_empty() {
        errors.required(modes, "at least 1 access mode is required");
    }
    validate_label_selector(path.child("selector"), &spec["selector"], errors);
    validate_access_modes(modes, &spec["accessModes"], errors);
    let resources = path.child("resources");
    let storage = &spec["resources"]["requests"]["storage"];
    if is_set(storage) {
        validate_positive_quantity(resources.key("storage"), storage, errors);
    } else {
        errors.required(resources.key("storage"), "");
    }
    let class = text(&spec["storageClassName"]);
    if !class.is_empty() {
        errors.problems(
            path.child("storageClassName"),
            class,
            dns1123_subdomain(class),
        );
    }
    validate_volume_mode(path.child("volumeMode"), &spec["volumeMode"], errors);
}

fn validate_positive_quantity(path: FieldPath<'_>, amount: &Value, errors: &mut Errors) {
    if let Ok(quantity) = Quantity::from_value(amount)
        && (quantity.is_zero() || quantity.is_negative())
    {
        errors.invalid(path, quantity.to_string(), "must be greater than zero");
    }
}

fn validate_volume_mode(path: FieldPath<'_>, mode: &Value, errors: &mut Errors) {
    if is_set(mode) {
        errors.one_of_or_nothing(path, text(mode), &["Block", "Filesystem"]);
    }
}

pub(crate) fn validate_persistent_volume_claim(object: &Object, errors: &mut Errors) {
    validate_persistent_volume_claim_spec(SPEC, spec(object), errors);
}

/// The spec of a claim is immutable, except for binding and expansion.
pub(crate) fn validate_persistent_volume_claim_update(
    new: &Object,
    old: &Object,
    errors: &mut Errors,
) {
    let (mut after, before) = (spec(new).clone(), spec(old).clone());
    let put_back = |after: &mut Value, name: &str| match before.get(name) {
        Some(value) => after[name] = value.clone(),
        None => {
            if let Some(members) = after.as_object_mut() {
                members.remove(name);
            }
        }
    };
    if text(&before["volumeName"]).is_empty() {
        put_back(&mut after, "volumeName");
    }
    if !is_set(&before["storageClassName"]) {
        put_back(&mut after, "storageClassName");
    }
    put_back(&mut after, "volumeAttributesClassName");
    let bound = old
        .get("status")
        .is_some_and(|status| status["phase"] == "Bound");
    let asked = &spec(new)["resources"]["requests"]["storage"];
    let had = &before["resources"]["requests"]["storage"];
    let sizes = (Quantity::from_value(asked), Quantity::from_value(had));
    if bound && let (Ok(asked), Ok(had)) = sizes {
        if asked < had {
            let resources = SPEC.child("resources");
            let requests = resources.child("requests");
            let message = "field can not be less than status.capacity";
            errors.forbidden(requests.child("storage"), message);
        }
        after["resources"]["requests"]["storage"] =
            before["resources"]["requests"]["storage"].clone();
    }
    if after != before {
        let shown = go_diff::go_diff("core.PersistentVolumeClaimSpec", &before, spec(new));
        let message = format!(
            "spec is immutable after creation except resources.requests and \
             volumeAttributesClassName for bound claims\n{shown}"
        );
        errors.forbidden(SPEC, message);
    }
    let mode = SPEC.child("volumeMode");
    errors.is_fixed(mode, &spec(new)["volumeMode"], &before["volumeMode"]);
}

pub(crate) fn validate_persistent_volume(object: &Object, errors: &mut Errors) {
    let spec = spec(object);
    let modes = SPEC.child("accessModes");
    if items(&spec["accessModes"]).is_empty() {
        errors.required(modes, "");
    }
    validate_access_modes(modes, &spec["accessModes"], errors);
    let capacity = SPEC.child("capacity");
    let count = entries(&spec["capacity"]).count();
    if count == 0 {
        errors.required(capacity, "");
    }
    if !is_set(&spec["capacity"]["storage"]) || count > 1 {
        errors.not_supported(capacity, spec["capacity"].clone(), &["storage"]);
    }
    for (name, amount) in entries(&spec["capacity"]) {
        if let Ok(quantity) = Quantity::from_value(amount)
            && quantity.is_negative()
        {
            let whole = i64::try_from(quantity.to_milli() / 1000).unwrap_or(i64::MIN);
            let message = "must be a valid resource quantity";
            errors.invalid(capacity.key(name), whole, message);
        }
        validate_positive_quantity(capacity.key(name), amount, errors);
    }
    let policy = text(&spec["persistentVolumeReclaimPolicy"]);
    if !policy.is_empty() {
        let path = SPEC.child("persistentVolumeReclaimPolicy");
        errors.one_of_or_nothing(path, policy, &["Delete", "Recycle", "Retain"]);
    }
    let affinity = &spec["nodeAffinity"]["required"];
    if is_set(affinity) {
        let path = SPEC.child("nodeAffinity");
        validate_node_selector(path.child("required"), affinity, errors);
    }
    validate_volume_sources(spec, errors);
    let class = text(&spec["storageClassName"]);
    if !class.is_empty() {
        errors.problems(
            SPEC.child("storageClassName"),
            class,
            dns1123_subdomain(class),
        );
    }
    validate_volume_mode(SPEC.child("volumeMode"), &spec["volumeMode"], errors);
}

fn validate_volume_sources(spec: &Value, errors: &mut Errors) {
    let mut sources = 0;
    for member in SOURCES {
        let source = &spec[*member];
        if !is_set(source) {
            continue;
        }
        let path = SPEC.child(member);
        if sources > 0 {
            errors.forbidden(path, "may not specify more than 1 volume type");
            continue;
        }
        sources += 1;
        let mut need = |name: &str| {
            if text(&source[name]).is_empty() {
                errors.required(path.child(name), "");
            }
        };
        match *member {
            "hostPath" => validate_host_path(path, source, errors),
            "nfs" => {
                need("server");
                need("path");
            }
            "local" => {
                need("path");
                if !is_set(&spec["nodeAffinity"]["required"]) {
                    let message = "Local volume requires node affinity";
                    errors.required(SPEC.child("nodeAffinity"), message);
                }
            }
            "csi" => validate_csi_source(path, source, errors),
            _ => {}
        }
    }
    if sources == 0 {
        errors.required(SPEC, "must specify a volume type");
    }
}

fn validate_csi_source(path: FieldPath<'_>, source: &Value, errors: &mut Errors) {
    let driver = text(&source["driver"]);
    validate_csi_driver_name(path.child("driver"), driver, errors);
    if text(&source["volumeHandle"]).is_empty() {
        errors.required(path.child("volumeHandle"), "");
    }
}

/// Validates the inline volume spec of a VolumeAttachment: it must be a CSI volume, without a
/// capacity.
pub(crate) fn validate_inline_volume_spec(path: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    let own = path.child("csi");
    if !is_set(&spec["csi"]) {
        errors.required(own, "has to be specified in the context of inline volumes");
    }
    let modes = path.child("accessModes");
    if items(&spec["accessModes"]).is_empty() {
        errors.required(modes, "");
    }
    validate_access_modes(modes, &spec["accessModes"], errors);
    if is_set(&spec["csi"]) {
        validate_csi_source(own, &spec["csi"], errors);
    }
}

pub(crate) fn validate_persistent_volume_update(new: &Object, old: &Object, errors: &mut Errors) {
    let sources = |object: &Object| -> Value {
        let spec = spec(object);
        let kept = SOURCES.iter().filter(|name| is_set(&spec[**name]));
        let kept = kept.map(|name| ((*name).to_owned(), spec[*name].clone()));
        Value::Object(kept.collect())
    };
    let (after, before) = (sources(new), sources(old));
    if after != before {
        let shown = go_diff::go_diff("core.PersistentVolumeSource", &before, &after);
        let message = format!("spec.persistentvolumesource is immutable after creation\n{shown}");
        errors.forbidden(SPEC.child("persistentvolumesource"), message);
    }
    let (after, before) = (&spec(new)["volumeMode"], &spec(old)["volumeMode"]);
    errors.is_fixed(FieldPath::root("volumeMode"), after, before);
}

pub(crate) fn validate_csi_driver_name(path: FieldPath<'_>, name: &str, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    if name.len() > 63 {
        errors.too_long(path, 63);
    }
    let lower = name.to_lowercase();
    errors.problems(path, name, dns1123_subdomain(&lower));
}

pub(crate) fn validate_storage_class(object: &Object, errors: &mut Errors) {
    let provisioner = text(member(object, "provisioner"));
    let path = FieldPath::root("provisioner");
    if provisioner.is_empty() {
        errors.required(path, "");
    } else {
        let lower = provisioner.to_lowercase();
        errors.problems(path, &lower, qualified_name(&lower));
    }
    let policy = text(member(object, "reclaimPolicy"));
    if !policy.is_empty() {
        let path = FieldPath::root("reclaimPolicy");
        errors.one_of_or_nothing(path, policy, &["Delete", "Retain"]);
    }
    let mode = member(object, "volumeBindingMode");
    let path = FieldPath::root("volumeBindingMode");
    if is_set(mode) {
        errors.one_of_or_nothing(path, text(mode), &["Immediate", "WaitForFirstConsumer"]);
    } else {
        errors.required(path, "");
    }
}

pub(crate) fn validate_storage_class_update(new: &Object, old: &Object, errors: &mut Errors) {
    for name in [
        "parameters",
        "provisioner",
        "reclaimPolicy",
        "volumeBindingMode",
    ] {
        let path = FieldPath::root(name);
        errors.is_fixed(path, member(new, name), member(old, name));
    }
}
