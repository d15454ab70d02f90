//! MutatingAdmissionPolicy: the admission plugin that applies mutating policies.

use crate::admission::policies::evaluation_context::EvaluationContext;
use crate::admission::policies::mutation_types::{check_object_types, to_json_patch};
use crate::admission::policies::policy::{MutationPatchType, PolicyMutation};
use crate::admission::policies::policy_matcher::{
    PolicyInvocation, match_conditions_met, matching_policies, may_match, namespace_of,
};
use crate::admission::policies::versioned_attributes::PolicyDeps;
use crate::admission::webhooks::{apply_json_patch, decode_as};
use crate::admission::{AdmissionAttributes, AdmissionPlugin, MutationState};
use crate::registry::crd::webhook_conversion::convert_to_kind;
use crate::registry::served_resource::ServedResource;
use futures::future::BoxFuture;
use optik_cel::Value;
use optik_object::{DenialStatus, Object, Status, Value as Json};
use optik_patch::typed::{DuplicateItems, atomic_paths, merge, validate};
use serde_json::json;

const PLUGIN_NAME: &str = "MutatingAdmissionPolicy";

pub(crate) struct MutatingPolicies(pub(crate) PolicyDeps);

/// A failure of a policy and its Status reason.
struct PolicyFailure {
    text: String,
    reason: &'static str,
}

impl AdmissionPlugin for MutatingPolicies {
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        let set = self.0.policies.current();
        set.is_some_and(|set| may_match(&set.mutating, attributes))
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        draft: &'a mut MutationState,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some(set) = self.0.policies.current() else {
                return Ok(());
            };
            let all = matching_policies(&set.mutating, attributes, draft.object.as_ref()).await?;
            if all.is_empty() {
                return Ok(());
            }
            let namespace = namespace_of(attributes).await?;
            let mut object = draft.object.take();
            let round = draft.pass;
            draft
                .reinvocation(PLUGIN_NAME)
                .begin(round, object.as_ref());
            let mut complaints = Vec::new();
            let mut outcome = Ok(());
            for one in &all {
                outcome = self
                    .apply_policy(one, attributes, namespace.as_ref(), draft, &mut object)
                    .await
                    .map(|found| complaints.extend(found));
                if outcome.is_err() {
                    break;
                }
            }
            draft.reinvocation(PLUGIN_NAME).end(object.as_ref());
            draft.object = object;
            outcome?;
            failure_status(&complaints, attributes).map_or(Ok(()), Err)
        })
    }
}

impl MutatingPolicies {
    /// Mutates an object by a policy; returns the failures.
    async fn apply_policy(
        &self,
        one: &PolicyInvocation,
        attributes: &AdmissionAttributes<'_>,
        namespace: Option<&Json>,
        draft: &mut MutationState,
        object: &mut Option<Object>,
    ) -> Result<Vec<PolicyFailure>, Status> {
        let PolicyInvocation {
            policy, binding, ..
        } = one;
        let mut complaints = Vec::new();
        let mut complain = |why: String, reason| {
            if !policy.ignores_failure {
                let text = format!(
                    "policy '{}' with binding '{}' denied request: {why}",
                    policy.name, binding.name
                );
                complaints.push(PolicyFailure { text, reason });
            }
        };
        let params = match &one.params {
            Ok(params) => params,
            Err(why) => {
                complain(format!("failed to configure binding: {why}"), "Forbidden");
                return Ok(complaints);
            }
        };
        let seen = self
            .0
            .versioned_attributes(one, attributes, namespace)
            .await?;
        let (of, old, surroundings) = (seen.object_kind, seen.old.as_ref(), &seen.inputs);
        for params in params {
            let params = params.as_ref();
            let Some(now) = &*object else { continue };
            let before =
                convert_to_kind(&self.0.webhook_client, attributes.object_kind, of, now).await?;
            let party = format!(
                "{}/{}/{}",
                policy.name,
                binding.name,
                params.map_or("", Object::name)
            );
            let mut shown = before.clone();
            {
                let objects = (Some(&before), old);
                let context =
                    EvaluationContext::new(objects, surroundings, params, &policy.variables);
                match match_conditions_met(policy, &context) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(why) => {
                        complain(why, "Invalid");
                        continue;
                    }
                }
            }
            let round = draft.pass;
            if !draft.reinvocation(PLUGIN_NAME).is_due(round, &party) {
                continue;
            }
            for mutation in &policy.mutations {
                let made = {
                    let objects = (Some(&shown), old);
                    let context =
                        EvaluationContext::new(objects, surroundings, params, &policy.variables);
                    evaluate_mutation(mutation, &context, of, &shown)
                };
                match made {
                    Ok(made) => shown = made,
                    Err(why) => complain(why, "Invalid"),
                }
            }
            if shown != before {
                *object = Some(
                    convert_to_kind(&self.0.webhook_client, of, attributes.object_kind, &shown)
                        .await?,
                );
                draft.reinvocation(PLUGIN_NAME).object_changed();
                draft.needs_reinvocation = true;
            }
            if policy.reinvocation_if_needed {
                draft.reinvocation(PLUGIN_NAME).mark_reinvocable(&party);
            }
        }
        Ok(complaints)
    }
}

/// The object after one mutation.
fn evaluate_mutation<'a>(
    mutation: &'a PolicyMutation,
    context: &EvaluationContext<'a>,
    of: &ServedResource,
    object: &Object,
) -> Result<Object, String> {
    let value = context.evaluate(&mutation.expression);
    let value =
        value.map_err(crate::admission::policies::evaluation_context::EvaluationError::message)?;
    match mutation.patch_type {
        MutationPatchType::JsonPatch => {
            let operations = to_json_patch(&value)?;
            let bytes = optik_object::to_bytes(&operations);
            match apply_json_patch(of, object, &bytes) {
                Ok(made) => Ok(made.unwrap_or_else(|| object.clone())),
                // A failed `test` operation means that the patch is not applied; it is no error.
                Err(why) if why.ends_with("test failed") => Ok(object.clone()),
                Err(why) => Err(format!("JSON Patch: {why}")),
            }
        }
        MutationPatchType::ApplyConfiguration => apply_configuration(&value, of, object),
    }
}

fn apply_configuration(
    value: &Value<'_>,
    of: &ServedResource,
    object: &Object,
) -> Result<Object, String> {
    let Value::Struct(made) = value else {
        let name = "unsupported return type from ApplyConfiguration expression";
        return Err(name.into());
    };
    check_object_types(made).map_err(|why| format!("type mismatch: {why}"))?;
    let config = value.to_json().unwrap_or_default();
    let Json::Object(mut config) = config else {
        return Err("invalid return type".into());
    };
    config.insert("apiVersion".into(), (&*of.api_version).into());
    config.insert("kind".into(), (&*of.resource.kind).into());
    let mut live = object.members().clone();
    match of.schema_in(&of.api_version) {
        Some(schema) => {
            validate(schema, &config, DuplicateItems::Refused).map_err(|error| {
                format!(
                    "error applying patch: failed to convert patch object to typed object: {error}"
                )
            })?;
            // An apply configuration with some members of an atomic field would silently drop the
            // others.
            let atomics = atomic_paths(schema, &config);
            if !atomics.is_empty() {
                return Err(format!(
                    "error applying patch: invalid ApplyConfiguration: may not mutate atomic \
                     arrays, maps or structs: {}",
                    atomics.join(", ")
                ));
            }
            merge(schema, &mut live, &config);
        }
        None => {
            let mut whole = Json::Object(live);
            let patch = Json::Object(config);
            merge_untyped(&mut whole, patch);
            let Json::Object(merged) = whole else {
                return Err("invalid return type".into());
            };
            live = merged;
        }
    }
    decode_as(of, Json::Object(live)).map_err(|why| format!("error applying patch: {why}"))
}

/// Merge without a schema: objects are merged, everything else is replaced.
fn merge_untyped(into: &mut Json, from: Json) {
    match (into, from) {
        (Json::Object(into), Json::Object(from)) => {
            for (name, value) in from {
                merge_untyped(into.entry(name).or_insert(Json::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn failure_status(
    complaints: &[PolicyFailure],
    attributes: &AdmissionAttributes<'_>,
) -> Option<Status> {
    let first = complaints.first()?;
    let resource = attributes.resource.resource.name();
    let causes = complaints.iter();
    let causes: Vec<Json> = causes.map(|one| json!({"message": one.text})).collect();
    let details = json!({
        "name": attributes.name, "group": resource.group, "kind": resource.plural,
        "causes": causes,
    });
    Some(Status::from_denial(DenialStatus {
        message: &first.text,
        reason: first.reason,
        code: 403,
        details: Some(&details),
    }))
}
