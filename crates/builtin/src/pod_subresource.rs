//! Pod subresources that change the spec: `ephemeralcontainers` and `resize`.

use crate::prepare::qos_class;
use crate::validation::{Errors, first_by_name, items, text};
use optik_object::{FieldError, Object, Value};

/// The subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodSubresource {
    /// Ephemeral (debug) containers.
    EphemeralContainers,
    /// The resources of containers.
    Resize,
}

/// Keeps the old object except for the part that the subresource writes.
pub fn prepare_for_update(aspect: PodSubresource, object: &mut Object, old: &Object) {
    let wanted = object.get("spec").cloned().unwrap_or(Value::Null);
    *object = old.clone();
    let Some(Value::Object(spec)) = object.members_mut().get_mut("spec") else {
        return;
    };
    match aspect {
        PodSubresource::EphemeralContainers => match wanted.get("ephemeralContainers") {
            Some(list) => drop(spec.insert("ephemeralContainers".into(), list.clone())),
            None => drop(spec.remove("ephemeralContainers")),
        },
        PodSubresource::Resize => {
            for list in ["containers", "initContainers"] {
                let new = first_by_name(&wanted[list]);
                let containers = spec.get_mut(list).and_then(Value::as_array_mut);
                for container in containers.into_iter().flatten() {
                    let same = new.get(text(&container["name"]));
                    for member in ["resources", "resizePolicy"] {
                        if let Some(value) = same.and_then(|one| one.get(member)) {
                            container[member] = value.clone();
                        }
                    }
                }
            }
        }
    }
}

/// Validates an update through the subresource.
#[must_use]
pub fn validate_update(aspect: PodSubresource, object: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    crate::validation::validate_pod(object, &mut errors);
    let mut errors = errors.into_list();
    match aspect {
        PodSubresource::EphemeralContainers => {
            errors.extend(validate_existing_ephemeral_containers(object, old));
        }
        PodSubresource::Resize => errors.extend(validate_qos_class_unchanged(object, old)),
    }
    errors
}

fn validate_qos_class_unchanged(object: &Object, old: &Object) -> Option<FieldError> {
    let class = |object: &Object| qos_class(object.get("spec").unwrap_or(&Value::Null));
    let before = class(old);
    let text = "Pod QOS Class may not change as a result of resizing";
    (class(object) != before).then(|| FieldError::invalid("spec", before, text))
}

fn validate_existing_ephemeral_containers(object: &Object, old: &Object) -> Vec<FieldError> {
    fn list(object: &Object) -> &Value {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        &spec["ephemeralContainers"]
    }
    let now = first_by_name(list(object));
    let mut errors = Vec::new();
    for before in items(list(old)) {
        let name = optik_object::quote(text(&before["name"]));
        let kept = now.get(text(&before["name"]));
        let trouble = match kept {
            None => format!("existing ephemeral containers {name} may not be removed\n"),
            Some(kept) if **kept != *before => {
                format!("existing ephemeral containers {name} may not be changed\n")
            }
            Some(_) => continue,
        };
        errors.push(FieldError::forbidden("spec.ephemeralContainers", trouble));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(spec: &Value) -> Object {
        Object::try_from(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
    }

    #[test]
    fn pod_subresource_update_changes_only_its_fields() {
        let old = pod(&json!({"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}));
        let mut new = pod(&json!({"containers": [{"name": "c", "image": "j",
            "resources": {"limits": {"cpu": "1"}}}], "ephemeralContainers": [{"name": "e"}]}));
        let mut resized = new.clone();
        prepare_for_update(PodSubresource::EphemeralContainers, &mut new, &old);
        let spec = new.get("spec").unwrap();
        assert_eq!(
            (&spec["nodeName"], &spec["containers"][0]["image"]),
            (&json!("n"), &json!("i"))
        );
        assert_eq!(spec["ephemeralContainers"][0]["name"], "e");
        assert_eq!(validate_existing_ephemeral_containers(&old, &new).len(), 1);
        prepare_for_update(PodSubresource::Resize, &mut resized, &old);
        let spec = resized.get("spec").unwrap();
        assert_eq!(spec["containers"][0]["image"], "i");
        assert_eq!(spec["containers"][0]["resources"]["limits"]["cpu"], "1");
        assert!(spec.get("ephemeralContainers").is_none());
    }
}
