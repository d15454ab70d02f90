//! The `scale` subresource: a `Scale` object that shows the number of replicas of its parent.

use crate::registry::label_selector::{match_labels_requirements, requirements};
use crate::registry::served_resource::ServedResource;
use crate::server::store_errors::damaged_object;
use bytes::Bytes;
use optik_catalog::{FieldSegments, ScaleMapping, ScaleSelector};
use optik_object::selector::LabelSelector;
use optik_object::{Map, Object, Status, Value, splice};
use optik_store::Revision;
use serde_json::json;
use std::sync::{Arc, OnceLock};

/// The kind `Scale`.
pub(crate) fn scale_kind() -> &'static Arc<ServedResource> {
    static KIND: OnceLock<Arc<ServedResource>> = OnceLock::new();
    KIND.get_or_init(|| Arc::new(ServedResource::new(optik_catalog::scale(), None)))
}

/// Metadata that a `Scale` shares with its parent.
const SHARED_METADATA: &[&str] = &["name", "namespace", "uid", "creationTimestamp"];

/// The `Scale` of a parent, without resourceVersion and managedFields.
pub(crate) fn view(kind: &ServedResource, parent: &Object) -> Result<Object, Status> {
    let scaling = scaling(kind)?;
    let mut view = Object::default();
    let of = scale_kind();
    view.set_type(&of.resource.kind, &of.api_version);
    let metadata = parent.metadata().into_iter().flatten();
    let shared = metadata.filter(|(name, _)| SHARED_METADATA.contains(&name.as_str()));
    let shared: Map = shared
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    *view.metadata_mut() = shared;
    let replicas = number(parent, &scaling.replicas).or(scaling.unset);
    let replicas = replicas.ok_or_else(|| missing_path_error(&scaling.replicas))?;
    // As upstream: zero replicas are omitted here, and only here.
    let spec = match replicas {
        0 => json!({}),
        replicas => json!({ "replicas": replicas }),
    };
    let observed = number(parent, &scaling.observed).unwrap_or(0);
    let mut status = json!({ "replicas": observed });
    let selector = selector(parent, &scaling.selector);
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    view.members_mut().insert("spec".into(), spec);
    view.members_mut().insert("status".into(), status);
    Ok(view)
}

/// The `Scale` of a stored object, as sent to clients.
pub(crate) fn render_view(
    kind: &ServedResource,
    stored: &[u8],
    revision: Revision,
) -> Result<Bytes, Status> {
    let parent = kind.decode_stored(stored);
    let parent = parent.map_err(|error| damaged_object("parent object of scale", error))?;
    let encoded = view(kind, &parent)?.encode();
    let encoded = encoded.map_err(|error| Status::internal(&error.to_string()))?;
    let spliced = splice(&encoded, revision.get());
    let mut shown = spliced
        .map_err(|error| damaged_object("a scale", error))?
        .to_vec();
    shown.push(b'\n');
    Ok(shown.into())
}

/// `spec.replicas` of a `Scale`.
pub(crate) fn replicas(view: &Object) -> i64 {
    let replicas = view.get("spec").and_then(|spec| spec.get("replicas"));
    replicas.and_then(Value::as_i64).unwrap_or(0)
}

/// Sets the number of replicas of a parent.
pub(crate) fn set_replicas(
    kind: &ServedResource,
    parent: &mut Object,
    replicas: i64,
) -> Result<(), Status> {
    let path = &scaling(kind)?.replicas;
    let Some((last, parents)) = path.split_last() else {
        return Ok(());
    };
    let mut members = parent.members_mut();
    for name in parents {
        let below = members.entry(name.as_ref()).or_insert(Value::Null);
        if !below.is_object() {
            *below = Map::new().into();
        }
        let Value::Object(below) = below else {
            return Ok(());
        };
        members = below;
    }
    members.insert(last.to_string(), replicas.into());
    Ok(())
}

pub(crate) fn scaling(kind: &ServedResource) -> Result<&ScaleMapping, Status> {
    let scaling = kind.resource.scale.as_ref();
    scaling.ok_or_else(Status::resource_not_found)
}

fn value_at<'o>(object: &'o Object, path: &FieldSegments) -> Option<&'o Value> {
    let (first, rest) = path.split_first()?;
    let first = object.get(first);
    rest.iter().try_fold(first?, |at, name| at.get(&**name))
}

fn number(object: &Object, path: &FieldSegments) -> Option<i64> {
    value_at(object, path)?.as_i64()
}

fn missing_path_error(path: &FieldSegments) -> Status {
    let path: String = path.iter().map(|name| format!(".{name}")).collect();
    Status::internal(&format!(
        "the spec replicas field \"{path}\" does not exist"
    ))
}

/// The label selector as text, for selecting the pods.
fn selector(parent: &Object, selector: &ScaleSelector) -> String {
    let (path, expressions) = match selector {
        ScaleSelector::None => return String::new(),
        ScaleSelector::Text(path) => {
            let text = value_at(parent, path).and_then(Value::as_str);
            return text.unwrap_or_default().to_owned();
        }
        ScaleSelector::Labels(path) => (path, false),
        ScaleSelector::Selector(path) => (path, true),
    };
    let found = value_at(parent, path).unwrap_or(&Value::Null);
    let mut all = match expressions {
        true => requirements(found),
        false => match_labels_requirements(found),
    };
    all.sort_by(|a, b| a.key.cmp(&b.key));
    LabelSelector::from_requirements(all).to_string()
}
