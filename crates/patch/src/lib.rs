//! Patches and field ownership: JSON Patch, JSON Merge Patch, strategic merge patch, server-side
//! apply, and managedFields.
//!
//! Pure: the time and the types are arguments. Any input gives a result or an error whose
//! `status()` is the response for the client.
//!
//! Walkers recurse as deep as the values they walk. Values come from [`optik_object::parse`], which
//! bounds their depth, and no patch makes them deeper.

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

/// Whether a patch is checked for unknown and duplicate members. Also selects the text of some
/// errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrictDecoding {
    /// `fieldValidation=Ignore`
    Off,
    /// `Warn` and `Strict`
    On,
}
