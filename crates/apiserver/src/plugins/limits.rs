//! LimitRanger: containers get what a LimitRange says, and no more.

use super::{all, any, makes, refuse, together};
use crate::admission::{Attributes, Draft, Step};
use futures::future::{BoxFuture, FutureExt, ready};
use optik_builtin::limits;
use optik_object::{Object, Status};

pub(super) struct Limits;

fn directory(attributes: &Attributes<'_>) -> String {
    format!("/registry/limitranges/{}/", attributes.namespace)
}

fn concerned(attributes: &Attributes<'_>) -> bool {
    makes(attributes, "", "pods") || makes(attributes, "", "persistentvolumeclaims")
}

impl Step for Limits {
    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        concerned(attributes) && any(attributes.store, &directory(attributes))
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        draft: &'a mut Draft,
    ) -> BoxFuture<'a, Result<(), Status>> {
        if makes(attributes, "", "pods")
            && let Some(pod) = &mut draft.object
        {
            for range in all(attributes.store, &directory(attributes)) {
                limits::fill(&range, pod);
            }
        }
        ready(Ok(())).boxed()
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Object>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        ready(check(attributes, object)).boxed()
    }
}

fn check(attributes: &Attributes<'_>, object: Option<&Object>) -> Result<(), Status> {
    let Some(object) = object else {
        return Ok(());
    };
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
