//! An object as it is after a round through Go: members that are empty are gone or
//! written out, amounts and instants have one spelling, defaults are there.

use crate::defaults::{self, Computed, Default};
use crate::quantity::{Quantity, QuantityError};
use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};
use optik_catalog::messages;
use optik_object::protobuf::{Form, MessageId, Shape, Type};
use optik_object::{Layout, LayoutError, Map, Value};
use std::fmt;
use std::sync::OnceLock;

/// Why an object is none of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettleError {
    Quantity(QuantityError),
    /// Where bytes are not written in base64.
    Base64(usize),
    Instant(LayoutError),
}

impl fmt::Display for SettleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quantity(error) => error.fmt(f),
            Self::Instant(error) => error.fmt(f),
            Self::Base64(at) => write!(f, "illegal base64 data at input byte {at}"),
        }
    }
}

/// Settles objects of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Settler {
    root: MessageId,
}

impl Settler {
    /// `None` for kinds that have no messages, and for those that have code of their own.
    #[must_use]
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        if api_version.starts_with("apiextensions.k8s.io/") {
            return None;
        }
        let root = messages().of_kind(api_version, kind)?;
        Some(Self { root })
    }

    /// Settles an object; its metadata only as far as defaults reach into it.
    pub fn settle(self, members: &mut Map) -> Result<(), SettleError> {
        settle(plan(self.root), members, Depth::Root)
    }

    /// What Go writes for an object that nobody filled in.
    #[must_use]
    pub fn blank(self) -> Map {
        blank(self.root)
    }

    /// Settles the status alone, which a server made.
    pub fn settle_status(self, members: &mut Map) {
        let plan = plan(self.root);
        if let (Some(field), Some(status)) = (plan.field("status"), members.get_mut("status")) {
            // A server makes no amounts that are none.
            let _ = enter(field.inside, status);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Root,
    Inside,
}

/// What to do with the members of a message; those of inline messages are its own.
struct Plan {
    /// By name.
    fields: Vec<Planned>,
    /// Structures that are always there.
    structures: Vec<&'static str>,
    /// What else is written when empty.
    zeros: Vec<(&'static str, Value)>,
    defaults: Vec<&'static Default>,
    computed: Vec<Computed>,
}

struct Planned {
    name: &'static str,
    /// Gone when empty.
    omit: bool,
    /// Empty is as good as absent.
    plain: bool,
    inside: Inside,
}

#[derive(Clone, Copy)]
enum Inside {
    Nothing,
    Amount,
    /// A map of amounts, which are counted in thousandths.
    Amounts,
    Bytes,
    /// A map of them.
    ManyBytes,
    Instant(Layout),
    Structure(MessageId),
    Structures(MessageId),
    /// A map of structures.
    Named(MessageId),
}

fn plan(id: MessageId) -> &'static Plan {
    static PLANS: OnceLock<Vec<OnceLock<Plan>>> = OnceLock::new();
    static NOTHING: Plan = Plan {
        fields: Vec::new(),
        structures: Vec::new(),
        zeros: Vec::new(),
        defaults: Vec::new(),
        computed: Vec::new(),
    };
    let plans = PLANS.get_or_init(|| (0..messages().count()).map(|_| OnceLock::new()).collect());
    match plans.get(id.index()) {
        Some(plan) => plan.get_or_init(|| Plan::make(id)),
        None => &NOTHING,
    }
}

impl Plan {
    fn make(id: MessageId) -> Self {
        let mut plan = Self {
            fields: Vec::new(),
            structures: Vec::new(),
            zeros: Vec::new(),
            defaults: Vec::new(),
            computed: Vec::new(),
        };
        plan.include(id);
        plan.fields.sort_by_key(|field| field.name);
        plan
    }

    fn include(&mut self, id: MessageId) {
        let message = messages().message(id);
        self.defaults.extend(defaults::of(message.name));
        self.computed.extend(defaults::computed(message.name));
        for field in &message.fields {
            if let (Shape::Inline, Type::Message(inline)) = (field.shape, field.kind) {
                self.include(inline);
                continue;
            }
            let form = match field.kind {
                Type::Message(id) => Some((id, messages().message(id).form)),
                _ => None,
            };
            let is_structure = matches!(form, Some((_, Form::Object)));
            if !field.omit_empty {
                match (field.shape, is_structure) {
                    (Shape::Plain, true) => self.structures.push(field.name),
                    (Shape::Plain, false) => self.zeros.push((field.name, zero(field.kind))),
                    _ => self.zeros.push((field.name, Value::Null)),
                }
            }
            self.fields.push(Planned {
                name: field.name,
                omit: field.omit_empty && field.shape != Shape::Pointer && !is_structure
                    || field.omit_empty && matches!(field.shape, Shape::List | Shape::Map),
                plain: field.shape == Shape::Plain,
                inside: match (field.kind, field.shape) {
                    (Type::Bytes, Shape::Map) => Inside::ManyBytes,
                    (Type::Bytes, _) => Inside::Bytes,
                    _ => inside(field.shape, form),
                },
            });
        }
    }

    fn field(&self, name: &str) -> Option<&Planned> {
        let at = self.fields.binary_search_by_key(&name, |field| field.name);
        at.ok().map(|at| &self.fields[at])
    }
}

fn inside(shape: Shape, form: Option<(MessageId, Form)>) -> Inside {
    match (shape, form) {
        (Shape::Map, Some((_, Form::Quantity))) => Inside::Amounts,
        (_, Some((_, Form::Quantity))) => Inside::Amount,
        (Shape::Plain | Shape::Pointer, Some((_, Form::Time))) => Inside::Instant(Layout::Seconds),
        (Shape::Plain | Shape::Pointer, Some((_, Form::MicroTime))) => {
            Inside::Instant(Layout::Micros)
        }
        (Shape::List, Some((id, Form::Object))) => Inside::Structures(id),
        (Shape::Map, Some((id, Form::Object))) => Inside::Named(id),
        (_, Some((id, Form::Object))) => Inside::Structure(id),
        _ => Inside::Nothing,
    }
}

fn zero(kind: Type) -> Value {
    match kind {
        Type::Bool => false.into(),
        Type::Int32 | Type::Int64 | Type::Double => 0.into(),
        Type::Text => "".into(),
        Type::Bytes => Value::Null,
        Type::Message(id) => match messages().message(id).form {
            Form::Quantity => "0".into(),
            Form::IntOrString => 0.into(),
            _ => Value::Null,
        },
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_f64() == Some(0.0),
        Value::String(value) => value.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

/// It cannot recurse for long: a Go structure has a size.
fn blank(id: MessageId) -> Map {
    let plan = plan(id);
    let mut members: Map = plan
        .zeros
        .iter()
        .map(|(name, zero)| ((*name).to_owned(), zero.clone()))
        .collect();
    for name in &plan.structures {
        if let Some(Inside::Structure(id)) = plan.field(name).map(|field| field.inside) {
            members.insert((*name).to_owned(), blank(id).into());
        }
    }
    members
}

fn settle(plan: &'static Plan, members: &mut Map, depth: Depth) -> Result<(), SettleError> {
    // Looked for first: nearly always nothing is to go, and a map is not rebuilt for that.
    let omitted = |name: &String, value: &Value| {
        is_empty(value) && plan.field(name).is_some_and(|field| field.omit)
    };
    if members.iter().any(|(name, value)| omitted(name, value)) {
        members.retain(|name, value| !omitted(name, value));
    }
    for name in &plan.structures {
        match members.get_mut(*name) {
            Some(Value::Null) | None => {
                members.insert((*name).to_owned(), Map::new().into());
            }
            Some(_) => {}
        }
    }
    for default in &plan.defaults {
        apply(plan, default, members);
    }
    for computed in &plan.computed {
        computed(members);
    }
    for (name, zero) in &plan.zeros {
        match members.get_mut(*name) {
            None => drop(members.insert((*name).to_owned(), zero.clone())),
            // What upstream keeps cannot tell an empty list from none.
            Some(Value::Array(items)) if items.is_empty() => members[*name] = zero.clone(),
            Some(_) => {}
        }
    }
    for (name, value) in members.iter_mut() {
        // The metadata of whole objects has rules of its own.
        if depth == Depth::Root && name == "metadata" {
            check_instants(value)?;
            continue;
        }
        if let Some(field) = plan.field(name) {
            enter(field.inside, value)?;
        }
    }
    Ok(())
}

fn enter(inside: Inside, value: &mut Value) -> Result<(), SettleError> {
    match (inside, value) {
        (Inside::Amount, value) if !value.is_null() => spell(value, |amount| amount),
        (Inside::Amounts, Value::Object(members)) => {
            let mut values = members.values_mut();
            values.try_for_each(|value| spell(value, Quantity::round_up_to_thousandths))
        }
        (Inside::Bytes, Value::String(text)) => check_base64(text),
        (Inside::ManyBytes, Value::Object(members)) => {
            let mut texts = members.values().filter_map(Value::as_str);
            texts.try_for_each(check_base64)
        }
        (Inside::Instant(layout), value) => spell_instant(layout, value),
        (Inside::Structure(id), Value::Object(members)) => settle(plan(id), members, Depth::Inside),
        (Inside::Structures(id), Value::Array(items)) => {
            let plan = plan(id);
            let mut structures = items.iter_mut().filter_map(Value::as_object_mut);
            structures.try_for_each(|members| settle(plan, members, Depth::Inside))
        }
        (Inside::Named(id), Value::Object(members)) => {
            let plan = plan(id);
            let mut structures = members.values_mut().filter_map(Value::as_object_mut);
            structures.try_for_each(|members| settle(plan, members, Depth::Inside))
        }
        _ => Ok(()),
    }
}

fn spell(value: &mut Value, rounded: fn(Quantity) -> Quantity) -> Result<(), SettleError> {
    let quantity = Quantity::of(value).map_err(SettleError::Quantity)?;
    let text = rounded(quantity).to_string();
    if value.as_str() != Some(&text) {
        *value = text.into();
    }
    Ok(())
}

/// Go writes the first instant of all as nothing.
fn spell_instant(layout: Layout, value: &mut Value) -> Result<(), SettleError> {
    const NEVER: i64 = -62_135_596_800;
    let Value::String(text) = value else {
        return Ok(());
    };
    let instant = layout.read(text).map_err(SettleError::Instant)?;
    if instant.seconds() == NEVER {
        *value = Value::Null;
        return Ok(());
    }
    let spelt = layout.write(instant);
    if *text != spelt {
        *text = spelt;
    }
    Ok(())
}

/// The server sets them itself, whatever a client says; but that must make sense.
pub fn check_instants(metadata: &Value) -> Result<(), SettleError> {
    for name in ["creationTimestamp", "deletionTimestamp"] {
        if let Some(text) = metadata.get(name).and_then(Value::as_str) {
            let read = Layout::Seconds.read(text);
            read.map_err(SettleError::Instant)?;
        }
    }
    Ok(())
}

fn check_base64(text: &str) -> Result<(), SettleError> {
    // Long texts are rare, and line ends in them rarer.
    let joined;
    let text = match text.contains(['\n', '\r']) {
        true => {
            joined = text.replace(['\n', '\r'], "");
            joined.as_str()
        }
        false => text,
    };
    match STANDARD.decode(text) {
        Ok(_) => Ok(()),
        Err(DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _)) => {
            Err(SettleError::Base64(at))
        }
        Err(_) => Err(SettleError::Base64(text.len() - text.len() % 4)),
    }
}

fn apply(plan: &Plan, default: &Default, members: &mut Map) {
    let mut target = members;
    for parent in &default.parents {
        match target.get_mut(*parent) {
            Some(Value::Object(members)) => target = members,
            _ => return,
        }
    }
    let is_unset = match target.get(default.field) {
        None | Some(Value::Null) => true,
        Some(value) if default.parents.is_empty() => {
            is_empty(value) && plan.field(default.field).is_some_and(|field| field.plain)
        }
        Some(value) => value == "",
    };
    if is_unset {
        target.insert(default.field.to_owned(), default.value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn settled(api_version: &str, kind: &str, value: Value) -> Value {
        let Value::Object(mut members) = value else {
            panic!("an object");
        };
        let settler = Settler::of(api_version, kind).unwrap();
        settler.settle(&mut members).unwrap();
        let once = members.clone();
        settler.settle(&mut members).unwrap();
        assert_eq!(members, once, "once is enough");
        members.into()
    }

    #[test]
    fn a_pod() {
        let pod = json!({"metadata": {"name": "a"}, "spec": {
            "hostNetwork": false, "volumes": [{"name": "v"}], "initContainers": [],
            "containers": [{"name": "c", "image": "i", "args": [], "ports": [{"containerPort": 1}],
                "resources": {"limits": {"cpu": "0.5"}},
                "livenessProbe": {"httpGet": {"port": 80}, "timeoutSeconds": 0}}],
        }});
        let expected = json!({"metadata": {"name": "a"}, "status": {}, "spec": {
            "volumes": [{"name": "v", "emptyDir": {}}], "dnsPolicy": "ClusterFirst",
            "restartPolicy": "Always", "schedulerName": "default-scheduler",
            "securityContext": {}, "terminationGracePeriodSeconds": 30,
            "enableServiceLinks": true,
            "containers": [{"name": "c", "image": "i", "imagePullPolicy": "Always",
                "ports": [{"containerPort": 1, "protocol": "TCP"}],
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "resources": {"limits": {"cpu": "500m"}, "requests": {"cpu": "500m"}},
                "livenessProbe": {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
                    "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1,
                    "failureThreshold": 3}}],
        }});
        assert_eq!(settled("v1", "Pod", pod), expected);
    }

    #[test]
    fn nothing_becomes_of_a_config_map() {
        let map = json!({"metadata": {"name": "a"}, "data": {"a": ""}});
        assert_eq!(settled("v1", "ConfigMap", map.clone()), map);
    }

    #[test]
    fn amounts_must_be_amounts() {
        let mut members = Map::new();
        members.insert("spec".into(), json!({"hard": {"pods": "many"}}));
        let settler = Settler::of("v1", "ResourceQuota").unwrap();
        assert_eq!(
            settler.settle(&mut members),
            Err(SettleError::Quantity(QuantityError::Wrong))
        );
    }
}
