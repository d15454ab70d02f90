//! Which policies a write is held against, with which bindings and parameters.

use super::book::Bound;
use super::compiled::{Binding, Policy};
use super::context::{Context, Trouble};
use super::params::collect;
use crate::admission::Attributes;
use crate::admission::matching::Candidates;
use crate::kinds::Kind;
use crate::trouble::read_failed;
use optik_catalog::Hook;
use optik_object::{Object, Status, Value as Json};
use std::sync::Arc;

/// Policies are not themselves subject to policies, nor are questions about requests.
fn is_exempt(attributes: &Attributes<'_>) -> bool {
    let behaviour = &attributes.kind.resource.behaviour;
    behaviour.hook == Hook::Policies || behaviour.review.is_some()
}

/// Whether a write may be the concern of one of these. Asked for every write.
pub(super) fn is_concerned(policies: &[Bound], attributes: &Attributes<'_>) -> bool {
    if policies.is_empty() || is_exempt(attributes) {
        return false;
    }
    let candidates = Candidates::new(attributes);
    let mut policies = policies.iter();
    policies.any(|bound| bound.policy.reach.find(&candidates).is_some())
}

/// A policy that a write is held against by a binding, once for each parameter.
pub(super) struct Matched {
    pub(super) policy: Arc<Policy>,
    pub(super) binding: Arc<Binding>,
    /// As what the policy wants to see the write.
    pub(super) kind: Arc<Kind>,
    /// Or why the binding does not work.
    pub(super) params: Result<Vec<Option<Object>>, String>,
}

/// All that a write is held against, in the order of their names.
pub(super) async fn matched(
    policies: &[Bound],
    attributes: &Attributes<'_>,
    object: Option<&Object>,
) -> Result<Vec<Matched>, Status> {
    let mut found = Vec::new();
    for Bound { policy, bindings } in policies {
        let kind = policy.reach.find(&Candidates::new(attributes));
        let Some(kind) = kind else { continue };
        if !policy.reach.selects(attributes, object).await? {
            continue;
        }
        for binding in bindings {
            if let Some(reach) = &binding.reach {
                let takes = reach.takes(&Candidates::new(attributes));
                if !takes || !reach.selects(attributes, object).await? {
                    continue;
                }
            }
            let params = collect(policy, binding.params.as_ref(), attributes).await?;
            found.push(Matched {
                policy: Arc::clone(policy),
                binding: Arc::clone(binding),
                kind: Arc::clone(&kind),
                params,
            });
        }
    }
    Ok(found)
}

/// The namespace of a write, as JSON; none for what has none, and for namespaces.
pub(super) async fn namespace_of(attributes: &Attributes<'_>) -> Result<Option<Json>, Status> {
    if attributes.namespace.is_empty() || attributes.is_namespace() {
        return Ok(None);
    }
    let key = format!("/registry/namespaces/{}", attributes.namespace);
    let known = attributes.store.snapshot();
    let state = match known.get(key.as_bytes()) {
        Some(_) => known,
        None => attributes.store.latest().await.map_err(read_failed)?,
    };
    let stored = state.get(key.as_bytes());
    let parsed = stored.and_then(|stored| optik_object::parse_kept(stored.value()).ok());
    Ok(parsed.map(|parsed| parsed.value))
}

/// Whether all conditions hold. One that does not decides; otherwise what is wrong with
/// them is told.
pub(super) fn conditions_hold<'a>(
    policy: &'a Policy,
    context: &Context<'a>,
) -> Result<bool, String> {
    let mut wrong: Vec<String> = Vec::new();
    for condition in &policy.conditions {
        match context.run(condition) {
            Ok(optik_rules::Value::Bool(true)) => {}
            Ok(_) => return Ok(false),
            Err(trouble) => {
                let text = Trouble::text(trouble);
                if !wrong.contains(&text) {
                    wrong.push(text);
                }
            }
        }
    }
    match wrong.as_slice() {
        [] => Ok(true),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}
