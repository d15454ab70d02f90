//! Namespaces that are deleted go away, and take their content with them.

use crate::client::Client;
use http::Method;
use optik_apiserver::{ApiServer, Collection};
use optik_store::{KeyRange, Store, Watch, WatchError, WatchFrom, WatchSpec};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

const DIRECTORY: &str = "/registry/namespaces/";
/// How soon a namespace is looked at again whose content waits for somebody else:
/// a finalizer, or a pod that is given time.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Finishes deletions of namespaces for as long as it is polled, or until the store
/// stops.
pub async fn keep_namespaces(api: ApiServer, store: Store) {
    let client = Client::new(api, "namespace-controller");
    while let Err(WatchError::Compacted { .. }) = follow(&client, &store).await {
        // Events are gone that we did not see: begin with the state again.
    }
}

async fn follow(client: &Client, store: &Store) -> Result<(), WatchError> {
    let state = store.snapshot();
    let mut watch = store.watch(WatchSpec {
        range: KeyRange::prefix(DIRECTORY),
        from: WatchFrom::Revision(state.revision().next()),
    })?;
    let range = KeyRange::prefix(DIRECTORY);
    let mut leaving = BTreeSet::new();
    for version in state.entries(&range) {
        note(version.key(), version.value(), &mut leaving);
    }
    drop(state);
    loop {
        finish_all(client, &mut leaving).await;
        wait(&mut watch, &mut leaving).await?;
    }
}

/// Waits for a change of a namespace; with work left, not for long.
async fn wait(watch: &mut Watch, leaving: &mut BTreeSet<String>) -> Result<(), WatchError> {
    let batch = if leaving.is_empty() {
        watch.next().await?
    } else {
        match tokio::time::timeout(LOOK_AGAIN, watch.next()).await {
            Ok(batch) => batch?,
            Err(_) => return Ok(()),
        }
    };
    for event in batch.events() {
        let version = event.version();
        if !version.is_deletion() {
            note(version.key(), version.value(), leaving);
        }
    }
    Ok(())
}

/// Remembers a namespace that is being deleted.
fn note(key: &[u8], value: &[u8], leaving: &mut BTreeSet<String>) {
    let Ok(object) = serde_json::from_slice::<Value>(value) else {
        return;
    };
    let name = key.get(DIRECTORY.len()..).map(String::from_utf8_lossy);
    if let Some(name) = name
        && object["metadata"]["deletionTimestamp"].is_string()
    {
        leaving.insert(name.into_owned());
    }
}

async fn finish_all(client: &Client, leaving: &mut BTreeSet<String>) {
    for name in leaving.clone() {
        if finish(client, &name).await {
            leaving.remove(&name);
        }
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
