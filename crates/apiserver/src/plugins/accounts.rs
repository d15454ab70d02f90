//! ServiceAccount: a pod acts for somebody, and carries a token that says so.

use super::{Plugin, find, makes, refuse};
use crate::admission::Attributes;
use optik_object::{Object, Status, Value, generate_name};
use serde_json::{Value as Json, json};

const MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME: &str = "kube-api-access-";

pub(super) struct Accounts;

impl Plugin for Accounts {
    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        makes(attributes, "", "pods")
    }

    fn change(&self, attributes: &Attributes<'_>, pod: &mut Object) -> Result<(), Status> {
        represent(attributes, pod)
    }
}

fn represent(attributes: &Attributes<'_>, pod: &mut Object) -> Result<(), Status> {
    // A pod that is the image of one on a node acts for nobody.
    if pod.annotation("kubernetes.io/config.mirror").is_some() {
        return Ok(());
    }
    let Some(Value::Object(spec)) = pod.members_mut().get_mut("spec") else {
        return Ok(());
    };
    let named = spec.get("serviceAccountName").and_then(Value::as_str);
    let named = named.unwrap_or_default().to_owned();
    let name = if named.is_empty() { "default" } else { &named };
    let namespace = attributes.namespace;
    let key = format!("/registry/serviceaccounts/{namespace}/{name}");
    let Some(account) = find(attributes.store, &key) else {
        // The default one may not be made yet, or nobody is there to make it.
        if name == "default" {
            return Ok(());
        }
        let why = format!(
            "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not \
             found"
        );
        return Err(refuse(attributes, &why));
    };
    spec.insert("serviceAccountName".into(), name.into());
    spec.insert("serviceAccount".into(), name.into());
    let secrets = account.get("imagePullSecrets").cloned();
    if let Some(secrets) = secrets.filter(|list| list.as_array().is_some_and(|all| !all.is_empty()))
        && spec.get("imagePullSecrets").is_none()
    {
        spec.insert("imagePullSecrets".into(), secrets);
    }
    let wanted = [
        spec.get("automountServiceAccountToken"),
        account.get("automountServiceAccountToken"),
    ];
    let wanted = wanted.into_iter().flatten().find_map(Value::as_bool);
    if wanted.unwrap_or(true) {
        let suffix = (attributes.entropy.next_u64() >> 32) as u32;
        mount_token(spec, &generate_name(VOLUME, suffix));
    }
    Ok(())
}

/// Mounts a token into every container that has nothing there yet.
fn mount_token(spec: &mut optik_object::Map, fresh: &str) {
    let volumes = spec.get("volumes").and_then(Value::as_array);
    let known = volumes.into_iter().flatten().find_map(|volume| {
        let name = volume["name"].as_str()?;
        name.starts_with(VOLUME).then(|| name.to_owned())
    });
    let name = known.as_deref().unwrap_or(fresh);
    let mut used = false;
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let mounts = container["volumeMounts"].as_array();
            let mut mounts = mounts.into_iter().flatten();
            if mounts.any(|mount| mount["mountPath"] == MOUNT) {
                continue;
            }
            if !container["volumeMounts"].is_array() {
                container["volumeMounts"] = json!([]);
            }
            if let Some(mounts) = container["volumeMounts"].as_array_mut() {
                mounts.push(json!({"name": name, "readOnly": true, "mountPath": MOUNT}));
                used = true;
            }
        }
    }
    if used && known.is_none() {
        let volumes = spec.entry("volumes").or_insert(json!([]));
        if let Value::Array(volumes) = volumes {
            volumes.push(volume(name));
        }
    }
}

fn volume(name: &str) -> Json {
    json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace",
            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]}})
}
