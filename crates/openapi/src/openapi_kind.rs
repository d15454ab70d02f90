//! What documents are made from.

use optik_catalog::ApiResource;
use serde_json::Value;

/// A kind that can be described.
pub trait OpenApiKind {
    fn resource(&self) -> &ApiResource;

    /// What the definition of a custom kind says of its objects, in the version of the
    /// resource. `None` if it is built in: its types are in the table.
    fn definition(&self) -> Option<Value>;

    /// Another one for another definition.
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
