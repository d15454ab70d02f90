//! Priority: sets a pod's priority from its PriorityClass.

use crate::admission::plugins::{SyncPlugin, forbidden, get_object, is_create_of, list_objects};
use crate::admission::{AdmissionAttributes, AdmissionOperation};
use optik_catalog::key_prefix;
use optik_object::{Object, Status, Value};

const CLASSES: &str = key_prefix("scheduling.k8s.io", "priorityclasses");

pub(super) struct PriorityAdmission;

fn is_class(attributes: &AdmissionAttributes<'_>) -> bool {
    attributes.is_resource("scheduling.k8s.io", "priorityclasses")
        && attributes.subresource.is_empty()
        && attributes.operation != AdmissionOperation::Delete
}

impl SyncPlugin for PriorityAdmission {
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        is_create_of(attributes, "", "pods") || is_class(attributes)
    }

    fn admit(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        match is_create_of(attributes, "", "pods") {
            true => resolve_priority(attributes, object),
            false => Ok(()),
        }
    }

    fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &Object,
    ) -> Result<(), Status> {
        match is_class(attributes) {
            true => check_default(attributes, object),
            false => Ok(()),
        }
    }
}

fn class_value(class: &Object) -> i64 {
    class.get("value").and_then(Value::as_i64).unwrap_or(0)
}

fn is_default(class: &Object) -> bool {
    class.get("globalDefault") == Some(&Value::Bool(true))
}

fn resolve_priority(attributes: &AdmissionAttributes<'_>, pod: &mut Object) -> Result<(), Status> {
    let Some(Value::Object(spec)) = pod.members_mut().get_mut("spec") else {
        return Ok(());
    };
    let named = spec.get("priorityClassName").and_then(Value::as_str);
    let class = match named.unwrap_or_default() {
        "" => {
            let classes = list_objects(attributes.store, CLASSES).into_iter();
            classes.filter(is_default).min_by_key(class_value)
        }
        name => {
            let class = get_object(attributes.store, &format!("{CLASSES}{name}"));
            let why = format!("no PriorityClass with name {name} was found");
            Some(class.ok_or_else(|| forbidden(attributes, &why))?)
        }
    };
    let value = class.as_ref().map_or(0, class_value);
    let policy = class
        .as_ref()
        .and_then(|class| class.get("preemptionPolicy"));
    let policy = policy
        .and_then(Value::as_str)
        .unwrap_or("PreemptLowerPriority");
    if let Some(class) = &class {
        spec.insert("priorityClassName".into(), class.name().into());
    }
    if let Some(given) = spec.get("priority").and_then(Value::as_i64)
        && given != value
    {
        return Err(forbidden(
            attributes,
            &format!(
                "the integer value of priority ({given}) must not be provided in pod spec; \
                 priority admission controller computed {value} from the given PriorityClass name"
            ),
        ));
    }
    if let Some(given) = spec.get("preemptionPolicy").and_then(Value::as_str)
        && given != policy
    {
        return Err(forbidden(
            attributes,
            &format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; \
                 priority admission controller computed {policy} from the given PriorityClass name"
            ),
        ));
    }
    spec.insert("priority".into(), value.into());
    spec.insert("preemptionPolicy".into(), policy.into());
    Ok(())
}

fn check_default(attributes: &AdmissionAttributes<'_>, class: &Object) -> Result<(), Status> {
    if !is_default(class) {
        return Ok(());
    }
    let others = list_objects(attributes.store, CLASSES);
    let mut others = others.iter().filter(|one| is_default(one));
    match others.find(|one| one.name() != class.name()) {
        None => Ok(()),
        Some(other) => Err(forbidden(
            attributes,
            &format!(
                "PriorityClass {} is already marked as default. Only one default can exist",
                other.name()
            ),
        )),
    }
}
