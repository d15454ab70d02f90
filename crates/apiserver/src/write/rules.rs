//! What kinds do to an object on its way in, as their descriptors say.

use super::metadata::copy_member;
use super::update::Part;
use crate::admission::{Told, configurations, policies};
use crate::exchange::User;
use crate::kinds::Kind;
use crate::{api_services, custom, definitions};
use optik_builtin::aspects::{self, Aspect};
use optik_builtin::certificates::Requester;
use optik_catalog::{Finalization, GenerationRule, Hook, OnStatus, StatusRule};
use optik_object::{FieldError, Map, Object, Status, Timestamp, Value};

/// The finalizer that holds a namespace until its content is gone.
const CONTENT_FINALIZER: &str = "kubernetes";
/// Lets selectors find a namespace by its name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Fills in what a client may leave out; every body and everything that others change
/// comes by here.
pub(crate) fn default(kind: &Kind, object: &mut Object) {
    let behaviour = &kind.resource.behaviour;
    if behaviour.finalization == Finalization::Spec && !object.name().is_empty() {
        label_name(object);
    }
    match behaviour.hook {
        Hook::Definition => definitions::fill(object),
        Hook::Binding => optik_access::default_binding(object),
        Hook::Policies => policies::default(object),
        Hook::Role | Hook::Webhooks | Hook::ApiService | Hook::None => {}
    }
}

/// A new object. Others have had their say, so what is set here nobody can forge.
pub(super) fn on_create(kind: &Kind, object: &mut Object, user: &User, now: Timestamp) {
    let behaviour = &kind.resource.behaviour;
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
        kind.settle_status(object);
    }
    match behaviour.generation {
        GenerationRule::Untouched | GenerationRule::SpecOnUpdate => {}
        _ => object.set_generation(1),
    }
    if behaviour.finalization == Finalization::Spec {
        hold_content(object);
        label_name(object);
    }
    kind.rules.begin(object);
    let requester = Requester {
        name: &user.name,
        uid: &user.uid,
        groups: &user.groups,
        extra: &user.extra,
    };
    kind.rules.note_requester(object, &requester);
    match behaviour.hook {
        Hook::Definition => definitions::on_create(object),
        Hook::ApiService => api_services::on_create(object, now),
        Hook::None | Hook::Role | Hook::Binding | Hook::Webhooks | Hook::Policies => {}
    }
}

/// What the kind itself has against an object; what it only warns of is told.
pub(super) fn check(
    kind: &Kind,
    part: Part,
    object: &Object,
    old: Option<&Object>,
    told: &Told,
) -> Vec<FieldError> {
    if let Some(custom) = &kind.custom {
        let (errors, warnings) = custom::check(custom, part, object, old);
        told.warn(warnings);
        return errors;
    }
    match (kind.resource.behaviour.hook, part) {
        (Hook::None | Hook::ApiService, Part::Main) => kind.rules.check(object, old),
        (Hook::None | Hook::ApiService, Part::Aspect(aspect)) => match old {
            Some(old) => aspects::check(aspect, object, old),
            None => Vec::new(),
        },
        (Hook::None | Hook::ApiService, Part::Status) => kind.rules.check_status(object, old),
        (Hook::None | Hook::ApiService, Part::Approval) => kind.rules.check_approval(object, old),
        (Hook::None | Hook::ApiService, _) => Vec::new(),
        (Hook::Definition, Part::Main) => definitions::check(object, old),
        (Hook::Definition, _) => definitions::check_status(object),
        (Hook::Role, _) => optik_access::check_role(object),
        (Hook::Binding, _) => optik_access::check_binding(object, old),
        (Hook::Webhooks, _) => configurations::check(object),
        (Hook::Policies, Part::Main) => policies::check(object),
        (Hook::Policies, _) => Vec::new(),
    }
}

/// What a client is told although its write succeeds.
pub(super) fn warnings(
    kind: &Kind,
    part: Part,
    object: &Object,
    old: Option<&Object>,
) -> Vec<String> {
    match (&kind.custom, kind.resource.behaviour.hook) {
        _ if part != Part::Main => Vec::new(),
        (Some(_), _) => custom::warnings(object, old),
        (None, Hook::Definition) => definitions::formats_unknown(object, old),
        (None, _) => Vec::new(),
    }
}

/// Nothing new is made of a kind that goes away.
pub(super) fn check_open(kind: &Kind, name: &str) -> Result<(), Status> {
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

fn hold_content(object: &mut Object) {
    let spec = object.members_mut().entry("spec").or_insert(Value::Null);
    if !spec.is_object() {
        *spec = Map::new().into();
    }
    let finalizers = &mut spec["finalizers"];
    let held = finalizers.as_array().is_some_and(|list| {
        list.iter()
            .any(|name| name.as_str() == Some(CONTENT_FINALIZER))
    });
    if !held {
        let mut list = finalizers.as_array().cloned().unwrap_or_default();
        list.push(CONTENT_FINALIZER.into());
        *finalizers = list.into();
    }
}

fn label_name(object: &mut Object) {
    let name = object.name().to_owned();
    let labels = object.metadata_mut().entry("labels").or_insert(Value::Null);
    if !labels.is_object() {
        *labels = Map::new().into();
    }
    labels[NAME_LABEL] = name.into();
}

/// An update through the main endpoint: what belongs to others stays.
pub(super) fn on_update(kind: &Kind, object: &mut Object, old: &Object) {
    let behaviour = &kind.resource.behaviour;
    if let StatusRule::Split { .. } = behaviour.status {
        take_member(object, old, "status");
    }
    if behaviour.finalization == Finalization::Spec {
        take_member(object, old, "spec");
        label_name(object);
    }
    if behaviour.hook == Hook::Definition {
        definitions::on_update(object);
    }
    kind.rules.keep(object, old);
    if counts(behaviour.generation, object, old) {
        object.set_generation(old.generation() + 1);
    }
}

/// An update through `/status`: only that changes, and some metadata.
pub(super) fn on_status_update(kind: &Kind, object: &mut Object, old: &Object, now: Timestamp) {
    let status = object.members_mut().remove("status");
    let metadata = object.members_mut().remove("metadata");
    *object.members_mut() = old.members().clone();
    for (name, value) in [("status", status), ("metadata", metadata)] {
        match value {
            Some(value) => drop(object.members_mut().insert(name.into(), value)),
            None => drop(object.members_mut().remove(name)),
        }
    }
    kind.rules.keep_on_status(object, old, now);
    let StatusRule::Split { keeps, .. } = kind.resource.behaviour.status else {
        return;
    };
    let kept: &[&str] = match keeps {
        OnStatus::Nothing => &[],
        OnStatus::Labels => &["labels"],
        OnStatus::OwnerReferences => &["ownerReferences"],
        OnStatus::All => &["labels", "annotations", "finalizers", "ownerReferences"],
    };
    for member in kept {
        copy_member(object, old, member);
    }
}

/// An update through `/approval`.
pub(super) fn on_approval(kind: &Kind, object: &mut Object, old: &Object, now: Timestamp) {
    kind.rules.keep_on_approval(object, old, now);
}

/// An update of a part that has an endpoint of its own.
pub(super) fn on_aspect(kind: &Kind, aspect: Aspect, object: &mut Object, old: &Object) {
    let managed = object.remove(super::ownership::MANAGED_FIELDS);
    aspects::keep_but(aspect, object, old);
    if let Some(managed) = managed {
        let metadata = object.metadata_mut();
        metadata.insert(super::ownership::MANAGED_FIELDS.into(), managed);
    }
    if counts(kind.resource.behaviour.generation, object, old) {
        object.set_generation(old.generation() + 1);
    }
}

/// An update through `/finalize`: all but the status changes.
pub(super) fn on_finalize(object: &mut Object, old: &Object) {
    take_member(object, old, "status");
}

fn take_member(object: &mut Object, from: &Object, member: &str) {
    match from.get(member).cloned() {
        Some(value) => drop(object.members_mut().insert(member.into(), value)),
        None => drop(object.members_mut().remove(member)),
    }
}

/// Whether an update raises the generation.
fn counts(rule: GenerationRule, object: &Object, old: &Object) -> bool {
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

/// Anything but metadata and status; what was written in an older version differs in
/// its type, which does not count.
fn spec_differs(object: &Object, old: &Object) -> bool {
    differs(object, old, &["metadata", "status", "kind", "apiVersion"])
}

fn differs(object: &Object, old: &Object, except: &[&str]) -> bool {
    let counts = |name: &&String| !except.contains(&name.as_str());
    let (new, old) = (object.members(), old.members());
    let mut names = new.keys().chain(old.keys()).filter(counts);
    names.any(|name| new.get(name) != old.get(name))
}

/// Whether nothing but the end is left of an object that is being deleted.
pub(super) fn is_finished(kind: &Kind, object: &Object) -> bool {
    let grace = object.deletion_grace_period_seconds().unwrap_or(0);
    object.is_being_deleted()
        && grace == 0
        && object.finalizers().next().is_none()
        && !(kind.resource.behaviour.finalization == Finalization::Spec && holds_content(object))
}

/// Whether `spec` still has finalizers.
pub(super) fn holds_content(object: &Object) -> bool {
    let finalizers = object.get("spec").and_then(|spec| spec.get("finalizers"));
    let list = finalizers.and_then(Value::as_array);
    list.is_some_and(|list| !list.is_empty())
}
