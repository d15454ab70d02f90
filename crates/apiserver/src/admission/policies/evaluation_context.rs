//! The variables and the cost budget of CEL expressions of a policy.

use crate::admission::AdmissionAttributes;
use crate::admission::admission_request::admission_request;
use crate::admission::policies::expression_env::{
    AUTHORIZER_SLOT, FIRST_VARIABLE_SLOT, NAMESPACE_OBJECT_SLOT, OBJECT_SLOT, OLD_OBJECT_SLOT,
    PARAMS_SLOT, REQUEST_RESOURCE_SLOT, REQUEST_SLOT, namespace_shape, request_shape,
};
use crate::admission::policies::policy::PolicyExpression;
use crate::admission::policies::policy_authorizer::PolicyAuthorizer;
use crate::auth::RbacAuthorizer;
use crate::registry::served_resource::ServedResource;
use optik_cel::{
    Activation, CALL_COST_MAX, CelAuthorizer, EvalError, MapValue, ResourceCheck, Value,
};
use optik_object::{Object, Value as Json};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// The cost limit of all expressions of a policy, for one write and one parameter.
pub(super) const POLICY_COST_MAX: u64 = 10_000_000;

/// The inputs that all expressions share for one write.
pub(super) struct ExpressionInputs {
    pub(super) request: Json,
    pub(super) namespace: Option<Json>,
    pub(super) authorizer: Arc<dyn CelAuthorizer>,
}

impl ExpressionInputs {
    /// The inputs of a write that the policy sees as a write to a kind.
    pub(super) fn new(
        attributes: &AdmissionAttributes<'_>,
        (kind, of): (&ServedResource, &ServedResource),
        namespace: Option<Json>,
        gate: &Arc<RbacAuthorizer>,
    ) -> Self {
        Self {
            request: admission_request(attributes, kind, of),
            namespace,
            authorizer: Arc::new(PolicyAuthorizer {
                authorizer: Arc::clone(gate),
                user: attributes.user.clone(),
            }),
        }
    }
}

/// A write with everything that expressions of a policy can refer to.
pub(super) struct EvaluationContext<'a> {
    object: Option<&'a Object>,
    old: Option<&'a Object>,
    request: &'a Json,
    params: Option<&'a Object>,
    namespace: Option<&'a Json>,
    request_resource: ResourceCheck,
    /// Answers the authorization checks of expressions.
    authorizer: Arc<dyn CelAuthorizer>,
    variables: &'a [PolicyExpression],
    /// The values of `variables`, evaluated on first use.
    variable_values: RefCell<Vec<Option<Result<Value<'a>, EvalError>>>>,
    remaining_budget: Cell<u64>,
}

/// Why an expression has no value.
pub(super) enum EvaluationError {
    /// The cost budget is exhausted.
    OutOfBudget,
    Failed(String),
}

impl<'a> EvaluationContext<'a> {
    pub(super) fn new(
        (object, old): (Option<&'a Object>, Option<&'a Object>),
        surroundings: &'a ExpressionInputs,
        params: Option<&'a Object>,
        variables: &'a [PolicyExpression],
    ) -> Self {
        let request = &surroundings.request;
        Self {
            object,
            old,
            request,
            params,
            namespace: surroundings.namespace.as_ref(),
            request_resource: request_resource(request),
            authorizer: Arc::clone(&surroundings.authorizer),
            variables,
            variable_values: RefCell::new(vec![None; variables.len()]),
            remaining_budget: Cell::new(POLICY_COST_MAX),
        }
    }

    /// The value of an expression; its cost is taken from the remaining budget.
    pub(super) fn evaluate(
        &self,
        expression: &'a PolicyExpression,
    ) -> Result<Value<'a>, EvaluationError> {
        let failed = |why: &dyn std::fmt::Display| {
            let text = &expression.text;
            EvaluationError::Failed(format!("expression '{text}' resulted in error: {why}"))
        };
        let program = match &expression.program {
            Ok(program) => program,
            Err(why) => return Err(EvaluationError::Failed(format!("compilation error: {why}"))),
        };
        let outcome = program.run(self, CALL_COST_MAX);
        let Some(left) = self.remaining_budget.get().checked_sub(outcome.cost) else {
            self.remaining_budget.set(0);
            return Err(EvaluationError::OutOfBudget);
        };
        self.remaining_budget.set(left);
        outcome.result.map_err(|fault| failed(&fault))
    }
}

impl EvaluationError {
    pub(super) fn message(self) -> String {
        match self {
            Self::OutOfBudget => {
                "validation failed due to running out of cost budget, no further validation rules \
                 will be run"
                    .into()
            }
            Self::Failed(text) => text,
        }
    }
}

fn object_value(object: Option<&Object>) -> Value<'_> {
    object.map_or(Value::Null, |object| {
        Value::Map(MapValue::Json(object.members(), None))
    })
}

impl<'a> Activation<'a> for EvaluationContext<'a> {
    fn resolve(&self, place: usize) -> Result<Value<'a>, EvalError> {
        Ok(match place {
            OBJECT_SLOT => object_value(self.object),
            OLD_OBJECT_SLOT => object_value(self.old),
            REQUEST_SLOT => Value::typed(self.request, request_shape())?,
            PARAMS_SLOT => object_value(self.params),
            NAMESPACE_OBJECT_SLOT => match self.namespace {
                Some(namespace) => Value::typed(namespace, namespace_shape())?,
                None => Value::Null,
            },
            AUTHORIZER_SLOT => Value::authorizer(Arc::clone(&self.authorizer)),
            REQUEST_RESOURCE_SLOT => {
                Value::resource_check(Arc::clone(&self.authorizer), self.request_resource.clone())
            }
            place => return self.variable(place.wrapping_sub(FIRST_VARIABLE_SLOT)),
        })
    }
}

impl<'a> EvaluationContext<'a> {
    fn variable(&self, index: usize) -> Result<Value<'a>, EvalError> {
        let missing = || EvalError::Failed("no such attribute(s): variables".into());
        if let Some(Some(known)) = self.variable_values.borrow().get(index) {
            return known.clone();
        }
        let expression = self.variables.get(index).ok_or_else(missing)?;
        let result = match &expression.program {
            Ok(program) => {
                let outcome = program.run(self, CALL_COST_MAX);
                self.remaining_budget
                    .set(self.remaining_budget.get().saturating_sub(outcome.cost));
                outcome.result
            }
            Err(why) => Err(EvalError::Failed(why.as_str().into())),
        };
        if let Some(slot) = self.variable_values.borrow_mut().get_mut(index) {
            *slot = Some(result.clone());
        }
        result
    }
}

/// The resource that the request itself is for.
fn request_resource(request: &Json) -> ResourceCheck {
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    ResourceCheck {
        group: text(&request["resource"]["group"]),
        resource: text(&request["resource"]["resource"]),
        subresource: text(&request["subResource"]),
        namespace: text(&request["namespace"]),
        name: text(&request["name"]),
        ..ResourceCheck::default()
    }
}
