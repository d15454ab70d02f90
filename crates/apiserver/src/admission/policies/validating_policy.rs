//! ValidatingAdmissionPolicy: the admission plugin that enforces validating policies.

use crate::admission::policies::evaluation_context::{EvaluationContext, EvaluationError};
use crate::admission::policies::policy::{AdmissionPolicy, PolicyValidation, ValidationAction};
use crate::admission::policies::policy_matcher::{
    PolicyInvocation, match_conditions_met, matching_policies, may_match, namespace_of,
};
use crate::admission::policies::versioned_attributes::PolicyDeps;
use crate::admission::{AdmissionAttributes, AdmissionPlugin};
use futures::future::BoxFuture;
use optik_cel::Value;
use optik_object::{DenialStatus, Object, Status, Value as Json};
use serde_json::json;
use std::collections::BTreeMap;

const FAILURE_ANNOTATION: &str = "validation.policy.admission.k8s.io/validation_failure";
/// Longer messages from `messageExpression` are not used.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;
/// Longer audit annotations are truncated.
const ANNOTATION_BYTES_MAX: usize = 10 * 1024;

pub(crate) struct ValidatingPolicies(pub(crate) PolicyDeps);

/// A validation that failed or could not be evaluated.
struct PolicyDecision {
    message: String,
    reason: String,
}

impl AdmissionPlugin for ValidatingPolicies {
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        let set = self.0.policies.current();
        set.is_some_and(|set| may_match(&set.validating, attributes))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: Option<&'a Object>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some(set) = self.0.policies.current() else {
                return Ok(());
            };
            let all = matching_policies(&set.validating, attributes, object).await?;
            let namespace = match all.is_empty() {
                true => None,
                false => namespace_of(attributes).await?,
            };
            let mut denied = None;
            let mut notes = AuditAnnotations::default();
            for one in &all {
                let found = self
                    .enforce(one, attributes, object, namespace.as_ref(), &mut notes)
                    .await?;
                denied = denied.or(found);
            }
            notes.publish(attributes);
            denied.map_or(Ok(()), Err)
        })
    }
}

/// Audit annotations of policies: equal values of a key once, different values joined.
#[derive(Default)]
struct AuditAnnotations {
    values: BTreeMap<String, Vec<String>>,
}

impl AuditAnnotations {
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

    fn publish(self, attributes: &AdmissionAttributes<'_>) {
        for (key, values) in self.values {
            attributes.recorder.annotate(key, values.join(", "));
        }
    }
}

impl ValidatingPolicies {
    /// Enforces a policy on a write; returns the first denial.
    async fn enforce(
        &self,
        one: &PolicyInvocation,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Object>,
        namespace: Option<&Json>,
        notes: &mut AuditAnnotations,
    ) -> Result<Option<Status>, Status> {
        let policy = &one.policy;
        let params = match &one.params {
            Ok(params) => params,
            Err(_) if policy.ignores_failure => return Ok(None),
            Err(why) => {
                let decision = PolicyDecision {
                    message: format!("failed to configure binding: {why}"),
                    reason: String::new(),
                };
                return Ok(Some(decision_status(one, &decision, attributes)));
            }
        };
        let seen = self
            .0
            .versioned_attributes(one, attributes, namespace)
            .await?;
        let object = self
            .0
            .versioned_object(attributes, seen.object_kind, object)
            .await?;
        let mut denied = None;
        for params in params {
            let (objects, params) = ((object.as_ref(), seen.old.as_ref()), params.as_ref());
            let context = EvaluationContext::new(objects, &seen.inputs, params, &policy.variables);
            let found = evaluate(one, &context, attributes, notes);
            denied = denied.or(found);
        }
        Ok(denied)
    }
}

/// Evaluates a policy for a write, with each parameter; returns the first denial.
fn evaluate<'a>(
    one: &'a PolicyInvocation,
    context: &EvaluationContext<'a>,
    attributes: &AdmissionAttributes<'_>,
    notes: &mut AuditAnnotations,
) -> Option<Status> {
    let policy: &AdmissionPolicy = &one.policy;
    let decisions = match match_conditions_met(policy, context) {
        Ok(false) => return None,
        Ok(true) => evaluate_validations(policy, context),
        Err(_) if policy.ignores_failure => return None,
        Err(message) => vec![Some(PolicyDecision {
            message,
            reason: String::new(),
        })],
    };
    let mut denied = None;
    for (index, decision) in decisions.iter().enumerate() {
        let Some(decision) = decision else { continue };
        for action in &one.binding.validation_actions {
            match action {
                ValidationAction::Deny => {
                    denied = denied.or_else(|| Some(decision_status(one, decision, attributes)));
                }
                ValidationAction::Warn => attributes.recorder.warn([format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                    policy.name, one.binding.name, decision.message
                )]),
                ValidationAction::Audit => audit_failure(one, index, decision, attributes),
            }
        }
    }
    let annotated = evaluate_annotations(policy, context, notes);
    match annotated {
        Err(message) if !policy.ignores_failure => {
            let decision = PolicyDecision {
                message,
                reason: String::new(),
            };
            denied.or_else(|| Some(decision_status(one, &decision, attributes)))
        }
        _ => denied,
    }
}

/// The result of each validation; `None` if it passed.
fn evaluate_validations<'a>(
    policy: &'a AdmissionPolicy,
    context: &EvaluationContext<'a>,
) -> Vec<Option<PolicyDecision>> {
    let mut decisions = Vec::with_capacity(policy.validations.len());
    for validation in &policy.validations {
        let decision = match context.evaluate(&validation.expression) {
            Ok(Value::Bool(true)) => None,
            Ok(_) => Some(PolicyDecision {
                message: failure_message(validation, context),
                reason: validation.reason.clone(),
            }),
            Err(EvaluationError::OutOfBudget) => {
                let decision = PolicyDecision {
                    message: EvaluationError::OutOfBudget.message(),
                    reason: String::new(),
                };
                decisions.push((!policy.ignores_failure).then_some(decision));
                return decisions;
            }
            Err(EvaluationError::Failed(_)) if policy.ignores_failure => None,
            Err(EvaluationError::Failed(message)) => Some(PolicyDecision {
                message,
                reason: String::new(),
            }),
        };
        decisions.push(decision);
    }
    decisions
}

fn failure_message<'a>(
    validation: &'a PolicyValidation,
    context: &EvaluationContext<'a>,
) -> String {
    let said = validation
        .message_expression
        .as_ref()
        .and_then(|expression| context.evaluate(expression).ok());
    let said = said.as_ref().and_then(Value::as_str).map(str::trim);
    let said = said
        .filter(|text| !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n'));
    match (said, validation.message.as_str()) {
        (Some(said), _) => said.to_owned(),
        (None, "") => format!("failed expression: {}", validation.expression.text.trim()),
        (None, message) => message.to_owned(),
    }
}

fn evaluate_annotations<'a>(
    policy: &'a AdmissionPolicy,
    context: &EvaluationContext<'a>,
    notes: &mut AuditAnnotations,
) -> Result<(), String> {
    for (key, expression) in &policy.audit_annotations {
        match context.evaluate(expression) {
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
            Err(trouble) => return Err(trouble.message()),
        }
    }
    Ok(())
}

fn audit_failure(
    one: &PolicyInvocation,
    index: usize,
    decision: &PolicyDecision,
    attributes: &AdmissionAttributes<'_>,
) {
    let actions: Vec<&str> = one
        .binding
        .validation_actions
        .iter()
        .map(|action| action.name())
        .collect();
    let value = json!([{
        "message": decision.message, "policy": one.policy.name, "binding": one.binding.name,
        "expressionIndex": index, "validationActions": actions,
    }]);
    attributes
        .recorder
        .annotate(FAILURE_ANNOTATION.into(), value.to_string());
}

fn decision_status(
    one: &PolicyInvocation,
    decision: &PolicyDecision,
    attributes: &AdmissionAttributes<'_>,
) -> Status {
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
    denied_status(attributes, &text, reason, code)
}

/// A denial with the message of a Forbidden status and a reason of its own.
fn denied_status(
    attributes: &AdmissionAttributes<'_>,
    text: &str,
    reason: &str,
    code: u16,
) -> Status {
    let resource = attributes.resource.resource.name();
    let name = match attributes.name {
        "" => String::new(),
        name => format!(" {}", optik_object::quote(name)),
    };
    let message = format!("{}{name} is forbidden: {text}", resource.qualified());
    let details = json!({
        "name": attributes.name, "group": resource.group, "kind": resource.plural,
        "causes": [{"message": text}],
    });
    Status::from_denial(DenialStatus {
        message: &message,
        reason,
        code,
        details: Some(&details),
    })
}
