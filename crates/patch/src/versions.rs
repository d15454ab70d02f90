//! Version conversion for ownership: the entry of a manager stays in the version it was written in.

use crate::fieldset::FieldSet;
use optik_object::{Map, Object};
use optik_schema::TypeRef;
use std::borrow::Cow;

/// An object cannot be converted to another version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot convert to {to}: {why}")]
pub struct VersionConversionError {
    pub to: String,
    pub why: String,
}

/// The versions of a kind, for one endpoint.
pub trait VersionConverter {
    /// The type of the kind in a version such as `apps/v1`; `None` if the version is not, or no
    /// longer, served.
    fn type_at(&self, api_version: &str) -> Option<TypeRef<'_>>;

    /// Converts an object from one served version to another. The result must not be deeper than a
    /// parsed document may be.
    fn convert<'v>(
        &self,
        object: &'v Map,
        from: &str,
        to: &str,
    ) -> Result<Cow<'v, Map>, VersionConversionError>;

    /// The empty object of a version as Go writes it, if it is cached.
    fn empty_object(&self, api_version: &str) -> Option<&Object> {
        let _ = api_version;
        None
    }

    /// The fields the endpoint resets, so that they are never owned through it: the status on the
    /// object itself, everything else on its status.
    fn reset_fields(&self, api_version: &str) -> Option<&FieldSet>;
}

/// A kind with one version.
#[derive(Clone, Copy, Debug)]
pub struct OneVersion<'a> {
    pub api_version: &'a str,
    pub of: TypeRef<'a>,
    pub reset: Option<&'a FieldSet>,
}

impl VersionConverter for OneVersion<'_> {
    fn type_at(&self, api_version: &str) -> Option<TypeRef<'_>> {
        (api_version == self.api_version).then_some(self.of)
    }

    fn convert<'v>(
        &self,
        object: &'v Map,
        _: &str,
        _: &str,
    ) -> Result<Cow<'v, Map>, VersionConversionError> {
        Ok(Cow::Borrowed(object))
    }

    fn reset_fields(&self, _: &str) -> Option<&FieldSet> {
        self.reset
    }
}
