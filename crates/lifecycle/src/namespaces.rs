//! Namespaces that are deleted go away, and take their content with them.

use crate::client::Client;
use crate::departures::{Finisher, keep_finishing};
use http::Method;
use optik_apiserver::{ApiServer, Collection};
use optik_store::Store;
use serde_json::{Value, json};

/// Finishes deletions of namespaces for as long as it is polled, or until the store
/// stops.
pub async fn keep_namespaces(api: ApiServer, store: Store) {
    let client = Client::new(api, "namespace-controller");
    keep_finishing(&Namespaces { client }, &store).await;
}

struct Namespaces {
    client: Client,
}

impl Finisher for Namespaces {
    const DIRECTORY: &'static str = "/registry/namespaces/";

    fn is_ours(object: &Value) -> bool {
        object["metadata"]["deletionTimestamp"].is_string()
    }

    async fn finish(&self, name: &str) -> bool {
        finish(&self.client, name).await
    }
}

/// Deletes what is in a namespace, then lets the namespace go. False if something is
/// left.
async fn finish(client: &Client, namespace: &str) -> bool {
    let mut empty = true;
    for collection in client.api().collections() {
        if collection.namespaced {
            empty &= clear(client, &collection, namespace).await;
        }
    }
    empty && release(client, namespace).await
}

/// Deletes a collection. False if something is left of it.
async fn clear(client: &Client, collection: &Collection, namespace: &str) -> bool {
    let path = collection.path(namespace);
    let is_empty = || async {
        let listed = client
            .send(Method::GET, &format!("{path}?limit=1"), None)
            .await;
        listed.code == 200 && listed.body["items"].as_array().is_some_and(Vec::is_empty)
    };
    if is_empty().await {
        return true;
    }
    let options = json!({"propagationPolicy": "Background"});
    let deleted = client.send(Method::DELETE, &path, Some(&options)).await;
    if deleted.code != 200 {
        tracing::warn!("cannot delete {path}: {}", deleted.body["message"]);
    }
    is_empty().await
}

/// Takes away the finalizer that held the namespace for its content.
async fn release(client: &Client, namespace: &str) -> bool {
    let path = format!("/api/v1/namespaces/{namespace}");
    let found = client.send(Method::GET, &path, None).await;
    if found.code == 404 {
        return true;
    }
    let mut object = found.body;
    if !object["metadata"]["deletionTimestamp"].is_string() {
        return true;
    }
    let Some(finalizers) = object["spec"]["finalizers"].as_array_mut() else {
        return true;
    };
    finalizers.retain(|name| name != "kubernetes");
    let done = client
        .send(Method::PUT, &format!("{path}/finalize"), Some(&object))
        .await;
    // Somebody else changed it meanwhile: look again.
    done.code == 200 || done.code == 404
}
