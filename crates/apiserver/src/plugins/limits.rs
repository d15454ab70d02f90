//! LimitRanger: containers get what a LimitRange says, and no more.

use super::{Plugin, all, any, makes, refuse, together};
use crate::admission::Attributes;
use optik_builtin::limits;
use optik_object::{Object, Status};

pub(super) struct Limits;

fn directory(attributes: &Attributes<'_>) -> String {
    format!("/registry/limitranges/{}/", attributes.namespace)
}

fn concerned(attributes: &Attributes<'_>) -> bool {
    makes(attributes, "", "pods") || makes(attributes, "", "persistentvolumeclaims")
}

impl Plugin for Limits {
    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        concerned(attributes) && any(attributes.store, &directory(attributes))
    }

    fn change(&self, attributes: &Attributes<'_>, object: &mut Object) -> Result<(), Status> {
        if makes(attributes, "", "pods") {
            for range in all(attributes.store, &directory(attributes)) {
                limits::fill(&range, object);
            }
        }
        Ok(())
    }

    fn check(&self, attributes: &Attributes<'_>, object: &Object) -> Result<(), Status> {
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
