//! Which policies a write is held against, with which bindings and parameters.

use crate::admission::AdmissionAttributes;
use crate::admission::matching::EquivalentResources;
use crate::admission::namespace_lifecycle::NAMESPACES_PREFIX;
use crate::admission::policies::evaluation_context::{EvaluationContext, EvaluationError};
use crate::admission::policies::params::resolve_params;
use crate::admission::policies::policy::{AdmissionPolicy, PolicyBinding};
use crate::admission::policies::policy_set::BoundPolicy;
use crate::registry::served_resource::ServedResource;
use crate::server::store_errors::read_failed;
use optik_catalog::SpecialKind;
use optik_object::{Object, Status, Value as Json};
use std::sync::Arc;

/// Policies are not themselves subject to policies, nor are questions about requests.
fn is_exempt(attributes: &AdmissionAttributes<'_>) -> bool {
    let behaviour = &attributes.resource.resource.strategy_options;
    behaviour.special_kind == SpecialKind::Policies || behaviour.review_kind.is_some()
}

/// Whether a write may be the concern of one of these. Asked for every write.
pub(super) fn may_match(policies: &[BoundPolicy], attributes: &AdmissionAttributes<'_>) -> bool {
    if policies.is_empty() || is_exempt(attributes) {
        return false;
    }
    let candidates = EquivalentResources::new(attributes);
    let mut policies = policies.iter();
    policies.any(|bound| {
        bound
            .policy
            .match_constraints
            .matched_kind(&candidates)
            .is_some()
    })
}

/// A policy that a write is held against by a binding, once for each parameter.
pub(super) struct PolicyInvocation {
    pub(super) policy: Arc<AdmissionPolicy>,
    pub(super) binding: Arc<PolicyBinding>,
    /// As what the policy wants to see the write.
    pub(super) kind: Arc<ServedResource>,
    /// Or why the binding does not work.
    pub(super) params: Result<Vec<Option<Object>>, String>,
}

/// All that a write is held against, in the order of their names.
pub(super) async fn matching_policies(
    policies: &[BoundPolicy],
    attributes: &AdmissionAttributes<'_>,
    object: Option<&Object>,
) -> Result<Vec<PolicyInvocation>, Status> {
    let mut found = Vec::new();
    for BoundPolicy { policy, bindings } in policies {
        let kind = policy
            .match_constraints
            .matched_kind(&EquivalentResources::new(attributes));
        let Some(kind) = kind else { continue };
        if !policy.match_constraints.selects(attributes, object).await? {
            continue;
        }
        for binding in bindings {
            if let Some(reach) = &binding.match_resources {
                let takes = reach.matches(&EquivalentResources::new(attributes));
                if !takes || !reach.selects(attributes, object).await? {
                    continue;
                }
            }
            let params = resolve_params(policy, binding.params.as_ref(), attributes).await?;
            found.push(PolicyInvocation {
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
pub(super) async fn namespace_of(
    attributes: &AdmissionAttributes<'_>,
) -> Result<Option<Json>, Status> {
    if attributes.namespace.is_empty() || attributes.is_namespace() {
        return Ok(None);
    }
    let key = format!("{NAMESPACES_PREFIX}{}", attributes.namespace);
    let known = attributes.store.snapshot();
    let state = match known.get(key.as_bytes()) {
        Some(_) => known,
        None => attributes.store.latest().await.map_err(read_failed)?,
    };
    let stored = state.get(key.as_bytes());
    let parsed = stored.and_then(|stored| optik_object::parse_stored(stored.value()).ok());
    Ok(parsed.map(|parsed| parsed.value))
}

/// Whether all conditions hold. One that does not decides; otherwise what is wrong with
/// them is told.
pub(super) fn match_conditions_met<'a>(
    policy: &'a AdmissionPolicy,
    context: &EvaluationContext<'a>,
) -> Result<bool, String> {
    let mut wrong: Vec<String> = Vec::new();
    for condition in &policy.match_conditions {
        match context.evaluate(condition) {
            Ok(optik_cel::Value::Bool(true)) => {}
            Ok(_) => return Ok(false),
            Err(trouble) => {
                let text = EvaluationError::message(trouble);
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
