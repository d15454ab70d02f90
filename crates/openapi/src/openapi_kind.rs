//! The input of an OpenAPI document: a resource and, if it is custom, its CRD schema.

use optik_catalog::ApiResource;
use serde_json::Value;

/// A kind that can be published in OpenAPI.
pub trait OpenApiKind {
    fn resource(&self) -> &ApiResource;

    /// The schema of the CRD, for the version of the resource. `None` if the resource is built in:
    /// its schemas are in the table.
    fn definition(&self) -> Option<Value>;

    /// Changes whenever the CRD changes.
    fn identity(&self) -> &str;
}

impl OpenApiKind for ApiResource {
    fn resource(&self) -> &ApiResource {
        self
    }

    fn definition(&self) -> Option<Value> {
        None
    }

    fn identity(&self) -> &str {
        ""
    }
}
