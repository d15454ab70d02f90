//! What quotas say is used is counted again when something goes.
//!
//! Writes count what they add themselves, before they are stored; this takes away what is
//! gone, and mends what a write counted that was never stored.

use crate::loopback_client::LoopbackClient;
use http::Method;
use optik_apiserver::{ApiServer, quota_usage};
use optik_store::{KeyRange, Store, Watch, WatchError, WatchFrom, WatchSpec};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

const QUOTAS_PREFIX: &str = "/registry/resourcequotas/";
/// So much is gathered before it is counted.
const BATCH_DELAY: Duration = Duration::from_millis(100);

/// Keeps quotas true for as long as it is polled, or until the store stops.
pub async fn run_quota_controller(api: ApiServer, store: Store) {
    let client = LoopbackClient::new(api, "resourcequota-controller");
    // There are quotas now, or events are gone that we did not see: begin with the state.
    while let Ok(()) | Err(WatchError::Compacted { .. }) = run_until_restart(&client, &store).await
    {
    }
}

/// Follows everything if there are quotas, and only quotas as long as there are none.
async fn run_until_restart(client: &LoopbackClient, store: &Store) -> Result<(), WatchError> {
    let state = store.snapshot();
    let from = WatchFrom::Revision(state.revision().next());
    let quotas = KeyRange::prefix(QUOTAS_PREFIX);
    if state.entries(&quotas).next().is_none() {
        let range = quotas;
        store.watch(WatchSpec { range, from })?.next().await?;
        return Ok(());
    }
    let mut watch = store.watch(WatchSpec {
        range: KeyRange::prefix("/registry/"),
        from,
    })?;
    let mut counted: BTreeSet<String> = BTreeSet::new();
    let mut stale: BTreeSet<String> = BTreeSet::new();
    for version in state.entries(&quotas) {
        let namespace = namespace_of_quota(version.key());
        counted.extend(namespace.clone());
        stale.extend(namespace);
    }
    drop(state);
    loop {
        for namespace in std::mem::take(&mut stale) {
            recalculate(client, store, &namespace).await;
        }
        wait_for_events(&mut watch, &mut counted, &mut stale).await?;
    }
}

fn namespace_of_quota(key: &[u8]) -> Option<String> {
    let rest = std::str::from_utf8(key.get(QUOTAS_PREFIX.len()..)?).ok()?;
    rest.split_once('/')
        .map(|(namespace, _)| namespace.to_owned())
}

/// Waits for something that counts, and a little longer for more of it.
async fn wait_for_events(
    watch: &mut Watch,
    counted: &mut BTreeSet<String>,
    stale: &mut BTreeSet<String>,
) -> Result<(), WatchError> {
    loop {
        let batch = match stale.is_empty() {
            true => watch.next().await?,
            false => match tokio::time::timeout(BATCH_DELAY, watch.next()).await {
                Ok(batch) => batch?,
                Err(_) => return Ok(()),
            },
        };
        for event in batch.events() {
            let version = event.version();
            if version.key().starts_with(QUOTAS_PREFIX.as_bytes()) {
                let namespace = namespace_of_quota(version.key());
                counted.extend(namespace.clone());
                stale.extend(namespace);
            } else if !counted.is_empty() {
                let namespace = counted_namespace(version.key(), counted);
                stale.extend(namespace);
            }
        }
        if stale.is_empty() {
            continue;
        }
    }
}

/// The part of a key that is a namespace with quotas.
fn counted_namespace(key: &[u8], counted: &BTreeSet<String>) -> Option<String> {
    let key = std::str::from_utf8(key).ok()?;
    let mut parts = key.rsplit('/');
    let (_, namespace) = (parts.next(), parts.next()?);
    counted.get(namespace).cloned()
}

/// Counts what the quotas of a namespace are about, and says so where they do not.
async fn recalculate(client: &LoopbackClient, store: &Store, namespace: &str) {
    let state = store.snapshot();
    let range = KeyRange::prefix(format!("{QUOTAS_PREFIX}{namespace}/"));
    let mut changed = Vec::new();
    for version in state.entries(&range) {
        let Ok(mut quota) = serde_json::from_slice::<Value>(version.value()) else {
            continue;
        };
        let used = quota_usage(client.api(), &state, &quota);
        let hard = quota["spec"]["hard"].clone();
        if quota["status"]["used"] != used || quota["status"]["hard"] != hard {
            quota["status"]["used"] = used;
            quota["status"]["hard"] = hard;
            let revision = version.mod_revision().get().to_string();
            quota["metadata"]["resourceVersion"] = revision.into();
            changed.push(quota);
        }
    }
    drop(state);
    for quota in changed {
        let name = quota["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("/api/v1/namespaces/{namespace}/resourcequotas/{name}/status");
        // Refused: it has changed, and will be looked at again for that.
        client.send(Method::PUT, &path, Some(&quota)).await;
    }
}
