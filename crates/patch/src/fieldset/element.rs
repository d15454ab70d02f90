//! `PathElement`: one step of a field path.

use crate::go;
use crate::value::compare;
use optik_object::{Value, quote, to_bytes};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A step from a value to a value inside it. Cheap to clone.
#[derive(Clone, Debug)]
pub enum PathElement {
    Field(Arc<str>),
    /// An item of a list map, by its keys, sorted by name.
    Key(Arc<[(Arc<str>, Value)]>),
    /// An item of a set, by its value.
    Value(Arc<Value>),
    Index(i64),
}

impl PathElement {
    #[must_use]
    pub fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    #[must_use]
    pub fn value(value: Value) -> Self {
        Self::Value(Arc::new(value))
    }

    #[must_use]
    pub fn key(mut keys: Vec<(Arc<str>, Value)>) -> Self {
        keys.sort_by(|a, b| a.0.cmp(&b.0));
        Self::Key(keys.into())
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }

    /// Encodes the element as a member name of fieldsV1: `f:name`,
    /// `k:{"port":80,"protocol":"TCP"}`, `v:"a"`, `i:0`.
    #[must_use]
    pub fn encode(&self) -> String {
        match self {
            Self::Field(name) => ["f:", &**name].concat(),
            Self::Key(keys) => {
                let keys = keys
                    .iter()
                    .map(|(name, value)| format!("{}:{}", json(&**name), json(value)));
                format!("k:{{{}}}", keys.collect::<Vec<_>>().join(","))
            }
            Self::Value(value) => format!("v:{}", json(&**value)),
            Self::Index(index) => format!("i:{index}"),
        }
    }
}

fn json<T: serde::Serialize + ?Sized>(value: &T) -> String {
    String::from_utf8_lossy(&to_bytes(value)).into_owned()
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => compare_keys(a, b),
            (Self::Value(a), Self::Value(b)) => compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

fn compare_keys(a: &[(Arc<str>, Value)], b: &[(Arc<str>, Value)]) -> Ordering {
    let orders = a
        .iter()
        .zip(b)
        .map(|(a, b)| a.0.cmp(&b.0).then_with(|| compare(&a.1, &b.1)));
    orders
        .into_iter()
        .find(|order| order.is_ne())
        .unwrap_or_else(|| a.len().cmp(&b.len()))
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

/// The form in conflicts and errors.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                let keys = keys
                    .iter()
                    .map(|(name, value)| format!("{name}={}", printed(value)));
                write!(f, "[{}]", keys.collect::<Vec<_>>().join(","))
            }
            Self::Value(value) => write!(f, "[={}]", printed(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

fn printed(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => go::number(number),
        Value::String(text) => quote(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(printed).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| format!("{name}={}", printed(member)))
            .collect(),
    }
}
