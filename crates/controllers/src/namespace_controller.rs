//! The namespace controller: deletes the content of terminating namespaces and finalizes them.

use crate::NAMESPACES_PREFIX;
use crate::finalizer_controller::{FinalizerController, POLL_INTERVAL, run_finalizer_controller};
use crate::loopback_client::{LoopbackClient, log_failure};
use http::Method;
use optik_apiserver::{ApiServer, Collection, key_prefix};
use optik_control_loop::Outcome;
use optik_object::ObjectMeta;
use optik_store::{KeyRange, Snapshot, Store};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Runs the controller until the future is dropped or the store stops.
pub async fn run_namespace_controller(api: ApiServer, store: Store) {
    let client = LoopbackClient::new(api, "namespace-controller");
    let namespaces = NamespaceController { client, store };
    run_finalizer_controller(&namespaces, &namespaces.store).await;
}

struct NamespaceController {
    client: LoopbackClient,
    store: Store,
}

impl FinalizerController for NamespaceController {
    const PREFIX: &'static str = NAMESPACES_PREFIX;

    fn needs_finalizing(object: &Value) -> bool {
        object["metadata"]["deletionTimestamp"].is_string()
    }

    async fn finalize(&self, name: &str) -> Outcome<String> {
        self.finalize(name).await
    }
}

/// The objects that remain in a terminating namespace.
#[derive(Default)]
struct RemainingContent {
    /// Number of objects by `plural.group`.
    objects: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
}

/// The uid of a namespace, if it is being deleted.
fn terminating_uid(state: &Snapshot, namespace: &str) -> Option<String> {
    let key = format!("{NAMESPACES_PREFIX}{namespace}");
    let version = state.get(key.as_bytes())?;
    let meta = ObjectMeta::from_json(version.value()).ok()?;
    meta.is_being_deleted().then_some(meta.uid)
}

impl NamespaceController {
    /// Deletes the content of a namespace, then removes its finalizer.
    async fn finalize(&self, namespace: &str) -> Outcome<String> {
        let Ok(state) = self.store.latest().await else {
            return Outcome::Retry;
        };
        // The key may be old: a live namespace of the same name keeps its content.
        let Some(uid) = terminating_uid(&state, namespace) else {
            return Outcome::Done;
        };
        drop(state);
        let Some(left) = self.delete_content(namespace, &uid).await else {
            return Outcome::Retry;
        };
        if left.objects.is_empty() {
            return Outcome::done_if(self.remove_finalizer(namespace).await);
        }
        self.update_conditions(namespace, &left).await;
        Outcome::RequeueAfter(POLL_INTERVAL)
    }

    /// Deletes the content: pods first, other resources once no pod is left. `None` if the
    /// remaining content cannot be determined, or if the namespace is no longer the terminating
    /// one with this uid.
    async fn delete_content(&self, namespace: &str, uid: &str) -> Option<RemainingContent> {
        let collections = self.client.api().collections().into_iter();
        let collections: Vec<Collection> = collections.filter(|one| one.namespaced).collect();
        let (pods, others): (Vec<Collection>, Vec<Collection>) = collections
            .into_iter()
            .partition(|one| one.is_resource("", "pods"));
        let mut left = RemainingContent::default();
        for group in [&pods, &others] {
            for collection in group {
                let current = terminating_uid(&self.store.snapshot(), namespace);
                current.filter(|current| current == uid)?;
                self.delete_collection(collection, namespace).await;
            }
            if left.objects.is_empty() {
                self.count_remaining(group, namespace, &mut left).await?;
            }
            if !left.objects.is_empty() && std::ptr::eq(group, &pods) {
                self.delete_orphaned_pods(namespace).await;
                self.count_remaining(&others, namespace, &mut left).await?;
                return Some(left);
            }
        }
        Some(left)
    }

    async fn delete_collection(&self, collection: &Collection, namespace: &str) {
        let state = self.store.snapshot();
        let prefix = collection.object_key(namespace, "");
        if state.entries(&KeyRange::prefix(prefix)).next().is_none() {
            return;
        }
        drop(state);
        let path = collection.path(namespace);
        let options = json!({"propagationPolicy": "Background"});
        let deleted = self
            .client
            .send(Method::DELETE, &path, Some(&options))
            .await;
        if deleted.code != 200 {
            log_failure(
                format_args!("cannot delete {path}"),
                deleted.code,
                &deleted.body,
            );
        }
    }

    async fn count_remaining(
        &self,
        collections: &[Collection],
        namespace: &str,
        left: &mut RemainingContent,
    ) -> Option<()> {
        let state = self.store.latest().await.ok()?;
        for collection in collections {
            let range = KeyRange::prefix(collection.object_key(namespace, ""));
            for version in state.entries(&range) {
                let name = format!("{}.{}", collection.plural, collection.group);
                *left.objects.entry(name).or_default() += 1;
                let meta = ObjectMeta::from_json(version.value()).unwrap_or_default();
                for finalizer in meta.finalizers {
                    *left.finalizers.entry(finalizer).or_default() += 1;
                }
            }
        }
        Some(())
    }

    /// Force-deletes pods whose node does not exist, because no kubelet will.
    async fn delete_orphaned_pods(&self, namespace: &str) {
        let state = self.store.snapshot();
        let prefix = format!("{PODS_PREFIX}{namespace}/");
        let mut lost = Vec::new();
        for version in state.entries(&KeyRange::prefix(prefix)) {
            let pod: Value = serde_json::from_slice(version.value()).unwrap_or_default();
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            let exists = state.get(format!("{NODES_PREFIX}{node}").as_bytes());
            if pod["metadata"]["deletionTimestamp"].is_string() && exists.is_none() {
                lost.extend(pod["metadata"]["name"].as_str().map(str::to_owned));
            }
        }
        drop(state);
        for name in lost {
            let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
            let options = json!({"gracePeriodSeconds": 0});
            self.client
                .send(Method::DELETE, &path, Some(&options))
                .await;
        }
    }

    /// Writes the deletion conditions of the namespace status.
    async fn update_conditions(&self, namespace: &str, left: &RemainingContent) {
        let path = format!("{PATH}{namespace}");
        let found = self.client.send(Method::GET, &path, None).await;
        if found.code != 200 {
            return;
        }
        let mut object = found.body;
        let before = object["status"]["conditions"].clone();
        let now = object["metadata"]["deletionTimestamp"].clone();
        object["status"]["conditions"] = conditions(left, &before, &now);
        if object["status"]["conditions"] != before {
            let path = format!("{path}/status");
            self.client.send(Method::PUT, &path, Some(&object)).await;
        }
    }

    /// Removes the `kubernetes` finalizer from `spec.finalizers`. Returns false if that failed.
    async fn remove_finalizer(&self, namespace: &str) -> bool {
        let path = format!("{PATH}{namespace}");
        let found = self.client.send(Method::GET, &path, None).await;
        if found.code != 200 {
            return found.code == 404;
        }
        let mut object = found.body;
        if !object["metadata"]["deletionTimestamp"].is_string() {
            return true;
        }
        let Some(finalizers) = object["spec"]["finalizers"].as_array_mut() else {
            return true;
        };
        finalizers.retain(|name| name != "kubernetes");
        let path = format!("{path}/finalize");
        let done = self.client.send(Method::PUT, &path, Some(&object)).await;
        // A conflict: the namespace has changed and is processed again.
        done.code == 200 || done.code == 404
    }
}

const PATH: &str = "/api/v1/namespaces/";
const PODS_PREFIX: &str = key_prefix("", "pods");
const NODES_PREFIX: &str = key_prefix("", "nodes");

/// Type, reason and message of the conditions without an error.
const HEALTHY_CONDITIONS: &[(&str, &str, &str)] = &[
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    (
        CONTENT,
        "ContentRemoved",
        "All content successfully removed",
    ),
    (
        FINALIZERS,
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
];
const CONTENT: &str = "NamespaceContentRemaining";
const FINALIZERS: &str = "NamespaceFinalizersRemaining";

fn conditions(left: &RemainingContent, before: &Value, now: &Value) -> Value {
    let counted = |counts: &BTreeMap<String, usize>, link: &str| {
        let parts = counts.iter();
        let parts = parts.map(|(name, count)| format!("{name} {link} {count} resource instances"));
        parts.collect::<Vec<_>>().join(", ")
    };
    let list = HEALTHY_CONDITIONS.iter().map(|(kind, reason, message)| {
        let trouble = match *kind {
            CONTENT if !left.objects.is_empty() => Some((
                "SomeResourcesRemain",
                format!(
                    "Some resources are remaining: {}",
                    counted(&left.objects, "has")
                ),
            )),
            FINALIZERS if !left.finalizers.is_empty() => Some((
                "SomeFinalizersRemain",
                format!(
                    "Some content in the namespace has finalizers remaining: {}",
                    counted(&left.finalizers, "in")
                ),
            )),
            _ => None,
        };
        let (status, reason, message) = match trouble {
            Some((reason, message)) => ("True", reason, message),
            None => ("False", *reason, (*message).to_owned()),
        };
        let known = before.as_array().into_iter().flatten();
        let mut known = known.filter(|one| one["type"] == *kind && one["status"] == status);
        let since = known.next().map_or(now, |one| &one["lastTransitionTime"]);
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": since,
        })
    });
    list.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_store::Options;

    async fn controller() -> NamespaceController {
        let store = Store::open(Options::ephemeral()).expect("it is in memory");
        let api = ApiServer::new(store.clone());
        api.bootstrap().await.expect("an empty store");
        let client = LoopbackClient::new(api, "namespace-controller");
        NamespaceController { client, store }
    }

    /// A key that waited while the namespace was replaced by another of the same name.
    #[tokio::test]
    async fn old_key_deletes_nothing_from_a_live_namespace() {
        let controller = controller().await;
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}});
        let path = "/api/v1/namespaces/default/configmaps";
        let client = &controller.client;
        let made = client.send(Method::POST, path, Some(&object)).await;
        assert_eq!(made.code, 201, "{}", made.body);
        assert_eq!(controller.finalize("default").await, Outcome::Done);
        let path = format!("{path}/kept");
        let found = client.send(Method::GET, &path, None).await;
        assert_eq!(found.code, 200, "{}", found.body);
        assert_eq!(controller.finalize("never-there").await, Outcome::Done);
    }

    #[tokio::test]
    async fn terminating_namespace_loses_its_content_and_goes() {
        let controller = controller().await;
        let client = &controller.client;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
        for (path, object) in [
            ("/api/v1/namespaces", &namespace),
            ("/api/v1/namespaces/n/configmaps", &object),
        ] {
            let made = client.send(Method::POST, path, Some(object)).await;
            assert_eq!(made.code, 201, "{}", made.body);
        }
        client
            .send(Method::DELETE, "/api/v1/namespaces/n", None)
            .await;
        assert_eq!(controller.finalize("n").await, Outcome::Done);
        let found = client.send(Method::GET, "/api/v1/namespaces/n", None).await;
        assert_eq!(found.code, 404, "{}", found.body);
    }

    #[test]
    fn namespace_conditions_name_remaining_resources_and_finalizers() {
        let mut left = RemainingContent::default();
        left.objects.insert("configmaps.".into(), 1);
        left.finalizers.insert("example.com/hold".into(), 1);
        let conditions = conditions(&left, &Value::Null, &json!("now"));
        assert_eq!(
            conditions[3]["message"],
            "Some resources are remaining: configmaps. has 1 resource instances"
        );
        assert_eq!(conditions[4]["reason"], "SomeFinalizersRemain");
        assert_eq!(
            conditions[4]["message"],
            "Some content in the namespace has finalizers remaining: example.com/hold in 1 \
             resource instances"
        );
        assert_eq!(conditions[0]["status"], "False");
    }
}
