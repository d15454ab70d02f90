//! Finds the policies, bindings and parameters that apply to a write.

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

/// Whether a resource is exempt: policies do not apply to policies, nor to access reviews.
fn is_exempt(attributes: &AdmissionAttributes<'_>) -> bool {
    let behaviour = &attributes.resource.resource.strategy_options;
    behaviour.special_kind == SpecialKind::Policies || behaviour.review_kind.is_some()
}

/// Whether some policy may match a write. Called for every write.
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

/// A policy that is evaluated for a write because of a binding, once for each parameter.
pub(super) struct PolicyInvocation {
    pub(super) policy: Arc<AdmissionPolicy>,
    pub(super) binding: Arc<PolicyBinding>,
    /// The kind in which the policy sees the write.
    pub(super) kind: Arc<ServedResource>,
    /// The inner error says why the binding is not usable.
    pub(super) params: Result<Vec<Option<Object>>, String>,
}

/// The policy invocations of a write, in the order of their names.
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

/// The namespace of a write, as JSON; `None` for cluster-scoped objects and for namespaces.
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

/// Whether all match conditions hold. A condition that is false decides; otherwise evaluation
/// errors are returned.
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
