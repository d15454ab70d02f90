//! Normalization and defaulting of built-in kinds: an object as it is after a round trip through
//! Go's types.
//!
//! Empty members are omitted or written out, quantities and timestamps get their canonical form,
//! and defaults are set. The table of protobuf messages drives it.

use crate::defaults::{self, DefaultFn, FieldDefault};
use crate::quantity::{Quantity, QuantityError};
use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};
use optik_catalog::messages;
use optik_object::protobuf::{FieldCardinality, FieldType, JsonMapping, MessageId};
use optik_object::{Map, TimeLayout, TimeLayoutError, Value};
use std::fmt;
use std::sync::OnceLock;

/// Why an object cannot be decoded as its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NormalizeError {
    Quantity(QuantityError),
    /// The offset of invalid base64 in a bytes field.
    Base64(usize),
    Instant(TimeLayoutError),
}

impl fmt::Display for NormalizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quantity(error) => error.fmt(f),
            Self::Instant(error) => error.fmt(f),
            Self::Base64(at) => write!(f, "illegal base64 data at input byte {at}"),
        }
    }
}

/// Normalizes and defaults objects of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Defaulter {
    root: MessageId,
}

impl Defaulter {
    /// `None` for kinds without protobuf messages, and for `apiextensions.k8s.io`, which has its
    /// own code.
    #[must_use]
    pub fn for_kind(api_version: &str, kind: &str) -> Option<Self> {
        if api_version.starts_with("apiextensions.k8s.io/") {
            return None;
        }
        let root = messages().for_kind(api_version, kind)?;
        Some(Self { root })
    }

    /// Normalizes an object and sets its defaults. Its metadata changes only as far as defaults
    /// reach into it.
    pub fn normalize(self, members: &mut Map) -> Result<(), NormalizeError> {
        normalize_members(plan(self.root), members, Nesting::Root)
    }

    /// The JSON that Go writes for the zero value of the kind.
    #[must_use]
    pub fn zero_value(self) -> Map {
        zero_members(self.root)
    }

    /// Normalizes only the status, of an object that the server has produced.
    pub fn normalize_status(self, members: &mut Map) {
        let plan = plan(self.root);
        if let (Some(field), Some(status)) = (plan.field("status"), members.get_mut("status")) {
            // The server produces no invalid quantities.
            let _ = normalize_field(field.content, status);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Nesting {
    Root,
    Inside,
}

/// How to normalize the members of a message. Members of inlined messages are included.
struct MessagePlan {
    /// Sorted by name.
    fields: Vec<FieldPlan>,
    /// Non-pointer structures: always present.
    structures: Vec<&'static str>,
    /// Other members that are written when empty.
    zeros: Vec<(&'static str, Value)>,
    defaults: Vec<&'static FieldDefault>,
    computed: Vec<DefaultFn>,
}

struct FieldPlan {
    name: &'static str,
    /// `omitempty`: omitted when empty.
    omit: bool,
    /// Not a pointer: empty means absent.
    plain: bool,
    content: FieldContent,
}

#[derive(Clone, Copy)]
enum FieldContent {
    Nothing,
    Quantity,
    /// A map of quantities (resource list); they are rounded up to thousandths.
    QuantityMap,
    Bytes,
    /// A map of bytes fields.
    BytesMap,
    Timestamp(TimeLayout),
    Structure(MessageId),
    StructureList(MessageId),
    /// A map of structures.
    StructureMap(MessageId),
}

fn plan(id: MessageId) -> &'static MessagePlan {
    static PLANS: OnceLock<Vec<OnceLock<MessagePlan>>> = OnceLock::new();
    static NOTHING: MessagePlan = MessagePlan {
        fields: Vec::new(),
        structures: Vec::new(),
        zeros: Vec::new(),
        defaults: Vec::new(),
        computed: Vec::new(),
    };
    let plans = PLANS.get_or_init(|| (0..messages().count()).map(|_| OnceLock::new()).collect());
    match plans.get(id.index()) {
        Some(plan) => plan.get_or_init(|| MessagePlan::compile(id)),
        None => &NOTHING,
    }
}

impl MessagePlan {
    fn compile(id: MessageId) -> Self {
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
        self.defaults.extend(defaults::for_message(message.name));
        self.computed.extend(defaults::computed(message.name));
        for field in &message.fields {
            if let (FieldCardinality::Inline, FieldType::Message(inline)) =
                (field.cardinality, field.kind)
            {
                self.include(inline);
                continue;
            }
            let form = match field.kind {
                FieldType::Message(id) => Some((id, messages().message(id).json_mapping)),
                _ => None,
            };
            let is_structure = matches!(form, Some((_, JsonMapping::Object)));
            if !field.omit_empty {
                match (field.cardinality, is_structure) {
                    (FieldCardinality::Plain, true) => self.structures.push(field.name),
                    (FieldCardinality::Plain, false) => {
                        self.zeros.push((field.name, zero(field.kind)));
                    }
                    _ => self.zeros.push((field.name, Value::Null)),
                }
            }
            self.fields.push(FieldPlan {
                name: field.name,
                omit: field.omit_empty
                    && field.cardinality != FieldCardinality::Pointer
                    && !is_structure
                    || field.omit_empty
                        && matches!(
                            field.cardinality,
                            FieldCardinality::List | FieldCardinality::Map
                        ),
                plain: field.cardinality == FieldCardinality::Plain,
                content: match (field.kind, field.cardinality) {
                    (FieldType::Bytes, FieldCardinality::Map) => FieldContent::BytesMap,
                    (FieldType::Bytes, _) => FieldContent::Bytes,
                    _ => field_content(field.cardinality, form),
                },
            });
        }
    }

    fn field(&self, name: &str) -> Option<&FieldPlan> {
        let at = self.fields.binary_search_by_key(&name, |field| field.name);
        at.ok().map(|at| &self.fields[at])
    }
}

fn field_content(shape: FieldCardinality, form: Option<(MessageId, JsonMapping)>) -> FieldContent {
    match (shape, form) {
        (FieldCardinality::Map, Some((_, JsonMapping::Quantity))) => FieldContent::QuantityMap,
        (_, Some((_, JsonMapping::Quantity))) => FieldContent::Quantity,
        (FieldCardinality::Plain | FieldCardinality::Pointer, Some((_, JsonMapping::Time))) => {
            FieldContent::Timestamp(TimeLayout::Seconds)
        }
        (
            FieldCardinality::Plain | FieldCardinality::Pointer,
            Some((_, JsonMapping::MicroTime)),
        ) => FieldContent::Timestamp(TimeLayout::Micros),
        (FieldCardinality::List, Some((id, JsonMapping::Object))) => {
            FieldContent::StructureList(id)
        }
        (FieldCardinality::Map, Some((id, JsonMapping::Object))) => FieldContent::StructureMap(id),
        (_, Some((id, JsonMapping::Object))) => FieldContent::Structure(id),
        _ => FieldContent::Nothing,
    }
}

fn zero(kind: FieldType) -> Value {
    match kind {
        FieldType::Bool => false.into(),
        FieldType::Int32 | FieldType::Int64 | FieldType::Double => 0.into(),
        FieldType::Text => "".into(),
        FieldType::Bytes => Value::Null,
        FieldType::Message(id) => match messages().message(id).json_mapping {
            JsonMapping::Quantity => "0".into(),
            JsonMapping::IntOrString => 0.into(),
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

/// The recursion ends, because Go's structures have a finite size.
fn zero_members(id: MessageId) -> Map {
    let plan = plan(id);
    let mut members: Map = plan
        .zeros
        .iter()
        .map(|(name, zero)| ((*name).to_owned(), zero.clone()))
        .collect();
    for name in &plan.structures {
        if let Some(FieldContent::Structure(id)) = plan.field(name).map(|field| field.content) {
            members.insert((*name).to_owned(), zero_members(id).into());
        }
    }
    members
}

fn normalize_members(
    plan: &'static MessagePlan,
    members: &mut Map,
    depth: Nesting,
) -> Result<(), NormalizeError> {
    // Checked first, because removals are rare and rebuilding the map is avoided without one.
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
        apply_default(plan, default, members);
    }
    for computed in &plan.computed {
        computed(members);
    }
    for (name, zero) in &plan.zeros {
        match members.get_mut(*name) {
            None => drop(members.insert((*name).to_owned(), zero.clone())),
            // Upstream's storage format cannot distinguish an empty list from an absent one.
            Some(Value::Array(items)) if items.is_empty() => members[*name] = zero.clone(),
            Some(_) => {}
        }
    }
    for (name, value) in members.iter_mut() {
        // The metadata of a root object is normalized elsewhere.
        if depth == Nesting::Root && name == "metadata" {
            validate_metadata_timestamps(value)?;
            continue;
        }
        if let Some(field) = plan.field(name) {
            normalize_field(field.content, value)?;
        }
    }
    Ok(())
}

fn normalize_field(inside: FieldContent, value: &mut Value) -> Result<(), NormalizeError> {
    match (inside, value) {
        (FieldContent::Quantity, value) if !value.is_null() => {
            normalize_quantity(value, |amount| amount)
        }
        (FieldContent::QuantityMap, Value::Object(members)) => {
            let mut values = members.values_mut();
            values.try_for_each(|value| normalize_quantity(value, Quantity::round_up_to_milli))
        }
        (FieldContent::Bytes, Value::String(text)) => check_base64(text),
        (FieldContent::BytesMap, Value::Object(members)) => {
            let mut texts = members.values().filter_map(Value::as_str);
            texts.try_for_each(check_base64)
        }
        (FieldContent::Timestamp(layout), value) => normalize_timestamp(layout, value),
        (FieldContent::Structure(id), Value::Object(members)) => {
            normalize_members(plan(id), members, Nesting::Inside)
        }
        (FieldContent::StructureList(id), Value::Array(items)) => {
            let plan = plan(id);
            let mut structures = items.iter_mut().filter_map(Value::as_object_mut);
            structures.try_for_each(|members| normalize_members(plan, members, Nesting::Inside))
        }
        (FieldContent::StructureMap(id), Value::Object(members)) => {
            let plan = plan(id);
            let mut structures = members.values_mut().filter_map(Value::as_object_mut);
            structures.try_for_each(|members| normalize_members(plan, members, Nesting::Inside))
        }
        _ => Ok(()),
    }
}

fn normalize_quantity(
    value: &mut Value,
    rounded: fn(Quantity) -> Quantity,
) -> Result<(), NormalizeError> {
    let quantity = Quantity::from_value(value).map_err(NormalizeError::Quantity)?;
    let text = rounded(quantity).to_string();
    if value.as_str() != Some(&text) {
        *value = text.into();
    }
    Ok(())
}

/// Go writes the zero time (year 1) as null.
fn normalize_timestamp(layout: TimeLayout, value: &mut Value) -> Result<(), NormalizeError> {
    const NEVER: i64 = -62_135_596_800;
    let Value::String(text) = value else {
        return Ok(());
    };
    let instant = layout.parse(text).map_err(NormalizeError::Instant)?;
    if instant.seconds() == NEVER {
        *value = Value::Null;
        return Ok(());
    }
    let spelt = layout.format(instant);
    if *text != spelt {
        *text = spelt;
    }
    Ok(())
}

/// Checks the format of timestamps that the server overwrites: an invalid value is an error anyway.
pub fn validate_metadata_timestamps(metadata: &Value) -> Result<(), NormalizeError> {
    for name in ["creationTimestamp", "deletionTimestamp"] {
        if let Some(text) = metadata.get(name).and_then(Value::as_str) {
            let read = TimeLayout::Seconds.parse(text);
            read.map_err(NormalizeError::Instant)?;
        }
    }
    Ok(())
}

fn check_base64(text: &str) -> Result<(), NormalizeError> {
    // Long values are rare, and line breaks in them are rarer.
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
            Err(NormalizeError::Base64(at))
        }
        Err(_) => Err(NormalizeError::Base64(text.len() - text.len() % 4)),
    }
}

fn apply_default(plan: &MessagePlan, default: &FieldDefault, members: &mut Map) {
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
        let settler = Defaulter::for_kind(api_version, kind).unwrap();
        settler.normalize(&mut members).unwrap();
        let once = members.clone();
        settler.normalize(&mut members).unwrap();
        assert_eq!(members, once, "once is enough");
        members.into()
    }

    #[test]
    fn pod_is_defaulted_and_normalized() {
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
    fn config_map_without_defaults_is_unchanged() {
        let map = json!({"metadata": {"name": "a"}, "data": {"a": ""}});
        assert_eq!(settled("v1", "ConfigMap", map.clone()), map);
    }

    #[test]
    fn invalid_quantities_fail_normalization() {
        let mut members = Map::new();
        members.insert("spec".into(), json!({"hard": {"pods": "many"}}));
        let settler = Defaulter::for_kind("v1", "ResourceQuota").unwrap();
        assert_eq!(
            settler.normalize(&mut members),
            Err(NormalizeError::Quantity(QuantityError::Wrong))
        );
    }
}
