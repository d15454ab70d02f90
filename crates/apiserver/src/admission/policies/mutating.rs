//! Policies that change objects.

use super::compiled::{How, Mutation};
use super::context::Context;
use super::holding::Holding;
use super::making::{check_paths, patch};
use super::matched::{Matched, conditions_hold, is_concerned, matched, namespace_of};
use crate::admission::hooks::{patched, reread};
use crate::admission::{Attributes, Draft, Step};
use crate::conversion::shown_as;
use crate::kinds::Kind;
use futures::future::BoxFuture;
use optik_object::{Denial, Object, Status, Value as Json};
use optik_patch::typed::{Duplicates, atomics, merge, validate};
use optik_rules::Value;
use serde_json::json;

const STEP: &str = "MutatingAdmissionPolicy";

pub(crate) struct MutatingPolicies(pub(crate) Holding);

/// Something that went wrong with a policy, and the reason that is given for it.
struct Complaint {
    text: String,
    reason: &'static str,
}

impl Step for MutatingPolicies {
    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        let set = self.0.policies.current();
        set.is_some_and(|set| is_concerned(&set.mutating, attributes))
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        draft: &'a mut Draft,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some(set) = self.0.policies.current() else {
                return Ok(());
            };
            let all = matched(&set.mutating, attributes, draft.object.as_ref()).await?;
            if all.is_empty() {
                return Ok(());
            }
            let namespace = namespace_of(attributes).await?;
            let mut object = draft.object.take();
            let round = draft.round;
            draft.memory(STEP).begin(round, object.as_ref());
            let mut complaints = Vec::new();
            let mut outcome = Ok(());
            for one in &all {
                outcome = self
                    .hold(one, attributes, namespace.as_ref(), draft, &mut object)
                    .await
                    .map(|found| complaints.extend(found));
                if outcome.is_err() {
                    break;
                }
            }
            draft.memory(STEP).end(object.as_ref());
            draft.object = object;
            outcome?;
            refusal(&complaints, attributes).map_or(Ok(()), Err)
        })
    }
}

impl MutatingPolicies {
    /// Changes an object as a policy says; what went wrong.
    async fn hold(
        &self,
        one: &Matched,
        attributes: &Attributes<'_>,
        namespace: Option<&Json>,
        draft: &mut Draft,
        object: &mut Option<Object>,
    ) -> Result<Vec<Complaint>, Status> {
        let Matched {
            policy, binding, ..
        } = one;
        let mut complaints = Vec::new();
        let mut complain = |why: String, reason| {
            if !policy.fails_open {
                let text = format!(
                    "policy '{}' with binding '{}' denied request: {why}",
                    policy.name, binding.name
                );
                complaints.push(Complaint { text, reason });
            }
        };
        let params = match &one.params {
            Ok(params) => params,
            Err(why) => {
                complain(format!("failed to configure binding: {why}"), "Forbidden");
                return Ok(complaints);
            }
        };
        let seen = self.0.seen(one, attributes, namespace).await?;
        let (of, old, surroundings) = (seen.of, seen.old.as_ref(), &seen.surroundings);
        for params in params {
            let params = params.as_ref();
            let Some(now) = &*object else { continue };
            let before = shown_as(&self.0.outside, attributes.of, of, now).await?;
            let party = format!(
                "{}/{}/{}",
                policy.name,
                binding.name,
                params.map_or("", Object::name)
            );
            let mut shown = before.clone();
            {
                let objects = (Some(&before), old);
                let context = Context::new(objects, surroundings, params, &policy.variables);
                match conditions_hold(policy, &context) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(why) => {
                        complain(why, "Invalid");
                        continue;
                    }
                }
            }
            let round = draft.round;
            if !draft.memory(STEP).is_due(round, &party) {
                continue;
            }
            for mutation in &policy.mutations {
                let made = {
                    let objects = (Some(&shown), old);
                    let context = Context::new(objects, surroundings, params, &policy.variables);
                    change(mutation, &context, of, &shown)
                };
                match made {
                    Ok(made) => shown = made,
                    Err(why) => complain(why, "Invalid"),
                }
            }
            if shown != before {
                *object = Some(shown_as(&self.0.outside, of, attributes.of, &shown).await?);
                draft.memory(STEP).changed();
                draft.again = true;
            }
            if policy.reinvoked {
                draft.memory(STEP).is_willing(&party);
            }
        }
        Ok(complaints)
    }
}

/// What a mutation makes of an object.
fn change<'a>(
    mutation: &'a Mutation,
    context: &Context<'a>,
    of: &Kind,
    object: &Object,
) -> Result<Object, String> {
    let value = context.run(&mutation.expression);
    let value = value.map_err(super::context::Trouble::text)?;
    match mutation.how {
        How::Patch => {
            let operations = patch(&value)?;
            let bytes = optik_object::to_bytes(&operations);
            match patched(of, object, &bytes) {
                Ok(made) => Ok(made.unwrap_or_else(|| object.clone())),
                // A test that fails keeps the patch from being applied.
                Err(why) if why.ends_with("test failed") => Ok(object.clone()),
                Err(why) => Err(format!("JSON Patch: {why}")),
            }
        }
        How::Apply => applied(&value, of, object),
    }
}

fn applied(value: &Value<'_>, of: &Kind, object: &Object) -> Result<Object, String> {
    let Value::Made(made) = value else {
        let name = "unsupported return type from ApplyConfiguration expression";
        return Err(name.into());
    };
    check_paths(made).map_err(|why| format!("type mismatch: {why}"))?;
    let config = value.to_json().unwrap_or_default();
    let Json::Object(mut config) = config else {
        return Err("invalid return type".into());
    };
    config.insert("apiVersion".into(), (&*of.api_version).into());
    config.insert("kind".into(), (&*of.resource.kind).into());
    let mut live = object.members().clone();
    match of.schema_in(&of.api_version) {
        Some(schema) => {
            validate(schema, &config, Duplicates::Refused).map_err(|error| {
                format!(
                    "error applying patch: failed to convert patch object to typed object: {error}"
                )
            })?;
            // Who names some members of it would drop the others without knowing.
            let atomics = atomics(schema, &config);
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
            merge_plainly(&mut whole, patch);
            let Json::Object(merged) = whole else {
                return Err("invalid return type".into());
            };
            live = merged;
        }
    }
    reread(of, Json::Object(live)).map_err(|why| format!("error applying patch: {why}"))
}

/// Without types, objects are merged and everything else is replaced.
fn merge_plainly(into: &mut Json, from: Json) {
    match (into, from) {
        (Json::Object(into), Json::Object(from)) => {
            for (name, value) in from {
                merge_plainly(into.entry(name).or_insert(Json::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn refusal(complaints: &[Complaint], attributes: &Attributes<'_>) -> Option<Status> {
    let first = complaints.first()?;
    let resource = attributes.kind.resource.name();
    let causes = complaints.iter();
    let causes: Vec<Json> = causes.map(|one| json!({"message": one.text})).collect();
    let details = json!({
        "name": attributes.name, "group": resource.group, "kind": resource.plural,
        "causes": causes,
    });
    Some(Status::denied(Denial {
        message: &first.text,
        reason: first.reason,
        code: 403,
        details: Some(&details),
    }))
}
