//! `Endpoint`: the version, kind and subresource a write is sent to.

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
    /// The type of the objects of the endpoint's version.
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

/// Prints a type as Go does: `apps/v1, Kind=Deployment`, `/v1, Kind=Secret`.
#[must_use]
pub fn gvk_string(api_version: &str, kind: &str) -> String {
    match api_version.split_once('/') {
        None if api_version.is_empty() => format!("/, Kind={kind}"),
        None => format!("/{api_version}, Kind={kind}"),
        // An apiVersion of more than two parts is invalid; Go then drops the kind, too.
        Some((_, version)) if version.contains('/') => "/, Kind=".into(),
        Some((group, version)) => format!("{group}/{version}, Kind={kind}"),
    }
}
