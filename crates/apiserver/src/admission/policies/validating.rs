//! Policies that refuse objects.

use super::compiled::{Action, Policy, Validation};
use super::context::{Context, Trouble};
use super::holding::Holding;
use super::matched::{Matched, conditions_hold, is_concerned, matched, namespace_of};
use crate::admission::{Attributes, Step};
use futures::future::BoxFuture;
use optik_object::{Denial, Object, Status, Value as Json};
use optik_rules::Value;
use serde_json::json;
use std::collections::BTreeMap;

const FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";
/// Longer messages are not taken.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;
/// What is longer is cut.
const ANNOTATION_BYTES_MAX: usize = 10 * 1024;

pub(crate) struct ValidatingPolicies(pub(crate) Holding);

/// A validation that said no, or could not say yes.
struct Decision {
    message: String,
    reason: String,
}

impl Step for ValidatingPolicies {
    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        let set = self.0.policies.current();
        set.is_some_and(|set| is_concerned(&set.validating, attributes))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Object>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some(set) = self.0.policies.current() else {
                return Ok(());
            };
            let all = matched(&set.validating, attributes, object).await?;
            let namespace = match all.is_empty() {
                true => None,
                false => namespace_of(attributes).await?,
            };
            let mut denied = None;
            let mut notes = Notes::default();
            for one in &all {
                let found = self
                    .hold(one, attributes, object, namespace.as_ref(), &mut notes)
                    .await?;
                denied = denied.or(found);
            }
            notes.publish(attributes);
            denied.map_or(Ok(()), Err)
        })
    }
}

/// Audit annotations of policies: each value once, several beside each other.
#[derive(Default)]
struct Notes {
    values: BTreeMap<String, Vec<String>>,
}

impl Notes {
    fn add(&mut self, key: String, value: &str) {
        let mut end = value.len().min(ANNOTATION_BYTES_MAX);
        while !value.is_char_boundary(end) {
            end -= 1;
        }
        let values = self.values.entry(key).or_default();
        if !values.iter().any(|known| *known == value[..end]) {
            values.push(value[..end].to_owned());
        }
    }

    fn publish(self, attributes: &Attributes<'_>) {
        for (key, values) in self.values {
            attributes.told.annotate(key, values.join(", "));
        }
    }
}

impl ValidatingPolicies {
    /// Holds a write against a policy; the first refusal.
    async fn hold(
        &self,
        one: &Matched,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
        namespace: Option<&Json>,
        notes: &mut Notes,
    ) -> Result<Option<Status>, Status> {
        let policy = &one.policy;
        let params = match &one.params {
            Ok(params) => params,
            Err(_) if policy.fails_open => return Ok(None),
            Err(why) => {
                let decision = Decision {
                    message: format!("failed to configure binding: {why}"),
                    reason: String::new(),
                };
                return Ok(Some(refusal(one, &decision, attributes)));
            }
        };
        let seen = self.0.seen(one, attributes, namespace).await?;
        let object = self.0.shown(attributes, seen.of, object).await?;
        let mut denied = None;
        for params in params {
            let (objects, params) = ((object.as_ref(), seen.old.as_ref()), params.as_ref());
            let context = Context::new(objects, &seen.surroundings, params, &policy.variables);
            let found = judge(one, &context, attributes, notes);
            denied = denied.or(found);
        }
        Ok(denied)
    }
}

/// What a policy decides about a write with one parameter; the first refusal.
fn judge<'a>(
    one: &'a Matched,
    context: &Context<'a>,
    attributes: &Attributes<'_>,
    notes: &mut Notes,
) -> Option<Status> {
    let policy: &Policy = &one.policy;
    let decisions = match conditions_hold(policy, context) {
        Ok(false) => return None,
        Ok(true) => decide(policy, context),
        Err(_) if policy.fails_open => return None,
        Err(message) => vec![Some(Decision {
            message,
            reason: String::new(),
        })],
    };
    let mut denied = None;
    for (index, decision) in decisions.iter().enumerate() {
        let Some(decision) = decision else { continue };
        for action in &one.binding.actions {
            match action {
                Action::Deny => {
                    denied = denied.or_else(|| Some(refusal(one, decision, attributes)));
                }
                Action::Warn => attributes.told.warn([format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                    policy.name, one.binding.name, decision.message
                )]),
                Action::Audit => audit(one, index, decision, attributes),
            }
        }
    }
    let annotated = annotate(policy, context, notes);
    match annotated {
        Err(message) if !policy.fails_open => {
            let decision = Decision {
                message,
                reason: String::new(),
            };
            denied.or_else(|| Some(refusal(one, &decision, attributes)))
        }
        _ => denied,
    }
}

/// What each validation came to; `None` if it is content.
fn decide<'a>(policy: &'a Policy, context: &Context<'a>) -> Vec<Option<Decision>> {
    let mut decisions = Vec::with_capacity(policy.validations.len());
    for validation in &policy.validations {
        let decision = match context.run(&validation.expression) {
            Ok(Value::Bool(true)) => None,
            Ok(_) => Some(Decision {
                message: message(validation, context),
                reason: validation.reason.clone(),
            }),
            Err(Trouble::OutOfBudget) => {
                let decision = Decision {
                    message: Trouble::OutOfBudget.text(),
                    reason: String::new(),
                };
                decisions.push((!policy.fails_open).then_some(decision));
                return decisions;
            }
            Err(Trouble::Failed(_)) if policy.fails_open => None,
            Err(Trouble::Failed(message)) => Some(Decision {
                message,
                reason: String::new(),
            }),
        };
        decisions.push(decision);
    }
    decisions
}

fn message<'a>(validation: &'a Validation, context: &Context<'a>) -> String {
    let said = validation
        .message_expression
        .as_ref()
        .and_then(|expression| context.run(expression).ok());
    let said = said.as_ref().and_then(Value::as_str).map(str::trim);
    let said = said
        .filter(|text| !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n'));
    match (said, validation.message.as_str()) {
        (Some(said), _) => said.to_owned(),
        (None, "") => format!("failed expression: {}", validation.expression.text.trim()),
        (None, message) => message.to_owned(),
    }
}

fn annotate<'a>(
    policy: &'a Policy,
    context: &Context<'a>,
    notes: &mut Notes,
) -> Result<(), String> {
    for (key, expression) in &policy.annotations {
        match context.run(expression) {
            Ok(Value::Null) => {}
            Ok(Value::String(text)) => {
                let text = text.as_str().trim();
                if !text.is_empty() {
                    notes.add(format!("{}/{key}", policy.name), text);
                }
            }
            Ok(_) => {
                return Err(format!(
                    "valueExpression '{}' resulted in unsupported return type. Return type must \
                     be either string or null.",
                    expression.text
                ));
            }
            Err(trouble) => return Err(trouble.text()),
        }
    }
    Ok(())
}

fn audit(one: &Matched, index: usize, decision: &Decision, attributes: &Attributes<'_>) {
    let actions: Vec<&str> = one
        .binding
        .actions
        .iter()
        .map(|action| action.name())
        .collect();
    let value = json!([{
        "message": decision.message, "policy": one.policy.name, "binding": one.binding.name,
        "expressionIndex": index, "validationActions": actions,
    }]);
    attributes.told.annotate(FAILURE.into(), value.to_string());
}

fn refusal(one: &Matched, decision: &Decision, attributes: &Attributes<'_>) -> Status {
    let text = format!(
        "ValidatingAdmissionPolicy '{}' with binding '{}' denied request: {}",
        one.policy.name, one.binding.name, decision.message
    );
    let reason = match decision.reason.as_str() {
        "" => "Invalid",
        reason => reason,
    };
    let code = match reason {
        "Forbidden" => 403,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    denied(attributes, &text, reason, code)
}

/// A refusal that reads like a forbidden one, whatever its reason.
fn denied(attributes: &Attributes<'_>, text: &str, reason: &str, code: u16) -> Status {
    let resource = attributes.kind.resource.name();
    let name = match attributes.name {
        "" => String::new(),
        name => format!(" {}", optik_object::quote(name)),
    };
    let message = format!("{}{name} is forbidden: {text}", resource.qualified());
    let details = json!({
        "name": attributes.name, "group": resource.group, "kind": resource.plural,
        "causes": [{"message": text}],
    });
    Status::denied(Denial {
        message: &message,
        reason,
        code,
        details: Some(&details),
    })
}
