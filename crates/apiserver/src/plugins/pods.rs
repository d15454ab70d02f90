//! Smaller things that happen to new pods.

use super::{Plugin, find, makes, refuse};
use crate::admission::{Attributes, Operation};
use optik_object::{Object, Status, Value};
use serde_json::json;

/// DefaultTolerationSeconds: a pod stays for a while on a node that is in trouble.
pub(super) struct Tolerations;

const TROUBLE: &[&str] = &[
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];

impl Plugin for Tolerations {
    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is("", "pods")
            && attributes.subresource.is_empty()
            && attributes.operation != Operation::Delete
    }

    fn change(&self, _: &Attributes<'_>, pod: &mut Object) -> Result<(), Status> {
        tolerate(pod);
        Ok(())
    }
}

fn tolerate(pod: &mut Object) {
    let Some(Value::Object(spec)) = pod.members_mut().get_mut("spec") else {
        return;
    };
    let list = spec.entry("tolerations").or_insert(json!([]));
    let Value::Array(list) = list else {
        return;
    };
    for key in TROUBLE {
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

/// RuntimeClass: it must exist, and says what it costs.
pub(super) struct Runtime;

impl Plugin for Runtime {
    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        makes(attributes, "", "pods")
    }

    fn change(&self, attributes: &Attributes<'_>, pod: &mut Object) -> Result<(), Status> {
        apply_class(attributes, pod)
    }
}

fn apply_class(attributes: &Attributes<'_>, pod: &mut Object) -> Result<(), Status> {
    let Some(Value::Object(spec)) = pod.members_mut().get_mut("spec") else {
        return Ok(());
    };
    let name = spec.get("runtimeClassName").and_then(Value::as_str);
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok(());
    };
    let class = find(
        attributes.store,
        &format!("/registry/runtimeclasses/{name}"),
    );
    let Some(class) = class else {
        let why = format!("pod rejected: RuntimeClass \"{name}\" not found");
        return Err(refuse(attributes, &why));
    };
    let overhead = class.get("overhead").and_then(|all| all.get("podFixed"));
    if let Some(overhead) = overhead.filter(|overhead| overhead.is_object()) {
        spec.entry("overhead").or_insert(overhead.clone());
    }
    Ok(())
}
