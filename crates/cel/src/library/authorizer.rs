//! The authorizer library: access checks from within CEL expressions.

use super::{Function, OpaqueValue};
use crate::runtime_cost::CallCost;
use crate::value::{EvalError, Result, Value};
use std::fmt;
use std::sync::Arc;

/// The authorizer behind the CEL variable `authorizer`.
pub trait CelAuthorizer: Send + Sync {
    fn authorize(&self, ask: &AuthorizerCheck<'_>) -> AuthorizerDecision;
}

/// The attributes of one access check.
#[derive(Debug)]
pub struct AuthorizerCheck<'a> {
    /// Namespace and name of the service account to check; `None` for the requesting user.
    pub service_account: Option<(&'a str, &'a str)>,
    pub verb: &'a str,
    pub target: CheckTarget<'a>,
}

#[derive(Debug)]
pub enum CheckTarget<'a> {
    Path(&'a str),
    Resource(&'a ResourceCheck),
}

#[derive(Clone, Debug, Default)]
pub struct ResourceCheck {
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub field_selector: String,
    pub label_selector: String,
}

/// The answer to one access check.
#[derive(Clone, Debug, Default)]
pub struct AuthorizerDecision {
    pub allowed: bool,
    pub reason: String,
    pub error: Option<String>,
}

/// The CEL value of type `Authorizer`: an authorizer and the user it checks.
#[derive(Clone)]
pub struct AuthorizerValue {
    authorizer: Arc<dyn CelAuthorizer>,
    service_account: Option<(String, String)>,
}

impl fmt::Debug for AuthorizerValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizerValue")
            .field("service_account", &self.service_account)
            .finish_non_exhaustive()
    }
}

impl AuthorizerValue {
    fn check_target(&self, of: CheckTarget<'_>, verb: &str) -> AuthorizerDecision {
        let account = self.service_account.as_ref();
        self.authorizer.authorize(&AuthorizerCheck {
            service_account: account.map(|(namespace, name)| (&**namespace, &**name)),
            verb,
            target: of,
        })
    }
}

impl Value<'_> {
    /// The value of the variable `authorizer`.
    #[must_use]
    pub fn authorizer(authorizer: Arc<dyn CelAuthorizer>) -> Self {
        Value::opaque(OpaqueValue::Authorizer(AuthorizerValue {
            authorizer,
            service_account: None,
        }))
    }

    /// The value of the variable `authorizer.requestResource`.
    #[must_use]
    pub fn resource_check(authorizer: Arc<dyn CelAuthorizer>, ask: ResourceCheck) -> Self {
        let asker = AuthorizerValue {
            authorizer,
            service_account: None,
        };
        Value::opaque(OpaqueValue::ResourceCheck(asker, Box::new(ask)))
    }
}

pub(crate) fn find(name: &str) -> Option<Function> {
    let (run, price): (super::FunctionImpl, CallCost) = match name {
        "path" => (path, CallCost::Constant),
        "group" => (group, CallCost::Constant),
        "serviceAccount" => (service_account, CallCost::Constant),
        "resource" => (resource, CallCost::Constant),
        "subresource" => (
            |args| with_field(args, |ask, text| ask.subresource = text),
            CallCost::Constant,
        ),
        "namespace" => (
            |args| with_field(args, |ask, text| ask.namespace = text),
            CallCost::Constant,
        ),
        "name" => (
            |args| with_field(args, |ask, text| ask.name = text),
            CallCost::Constant,
        ),
        "fieldSelector" => (
            |args| with_field(args, |ask, text| ask.field_selector = text),
            CallCost::Selector,
        ),
        "labelSelector" => (
            |args| with_field(args, |ask, text| ask.label_selector = text),
            CallCost::Selector,
        ),
        "check" => (check, CallCost::Fixed(350_000)),
        "errored" => (
            |args| decision_field(args, |of| Value::Bool(of.error.is_some())),
            CallCost::Constant,
        ),
        "error" => (
            |args| {
                decision_field(args, |of| {
                    Value::string(of.error.clone().unwrap_or_default())
                })
            },
            CallCost::Constant,
        ),
        "allowed" => (
            |args| decision_field(args, |of| Value::Bool(of.allowed)),
            CallCost::Constant,
        ),
        "reason" => (
            |args| decision_field(args, |of| Value::string(of.reason.clone())),
            CallCost::Constant,
        ),
        _ => return None,
    };
    Some(Function { run, price })
}

fn as_opaque<'t>(value: &'t Value<'_>) -> Result<&'t OpaqueValue> {
    match value {
        Value::Opaque(thing) => Ok(thing),
        _ => Err(EvalError::no_overload()),
    }
}

fn path<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let [asker, Value::String(path)] = args else {
        return Err(EvalError::no_overload());
    };
    let OpaqueValue::Authorizer(asker) = as_opaque(asker)? else {
        return Err(EvalError::no_overload());
    };
    if path.as_str().trim().is_empty() {
        return Err(EvalError::new("path must not be empty"));
    }
    let check = OpaqueValue::PathCheck(asker.clone(), path.as_str().to_owned());
    Ok(Value::opaque(check))
}

fn group<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let [asker, Value::String(group)] = args else {
        return Err(EvalError::no_overload());
    };
    match as_opaque(asker)? {
        OpaqueValue::Authorizer(asker) => Ok(Value::opaque(OpaqueValue::GroupCheck(
            asker.clone(),
            group.as_str().to_owned(),
        ))),
        _ => Err(EvalError::no_overload()),
    }
}

fn service_account<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let [asker, Value::String(namespace), Value::String(name)] = args else {
        return Err(EvalError::no_overload());
    };
    let OpaqueValue::Authorizer(asker) = as_opaque(asker)? else {
        return Err(EvalError::no_overload());
    };
    let problems = optik_object::dns1123_subdomain(name.as_str());
    if !problems.is_empty() {
        return Err(EvalError::new("Invalid service account name"));
    }
    if !optik_object::dns1123_label(namespace.as_str()).is_empty() {
        return Err(EvalError::new("Invalid service account namespace"));
    }
    Ok(Value::opaque(OpaqueValue::Authorizer(AuthorizerValue {
        authorizer: Arc::clone(&asker.authorizer),
        service_account: Some((namespace.as_str().to_owned(), name.as_str().to_owned())),
    })))
}

fn resource<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let [check, Value::String(resource)] = args else {
        return Err(EvalError::no_overload());
    };
    let OpaqueValue::GroupCheck(asker, group) = as_opaque(check)? else {
        return Err(EvalError::no_overload());
    };
    if resource.as_str().trim().is_empty() {
        return Err(EvalError::new("resource must not be empty"));
    }
    let ask = ResourceCheck {
        group: group.clone(),
        resource: resource.as_str().to_owned(),
        ..ResourceCheck::default()
    };
    let check = OpaqueValue::ResourceCheck(asker.clone(), Box::new(ask));
    Ok(Value::opaque(check))
}

fn with_field<'a>(args: &[Value<'a>], set: fn(&mut ResourceCheck, String)) -> Result<Value<'a>> {
    let [check, Value::String(text)] = args else {
        return Err(EvalError::no_overload());
    };
    let OpaqueValue::ResourceCheck(asker, ask) = as_opaque(check)? else {
        return Err(EvalError::no_overload());
    };
    let mut ask = ask.clone();
    set(&mut ask, text.as_str().to_owned());
    Ok(Value::opaque(OpaqueValue::ResourceCheck(
        asker.clone(),
        ask,
    )))
}

fn check<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let [check, Value::String(verb)] = args else {
        return Err(EvalError::no_overload());
    };
    let decision = match as_opaque(check)? {
        OpaqueValue::PathCheck(asker, path) => {
            asker.check_target(CheckTarget::Path(path), verb.as_str())
        }
        OpaqueValue::ResourceCheck(asker, ask) => {
            asker.check_target(CheckTarget::Resource(ask), verb.as_str())
        }
        _ => return Err(EvalError::no_overload()),
    };
    Ok(Value::opaque(OpaqueValue::Decision(decision)))
}

fn decision_field<'a>(
    args: &[Value<'a>],
    of: fn(&AuthorizerDecision) -> Value<'a>,
) -> Result<Value<'a>> {
    match args {
        [value] => match as_opaque(value)? {
            OpaqueValue::Decision(decision) => Ok(of(decision)),
            _ => Err(EvalError::no_overload()),
        },
        _ => Err(EvalError::no_overload()),
    }
}
