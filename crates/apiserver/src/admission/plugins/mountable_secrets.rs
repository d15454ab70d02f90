//! Checks the secrets that a pod uses against the mountable secrets of its service account.

use optik_object::{Object, Value};
use std::collections::BTreeSet;

const ENFORCED: &str = "kubernetes.io/enforce-mountable-secrets";

/// The secrets of a service account that restricts its pods to them.
pub(super) struct MountableSecrets {
    account: String,
    mountable: BTreeSet<String>,
    image_pull_secrets: BTreeSet<String>,
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Parses a boolean like Go's `strconv.ParseBool`.
fn is_true(text: &str) -> bool {
    ["1", "t", "T", "TRUE", "true", "True"].contains(&text)
}

impl MountableSecrets {
    /// `None` if the service account does not enforce mountable secrets.
    pub(super) fn for_service_account(account: &Object) -> Option<Self> {
        account.annotation(ENFORCED).filter(|set| is_true(set))?;
        let names = |list: &str| -> BTreeSet<String> {
            let list = account.get(list).unwrap_or(&Value::Null);
            let names = items(list).map(|one| text(&one["name"]).to_owned());
            names.collect()
        };
        Some(Self {
            account: account.name().to_owned(),
            mountable: names("secrets"),
            image_pull_secrets: names("imagePullSecrets"),
        })
    }

    pub(super) fn check_pod(&self, spec: &Value) -> Result<(), String> {
        let account = &self.account;
        for volume in items(&spec["volumes"]) {
            let source = &volume["secret"];
            let name = text(&source["secretName"]);
            if source.is_object() && !self.mountable.contains(name) {
                return Err(format!(
                    "volume with secret.secretName=\"{name}\" is not allowed because service \
                     account {account} does not reference that secret"
                ));
            }
        }
        self.check_containers(&spec["initContainers"], "init container")?;
        self.check_containers(&spec["containers"], "container")?;
        for (at, secret) in items(&spec["imagePullSecrets"]).enumerate() {
            let name = text(&secret["name"]);
            if !self.image_pull_secrets.contains(name) {
                return Err(format!(
                    "imagePullSecrets[{at}].name=\"{name}\" is not allowed because service account \
                     {account} does not reference that imagePullSecret"
                ));
            }
        }
        Ok(())
    }

    pub(super) fn check_ephemeral(&self, spec: &Value) -> Result<(), String> {
        self.check_containers(&spec["ephemeralContainers"], "ephemeral container")
    }

    fn check_containers(&self, containers: &Value, what: &str) -> Result<(), String> {
        let account = &self.account;
        for container in items(containers) {
            let own = text(&container["name"]);
            for (variable, secret) in environment_secrets(container) {
                if self.mountable.contains(secret) {
                    continue;
                }
                let place = match variable {
                    Some(name) => format!("envVar {name}"),
                    None => "envFrom".to_owned(),
                };
                return Err(format!(
                    "{what} {own} with {place} referencing secret.secretName=\"{secret}\" is not \
                     allowed because service account {account} does not reference that secret"
                ));
            }
        }
        Ok(())
    }
}

/// The secrets in the environment of a container, from `env` and `envFrom`.
fn environment_secrets(container: &Value) -> impl Iterator<Item = (Option<&str>, &str)> {
    let single = items(&container["env"]).filter_map(|variable| {
        let secret = variable["valueFrom"].get("secretKeyRef");
        let secret = secret.filter(|secret| secret.is_object())?;
        Some((Some(text(&variable["name"])), text(&secret["name"])))
    });
    let whole = items(&container["envFrom"]).filter_map(|source| {
        let secret = source.get("secretRef").filter(|it| it.is_object())?;
        Some((None, text(&secret["name"])))
    });
    single.chain(whole)
}

/// The field that names a secret, for each volume type. A volume has one type: the first of these
/// that is set.
const VOLUMES: [(&str, &str); 10] = [
    ("azureFile", "/secretName"),
    ("cephfs", "/secretRef/name"),
    ("cinder", "/secretRef/name"),
    ("flexVolume", "/secretRef/name"),
    ("rbd", "/secretRef/name"),
    ("secret", "/secretName"),
    ("scaleIO", "/secretRef/name"),
    ("iscsi", "/secretRef/name"),
    ("storageos", "/secretRef/name"),
    ("csi", "/nodePublishSecretRef/name"),
];

/// Whether a pod uses any secret.
pub(super) fn uses_secrets(spec: &Value) -> bool {
    let is_named = |name: &Value| !text(name).is_empty();
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let mut containers = lists.iter().flat_map(|list| items(&spec[*list]));
    let mut volumes = items(&spec["volumes"]);
    items(&spec["imagePullSecrets"]).any(|secret| is_named(&secret["name"]))
        || containers.any(|one| environment_secrets(one).any(|(_, secret)| !secret.is_empty()))
        || volumes.any(|volume| {
            let projected = &volume["projected"]["sources"];
            let own = VOLUMES
                .iter()
                .filter_map(|(kind, path)| volume[*kind].pointer(path));
            let projected = items(projected).map(|source| &source["secret"]["name"]);
            own.chain(projected).any(is_named)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn service_account_admission_finds_every_secret_reference_of_a_pod() {
        let container = |with: Value| json!({"containers": [with]});
        for (spec, expected) in [
            (json!({}), false),
            (json!({"imagePullSecrets": [{"name": "s"}]}), true),
            (json!({"imagePullSecrets": [{}]}), false),
            (
                container(json!({"env": [{"valueFrom": {"secretKeyRef": {"name": "s"}}}]})),
                true,
            ),
            (
                container(json!({"env": [{"valueFrom": {"configMapKeyRef": {"name": "s"}}}]})),
                false,
            ),
            (
                container(json!({"envFrom": [{"secretRef": {"name": "s"}}]})),
                true,
            ),
            (
                json!({"ephemeralContainers": [{"envFrom": [{"secretRef": {"name": "s"}}]}]}),
                true,
            ),
            (json!({"volumes": [{"secret": {"secretName": "s"}}]}), true),
            (
                json!({"volumes": [{"csi": {"nodePublishSecretRef": {"name": "s"}}}]}),
                true,
            ),
            (
                json!({"volumes": [{"azureFile": {"secretName": "s"}}]}),
                true,
            ),
            (
                json!({"volumes": [{"projected": {"sources": [{"secret": {"name": "s"}}]}}]}),
                true,
            ),
            (json!({"volumes": [{"emptyDir": {}}]}), false),
        ] {
            assert_eq!(uses_secrets(&spec), expected, "{spec}");
        }
    }
}
