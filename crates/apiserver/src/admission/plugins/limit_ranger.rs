//! LimitRanger: applies the defaults of LimitRanges to containers and enforces their limits.

use crate::admission::plugins::{
    SyncPlugin, aggregate_message, forbidden, has_objects, is_create_of, list_objects,
};
use crate::admission::{AdmissionAttributes, AdmissionOperation};
use optik_builtin::limit_range;
use optik_catalog::key_prefix;
use optik_object::{Object, Status};

const LIMIT_RANGES_PREFIX: &str = key_prefix("", "limitranges");

pub(super) struct LimitRanger;

fn directory(attributes: &AdmissionAttributes<'_>) -> String {
    format!("{LIMIT_RANGES_PREFIX}{}/", attributes.namespace)
}

/// Creates of pods, and later changes of container resources.
fn handles_pod(attributes: &AdmissionAttributes<'_>) -> bool {
    is_create_of(attributes, "", "pods")
        || (attributes.operation == AdmissionOperation::Update
            && attributes.subresource == "resize"
            && attributes.is_resource("", "pods"))
}

fn handles_claim(attributes: &AdmissionAttributes<'_>) -> bool {
    attributes.operation != AdmissionOperation::Delete
        && attributes.subresource.is_empty()
        && attributes.is_resource("", "persistentvolumeclaims")
}

/// Limits do not apply to an object that is being deleted.
fn is_terminating(attributes: &AdmissionAttributes<'_>) -> bool {
    attributes.old.is_some_and(Object::is_being_deleted)
}

impl SyncPlugin for LimitRanger {
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        (handles_pod(attributes) || handles_claim(attributes))
            && has_objects(attributes.store, &directory(attributes))
    }

    fn admit(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        if handles_pod(attributes) && !is_terminating(attributes) {
            for range in list_objects(attributes.store, &directory(attributes)) {
                limit_range::apply_defaults(&range, object);
            }
        }
        Ok(())
    }

    fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &Object,
    ) -> Result<(), Status> {
        if is_terminating(attributes) {
            return Ok(());
        }
        for range in list_objects(attributes.store, &directory(attributes)) {
            let problems = match attributes.is_resource("", "pods") {
                true => limit_range::validate_pod(&range, object),
                false => limit_range::validate_claim(&range, object),
            };
            if !problems.is_empty() {
                return Err(forbidden(attributes, &aggregate_message(&problems)));
            }
        }
        Ok(())
    }
}
