//! Decoding and encoding of `metadata.managedFields`.

use super::{FieldManager, Managed, ManagedFieldsEntry, ManagedFieldsOperation};
use crate::fieldset::{FieldSet, FieldsV1Error};
use optik_object::{Map, Object, Timestamp, Value, quote};
use std::cmp::Ordering;

pub(crate) const MANAGED_FIELDS: &str = "managedFields";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagedFieldsError {
    #[error("managedFields is not a list of objects")]
    NotAList,
    #[error("operation must be `Apply` or `Update`")]
    BadOperation,
    #[error("apiVersion must not be empty")]
    NoVersion,
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    #[error("invalid fieldsType {kind} in managed fields entry {at}")]
    BadFieldsType { kind: String, at: usize },
    #[error("invalid time in managed fields entry {0}")]
    BadTime(usize),
    #[error("error decoding set: {0}")]
    BadSet(#[from] FieldsV1Error),
}

impl Managed {
    /// Decodes the managedFields of an object; missing ones are empty.
    pub fn from_object(object: &Object) -> Result<Self, ManagedFieldsError> {
        match object.metadata().and_then(|it| it.get(MANAGED_FIELDS)) {
            None | Some(Value::Null) => Ok(Self::default()),
            Some(Value::Array(list)) => Self::decode(list),
            Some(_) => Err(ManagedFieldsError::NotAList),
        }
    }

    /// Decodes a list of entries. If a manager has two entries, the last one counts.
    pub fn decode(list: &[Value]) -> Result<Self, ManagedFieldsError> {
        let entries = list.iter().enumerate().map(|(at, entry)| {
            let members = entry.as_object().ok_or(ManagedFieldsError::NotAList)?;
            decode_entry(members, at)
        });
        Ok(Self::from_entries(entries.collect::<Result<_, _>>()?))
    }

    /// Encodes the entries, sorted: Apply entries first, then by time.
    #[must_use]
    pub fn encode(&self) -> Vec<Value> {
        let mut sorted: Vec<&ManagedFieldsEntry> = self.entries.iter().collect();
        sorted.sort_by(|a, b| compare(a, b));
        sorted.into_iter().map(encode_entry).collect()
    }

    /// Replaces the managedFields of an object.
    pub fn write_to(&self, object: &mut Object) {
        if self.is_empty() {
            object.remove_metadata_member(MANAGED_FIELDS);
        } else {
            let list = self.encode().into();
            object.metadata_mut().insert(MANAGED_FIELDS.into(), list);
        }
    }
}

fn decode_entry(members: &Map, at: usize) -> Result<ManagedFieldsEntry, ManagedFieldsError> {
    let text = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or("");
    let operation = match text("operation") {
        "Apply" => ManagedFieldsOperation::Apply,
        "Update" => ManagedFieldsOperation::Update,
        _ => return Err(ManagedFieldsError::BadOperation),
    };
    if text("apiVersion").is_empty() {
        return Err(ManagedFieldsError::NoVersion);
    }
    match text("fieldsType") {
        "FieldsV1" => {}
        "" => return Err(ManagedFieldsError::NoFieldsType(at)),
        other => {
            let kind = quote(other);
            return Err(ManagedFieldsError::BadFieldsType { kind, at });
        }
    }
    let fields = members.get("fieldsV1").unwrap_or(&Value::Null);
    let time = match members.get("time") {
        None | Some(Value::Null) => None,
        Some(time) => {
            let time = time.as_str().and_then(|text| text.parse().ok());
            Some(time.ok_or(ManagedFieldsError::BadTime(at))?)
        }
    };
    Ok(ManagedFieldsEntry {
        manager: FieldManager {
            name: text("manager").into(),
            operation,
            api_version: text("apiVersion").into(),
            subresource: text("subresource").into(),
        },
        fields: FieldSet::decode(fields)?,
        time,
    })
}

fn encode_entry(entry: &ManagedFieldsEntry) -> Value {
    let manager = &entry.manager;
    let mut members = Map::new();
    let mut set = |name: &str, value: Value| drop(members.insert(name.into(), value));
    if !manager.name.is_empty() {
        set("manager", manager.name.as_str().into());
    }
    set("operation", manager.operation.name().into());
    set("apiVersion", manager.api_version.as_str().into());
    if let Some(time) = entry.time {
        set("time", time.to_string().into());
    }
    set("fieldsType", "FieldsV1".into());
    set("fieldsV1", entry.fields.encode());
    if !manager.subresource.is_empty() {
        set("subresource", manager.subresource.as_str().into());
    }
    members.into()
}

fn compare(a: &ManagedFieldsEntry, b: &ManagedFieldsEntry) -> Ordering {
    let seconds = |entry: &ManagedFieldsEntry| entry.time.map_or(0, Timestamp::seconds);
    a.manager
        .operation
        .cmp(&b.manager.operation)
        .then_with(|| seconds(a).cmp(&seconds(b)))
        .then_with(|| a.manager.name.cmp(&b.manager.name))
        .then_with(|| a.manager.api_version.cmp(&b.manager.api_version))
        .then_with(|| a.manager.subresource.cmp(&b.manager.subresource))
}
