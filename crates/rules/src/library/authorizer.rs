//! Whether somebody may do something, asked from within an expression.

use super::{Function, Thing};
use crate::spend::Price;
use crate::value::{Fault, Result, Value};
use std::fmt;
use std::sync::Arc;

/// Answers whether something is allowed.
pub trait Authorizer: Send + Sync {
    fn ask(&self, ask: &Ask<'_>) -> Decision;
}

/// What is asked.
#[derive(Debug)]
pub struct Ask<'a> {
    /// A namespace and a name, if not about who made the request.
    pub service_account: Option<(&'a str, &'a str)>,
    pub verb: &'a str,
    pub of: Of<'a>,
}

#[derive(Debug)]
pub enum Of<'a> {
    Path(&'a str),
    Resource(&'a ResourceAsk),
}

#[derive(Clone, Debug, Default)]
pub struct ResourceAsk {
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub field_selector: String,
    pub label_selector: String,
}

/// What was answered.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    pub allowed: bool,
    pub reason: String,
    pub error: Option<String>,
}

/// Who asks, for whom.
#[derive(Clone)]
pub struct Asker {
    authorizer: Arc<dyn Authorizer>,
    service_account: Option<(String, String)>,
}

impl fmt::Debug for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asker")
            .field("service_account", &self.service_account)
            .finish_non_exhaustive()
    }
}

impl Asker {
    fn ask(&self, of: Of<'_>, verb: &str) -> Decision {
        let account = self.service_account.as_ref();
        self.authorizer.ask(&Ask {
            service_account: account.map(|(namespace, name)| (&**namespace, &**name)),
            verb,
            of,
        })
    }
}

impl Value<'_> {
    /// The variable `authorizer`.
    #[must_use]
    pub fn authorizer(authorizer: Arc<dyn Authorizer>) -> Self {
        Value::library(Thing::Authorizer(Asker {
            authorizer,
            service_account: None,
        }))
    }

    /// `authorizer.requestResource`.
    #[must_use]
    pub fn resource_check(authorizer: Arc<dyn Authorizer>, ask: ResourceAsk) -> Self {
        let asker = Asker {
            authorizer,
            service_account: None,
        };
        Value::library(Thing::ResourceCheck(asker, Box::new(ask)))
    }
}

pub(crate) fn find(name: &str) -> Option<Function> {
    let (run, price): (super::Run, Price) = match name {
        "path" => (path, Price::One),
        "group" => (group, Price::One),
        "serviceAccount" => (service_account, Price::One),
        "resource" => (resource, Price::One),
        "subresource" => (
            |args| with(args, |ask, text| ask.subresource = text),
            Price::One,
        ),
        "namespace" => (
            |args| with(args, |ask, text| ask.namespace = text),
            Price::One,
        ),
        "name" => (|args| with(args, |ask, text| ask.name = text), Price::One),
        "fieldSelector" => (
            |args| with(args, |ask, text| ask.field_selector = text),
            Price::Selector,
        ),
        "labelSelector" => (
            |args| with(args, |ask, text| ask.label_selector = text),
            Price::Selector,
        ),
        "check" => (check, Price::Fixed(350_000)),
        "errored" => (
            |args| decision(args, |of| Value::Bool(of.error.is_some())),
            Price::One,
        ),
        "error" => (
            |args| decision(args, |of| Value::text(of.error.clone().unwrap_or_default())),
            Price::One,
        ),
        "allowed" => (
            |args| decision(args, |of| Value::Bool(of.allowed)),
            Price::One,
        ),
        "reason" => (
            |args| decision(args, |of| Value::text(of.reason.clone())),
            Price::One,
        ),
        _ => return None,
    };
    Some(Function { run, price })
}

fn thing<'t>(value: &'t Value<'_>) -> Result<&'t Thing> {
    match value {
        Value::Library(thing) => Ok(thing),
        _ => Err(Fault::no_overload()),
    }
}

fn path<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let [asker, Value::String(path)] = args else {
        return Err(Fault::no_overload());
    };
    let Thing::Authorizer(asker) = thing(asker)? else {
        return Err(Fault::no_overload());
    };
    if path.as_str().trim().is_empty() {
        return Err(Fault::new("path must not be empty"));
    }
    let check = Thing::PathCheck(asker.clone(), path.as_str().to_owned());
    Ok(Value::library(check))
}

fn group<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let [asker, Value::String(group)] = args else {
        return Err(Fault::no_overload());
    };
    match thing(asker)? {
        Thing::Authorizer(asker) => Ok(Value::library(Thing::GroupCheck(
            asker.clone(),
            group.as_str().to_owned(),
        ))),
        _ => Err(Fault::no_overload()),
    }
}

fn service_account<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let [asker, Value::String(namespace), Value::String(name)] = args else {
        return Err(Fault::no_overload());
    };
    let Thing::Authorizer(asker) = thing(asker)? else {
        return Err(Fault::no_overload());
    };
    let problems = optik_object::dns_subdomain(name.as_str());
    if !problems.is_empty() {
        return Err(Fault::new("Invalid service account name"));
    }
    if !optik_object::dns_label(namespace.as_str()).is_empty() {
        return Err(Fault::new("Invalid service account namespace"));
    }
    Ok(Value::library(Thing::Authorizer(Asker {
        authorizer: Arc::clone(&asker.authorizer),
        service_account: Some((namespace.as_str().to_owned(), name.as_str().to_owned())),
    })))
}

fn resource<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let [check, Value::String(resource)] = args else {
        return Err(Fault::no_overload());
    };
    let Thing::GroupCheck(asker, group) = thing(check)? else {
        return Err(Fault::no_overload());
    };
    if resource.as_str().trim().is_empty() {
        return Err(Fault::new("resource must not be empty"));
    }
    let ask = ResourceAsk {
        group: group.clone(),
        resource: resource.as_str().to_owned(),
        ..ResourceAsk::default()
    };
    let check = Thing::ResourceCheck(asker.clone(), Box::new(ask));
    Ok(Value::library(check))
}

fn with<'a>(args: &[Value<'a>], set: fn(&mut ResourceAsk, String)) -> Result<Value<'a>> {
    let [check, Value::String(text)] = args else {
        return Err(Fault::no_overload());
    };
    let Thing::ResourceCheck(asker, ask) = thing(check)? else {
        return Err(Fault::no_overload());
    };
    let mut ask = ask.clone();
    set(&mut ask, text.as_str().to_owned());
    Ok(Value::library(Thing::ResourceCheck(asker.clone(), ask)))
}

fn check<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let [check, Value::String(verb)] = args else {
        return Err(Fault::no_overload());
    };
    let decision = match thing(check)? {
        Thing::PathCheck(asker, path) => asker.ask(Of::Path(path), verb.as_str()),
        Thing::ResourceCheck(asker, ask) => asker.ask(Of::Resource(ask), verb.as_str()),
        _ => return Err(Fault::no_overload()),
    };
    Ok(Value::library(Thing::Decision(decision)))
}

fn decision<'a>(args: &[Value<'a>], of: fn(&Decision) -> Value<'a>) -> Result<Value<'a>> {
    match args {
        [value] => match thing(value)? {
            Thing::Decision(decision) => Ok(of(decision)),
            _ => Err(Fault::no_overload()),
        },
        _ => Err(Fault::no_overload()),
    }
}
