//! ServiceAccount: sets the service account of a pod and mounts its service account token.

use crate::admission::plugins::mountable_secrets::{MountableSecrets, uses_secrets};
use crate::admission::plugins::{SyncPlugin, forbidden, get_object, is_create_of};
use crate::admission::{AdmissionAttributes, AdmissionOperation};
use optik_catalog::key_prefix;
use optik_object::{Object, Status, Value, generate_name};
use serde_json::{Value as Json, json};

const SERVICE_ACCOUNTS_PREFIX: &str = key_prefix("", "serviceaccounts");

const MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME: &str = "kube-api-access-";

pub(super) struct ServiceAccountAdmission;

impl SyncPlugin for ServiceAccountAdmission {
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        is_create_of(attributes, "", "pods") || adds_ephemeral_containers(attributes)
    }

    fn admit(&self, attributes: &AdmissionAttributes<'_>, pod: &mut Object) -> Result<(), Status> {
        if adds_ephemeral_containers(attributes) {
            return Ok(());
        }
        if !is_mirror_pod(pod) {
            assign_service_account(attributes, pod)?;
        }
        check_new(attributes, pod)
    }

    /// Checked again, because other plugins may have changed the pod.
    fn validate(&self, attributes: &AdmissionAttributes<'_>, pod: &Object) -> Result<(), Status> {
        match adds_ephemeral_containers(attributes) {
            true => check_ephemeral(attributes, pod),
            false => check_new(attributes, pod),
        }
    }
}

/// Whether a write adds ephemeral containers to a pod.
fn adds_ephemeral_containers(attributes: &AdmissionAttributes<'_>) -> bool {
    attributes.operation == AdmissionOperation::Update
        && attributes.subresource == "ephemeralcontainers"
        && attributes.is_resource("", "pods")
}

/// Whether a pod is a mirror pod, which has no service account.
fn is_mirror_pod(pod: &Object) -> bool {
    pod.annotation("kubernetes.io/config.mirror").is_some()
}

fn spec(pod: &Object) -> &Value {
    pod.get("spec").unwrap_or(&Value::Null)
}

/// The service account name of a pod; empty if it has none.
fn service_account_name(pod: &Object) -> &str {
    let spec = spec(pod);
    let names = ["serviceAccountName", "serviceAccount"].into_iter();
    let mut names = names.filter_map(|name| spec[name].as_str());
    names.find(|name| !name.is_empty()).unwrap_or_default()
}

fn check_new(attributes: &AdmissionAttributes<'_>, pod: &Object) -> Result<(), Status> {
    if is_mirror_pod(pod) {
        return check_mirror(pod).map_err(|why| forbidden(attributes, why));
    }
    let Some(secrets) = mountable_secrets(attributes, pod)? else {
        return Ok(());
    };
    let checked = secrets.check_pod(spec(pod));
    checked.map_err(|why| forbidden(attributes, &why))
}

fn check_ephemeral(attributes: &AdmissionAttributes<'_>, pod: &Object) -> Result<(), Status> {
    let Some(secrets) = mountable_secrets(attributes, pod)? else {
        return Ok(());
    };
    // Upstream returns this error without the Forbidden status.
    let checked = secrets.check_ephemeral(spec(pod));
    checked.map_err(Status::storage_failure)
}

fn check_mirror(pod: &Object) -> Result<(), &'static str> {
    if !service_account_name(pod).is_empty() {
        return Err("a mirror pod may not reference service accounts");
    }
    if uses_secrets(spec(pod)) {
        return Err("a mirror pod may not reference secrets");
    }
    let volumes = spec(pod)["volumes"].as_array().into_iter().flatten();
    let sources = volumes.filter_map(|volume| volume["projected"]["sources"].as_array());
    if sources
        .flatten()
        .any(|source| source["serviceAccountToken"].is_object())
    {
        return Err("a mirror pod may not use ServiceAccountToken volume projections");
    }
    Ok(())
}

/// The mountable secrets of a pod's service account, if the account restricts its pods to them.
fn mountable_secrets(
    attributes: &AdmissionAttributes<'_>,
    pod: &Object,
) -> Result<Option<MountableSecrets>, Status> {
    let name = service_account_name(pod);
    if name.is_empty() {
        // No default service account was set, because there is none.
        return Ok(None);
    }
    let account = account(attributes, name)?;
    Ok(account.and_then(|account| MountableSecrets::for_service_account(&account)))
}

/// The service account; `None` for a `default` account that does not exist (yet, or because no
/// controller creates it).
fn account(attributes: &AdmissionAttributes<'_>, name: &str) -> Result<Option<Object>, Status> {
    let namespace = attributes.namespace;
    let key = format!("{SERVICE_ACCOUNTS_PREFIX}{namespace}/{name}");
    let account = get_object(attributes.store, &key);
    if account.is_some() || name == "default" {
        return Ok(account);
    }
    let why = format!(
        "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
    );
    Err(forbidden(attributes, &why))
}

fn assign_service_account(
    attributes: &AdmissionAttributes<'_>,
    pod: &mut Object,
) -> Result<(), Status> {
    let named = service_account_name(pod).to_owned();
    let name = if named.is_empty() { "default" } else { &named };
    let Some(account) = account(attributes, name)? else {
        return Ok(());
    };
    let Some(Value::Object(spec)) = pod.members_mut().get_mut("spec") else {
        return Ok(());
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

/// Mounts a token into every container that has no mount at the token path.
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
            volumes.push(token_volume(name));
        }
    }
}

fn token_volume(name: &str) -> Json {
    json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace",
            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]}})
}
