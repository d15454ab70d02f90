//! ObjectMeta: fields that the server sets, preserves or validates (CONC §7).

use crate::registry::served_resource::ServedResource;
use optik_catalog::NameRule;
use optik_object::{
    FIELD_ERRORS_MAX, FieldError, Object, Problems, Timestamp, Value, dns1123_label,
    dns1123_subdomain, label_value, path_segment, qualified_name, uuid,
};
use optik_platform::Entropy;

const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;
const STANDARD_FINALIZERS: &[&str] = &["orphan", "foregroundDeletion", "kubernetes"];

/// A random (version 4) uid.
pub(crate) fn new_uid(entropy: &dyn Entropy) -> String {
    let text = uuid(entropy.next_u64(), entropy.next_u64());
    String::from_utf8_lossy(&text).into_owned()
}

/// Sets the system fields of a new object; values from the client are discarded.
pub(super) fn fill_system_fields(object: &mut Object, uid: &str, now: Timestamp) {
    object.remove_metadata_member("resourceVersion");
    clear_deletion_fields(object);
    object.set_uid(uid);
    object.set_creation_timestamp(Some(now));
}

/// Removes the deletion fields of a new object.
pub(super) fn clear_deletion_fields(object: &mut Object) {
    object.remove_metadata_member("deletionTimestamp");
    object.remove_metadata_member("deletionGracePeriodSeconds");
}

/// Restores the metadata that an update cannot change.
pub(super) fn preserve_immutable(object: &mut Object, old: &Object) {
    object.remove_metadata_member("resourceVersion");
    for member in ["uid", "creationTimestamp", "generation"] {
        copy_member(object, old, member);
    }
}

/// Copies a member of the metadata from another object; removes it if that object has none.
pub(super) fn copy_member(object: &mut Object, from: &Object, member: &str) {
    let value = from.metadata().and_then(|metadata| metadata.get(member));
    match value.cloned() {
        Some(value) => drop(object.metadata_mut().insert(member.into(), value)),
        None => drop(object.remove_metadata_member(member)),
    }
}

/// Validates the metadata of any kind.
pub(super) fn validate_object_meta(
    kind: &ServedResource,
    object: &Object,
    errors: &mut Vec<FieldError>,
) {
    let rule = match kind.resource.strategy_options.name {
        NameRule::DnsSubdomain => dns1123_subdomain,
        NameRule::DnsLabel => dns1123_label,
        NameRule::PathSegment => path_segment,
    };
    let (name, start) = (object.name(), object.generate_name());
    if !start.is_empty() {
        let problems = rule(&mask_trailing_dash(start));
        push_problems("metadata.generateName", start, problems, errors);
    }
    if name.is_empty() {
        let text = "name or generateName is required";
        errors.push(FieldError::required("metadata.name", text));
    } else {
        push_problems("metadata.name", name, rule(name), errors);
    }
    if object.generation() < 0 {
        let text = "must be greater than or equal to 0";
        let error = FieldError::invalid("metadata.generation", object.generation(), text);
        errors.push(error);
    }
    check_labels(object, errors);
    check_annotations(object, errors);
    check_owner_references(object, errors);
    check_finalizers(kind, object, errors);
}

/// Prepares a `generateName` for validation: it may end with a dash. As in Go, the dash and the
/// character before it are replaced by `a`.
fn mask_trailing_dash(start: &str) -> String {
    match start.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let kept = rest.char_indices().next_back().map_or(0, |(at, _)| at);
            format!("{}a", &rest[..kept])
        }
        _ => start.to_owned(),
    }
}

/// Errors beyond the bound are not reported, so they are not collected.
fn push_problems(path: &str, value: &str, problems: Problems, errors: &mut Vec<FieldError>) {
    if errors.len() >= FIELD_ERRORS_MAX {
        return;
    }
    for problem in problems {
        errors.push(FieldError::invalid(path, value, problem));
    }
}

fn check_labels(object: &Object, errors: &mut Vec<FieldError>) {
    for (key, value) in object.labels() {
        push_problems("metadata.labels", key, qualified_name(key), errors);
        push_problems("metadata.labels", value, label_value(value), errors);
    }
}

fn check_annotations(object: &Object, errors: &mut Vec<FieldError>) {
    let mut bytes = 0;
    for (key, value) in object.annotations() {
        // Annotation keys are validated in lower case: upper case is allowed.
        let problems = qualified_name(&key.to_lowercase());
        push_problems("metadata.annotations", key, problems, errors);
        bytes += key.len() + value.len();
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        errors.push(FieldError::too_long(
            "metadata.annotations",
            ANNOTATIONS_BYTES_MAX,
        ));
    }
}

pub(super) fn check_finalizers(
    kind: &ServedResource,
    object: &Object,
    errors: &mut Vec<FieldError>,
) {
    for finalizer in object.finalizers() {
        push_problems(
            "metadata.finalizers",
            finalizer,
            qualified_name(finalizer),
            errors,
        );
    }
    let has = |wanted: &str| object.finalizers().any(|finalizer| finalizer == wanted);
    if has("orphan") && has("foregroundDeletion") {
        let all: Vec<&str> = object.finalizers().collect();
        let text = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid("metadata.finalizers", all, text));
    }
    if kind.resource.strategy_options.unqualified_finalizers {
        return;
    }
    for (at, finalizer) in object.finalizers().enumerate() {
        check_standard_finalizer(format!("metadata.finalizers[{at}]"), finalizer, errors);
    }
}

/// Validates `spec.finalizers` of a namespace.
pub(super) fn check_namespace_finalizers(object: &Object, errors: &mut Vec<FieldError>) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let holders = spec["finalizers"].as_array().into_iter().flatten();
    for (at, holder) in holders.filter_map(Value::as_str).enumerate() {
        let path = format!("spec.finalizers[{at}]");
        push_problems(&path, holder, qualified_name(holder), errors);
        check_standard_finalizer(path, holder, errors);
    }
}

fn check_standard_finalizer(path: String, finalizer: &str, errors: &mut Vec<FieldError>) {
    let is_known = finalizer.contains('/') || STANDARD_FINALIZERS.contains(&finalizer);
    if !is_known && errors.len() < FIELD_ERRORS_MAX {
        let text = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(FieldError::invalid(path, finalizer, text));
    }
}

fn check_owner_references(object: &Object, errors: &mut Vec<FieldError>) {
    let owners = object
        .metadata()
        .and_then(|meta| meta.get("ownerReferences"));
    let owners = owners.and_then(Value::as_array);
    let mut controllers = Vec::new();
    for owner in owners.into_iter().flatten() {
        if errors.len() >= FIELD_ERRORS_MAX {
            break;
        }
        let text = |member| owner.get(member).and_then(Value::as_str).unwrap_or("");
        for (member, what) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            let value = text(member);
            let has_no_version = member == "apiVersion" && value.matches('/').count() > 1;
            if value.is_empty() || has_no_version {
                let path = format!("metadata.ownerReferences.{member}");
                errors.push(FieldError::invalid(path, value, what));
            }
        }
        if (text("apiVersion"), text("kind")) == ("v1", "Event") {
            let what = "/v1, Kind=Event is disallowed from being an owner";
            let path = "metadata.ownerReferences";
            errors.push(FieldError::invalid(path, owner.clone(), what));
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            controllers.push(format!("{}/{}", text("kind"), text("name")));
        }
    }
    if let [first, second, ..] = &controllers[..] {
        let text = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references \
             for {first} and {second}"
        );
        let shown = Value::from(owners.cloned().unwrap_or_default());
        errors.push(FieldError::invalid("metadata.ownerReferences", shown, text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_platform::SeededEntropy;

    #[test]
    fn new_uid_is_a_version_4_uuid() {
        let entropy = SeededEntropy::new(7);
        for _ in 0..1000 {
            let uid = new_uid(&entropy);
            assert_eq!(uid.len(), 36);
            assert_eq!(uid.as_bytes()[14], b'4');
            assert!(b"89ab".contains(&uid.as_bytes()[19]), "{uid}");
        }
    }
}
