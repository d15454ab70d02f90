//! Changes to objects: JSON Patch, JSON Merge Patch, strategic merge patch, server-side
//! apply; and the record of who owns which field.
//!
//! Pure: the time and the types come in as arguments. Whatever a client sends gives a
//! result or an error whose `status()` is what the client gets to see.
//!
//! Walkers recurse as deep as the values they walk. Values come from
//! [`optik_object::parse`], which bounds their depth, and nothing here makes them deeper.

mod apply;
mod conflict;
mod endpoint;
pub mod fieldset;
mod go;
mod json_patch;
mod last_applied;
pub mod managed;
mod merge_patch;
mod ownership;
mod prune;
mod scale;
mod strategic;
pub mod typed;
mod update;
mod value;
mod versions;

pub use apply::{ApplyError, ApplyRequest, ApplyResult, apply};
pub use conflict::Conflicts;
pub use endpoint::{Endpoint, gvk_string};
pub use fieldset::{FieldSet, PathElement};
pub use go::invalid_patch;
pub use json_patch::{JsonPatch, JsonPatchError, Rejection};
pub use managed::{
    FieldManager, Managed, ManagedFieldsEntry, ManagedFieldsError, ManagedFieldsOperation,
    validate_managed_fields,
};
pub use merge_patch::{MergePatch, MergePatchError, merge_patch};
pub use scale::ScaleHandler;
pub use strategic::{StrategicError, StrategicPatch, strategic_merge_patch};
pub use update::{Family, UpdateRequest, only_managed_fields_times_differ, update};
pub use versions::{OneVersion, VersionConversionError, VersionConverter};

/// Whether the document of a patch is checked for members that are unknown or given
/// twice. Decides some texts, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrictDecoding {
    /// `fieldValidation=Ignore`
    Off,
    /// `Warn` and `Strict`
    On,
}
