//! The API described for its clients: OpenAPI v3, a document for each group and
//! version, and v2, all in one, as JSON or in gnostic's protobuf.
//!
//! Types come from a generated table (`cargo xtask openapi`) that is kept compressed and
//! unpacked for each document: documents are asked for rarely, and nobody wants to pay
//! for them in between. Those of custom kinds come from their definitions. What can be
//! done with them comes from the kinds.

mod builtin_schemas;
mod custom_schemas;
mod gnostic;
mod openapi_kind;
mod operations;
mod refs;
mod v2;
mod v3;

pub use gnostic::encode as to_gnostic;
pub use openapi_kind::OpenApiKind;
pub use refs::resolve_schemas;
pub use v2::document as v2;
pub use v3::{document as v3, hash, index, path_of};

/// What documents say of themselves.
const TITLE: &str = "Kubernetes";
const VERSION: &str = "v1.36.4";
