//! What an expression of a policy sees of a write.

use super::asking::AskGate;
use super::compiled::Expression;
use super::names::{
    AUTHORIZER, NAMESPACE_OBJECT, OBJECT, OLD_OBJECT, OWN, PARAMS, REQUEST, REQUEST_RESOURCE,
    namespace_shape, request_shape,
};
use crate::access::Gate;
use crate::admission::Attributes;
use crate::admission::request::request;
use crate::kinds::Kind;
use optik_object::{Object, Value as Json};
use optik_rules::{Authorizer, CALL_COST_MAX, Fault, Map, ResourceAsk, Value, Variables};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// What all expressions of a policy may cost for one write and one parameter.
pub(super) const POLICY_COST_MAX: u64 = 10_000_000;

/// What all expressions about a write see alike.
pub(super) struct Surroundings {
    pub(super) request: Json,
    pub(super) namespace: Option<Json>,
    pub(super) authorizer: Arc<dyn Authorizer>,
}

impl Surroundings {
    /// Of a write that is seen as one to a kind.
    pub(super) fn new(
        attributes: &Attributes<'_>,
        (kind, of): (&Kind, &Kind),
        namespace: Option<Json>,
        gate: &Arc<Gate>,
    ) -> Self {
        Self {
            request: request(attributes, kind, of),
            namespace,
            authorizer: Arc::new(AskGate {
                gate: Arc::clone(gate),
                user: attributes.user.clone(),
            }),
        }
    }
}

/// A write and what belongs to it.
pub(super) struct Context<'a> {
    object: Option<&'a Object>,
    old: Option<&'a Object>,
    request: &'a Json,
    params: Option<&'a Object>,
    namespace: Option<&'a Json>,
    asked: ResourceAsk,
    /// Whom expressions ask who may do what.
    authorizer: Arc<dyn Authorizer>,
    variables: &'a [Expression],
    /// What the variables came to, once somebody asked.
    known: RefCell<Vec<Option<Result<Value<'a>, Fault>>>>,
    left: Cell<u64>,
}

/// Why an expression came to nothing.
pub(super) enum Trouble {
    /// There is nothing left to spend.
    OutOfBudget,
    Failed(String),
}

impl<'a> Context<'a> {
    pub(super) fn new(
        (object, old): (Option<&'a Object>, Option<&'a Object>),
        surroundings: &'a Surroundings,
        params: Option<&'a Object>,
        variables: &'a [Expression],
    ) -> Self {
        let request = &surroundings.request;
        Self {
            object,
            old,
            request,
            params,
            namespace: surroundings.namespace.as_ref(),
            asked: asked(request),
            authorizer: Arc::clone(&surroundings.authorizer),
            variables,
            known: RefCell::new(vec![None; variables.len()]),
            left: Cell::new(POLICY_COST_MAX),
        }
    }

    /// The value of an expression, paid from what this context may spend.
    pub(super) fn run(&self, expression: &'a Expression) -> Result<Value<'a>, Trouble> {
        let failed = |why: &dyn std::fmt::Display| {
            let text = &expression.text;
            Trouble::Failed(format!("expression '{text}' resulted in error: {why}"))
        };
        let program = match &expression.program {
            Ok(program) => program,
            Err(why) => return Err(Trouble::Failed(format!("compilation error: {why}"))),
        };
        let outcome = program.run(self, CALL_COST_MAX);
        let Some(left) = self.left.get().checked_sub(outcome.cost) else {
            self.left.set(0);
            return Err(Trouble::OutOfBudget);
        };
        self.left.set(left);
        outcome.result.map_err(|fault| failed(&fault))
    }
}

impl Trouble {
    pub(super) fn text(self) -> String {
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

fn members(object: Option<&Object>) -> Value<'_> {
    object.map_or(Value::Null, |object| {
        Value::Map(Map::Json(object.members(), None))
    })
}

impl<'a> Variables<'a> for Context<'a> {
    fn value(&self, place: usize) -> Result<Value<'a>, Fault> {
        Ok(match place {
            OBJECT => members(self.object),
            OLD_OBJECT => members(self.old),
            REQUEST => Value::typed(self.request, request_shape())?,
            PARAMS => members(self.params),
            NAMESPACE_OBJECT => match self.namespace {
                Some(namespace) => Value::typed(namespace, namespace_shape())?,
                None => Value::Null,
            },
            AUTHORIZER => Value::authorizer(Arc::clone(&self.authorizer)),
            REQUEST_RESOURCE => {
                Value::resource_check(Arc::clone(&self.authorizer), self.asked.clone())
            }
            place => return self.variable(place.wrapping_sub(OWN)),
        })
    }
}

impl<'a> Context<'a> {
    fn variable(&self, index: usize) -> Result<Value<'a>, Fault> {
        let missing = || Fault::Failed("no such attribute(s): variables".into());
        if let Some(Some(known)) = self.known.borrow().get(index) {
            return known.clone();
        }
        let expression = self.variables.get(index).ok_or_else(missing)?;
        let result = match &expression.program {
            Ok(program) => {
                let outcome = program.run(self, CALL_COST_MAX);
                self.left.set(self.left.get().saturating_sub(outcome.cost));
                outcome.result
            }
            Err(why) => Err(Fault::Failed(why.as_str().into())),
        };
        if let Some(slot) = self.known.borrow_mut().get_mut(index) {
            *slot = Some(result.clone());
        }
        result
    }
}

/// What the request itself asks for.
fn asked(request: &Json) -> ResourceAsk {
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    ResourceAsk {
        group: text(&request["resource"]["group"]),
        resource: text(&request["resource"]["resource"]),
        subresource: text(&request["subResource"]),
        namespace: text(&request["namespace"]),
        name: text(&request["name"]),
        ..ResourceAsk::default()
    }
}
