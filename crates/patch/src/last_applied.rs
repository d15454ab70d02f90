//! The annotation `last-applied-configuration`, in which client-side `kubectl apply` records its
//! configuration.

use crate::conflict::Conflicts;
use crate::endpoint::Endpoint;
use crate::fieldset::FieldSet;
use crate::typed::{DuplicateItems, compare, to_field_set, validate};
use optik_object::{Map, Object, Value, parse, to_bytes};

/// The annotation is used only for this manager.
pub(crate) const MANAGER: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The maximum size of all annotations of an object.
const ANNOTATION_BYTES_MAX: usize = 256 * 1024;

/// The conflicts that remain: kubectl may take fields of its last client-side apply that still have
/// the applied value.
pub(crate) fn remaining_conflicts(
    endpoint: &Endpoint<'_>,
    live: &Map,
    conflicts: Conflicts,
) -> Conflicts {
    match last_applied_fields(endpoint, live) {
        Some(allowed) => conflicts.without(&allowed),
        None => conflicts,
    }
}

fn last_applied_fields(endpoint: &Endpoint<'_>, live: &Map) -> Option<FieldSet> {
    let annotations = live.get("metadata")?.get("annotations")?;
    let text = annotations.get(ANNOTATION)?.as_str()?;
    let Value::Object(applied) = parse(text.as_bytes()).ok()?.value else {
        return None;
    };
    if applied.get("apiVersion")?.as_str()? != endpoint.api_version {
        return None;
    }
    let of = endpoint.object_type()?;
    validate(of, &applied, DuplicateItems::Refused).ok()?;
    validate(of, live, DuplicateItems::Refused).ok()?;
    let changed = compare(of, &applied, live);
    let fields = to_field_set(of, &applied);
    Some(
        fields
            .difference(&changed.written())
            .difference(&changed.removed),
    )
}

/// Updates the annotation if there is one. With a stale annotation, a later client-side apply would
/// undo the server-side apply.
pub(crate) fn update_annotation(object: &mut Object, config: &Object) {
    if object.annotation(ANNOTATION).is_none_or(str::is_empty) {
        return;
    }
    let mut config = config.clone();
    if let Some(metadata) = config.members_mut().get_mut("metadata")
        && let Some(Value::Object(annotations)) = metadata.get_mut("annotations")
    {
        annotations.remove(ANNOTATION);
        if annotations.is_empty()
            && let Value::Object(metadata) = metadata
        {
            metadata.remove("annotations");
        }
    }
    let mut text = String::from_utf8_lossy(&to_bytes(config.members())).into_owned();
    text.push('\n');
    object.set_annotation(ANNOTATION, &text);
    let bytes: usize = object
        .annotations()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if bytes > ANNOTATION_BYTES_MAX
        && let Some(metadata) = object.members_mut().get_mut("metadata")
        && let Some(Value::Object(annotations)) = metadata.get_mut("annotations")
    {
        annotations.remove(ANNOTATION);
    }
}
