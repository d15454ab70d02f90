//! A Kubernetes resource as data: canonical JSON, metadata, `Status`, selectors, the JSON, YAML and
//! protobuf serializers.
//!
//! Pure and synchronous. Time and randomness are arguments, bytes are slices; the server does the
//! I/O.
//!
//! The ids in the doc comments (`CONC-A1`, `CONC-C1`, …) name one error of CONC §2.7 each, with its
//! exact text, which clients depend on.

mod base64;
mod canonical;
mod field_error;
mod go;
mod json;
mod meta;
mod names;
mod object;
mod paging;
pub mod protobuf;
mod resource;
mod resource_version;
pub mod selector;
mod splice;
mod status;
mod time_layout;
mod timestamp;
mod uuid;
mod verb;
pub mod yaml;

pub use canonical::{NotStorable, encode_canonical};
pub use field_error::{FIELD_ERRORS_MAX, FieldError, FieldErrorKind};
pub use go::{plain_float, quote};
pub use json::{
    COST_MAX, DEPTH_MAX, JsonKind, JsonView, Map, ParsedDocument, SyntaxError, Tape, Value, cost,
    cost_without_defaults, drop_nulls, json_type, occurrences, parse, parse_stored, to_bytes,
};
pub use meta::{ObjectMeta, ObjectMetaError, OwnerReference};
pub use names::{
    Problems, dns1035_label, dns1123_label, dns1123_subdomain, generate_name, label_value,
    path_segment, qualified_name,
};
pub use object::{NotAnObject, Object};
pub use paging::{ContinueRevision, ContinueToken, ContinueTokenError};
pub use resource::ResourceName;
pub use resource_version::{
    ParseUintError, RequestedResourceVersion, create_sets_resource_version,
    parse_body_resource_version, parse_query_resource_version, parse_uint,
};
pub use splice::{CorruptBytes, SplicedObject, splice};
pub use status::{
    Cause, DenialStatus, Details, ForbiddenRequest, ListOptionsError, Reason, SentType, Status,
    UidMismatch,
};
pub use time_layout::{TimeLayout, TimeLayoutError};
pub use timestamp::{Timestamp, TimestampError};
pub use uuid::uuid;
pub use verb::Verb;
