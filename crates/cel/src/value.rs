//! CEL values at run time. Values from an object borrow from its JSON.

use crate::decl_type::{CelListType, DeclKind, DeclType, ObjectDecl};
use crate::library::OpaqueValue;
use crate::time::{CelTimestamp, parse_date, parse_duration_format, parse_instant};
use base64::Engine;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;

type JsonMap = serde_json::Map<String, Json>;

/// Why evaluation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvalError {
    /// The cost limit was exceeded.
    CostLimitExceeded,
    /// A run-time error, with the message of `cel-go`.
    Failed(Box<str>),
}

impl EvalError {
    pub(crate) fn new(text: impl Into<Box<str>>) -> Self {
        Self::Failed(text.into())
    }

    pub(crate) fn no_overload() -> Self {
        Self::new("no such overload")
    }

    pub(crate) fn no_key(key: impl std::fmt::Display) -> Self {
        Self::new(format!("no such key: {key}"))
    }
}

impl std::fmt::Display for EvalError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CostLimitExceeded => {
                f.write_str("operation cancelled: actual cost limit exceeded")
            }
            Self::Failed(text) => f.write_str(text),
        }
    }
}

pub(crate) type Result<T> = std::result::Result<T, EvalError>;

#[derive(Clone, Debug)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(StringValue<'a>),
    Bytes(Arc<[u8]>),
    Timestamp(CelTimestamp),
    /// In nanoseconds.
    Duration(i64),
    List(ListValue<'a>),
    Map(MapValue<'a>),
    Type(TypeValue),
    Optional(Option<Arc<Value<'a>>>),
    Opaque(Arc<OpaqueValue>),
    Struct(Arc<StructValue<'a>>),
}

/// A string, borrowed or reference-counted.
#[derive(Clone, Debug)]
pub enum StringValue<'a> {
    Borrowed(&'a str),
    Shared(Arc<str>),
}

#[derive(Clone, Debug)]
pub enum ListValue<'a> {
    Json(&'a [Json], Option<&'a DeclType>),
    Owned(Arc<Vec<Value<'a>>>),
}

#[derive(Clone, Debug)]
pub enum MapValue<'a> {
    Json(&'a JsonMap, Option<&'a DeclType>),
    Owned(Arc<BTreeMap<MapKey, Value<'a>>>),
}

/// A map key. Equal integers of different numeric types are the same key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MapKey {
    Bool(bool),
    Int(i128),
    String(Arc<str>),
}

/// An object that the expression constructed.
#[derive(Debug)]
pub struct StructValue<'a> {
    pub name: Box<str>,
    pub fields: Vec<(Box<str>, Value<'a>)>,
}

/// The type of a value at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeValue(pub(crate) Box<str>);

impl StringValue<'_> {
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl<'a> Value<'a> {
    pub(crate) fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(StringValue::Shared(text.into()))
    }

    pub(crate) fn list(items: Vec<Self>) -> Self {
        Self::List(ListValue::Owned(Arc::new(items)))
    }

    pub(crate) fn strings<T: Into<Arc<str>>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::list(texts.into_iter().map(Value::string).collect())
    }

    pub(crate) fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    pub(crate) fn opaque(thing: OpaqueValue) -> Self {
        Self::Opaque(Arc::new(thing))
    }

    /// A value from JSON without a schema.
    #[must_use]
    pub fn untyped(json: &'a Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => match number.as_i64() {
                Some(number) => Self::Int(number),
                None => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Self::String(StringValue::Borrowed(text)),
            Json::Array(items) => Self::List(ListValue::Json(items, None)),
            Json::Object(members) => Self::Map(MapValue::Json(members, None)),
        }
    }

    /// A value from JSON with a declared type. JSON that does not match the type is an error.
    pub fn typed(json: &'a Json, shape: &'a DeclType) -> std::result::Result<Self, EvalError> {
        let wrong = |what: &str| EvalError::new(format!("invalid data, expected {what}"));
        Ok(match (&shape.kind, json) {
            (DeclKind::Any, json) => Self::untyped(json),
            (_, Json::Null) if shape.nullable => Self::Null,
            (_, Json::Null) => {
                let text = "invalid data, got null for schema with nullable=false";
                return Err(EvalError::new(text));
            }
            (DeclKind::IntOrString, Json::String(_)) => Self::untyped(json),
            (DeclKind::IntOrString, Json::Number(number)) if number.is_i64() => Self::untyped(json),
            (DeclKind::IntOrString, _) => {
                return Err(wrong("XIntOrString value to be either a string or integer"));
            }
            (DeclKind::Bool, Json::Bool(value)) => Self::Bool(*value),
            (DeclKind::Bool, _) => return Err(wrong("bool")),
            (DeclKind::Int, Json::Number(number)) => match whole(number) {
                Some(number) => Self::Int(number),
                None => return Err(wrong("int, got float64")),
            },
            (DeclKind::Int, _) => return Err(wrong("int")),
            (DeclKind::Double, Json::Number(number)) => {
                Self::Double(number.as_f64().unwrap_or(f64::NAN))
            }
            (DeclKind::Double, _) => return Err(wrong("float")),
            (kind, Json::String(text)) => parse_formatted(kind, text)?,
            (DeclKind::List { .. }, Json::Array(items)) => {
                Self::List(ListValue::Json(items, Some(shape)))
            }
            (DeclKind::Map(_) | DeclKind::Object(_), Json::Object(members)) => {
                Self::Map(MapValue::Json(members, Some(shape)))
            }
            (DeclKind::List { .. }, _) => {
                return Err(wrong("an array for the provided schema with type=array"));
            }
            (DeclKind::Map(_) | DeclKind::Object(_), _) => {
                return Err(wrong("a map for the provided schema with type=object"));
            }
            _ => return Err(wrong("string")),
        })
    }

    fn from_json(json: &'a Json, shape: Option<&'a DeclType>) -> Result<Self> {
        match shape {
            Some(shape) => Self::typed(json, shape),
            None => Ok(Self::untyped(json)),
        }
    }

    pub(crate) fn type_name(&self) -> TypeValue {
        let name = match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Opaque(thing) => thing.opaque_type().name(),
            Self::Struct(made) => &made.name,
        };
        TypeValue(name.into())
    }

    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text.as_str()),
            _ => None,
        }
    }

    /// The value as a map key; `None` for other types and for numbers that are not whole.
    pub(crate) fn key(&self) -> Option<MapKey> {
        match self {
            Self::Bool(value) => Some(MapKey::Bool(*value)),
            Self::Int(number) => Some(MapKey::Int(i128::from(*number))),
            Self::Uint(number) => Some(MapKey::Int(i128::from(*number))),
            Self::Double(number) if number.fract() == 0.0 && number.abs() < 2e19 => {
                Some(MapKey::Int(*number as i128))
            }
            Self::String(text) => Some(MapKey::String(text.as_str().into())),
            _ => None,
        }
    }

    /// Converts to JSON, for values that expressions construct (patches and annotations). `None`
    /// for optionals and opaque values.
    #[must_use]
    pub fn to_json(&self) -> Option<Json> {
        Some(match self {
            Self::Null => Json::Null,
            Self::Bool(value) => (*value).into(),
            Self::Int(number) => (*number).into(),
            Self::Uint(number) => (*number).into(),
            Self::Double(number) => Json::from(*number),
            Self::String(text) => text.as_str().into(),
            Self::Bytes(bytes) => base64::engine::general_purpose::STANDARD
                .encode(bytes)
                .into(),
            Self::Timestamp(at) => at.to_string().into(),
            Self::Duration(nanos) => crate::time::duration_text(*nanos).into(),
            Self::List(ListValue::Json(items, _)) => Json::Array(items.to_vec()),
            Self::List(ListValue::Owned(items)) => {
                let items: Option<Vec<Json>> = items.iter().map(Self::to_json).collect();
                Json::Array(items?)
            }
            Self::Map(MapValue::Json(members, _)) => Json::Object((*members).clone()),
            Self::Map(MapValue::Owned(entries)) => {
                let mut members = JsonMap::new();
                for (key, value) in entries.iter() {
                    members.insert(key.to_string(), value.to_json()?);
                }
                Json::Object(members)
            }
            Self::Struct(made) => {
                let mut members = JsonMap::new();
                for (name, value) in &made.fields {
                    let key = crate::decl_type::unescape(name).unwrap_or_else(|| name.to_string());
                    members.insert(key, value.to_json()?);
                }
                Json::Object(members)
            }
            Self::Type(_) | Self::Optional(_) | Self::Opaque(_) => return None,
        })
    }
}

impl std::fmt::Display for MapKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(number) => write!(f, "{number}"),
            Self::String(text) => f.write_str(text),
        }
    }
}

impl MapKey {
    pub(crate) fn to_value<'a>(&self) -> Value<'a> {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(number) => match i64::try_from(*number) {
                Ok(number) => Value::Int(number),
                Err(_) => Value::Uint(u64::try_from(*number).unwrap_or(u64::MAX)),
            },
            Self::String(text) => Value::String(StringValue::Shared(Arc::clone(text))),
        }
    }
}

/// A whole JSON number, however it is written: `1.0` is whole.
fn whole(number: &serde_json::Number) -> Option<i64> {
    number.as_i64().or_else(|| {
        let float = number.as_f64()?;
        (float.fract() == 0.0 && float.abs() < 9e18).then_some(float as i64)
    })
}

fn parse_formatted<'a>(kind: &DeclKind, text: &'a str) -> Result<Value<'a>> {
    let failed = |what: &str| EvalError::new(format!("Invalid {what} {text}"));
    Ok(match kind {
        DeclKind::String => Value::String(StringValue::Borrowed(text)),
        DeclKind::Bytes => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(text);
            let bytes = bytes.map_err(|_| failed("byte formatted string"))?;
            Value::Bytes(bytes.into())
        }
        DeclKind::Duration => {
            Value::Duration(parse_duration_format(text).ok_or_else(|| failed("duration"))?)
        }
        DeclKind::Date => {
            let at = parse_date(text).ok_or_else(|| failed("date formatted string"))?;
            Value::Timestamp(at)
        }
        DeclKind::DateTime => {
            let at = parse_instant(text).ok_or_else(|| failed("date-time formatted string"))?;
            Value::Timestamp(at)
        }
        DeclKind::List { .. } => {
            let text = "invalid data, expected an array for the provided schema with type=array";
            return Err(EvalError::new(text));
        }
        _ => {
            let text = "invalid data, expected a map for the provided schema with type=object";
            return Err(EvalError::new(text));
        }
    })
}

impl<'a> ListValue<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json(items, _) => items.len(),
            Self::Owned(items) => items.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Result<Option<Value<'a>>> {
        match self {
            Self::Json(items, shape) => {
                let shape = shape.and_then(DeclType::item);
                let item = items.get(index).map(|item| Value::from_json(item, shape));
                item.transpose()
            }
            Self::Owned(items) => Ok(items.get(index).cloned()),
        }
    }

    /// Iterates over the items.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<Value<'a>>> + '_ {
        (0..self.len()).map(|index| self.get(index).map(|item| item.unwrap_or(Value::Null)))
    }

    pub(crate) fn to_vec(&self) -> Result<Vec<Value<'a>>> {
        self.iter().collect()
    }

    pub(crate) fn list_type(&self) -> &CelListType {
        match self {
            Self::Json(_, Some(shape)) => match &shape.kind {
                DeclKind::List {
                    list_type: order, ..
                } => order,
                _ => &CelListType::Atomic,
            },
            _ => &CelListType::Atomic,
        }
    }
}

impl<'a> MapValue<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json(members, _) => members.len(),
            Self::Owned(entries) => entries.len(),
        }
    }

    fn object(&self) -> Option<&'a ObjectDecl> {
        match self {
            Self::Json(_, Some(shape)) => match &shape.kind {
                DeclKind::Object(object) => Some(object),
                _ => None,
            },
            _ => None,
        }
    }

    /// Reads a field by name.
    pub(crate) fn field(&self, name: &str) -> Result<Option<Value<'a>>> {
        match self {
            Self::Json(members, shape) => {
                let (key, shape) = match self.object() {
                    Some(object) => match object.field(name) {
                        Some(field) => (&*field.key, Some(&field.shape)),
                        None => return Ok(None),
                    },
                    None => (name, shape.and_then(map_value_type)),
                };
                let found = members.get(key);
                found.map(|json| Value::from_json(json, shape)).transpose()
            }
            Self::Owned(entries) => Ok(entries.get(&MapKey::String(name.into())).cloned()),
        }
    }

    /// Whether a field is present, without reading its value.
    pub(crate) fn has(&self, name: &str) -> bool {
        match self {
            Self::Json(members, _) => match self.object() {
                Some(object) => object
                    .field(name)
                    .is_some_and(|field| members.contains_key(&*field.key)),
                None => members.contains_key(name),
            },
            Self::Owned(entries) => entries.contains_key(&MapKey::String(name.into())),
        }
    }

    pub(crate) fn get(&self, key: &Value<'a>) -> Result<Option<Value<'a>>> {
        match (self, key) {
            (_, Value::String(text)) => self.field(text.as_str()),
            (Self::Owned(entries), key) => match key.key() {
                Some(key) => Ok(entries.get(&key).cloned()),
                None => Ok(None),
            },
            (Self::Json(..), _) => Ok(None),
        }
    }

    /// The keys as expressions see them: names are escaped; members that cannot be named are
    /// omitted.
    pub(crate) fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Self::Json(members, _) => match self.object() {
                Some(object) => {
                    let fields = members
                        .keys()
                        .filter_map(|key| object.field_by_json_name(key));
                    fields
                        .map(|field| Value::String(StringValue::Borrowed(&field.name)))
                        .collect()
                }
                None => {
                    let keys = members.keys();
                    keys.map(|key| Value::String(StringValue::Borrowed(key)))
                        .collect()
                }
            },
            Self::Owned(entries) => entries.keys().map(MapKey::to_value).collect(),
        }
    }

    /// The JSON members that no schema declares.
    pub(crate) fn undeclared(&self) -> Option<impl Iterator<Item = (&'a String, &'a Json)> + '_> {
        match self {
            Self::Json(members, Some(_)) => {
                let object = self.object()?;
                let hidden = members.iter();
                Some(hidden.filter(|(key, _)| object.field_by_json_name(key).is_none()))
            }
            _ => None,
        }
    }

    pub(crate) fn to_owned_map(&self) -> Result<BTreeMap<MapKey, Value<'a>>> {
        match self {
            Self::Owned(entries) => Ok((**entries).clone()),
            Self::Json(..) => {
                let mut entries = BTreeMap::new();
                for key in self.keys() {
                    if let (Some(name), Some(value)) = (key.key(), self.get(&key)?) {
                        entries.insert(name, value);
                    }
                }
                Ok(entries)
            }
        }
    }
}

fn map_value_type(shape: &DeclType) -> Option<&DeclType> {
    match &shape.kind {
        DeclKind::Map(of) => Some(of),
        _ => None,
    }
}
