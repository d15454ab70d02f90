//! Giving a pod to a node.

use super::admit::{self, Subject};
use super::{Outcome, Patience, Writing};
use crate::kinds::parse_stored;
use crate::trouble::damaged;
use bytes::Bytes;
use optik_object::{FieldError, Map, Object, ResourceName, Status, Value};
use serde_json::json;

const BINDING: ResourceName<'static> = ResourceName {
    group: "",
    plural: "bindings",
    kind: "Binding",
};

/// `POST` to `binding`: a pod gets its node once.
pub(crate) async fn bind(
    writing: &Writing<'_>,
    name: &str,
    mut binding: Object,
) -> Result<(), Status> {
    let subject = Subject {
        subresource: "binding",
        of: writing
            .kinds
            .find("", "v1", "bindings")
            .unwrap_or(writing.kind),
        ..Subject::created(writing, name)
    };
    if binding.namespace().is_empty() {
        binding.set_namespace(writing.namespace.unwrap_or_default());
    }
    admit::mutate(writing, subject, None, &mut binding).await?;
    let node = target(&binding, name)?;
    admit::validate(writing, subject, None, &binding).await?;
    let key = writing.key(name);
    let resource = writing.kind.resource.name();
    let patience = Patience::begin();
    loop {
        let latest = writing.latest().await?;
        let current = latest.get(key.as_bytes());
        let current = current.ok_or_else(|| Status::not_found(resource, name))?;
        let mut pod = parse_stored(current.value()).map_err(|error| damaged(&key, error))?;
        assign(writing, &mut pod, name, &node)?;
        let bytes = Bytes::from(writing.encode(&pod)?);
        if writing.options.dry_run {
            return Ok(());
        }
        if let Outcome::At(_) = writing.put(&key, current.mod_revision(), &bytes).await? {
            return Ok(());
        }
        patience.check()?;
    }
}

fn target(binding: &Object, name: &str) -> Result<String, Status> {
    let target = binding.get("target");
    let node = target.and_then(|target| target.get("name")?.as_str());
    match node {
        Some(node) if !node.is_empty() => Ok(node.into()),
        _ => {
            let error = FieldError::required("target.name", "");
            Err(Status::invalid(BINDING, name, &[error]))
        }
    }
}

fn assign(writing: &Writing<'_>, pod: &mut Object, name: &str, node: &str) -> Result<(), Status> {
    let resource = writing.kind.resource.name();
    if pod.is_being_deleted() {
        let text = format!("pod {name} is being deleted, cannot be assigned to a host");
        return Err(Status::conflict(resource, name, &text));
    }
    let now = writing.now().to_string();
    let spec = member(pod.members_mut(), "spec");
    if let Some(there) = spec.get("nodeName").and_then(Value::as_str)
        && !there.is_empty()
    {
        let text = format!("pod {name} is already assigned to node \"{there}\"");
        return Err(Status::conflict(resource, name, &text));
    }
    spec.insert("nodeName".into(), node.into());
    let status = member(pod.members_mut(), "status");
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

/// A member that is an object; made if it is not.
fn member<'a>(members: &'a mut Map, name: &str) -> &'a mut Map {
    let value = members.entry(name).or_insert(Value::Null);
    if !value.is_object() {
        *value = Map::new().into();
    }
    value
        .as_object_mut()
        .expect("an object, by the lines above")
}
