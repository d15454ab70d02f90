//! Managed fields: records which field manager owns which field, with every write.

use crate::handlers::write::WriteContext;
use crate::handlers::write::object_meta::copy_member;
use crate::handlers::write::update::SubresourceTarget;
use crate::registry::served_resource::ServedResource;
use crate::registry::storage_conversion::StorageConversion;
use optik_catalog::{StatusMetadataReset, StatusRule};
use optik_object::{Map, Object, Value};
use optik_patch::{
    ApplyError, ApplyRequest, ApplyResult, Endpoint, Family, FieldSet, UpdateRequest,
    VersionConversionError, VersionConverter, apply, only_managed_fields_times_differ, update,
};
use optik_schema::TypeRef;
use std::borrow::Cow;
use std::sync::Arc;

/// Whether the managed fields of a write were updated already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ManagedFieldsState {
    #[default]
    Pending,
    /// An apply has updated them.
    Recorded,
}

pub(super) const MANAGED_FIELDS: &str = "managedFields";
const FIELD_MANAGER_BYTES_MAX: usize = 128;

/// Updates the managed fields for a create, update or patch of the object that is about to be
/// stored. Managers own fields of the version they write, so objects are compared in that version.
pub(crate) fn update_managed_fields(
    writing: &WriteContext<'_>,
    part: SubresourceTarget,
    live: Option<&Object>,
    object: &mut Object,
) {
    if writing.managed_fields == ManagedFieldsState::Pending {
        with_endpoint(writing.kind, part, |endpoint| {
            let manager = field_manager(writing);
            let live = live.map(|live| writing.kind.to_client(live));
            let write = UpdateRequest {
                live: live.as_deref(),
                manager: &manager,
                now: writing.now(),
                family: match writing.kind.custom {
                    Some(_) => Family::Custom,
                    None => Family::BuiltIn,
                },
            };
            if writing.kind.storage_conversion == StorageConversion::Identity {
                return update(endpoint, &write, object);
            }
            let mut shown = writing.kind.to_client(object).into_owned();
            update(endpoint, &write, &mut shown);
            copy_member(object, &shown, MANAGED_FIELDS);
        });
    }
}

/// Keeps the old timestamps of managed fields if nothing else changed: such a write is a no-op.
pub(super) fn keep_times_if_unchanged(live: &Object, object: &mut Object) {
    if only_managed_fields_times_differ(live, object)
        && let Some(kept) = live.metadata().and_then(|meta| meta.get(MANAGED_FIELDS))
    {
        let kept = kept.clone();
        object.metadata_mut().insert(MANAGED_FIELDS.into(), kept);
    }
}

/// Merges an apply configuration into the live object.
pub(super) fn apply_configuration(
    writing: &WriteContext<'_>,
    part: SubresourceTarget,
    live: Option<&Object>,
    config: &Object,
    force: bool,
) -> Option<Result<ApplyResult, ApplyError>> {
    with_endpoint(writing.kind, part, |endpoint| {
        let request = ApplyRequest {
            live,
            config,
            manager: &writing.options.field_manager,
            force,
            now: writing.now(),
        };
        apply(endpoint, &request)
    })
}

/// The versions of a kind, for the conversion of managed fields.
struct KindVersions<'a> {
    kind: &'a ServedResource,
    /// The type of the requested version, the one needed most often.
    own: TypeRef<'a>,
    reset: FieldSet,
}

impl VersionConverter for KindVersions<'_> {
    fn type_at(&self, api_version: &str) -> Option<TypeRef<'_>> {
        if api_version == self.kind.api_version {
            return Some(self.own);
        }
        self.kind.schema_in(api_version)
    }

    fn convert<'v>(
        &self,
        object: &'v Map,
        from: &str,
        to: &str,
    ) -> Result<Cow<'v, Map>, VersionConversionError> {
        if from == to {
            return Ok(Cow::Borrowed(object));
        }
        let object = Object::try_from(Value::Object(object.clone()));
        let mut object = object.unwrap_or_default();
        self.kind.convert(&mut object, from, to);
        Ok(Cow::Owned(std::mem::take(object.members_mut())))
    }

    fn empty_object(&self, api_version: &str) -> Option<&Object> {
        (api_version == self.kind.api_version).then(|| self.kind.zero_value())?
    }

    fn reset_fields(&self, _: &str) -> Option<&FieldSet> {
        Some(&self.reset)
    }
}

/// Runs `with` on the endpoint's types as its clients see them; `None` if the types are not known.
pub(super) fn with_endpoint<T>(
    kind: &Arc<ServedResource>,
    part: SubresourceTarget,
    run: impl FnOnce(&Endpoint<'_>) -> T,
) -> Option<T> {
    let kind = part.kind(kind);
    let versions = KindVersions {
        kind,
        own: kind.schema()?,
        reset: reset_fields(kind, part),
    };
    let endpoint = Endpoint {
        api_version: &kind.api_version,
        kind: &kind.resource.kind,
        subresource: part.subresource(),
        versions: &versions,
    };
    Some(run(&endpoint))
}

/// The fields that clients of an endpoint cannot change.
fn reset_fields(kind: &ServedResource, part: SubresourceTarget) -> FieldSet {
    let StatusRule::Split { keeps, .. } = kind.resource.strategy_options.status else {
        return FieldSet::new();
    };
    let own = kind.strategy.reset_fields();
    match part {
        SubresourceTarget::Main | SubresourceTarget::Finalize => {
            let mut paths: Vec<&[&str]> = vec![&["status"]];
            paths.extend(own.main);
            FieldSet::from_fields(&paths)
        }
        SubresourceTarget::Scale | SubresourceTarget::PodSubresource(_) => FieldSet::new(),
        SubresourceTarget::Approval => FieldSet::from_fields(own.approval),
        SubresourceTarget::Status => {
            let mut paths: Vec<&[&str]> = vec![&["spec"]];
            paths.extend(own.status);
            match keeps {
                StatusMetadataReset::Nothing => {}
                StatusMetadataReset::Labels => paths.push(&["metadata", "labels"]),
                StatusMetadataReset::OwnerReferences => {
                    paths.push(&["metadata", "ownerReferences"]);
                }
                StatusMetadataReset::All => paths.push(&["metadata"]),
            }
            FieldSet::from_fields(&paths)
        }
    }
}

/// The `fieldManager` parameter, or the name from the User-Agent.
pub(super) fn field_manager(writing: &WriteContext<'_>) -> String {
    let printable = writing.origin.manager.chars().filter(|c| !c.is_control());
    let mut name: String = printable.collect();
    while name.len() > FIELD_MANAGER_BYTES_MAX {
        name.pop();
    }
    if name.is_empty() {
        name.push_str("unknown");
    }
    name
}
