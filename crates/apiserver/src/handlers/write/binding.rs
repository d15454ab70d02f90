//! The `binding` subresource of pods: assigns a pod to a node.

use crate::handlers::write::update::{check_uid_precondition, error_key};
use crate::handlers::write::write_admission::{self, AdmissionTarget};
use crate::handlers::write::{CommitOutcome, RetryDeadline, WriteContext};
use crate::registry::served_resource::parse_stored;
use crate::server::store_errors::damaged_object;
use bytes::Bytes;
use optik_object::{FieldError, Map, Object, ResourceName, Status, Value};
use serde_json::json;

/// The resource that errors name.
const BINDING_RESOURCE: ResourceName<'static> = ResourceName {
    group: "",
    plural: "pods/binding",
    kind: "Binding",
};

/// Which endpoint a binding is posted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BindingEndpoint {
    /// `POST` to the `binding` subresource of the pod.
    Subresource,
    /// `POST` to the `bindings` collection, the older endpoint.
    Collection,
}

/// Assigns a pod to a node; a pod is assigned only once.
pub(crate) async fn bind(
    writing: &WriteContext<'_>,
    way: BindingEndpoint,
    name: &str,
    mut binding: Object,
) -> Result<(), Status> {
    let bindings = writing.registry.find("", "v1", "bindings");
    let bindings = bindings.unwrap_or(writing.kind);
    let (at, subresource) = match way {
        BindingEndpoint::Subresource => (writing.kind, "binding"),
        BindingEndpoint::Collection => (bindings, ""),
    };
    let subject = AdmissionTarget {
        resource: at,
        subresource,
        object_kind: bindings,
        ..AdmissionTarget::for_create(writing, name)
    };
    let namespace = writing.namespace.unwrap_or_default();
    match binding.namespace() {
        "" => binding.set_namespace(namespace),
        other if other != namespace => return Err(Status::namespace_mismatch()),
        _ => {}
    }
    write_admission::mutate(writing, subject, None, &mut binding).await?;
    let node = target(&binding, name)?;
    write_admission::validate(writing, subject, None, &mut binding).await?;
    let key = writing.key(name);
    let resource = writing.kind.resource.name();
    let patience = RetryDeadline::start();
    loop {
        let latest = writing.latest().await?;
        let current = latest.get(key.as_bytes());
        let current = current.ok_or_else(|| Status::not_found(resource, name))?;
        let mut pod = parse_stored(current.value()).map_err(|error| damaged_object(&key, error))?;
        check_uid_precondition(writing, &key, &pod, &binding)?;
        let (sent, stored) = (
            binding.resource_version(),
            current.mod_revision().to_string(),
        );
        if !sent.is_empty() && sent != stored {
            let key = error_key(writing, &key);
            return Err(Status::resource_version_mismatch(
                resource,
                name,
                key,
                [sent, &stored],
            ));
        }
        assign(writing, &mut pod, &binding, &node)?;
        let bytes = Bytes::from(writing.encode(&pod)?);
        if writing.options.dry_run {
            return Ok(());
        }
        if let CommitOutcome::Committed(_) =
            writing.put(&key, current.mod_revision(), &bytes).await?
        {
            return Ok(());
        }
        patience.check()?;
    }
}

fn target(binding: &Object, name: &str) -> Result<String, Status> {
    if binding.name() != name {
        let text = "name in URL does not match name in Binding object";
        return Err(Status::bad_request(text));
    }
    let target = binding.get("target").unwrap_or(&Value::Null);
    let text = |member: &str| target[member].as_str().unwrap_or_default();
    let mut errors = Vec::new();
    let (kind, node) = (text("kind"), text("name"));
    if !matches!(kind, "" | "Node") {
        let supported = &["Node", "<empty>"];
        errors.push(FieldError::not_supported("target.kind", kind, supported));
    }
    if node.is_empty() {
        errors.push(FieldError::required("target.name", ""));
    }
    match &errors[..] {
        [] => Ok(node.to_owned()),
        [error] => Err(Status::storage_failure(error.to_string())),
        errors => {
            let texts: Vec<String> = errors.iter().map(FieldError::to_string).collect();
            Err(Status::storage_failure(format!("[{}]", texts.join(", "))))
        }
    }
}

fn assign(
    writing: &WriteContext<'_>,
    pod: &mut Object,
    binding: &Object,
    node: &str,
) -> Result<(), Status> {
    let name = binding.name();
    let refuse = |text: &str| {
        Err(Status::conflict(
            BINDING_RESOURCE,
            name,
            &format!("pod {name} {text}"),
        ))
    };
    if pod.is_being_deleted() {
        return refuse("is being deleted, cannot be assigned to a host");
    }
    let now = writing.now().to_string();
    let spec = member(pod.members_mut(), "spec");
    if let Some(there) = spec.get("nodeName").and_then(Value::as_str)
        && !there.is_empty()
    {
        return refuse(&format!("is already assigned to node \"{there}\""));
    }
    let gates = spec.get("schedulingGates").and_then(Value::as_array);
    if gates.is_some_and(|gates| !gates.is_empty()) {
        return refuse("has non-empty .spec.schedulingGates");
    }
    spec.insert("nodeName".into(), node.into());
    for notes in ["annotations", "labels"] {
        let given = binding.metadata().and_then(|metadata| metadata.get(notes));
        if let Some(Value::Object(given)) = given {
            member(pod.metadata_mut(), notes).extend(given.clone());
        }
    }
    let status = member(pod.members_mut(), "status");
    status.remove("nominatedNodeName");
    let conditions = status.entry("conditions").or_insert(json!([]));
    if let Value::Array(conditions) = conditions {
        conditions.retain(|condition| condition.get("type") != Some(&"PodScheduled".into()));
        conditions.push(json!({
            "type": "PodScheduled", "status": "True",
            "lastProbeTime": null, "lastTransitionTime": now,
        }));
    }
    Ok(())
}

/// The object under a key; anything else there is replaced by an empty object.
fn member<'a>(members: &'a mut Map, name: &str) -> &'a mut Map {
    let value = members.entry(name).or_insert(Value::Null);
    if !value.is_object() {
        *value = Map::new().into();
    }
    value
        .as_object_mut()
        .expect("an object, by the lines above")
}
