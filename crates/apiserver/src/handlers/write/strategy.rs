//! Per-kind create and update strategies (upstream's `rest.*Strategy`), driven by resource
//! descriptors.

use crate::admission::{WarningRecorder, policies, webhook_config_validation};
use crate::background::apiservice_controller;
use crate::handlers::write::object_meta::copy_member;
use crate::handlers::write::update::SubresourceTarget;
use crate::registry::crd;
use crate::registry::crd::custom_resource;
use crate::registry::served_resource::ServedResource;
use crate::request::http_types::User;
use optik_builtin::csr::Requester;
use optik_builtin::pod_subresource::{self, PodSubresource};
use optik_catalog::{Finalization, GenerationRule, SpecialKind, StatusMetadataReset, StatusRule};
use optik_object::{FieldError, Map, Object, Status, Timestamp, Value};

/// The finalizer that keeps a namespace until its content is deleted.
const NAMESPACE_FINALIZER: &str = "kubernetes";
/// The label by which selectors find a namespace by name.
const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Defaulting. Runs for every request body and after every mutating admission plugin.
pub(crate) fn apply_defaults(kind: &ServedResource, object: &mut Object) {
    let behaviour = &kind.resource.strategy_options;
    if behaviour.finalization == Finalization::Spec && !object.name().is_empty() {
        add_name_label(object);
    }
    match behaviour.special_kind {
        SpecialKind::CustomResourceDefinition => crd::apply_defaults(object),
        SpecialKind::Binding => optik_auth::default_binding(object),
        SpecialKind::Policies => policies::apply_defaults(object),
        SpecialKind::Role | SpecialKind::Webhooks | SpecialKind::ApiService | SpecialKind::None => {
        }
    }
}

/// Prepares a new object after mutating admission, so the fields set here cannot be forged.
pub(super) fn prepare_for_create(
    kind: &ServedResource,
    object: &mut Object,
    user: &User,
    now: Timestamp,
) {
    let behaviour = &kind.resource.strategy_options;
    if let StatusRule::Split {
        initial: Some(initial),
        ..
    } = behaviour.status
    {
        match optik_object::parse(initial.as_bytes()) {
            Ok(status) => {
                let members = object.members_mut();
                members.insert("status".into(), status.value);
            }
            Err(_) => drop(object.members_mut().remove("status")),
        }
        kind.normalize_status(object);
    }
    match behaviour.generation {
        GenerationRule::Untouched | GenerationRule::SpecOnUpdate => {}
        _ => object.set_generation(1),
    }
    if behaviour.finalization == Finalization::Spec {
        add_namespace_finalizer(object);
        add_name_label(object);
    }
    kind.strategy.prepare_for_create(object);
    let requester = Requester {
        name: &user.name,
        uid: &user.uid,
        groups: &user.groups,
        extra: &user.extra,
    };
    kind.strategy.set_requester(object, &requester);
    match behaviour.special_kind {
        SpecialKind::CustomResourceDefinition => crd::prepare_for_create(object),
        SpecialKind::ApiService => apiservice_controller::prepare_for_create(object, now),
        SpecialKind::None
        | SpecialKind::Role
        | SpecialKind::Binding
        | SpecialKind::Webhooks
        | SpecialKind::Policies => {}
    }
}

/// Validates an object by the rules of its kind; findings that only warrant a warning are recorded.
pub(super) fn validate(
    kind: &ServedResource,
    part: SubresourceTarget,
    object: &Object,
    old: Option<&Object>,
    told: &WarningRecorder,
) -> Vec<FieldError> {
    if let Some(custom) = &kind.custom {
        let (errors, warnings) = custom_resource::validate_object(custom, part, object, old);
        told.warn(warnings);
        return errors;
    }
    match (kind.resource.strategy_options.special_kind, part) {
        (SpecialKind::None | SpecialKind::ApiService, SubresourceTarget::Main) => {
            kind.strategy.validate(object, old)
        }
        (
            SpecialKind::None | SpecialKind::ApiService,
            SubresourceTarget::PodSubresource(aspect),
        ) => match old {
            Some(old) => pod_subresource::validate_update(aspect, object, old),
            None => Vec::new(),
        },
        (SpecialKind::None | SpecialKind::ApiService, SubresourceTarget::Status) => {
            kind.strategy.validate_status_update(object, old)
        }
        (SpecialKind::None | SpecialKind::ApiService, SubresourceTarget::Approval) => {
            kind.strategy.validate_approval_update(object, old)
        }
        (SpecialKind::None | SpecialKind::ApiService, _) => Vec::new(),
        (SpecialKind::CustomResourceDefinition, SubresourceTarget::Main) => {
            crd::validate(object, old)
        }
        (SpecialKind::CustomResourceDefinition, _) => crd::validate_status(object),
        (SpecialKind::Role, _) => optik_auth::validate_role(object),
        (SpecialKind::Binding, _) => optik_auth::validate_binding(object, old),
        (SpecialKind::Webhooks, _) => webhook_config_validation::validate(object),
        (SpecialKind::Policies, SubresourceTarget::Main) => policies::validate(object),
        (SpecialKind::Policies, _) => Vec::new(),
    }
}

/// Warnings for a successful write.
pub(super) fn warnings(
    kind: &ServedResource,
    part: SubresourceTarget,
    object: &Object,
    old: Option<&Object>,
) -> Vec<String> {
    match (&kind.custom, kind.resource.strategy_options.special_kind) {
        _ if part != SubresourceTarget::Main => Vec::new(),
        (Some(_), _) => custom_resource::finalizer_warnings(object, old),
        (None, SpecialKind::CustomResourceDefinition) => {
            crd::unrecognized_format_warnings(object, old)
        }
        (None, _) => Vec::new(),
    }
}

/// Refuses creates of a kind whose CRD is being deleted.
pub(super) fn check_accepts_creates(kind: &ServedResource, name: &str) -> Result<(), Status> {
    if kind
        .custom
        .as_ref()
        .is_some_and(|custom| custom.terminating)
    {
        let text = "create not allowed while custom resource definition is terminating";
        return Err(Status::forbidden(kind.resource.name(), name, text));
    }
    Ok(())
}

fn add_namespace_finalizer(object: &mut Object) {
    let spec = object.members_mut().entry("spec").or_insert(Value::Null);
    if !spec.is_object() {
        *spec = Map::new().into();
    }
    let finalizers = &mut spec["finalizers"];
    let held = finalizers.as_array().is_some_and(|list| {
        list.iter()
            .any(|name| name.as_str() == Some(NAMESPACE_FINALIZER))
    });
    if !held {
        let mut list = finalizers.as_array().cloned().unwrap_or_default();
        list.push(NAMESPACE_FINALIZER.into());
        *finalizers = list.into();
    }
}

fn add_name_label(object: &mut Object) {
    let name = object.name().to_owned();
    let labels = object.metadata_mut().entry("labels").or_insert(Value::Null);
    if !labels.is_object() {
        *labels = Map::new().into();
    }
    labels[NAMESPACE_NAME_LABEL] = name.into();
}

/// Prepares an update through the main endpoint: fields of other endpoints are preserved.
pub(super) fn prepare_for_update(kind: &ServedResource, object: &mut Object, old: &Object) {
    let behaviour = &kind.resource.strategy_options;
    if let StatusRule::Split { .. } = behaviour.status {
        take_member(object, old, "status");
    }
    if behaviour.finalization == Finalization::Spec {
        take_member(object, old, "spec");
        add_name_label(object);
    }
    if behaviour.special_kind == SpecialKind::CustomResourceDefinition {
        crd::prepare_for_update(object);
    }
    kind.strategy.prepare_for_update(object, old);
    if raises_generation(behaviour.generation, object, old) {
        object.set_generation(old.generation() + 1);
    }
}

/// Prepares an update through `/status`: only the status and some metadata change.
pub(super) fn prepare_for_status_update(
    kind: &ServedResource,
    object: &mut Object,
    old: &Object,
    now: Timestamp,
) {
    let status = object.members_mut().remove("status");
    let metadata = object.members_mut().remove("metadata");
    *object.members_mut() = old.members().clone();
    for (name, value) in [("status", status), ("metadata", metadata)] {
        match value {
            Some(value) => drop(object.members_mut().insert(name.into(), value)),
            None => drop(object.members_mut().remove(name)),
        }
    }
    kind.strategy.prepare_for_status_update(object, old, now);
    let StatusRule::Split { keeps, .. } = kind.resource.strategy_options.status else {
        return;
    };
    let kept: &[&str] = match keeps {
        StatusMetadataReset::Nothing => &[],
        StatusMetadataReset::Labels => &["labels"],
        StatusMetadataReset::OwnerReferences => &["ownerReferences"],
        StatusMetadataReset::All => &["labels", "annotations", "finalizers", "ownerReferences"],
    };
    for member in kept {
        copy_member(object, old, member);
    }
}

/// Prepares an update through `/approval`.
pub(super) fn prepare_for_approval_update(
    kind: &ServedResource,
    object: &mut Object,
    old: &Object,
    now: Timestamp,
) {
    kind.strategy.prepare_for_approval_update(object, old, now);
}

/// Prepares an update of a part of a pod that has a subresource of its own.
pub(super) fn prepare_for_pod_subresource_update(
    kind: &ServedResource,
    aspect: PodSubresource,
    object: &mut Object,
    old: &Object,
) {
    let managed =
        object.remove_metadata_member(crate::handlers::write::field_manager::MANAGED_FIELDS);
    pod_subresource::prepare_for_update(aspect, object, old);
    if let Some(managed) = managed {
        let metadata = object.metadata_mut();
        metadata.insert(
            crate::handlers::write::field_manager::MANAGED_FIELDS.into(),
            managed,
        );
    }
    if raises_generation(kind.resource.strategy_options.generation, object, old) {
        object.set_generation(old.generation() + 1);
    }
}

/// Prepares an update through `/finalize`: everything except the status changes.
pub(super) fn prepare_for_finalize(object: &mut Object, old: &Object) {
    take_member(object, old, "status");
}

fn take_member(object: &mut Object, from: &Object, member: &str) {
    match from.get(member).cloned() {
        Some(value) => drop(object.members_mut().insert(member.into(), value)),
        None => drop(object.members_mut().remove(member)),
    }
}

/// Whether an update raises the generation.
fn raises_generation(rule: GenerationRule, object: &Object, old: &Object) -> bool {
    let metadata_differs = |member: &str| {
        let of = |object: &Object| object.metadata().and_then(|meta| meta.get(member).cloned());
        of(object) != of(old)
    };
    match rule {
        GenerationRule::Untouched | GenerationRule::Fixed => false,
        GenerationRule::Content => differs(object, old, &["metadata", "kind", "apiVersion"]),
        GenerationRule::Spec | GenerationRule::SpecOnUpdate => spec_differs(object, old),
        GenerationRule::SpecOrAnnotations => {
            spec_differs(object, old) || metadata_differs("annotations")
        }
        GenerationRule::SpecOrLabels => spec_differs(object, old) || metadata_differs("labels"),
    }
}

/// Whether anything but metadata and status differs. `kind` and `apiVersion` do not count: they
/// differ if the object was written in an older version.
fn spec_differs(object: &Object, old: &Object) -> bool {
    differs(object, old, &["metadata", "status", "kind", "apiVersion"])
}

fn differs(object: &Object, old: &Object, except: &[&str]) -> bool {
    let counts = |name: &&String| !except.contains(&name.as_str());
    let (new, old) = (object.members(), old.members());
    let mut names = new.keys().chain(old.keys()).filter(counts);
    names.any(|name| new.get(name) != old.get(name))
}

/// Whether an object that is being deleted has no finalizers and no grace period left.
pub(super) fn is_ready_to_remove(kind: &ServedResource, object: &Object) -> bool {
    let grace = object.deletion_grace_period_seconds().unwrap_or(0);
    object.is_being_deleted()
        && grace == 0
        && object.finalizers().next().is_none()
        && !(kind.resource.strategy_options.finalization == Finalization::Spec
            && has_namespace_finalizers(object))
}

/// Whether `spec` still has finalizers.
pub(super) fn has_namespace_finalizers(object: &Object) -> bool {
    let finalizers = object.get("spec").and_then(|spec| spec.get("finalizers"));
    let list = finalizers.and_then(Value::as_array);
    list.is_some_and(|list| !list.is_empty())
}
