//! Where a write arrives.

use crate::managed::{FieldManager, ManagedFieldsOperation};
use crate::versions::VersionConverter;
use optik_schema::TypeRef;

/// A version of a kind, or one of its subresources.
#[derive(Clone, Copy)]
pub struct Endpoint<'a> {
    /// `apps/v1`
    pub api_version: &'a str,
    pub kind: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub versions: &'a dyn VersionConverter,
}

impl Endpoint<'_> {
    /// The type of the objects in a request.
    pub(crate) fn object_type(&self) -> Option<TypeRef<'_>> {
        self.versions.type_at(self.api_version)
    }

    pub(crate) fn manager(&self, name: &str, operation: ManagedFieldsOperation) -> FieldManager {
        FieldManager {
            name: name.into(),
            operation,
            api_version: self.api_version.into(),
            subresource: self.subresource.into(),
        }
    }
}

/// A type as Go prints it: `apps/v1, Kind=Deployment`, `/v1, Kind=Secret`.
#[must_use]
pub fn gvk_string(api_version: &str, kind: &str) -> String {
    match api_version.split_once('/') {
        None if api_version.is_empty() => format!("/, Kind={kind}"),
        None => format!("/{api_version}, Kind={kind}"),
        // More than two parts are no version, and then Go forgets the kind, too.
        Some((_, version)) if version.contains('/') => "/, Kind=".into(),
        Some((group, version)) => format!("{group}/{version}, Kind={kind}"),
    }
}
