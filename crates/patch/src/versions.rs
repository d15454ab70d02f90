//! The versions of a kind, as far as ownership must know them: an entry stays in the
//! version it was written in.

use crate::fieldset::FieldSet;
use optik_object::{Map, Object};
use optik_schema::TypeRef;
use std::borrow::Cow;

/// An object that cannot be had in another version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot convert to {to}: {why}")]
pub struct VersionConversionError {
    pub to: String,
    pub why: String,
}

/// What is known of a kind, for one endpoint.
pub trait VersionConverter {
    /// The type of the kind in a version such as `apps/v1`; `None` if it is not, or no
    /// longer, served.
    fn type_at(&self, api_version: &str) -> Option<TypeRef<'_>>;

    /// An object of one served version in another. Must not make it deeper than a parsed
    /// document may be.
    fn convert<'v>(
        &self,
        object: &'v Map,
        from: &str,
        to: &str,
    ) -> Result<Cow<'v, Map>, VersionConversionError>;

    /// What Go writes for an object of a version that nobody filled in, if somebody keeps
    /// that at hand.
    fn empty_object(&self, api_version: &str) -> Option<&Object> {
        let _ = api_version;
        None
    }

    /// What the endpoint resets, so that nobody owns it through it: the status on the
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
