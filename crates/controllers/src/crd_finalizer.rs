//! The CRD finalizer: deletes the custom objects of deleted CustomResourceDefinitions.

use crate::finalizer_controller::{FinalizerController, POLL_INTERVAL, run_finalizer_controller};
use crate::loopback_client::{LoopbackClient, LoopbackResponse, log_failure};
use http::Method;
use optik_apiserver::{ApiServer, Collection, custom_key_prefix, is_builtin, key_prefix};
use optik_control_loop::Outcome;
use optik_store::{KeyRange, Store};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/";
const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Runs the controller until the future is dropped or the store stops.
pub async fn run_crd_finalizer(api: ApiServer, store: Store) {
    let client = LoopbackClient::new(api, "crd-finalizer");
    let definitions = CrdFinalizer { client, store };
    run_finalizer_controller(&definitions, &definitions.store).await;
}

struct CrdFinalizer {
    client: LoopbackClient,
    store: Store,
}

impl FinalizerController for CrdFinalizer {
    const PREFIX: &'static str = key_prefix("apiextensions.k8s.io", "customresourcedefinitions");

    fn needs_finalizing(object: &Value) -> bool {
        needs_finalizing(object)
    }

    async fn finalize(&self, name: &str) -> Outcome<String> {
        finalize(&self.client, &self.store, name).await
    }
}

fn needs_finalizing(object: &Value) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    object["metadata"]["deletionTimestamp"].is_string()
        && finalizers.is_some_and(|list| list.iter().any(|name| name == FINALIZER))
}

/// Deletes the objects of a CRD, then removes its finalizer.
async fn finalize(client: &LoopbackClient, store: &Store, name: &str) -> Outcome<String> {
    let path = format!("{PATH}{name}");
    let found = client.send(Method::GET, &path, None).await;
    if found.code != 200 || !needs_finalizing(&found.body) {
        return Outcome::done_if(matches!(found.code, 200 | 404));
    }
    let mut object = found.body;
    let pending = is_deletion_pending(&object);
    if pending {
        let text = "CustomResource deletion is in progress";
        set_terminating_condition(&mut object, "True", "InstanceDeletionInProgress", text);
        let told = write_status(client, &path, &object).await;
        if told.code != 200 {
            return Outcome::done_if(told.code == 404);
        }
        object = told.body;
    }
    if is_established(&object) {
        let plural = object["spec"]["names"]["plural"].as_str().unwrap_or("");
        let group = object["spec"]["group"].as_str().unwrap_or("");
        if !delete_instances(client, store, group, plural).await {
            return Outcome::RequeueAfter(POLL_INTERVAL);
        }
        let text = "removed all instances";
        set_terminating_condition(&mut object, "False", "InstanceDeletionCompleted", text);
    } else {
        let text = "resource was never established";
        set_terminating_condition(&mut object, "False", "NeverEstablished", text);
    }
    if let Some(finalizers) = object["metadata"]["finalizers"].as_array_mut() {
        finalizers.retain(|name| name != FINALIZER);
    }
    let done = write_status(client, &path, &object).await;
    // A conflict: it changed meanwhile.
    Outcome::done_if(matches!(done.code, 200 | 404))
}

async fn write_status(client: &LoopbackClient, path: &str, object: &Value) -> LoopbackResponse {
    let path = format!("{path}/status");
    client.send(Method::PUT, &path, Some(object)).await
}

fn conditions(object: &Value) -> impl Iterator<Item = &Value> {
    let list = object["status"]["conditions"].as_array();
    list.into_iter().flatten()
}

fn is_established(object: &Value) -> bool {
    conditions(object).any(|one| one["type"] == "Established" && one["status"] == "True")
}

/// Whether the deletion of instances has not begun.
fn is_deletion_pending(object: &Value) -> bool {
    let mut conditions = conditions(object);
    conditions.any(|one| one["type"] == "Terminating" && one["reason"] == "InstanceDeletionPending")
}

fn set_terminating_condition(object: &mut Value, status: &str, reason: &str, message: &str) {
    let list = object["status"]["conditions"].as_array_mut();
    for condition in list.into_iter().flatten() {
        if condition["type"] == "Terminating" {
            condition["status"] = status.into();
            condition["reason"] = reason.into();
            condition["message"] = message.into();
        }
    }
}

/// Deletes the objects of a kind in all namespaces. Returns false if some remain.
async fn delete_instances(
    client: &LoopbackClient,
    store: &Store,
    group: &str,
    plural: &str,
) -> bool {
    // A built-in kind does not depend on the CRD and is kept.
    if is_builtin(group, plural) {
        return true;
    }
    let directory = custom_key_prefix(group, plural);
    let range = KeyRange::prefix(&*directory);
    let Ok(state) = store.latest().await else {
        return false;
    };
    let Some(collection) = client.api().custom_collection(group, plural) else {
        // No version is served any more, so remaining objects cannot be deleted through the API.
        return state.entries(&range).next().is_none();
    };
    let mut places: BTreeSet<String> = BTreeSet::new();
    for version in state.entries(&range) {
        let rest = version.key().get(directory.len()..).unwrap_or_default();
        let rest = String::from_utf8_lossy(rest);
        places.insert(collection_path(&collection, &rest));
    }
    drop(state);
    for path in &places {
        let options = json!({"propagationPolicy": "Background"});
        // Instances are deleted without admission, because their webhooks may be gone.
        let deleted = client.send_unadmitted(Method::DELETE, path, Some(&options));
        let deleted = deleted.await;
        if deleted.code != 200 {
            log_failure(
                format_args!("cannot delete {path}"),
                deleted.code,
                &deleted.body,
            );
        }
    }
    match store.latest().await {
        Ok(state) => state.entries(&range).next().is_none(),
        Err(_) => false,
    }
}

/// Returns the path of an object's collection, from the rest of its key.
fn collection_path(collection: &Collection, rest: &str) -> String {
    match rest.split_once('/') {
        Some((namespace, _)) if collection.namespaced => collection.path(namespace),
        _ => collection.cluster_path(),
    }
}
