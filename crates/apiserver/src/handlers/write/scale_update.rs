//! Writes to the `scale` subresource: changes the Scale and then its parent object.

use crate::handlers::write::field_manager::with_endpoint;
use crate::handlers::write::update::{SubresourceTarget, prepare_update};
use crate::handlers::write::{ManagedFieldsState, WriteContext, field_manager};
use crate::registry::scale::{replicas, scale_kind, scaling, set_replicas, view};
use crate::registry::served_resource::ServedResource;
use optik_object::{FieldError, Object, ResourceName, Status, Value};
use optik_patch::{Family, Managed, PathElement, ScaleHandler, UpdateRequest, update};
use optik_store::Revision;

/// The Scale of a stored object with its managed fields, to which a patch is applied.
pub(super) fn view_with_managed_fields(
    writing: &WriteContext<'_>,
    stored: &Object,
    revision: Revision,
) -> Result<Object, Status> {
    let mut view = view(writing.kind, stored)?;
    view.set_resource_version(revision.get());
    let managed = with_replicas(writing.kind, |replicas| {
        replicas.to_subresource(&managed_fields(stored))
    })?;
    managed.write_to(&mut view);
    Ok(view)
}

/// Refuses a negative number of replicas.
pub(super) fn validate_scale(name: &str, body: &Object) -> Result<(), Status> {
    let asked = replicas(body);
    if asked >= 0 {
        return Ok(());
    }
    let text = "must be greater than or equal to 0";
    let error = FieldError::invalid("spec.replicas", asked, text);
    Err(Status::invalid(
        scale_kind().resource.name(),
        name,
        &[error],
    ))
}

/// Upstream cannot apply a change to the Scale of a custom resource; this is its error.
pub(super) fn check_unchanged(
    name: &str,
    config: &Object,
    (old, new): (&Object, &Object),
) -> Result<(), Status> {
    if old.get("spec") == new.get("spec") {
        return Ok(());
    }
    Err(Status::storage_failure(format!(
        "failed to convert new object ({}/{name}; autoscaling/v1, Kind=Scale) to proper version: \
         request to convert CR to an invalid group/version: autoscaling/v1",
        config.namespace()
    )))
}

/// The conflict for a Scale whose uid is not that of the stored object.
pub(super) fn uid_conflict(kind: &ServedResource, name: &str, sent: &str, stored: &str) -> Status {
    let resource = kind.resource.name();
    let plural = format!("{}/scale", resource.plural);
    let resource = ResourceName {
        plural: &plural,
        ..resource
    };
    let text =
        format!("Precondition failed: UID in precondition: {sent}, UID in object meta: {stored}");
    Status::conflict(resource, name, &text)
}

/// The parent object after its Scale changes from `live` to `body`.
pub(super) fn update_parent(
    writing: &WriteContext<'_>,
    old: &Object,
    live: &Object,
    mut body: Object,
) -> Result<Object, Status> {
    let asked = replicas(&body);
    omit_zero_replicas(&mut body);
    if writing.managed_fields == ManagedFieldsState::Pending {
        let manager = field_manager::field_manager(writing);
        let write = UpdateRequest {
            live: Some(live),
            manager: &manager,
            now: writing.now(),
            family: Family::BuiltIn,
        };
        with_endpoint(writing.kind, SubresourceTarget::Scale, |endpoint| {
            update(endpoint, &write, &mut body);
        });
    }
    let managed = with_replicas(writing.kind, |replicas| {
        replicas.to_parent(&managed_fields(old), &managed_fields(&body))
    })?;
    let mut parent = old.clone();
    set_replicas(writing.kind, &mut parent, asked)?;
    managed.write_to(&mut parent);
    prepare_update(writing, SubresourceTarget::Main, old, parent)
}

/// Removes `spec.replicas` if it is zero: Scales are compared as they are rendered.
fn omit_zero_replicas(body: &mut Object) {
    if let Some(Value::Object(spec)) = body.members_mut().get_mut("spec")
        && spec.get("replicas").and_then(Value::as_i64) == Some(0)
    {
        spec.remove("replicas");
    }
}

fn managed_fields(object: &Object) -> Managed {
    Managed::from_object(object).unwrap_or_default()
}

fn with_replicas<T>(
    kind: &ServedResource,
    run: impl FnOnce(&ScaleHandler<'_>) -> T,
) -> Result<T, Status> {
    let path = scaling(kind)?.replicas.iter();
    let path: Vec<PathElement> = path.map(|name| PathElement::field(name)).collect();
    let replicas = ScaleHandler {
        api_version: &kind.api_version,
        path: &|api_version| kind.is_served_in(api_version).then(|| path.clone()),
    };
    Ok(run(&replicas))
}
