//! What documents are made from.

use optik_catalog::Resource;
use serde_json::Value;

/// A kind that can be described.
pub trait Described {
    fn resource(&self) -> &Resource;

    /// What the definition of a custom kind says of its objects, in the version of the
    /// resource. `None` if it is built in: its types are in the table.
    fn definition(&self) -> Option<Value>;

    /// Another one for another definition.
    fn identity(&self) -> &str;
}

impl Described for Resource {
    fn resource(&self) -> &Resource {
        self
    }

    fn definition(&self) -> Option<Value> {
        None
    }

    fn identity(&self) -> &str {
        ""
    }
}
