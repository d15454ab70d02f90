//! DefaultTolerationSeconds and RuntimeClass: admission plugins for new pods.

use crate::admission::plugins::{SyncPlugin, forbidden, get_object, is_create_of};
use crate::admission::{AdmissionAttributes, AdmissionOperation};
use optik_catalog::key_prefix;
use optik_object::{Object, Status, Value};
use serde_json::json;

const RUNTIME_CLASSES_PREFIX: &str = key_prefix("node.k8s.io", "runtimeclasses");

/// DefaultTolerationSeconds: adds tolerations that keep a pod for a while on a failing node.
pub(super) struct DefaultTolerationSeconds;

const TOLERATED_TAINTS: &[&str] = &[
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];

impl SyncPlugin for DefaultTolerationSeconds {
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.is_resource("", "pods")
            && attributes.subresource.is_empty()
            && attributes.operation != AdmissionOperation::Delete
    }

    fn admit(&self, _: &AdmissionAttributes<'_>, pod: &mut Object) -> Result<(), Status> {
        add_default_tolerations(pod);
        Ok(())
    }
}

fn add_default_tolerations(pod: &mut Object) {
    let Some(Value::Object(spec)) = pod.members_mut().get_mut("spec") else {
        return;
    };
    let list = spec.entry("tolerations").or_insert(json!([]));
    let Value::Array(list) = list else {
        return;
    };
    for key in TOLERATED_TAINTS {
        let covers = |toleration: &Value| {
            let text = |name: &str| toleration[name].as_str().unwrap_or_default();
            ["", *key].contains(&text("key")) && ["", "NoExecute"].contains(&text("effect"))
        };
        if !list.iter().any(covers) {
            list.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            }));
        }
    }
}

/// RuntimeClass: requires that the class exists, and sets the pod's overhead from it.
pub(super) struct RuntimeClassAdmission;

impl SyncPlugin for RuntimeClassAdmission {
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        is_create_of(attributes, "", "pods")
    }

    fn admit(&self, attributes: &AdmissionAttributes<'_>, pod: &mut Object) -> Result<(), Status> {
        apply_runtime_class(attributes, pod)
    }
}

fn apply_runtime_class(
    attributes: &AdmissionAttributes<'_>,
    pod: &mut Object,
) -> Result<(), Status> {
    let Some(Value::Object(spec)) = pod.members_mut().get_mut("spec") else {
        return Ok(());
    };
    let name = spec.get("runtimeClassName").and_then(Value::as_str);
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok(());
    };
    let class = get_object(attributes.store, &format!("{RUNTIME_CLASSES_PREFIX}{name}"));
    let Some(class) = class else {
        let why = format!("pod rejected: RuntimeClass \"{name}\" not found");
        return Err(forbidden(attributes, &why));
    };
    let overhead = class.get("overhead").and_then(|all| all.get("podFixed"));
    if let Some(overhead) = overhead.filter(|overhead| overhead.is_object()) {
        spec.entry("overhead").or_insert(overhead.clone());
    }
    Ok(())
}
