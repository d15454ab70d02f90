//! A Kubernetes resource as data: canonical JSON, metadata, `Status`, selectors.
//!
//! Pure and synchronous. Time and randomness come in as arguments, bytes come in
//! as slices; whoever serves requests owns the rest.
//!
//! The catalogue ids in the doc comments (`A1`, `C1`, ...) name one error each, with
//! the exact text clients have come to depend on.

mod base64;
mod canonical;
mod field_error;
mod go;
mod json;
mod layout;
mod meta;
mod names;
mod object;
mod paging;
pub mod protobuf;
mod resource;
mod revision_text;
pub mod selector;
mod status;
mod stored;
mod time;
mod uuid;
mod verb;
pub mod yaml;

pub use canonical::{NotStorable, encode};
pub use field_error::{FIELD_ERRORS_MAX, FieldError, FieldErrorKind};
pub use go::{plain_float, quote};
pub use json::{
    COST_MAX, DEPTH_MAX, Kind as JsonKind, Map, Parsed, SyntaxError, Tape, Value, View, cost,
    cost_as_it_is, drop_nulls, json_type, occurrences, parse, parse_kept, to_bytes,
};
pub use layout::{Layout, LayoutError};
pub use meta::{Meta, MetaError, OwnerReference};
pub use names::{
    Problems, dns_1035_label, dns_label, dns_subdomain, generate_name, label_key, label_value,
    path_segment,
};
pub use object::{NotAnObject, Object};
pub use paging::{Continue, Snapshot, TokenError};
pub use resource::ResourceName;
pub use revision_text::{Asked, ParseUintError, in_body, in_query, parse_uint, set_on_create};
pub use status::{
    Attempt, Cause, Denial, Details, ListOptionsError, Reason, SentType, Status, UidMismatch,
};
pub use stored::{Damaged, Spliced, splice};
pub use time::{Timestamp, TimestampError};
pub use uuid::uuid;
pub use verb::Verb;
