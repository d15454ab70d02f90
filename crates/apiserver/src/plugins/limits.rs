//! LimitRanger: containers get what a LimitRange says, and no more.

use super::{Plugin, all, any, makes, refuse, together};
use crate::admission::{Attributes, Operation};
use optik_builtin::limits;
use optik_object::{Object, Status};

pub(super) struct Limits;

fn directory(attributes: &Attributes<'_>) -> String {
    format!("/registry/limitranges/{}/", attributes.namespace)
}

/// New pods, and what their containers are given later.
fn concerns_pod(attributes: &Attributes<'_>) -> bool {
    makes(attributes, "", "pods")
        || (attributes.operation == Operation::Update
            && attributes.subresource == "resize"
            && attributes.is("", "pods"))
}

fn concerns_claim(attributes: &Attributes<'_>) -> bool {
    attributes.operation != Operation::Delete
        && attributes.subresource.is_empty()
        && attributes.is("", "persistentvolumeclaims")
}

/// What goes away is not held up by limits.
fn is_leaving(attributes: &Attributes<'_>) -> bool {
    attributes.old.is_some_and(Object::is_being_deleted)
}

impl Plugin for Limits {
    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        (concerns_pod(attributes) || concerns_claim(attributes))
            && any(attributes.store, &directory(attributes))
    }

    fn change(&self, attributes: &Attributes<'_>, object: &mut Object) -> Result<(), Status> {
        if concerns_pod(attributes) && !is_leaving(attributes) {
            for range in all(attributes.store, &directory(attributes)) {
                limits::fill(&range, object);
            }
        }
        Ok(())
    }

    fn check(&self, attributes: &Attributes<'_>, object: &Object) -> Result<(), Status> {
        if is_leaving(attributes) {
            return Ok(());
        }
        for range in all(attributes.store, &directory(attributes)) {
            let problems = match attributes.is("", "pods") {
                true => limits::check_pod(&range, object),
                false => limits::check_claim(&range, object),
            };
            if !problems.is_empty() {
                return Err(refuse(attributes, &together(&problems)));
            }
        }
        Ok(())
    }
}
