//! Webhooks: others who are asked over HTTPS.

mod book;
mod call;
mod hook;
mod mutating;
mod patching;
mod review;
mod validating;

pub(crate) use book::{Hooks, MUTATING, VALIDATING};
pub(crate) use call::Asking;
pub(crate) use mutating::MutatingHooks;
pub(crate) use patching::{patched, reread};
pub(crate) use validating::ValidatingHooks;

use super::Attributes;
use super::conditions::{Judge, are_met};
use super::matching::Candidates;
use crate::conversion::shown_as;
use call::Invocation;
use hook::Hook;
use optik_catalog::Hook as Role;
use optik_object::{Object, Status};
use std::sync::Arc;

/// What decides about admission is not itself subject to webhooks.
fn is_exempt(attributes: &Attributes<'_>) -> bool {
    let role = attributes.kind.resource.behaviour.hook;
    matches!(role, Role::Webhooks | Role::Policies)
}

/// Whether a write may be the concern of one of these. Asked for every write.
fn is_concerned(hooks: &[Arc<Hook>], attributes: &Attributes<'_>) -> bool {
    if hooks.is_empty() || is_exempt(attributes) {
        return false;
    }
    let candidates = Candidates::new(attributes);
    let mut hooks = hooks.iter();
    hooks.any(|hook| hook.reach.find(&candidates).is_some())
}

/// Whether a webhook is to be asked about a write, and as what.
async fn invocation<'h>(
    asking: &Asking,
    hook: &'h Hook,
    attributes: &Attributes<'_>,
    object: Option<&Object>,
) -> Result<Option<Invocation<'h>>, Status> {
    let found = hook.reach.find(&Candidates::new(attributes));
    let Some(kind) = found else {
        return Ok(None);
    };
    if !hook.reach.selects(attributes, object).await? {
        return Ok(None);
    }
    let invocation = Invocation { hook, kind };
    if let Some(judge) = &asking.judge
        && !hook.conditions.is_empty()
        && !is_wanted(asking, &**judge, &invocation, attributes, object).await?
    {
        return Ok(None);
    }
    Ok(Some(invocation))
}

/// Whether the conditions of a webhook are met, by what it would be shown.
async fn is_wanted(
    asking: &Asking,
    judge: &dyn Judge,
    invocation: &Invocation<'_>,
    attributes: &Attributes<'_>,
    object: Option<&Object>,
) -> Result<bool, Status> {
    let of = invocation.of(attributes);
    let (from, outside) = (attributes.of, &asking.outside);
    let old = match attributes.old {
        Some(old) => Some(shown_as(outside, from, of, old).await?),
        None => None,
    };
    let object = match object {
        Some(object) => Some(shown_as(outside, from, of, object).await?),
        None => None,
    };
    let attributes = Attributes {
        old: old.as_ref(),
        ..*attributes
    };
    let hook = invocation.hook;
    let minds = !hook.fails_open;
    are_met(judge, &hook.conditions, &attributes, object.as_ref(), minds)
}
