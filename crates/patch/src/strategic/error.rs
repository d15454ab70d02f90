//! Errors of strategic merge patches. The texts, and which errors are a 500, are upstream's.

use super::PATCH;
use crate::go;
use optik_object::{Map, Status, Value, quote};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StrategicError {
    #[error("{0}")]
    Malformed(String),
    #[error("invalid patch format of retainKeys")]
    BadRetainKeys,
    #[error("invalid patch format of setElementOrder list")]
    BadSetElementOrder,
    #[error("invalid patch format of primitive list")]
    BadPrimitiveList,
    #[error("lists of lists are not supported")]
    ListOfLists,
    #[error("map: {item} does not contain declared merge key: {key}")]
    NoMergeKey { item: String, key: String },
    #[error("unknown patch type: {directive} in map: {item}")]
    UnknownDirective { directive: String, item: String },
    #[error("merging lists cannot yet be specified in the patch")]
    MergeDirective,
    #[error("The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n")]
    OrderDiffers { patch: String, order: String },
    #[error("list element types are not identical: {0}")]
    MixedItems(String),
    #[error("no elements in any of the given slices")]
    NoItems,
    #[error("cannot merge lists without merge key for struct")]
    NoKeyDeclared,
    #[error("expected a {wanted}, but received a {found}")]
    WrongType {
        wanted: &'static str,
        found: &'static str,
    },
    #[error("merging an object in json but data type is not struct, instead is: {0}")]
    NotAStruct(&'static str),
    #[error("expected slice or array type, but got: struct")]
    NotAList,
    #[error("unable to find api field in struct {structure} for the json field {field}")]
    NoSuchField { structure: String, field: String },
}

impl StrategicError {
    pub(super) fn unknown_directive(item: &Map) -> Self {
        let directive = item.get(PATCH).unwrap_or(&Value::Null);
        Self::UnknownDirective {
            directive: go::print_as_text(directive),
            item: go::print(&Value::Object(item.clone())),
        }
    }

    pub(super) fn no_merge_key(item: &Map, key: &str) -> Self {
        Self::NoMergeKey {
            item: go::print(&Value::Object(item.clone())),
            key: key.into(),
        }
    }

    pub(super) fn wrong_type(wanted: &'static str, found: &Value) -> Self {
        Self::WrongType {
            wanted,
            found: go::type_name(found),
        }
    }

    pub(super) fn no_such_field(structure: &str, field: &str) -> Self {
        let name = structure.rsplit('.').next().unwrap_or(structure);
        Self::NoSuchField {
            structure: name.into(),
            field: quote(field),
        }
    }

    /// The `Status` for the client.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Malformed(_)
            | Self::BadRetainKeys
            | Self::BadSetElementOrder
            | Self::BadPrimitiveList => Status::bad_request(self.to_string()),
            Self::ListOfLists => Status::patch_rejected(),
            Self::NoMergeKey { .. }
            | Self::UnknownDirective { .. }
            | Self::MergeDirective
            | Self::OrderDiffers { .. }
            | Self::MixedItems(_)
            | Self::NoItems
            | Self::NoKeyDeclared
            | Self::WrongType { .. }
            | Self::NotAStruct(_)
            | Self::NotAList
            | Self::NoSuchField { .. } => Status::storage_failure(self.to_string()),
        }
    }
}
