//! OpenAPI documents of the API: v3, one document for each group and version, and v2, one document
//! for everything, as JSON or in gnostic's protobuf.
//!
//! Schemas of built-in kinds come from a generated table (`cargo xtask openapi`) that is kept
//! compressed and decompressed for each document: documents are requested rarely, so the memory is
//! not held in between. Schemas of custom resources come from their CRDs. Operations come from the
//! resources of the catalog.

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

/// The title and the version in the documents.
const TITLE: &str = "Kubernetes";
const VERSION: &str = "v1.36.4";
