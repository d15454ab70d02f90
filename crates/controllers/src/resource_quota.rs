//! The ResourceQuota controller: recalculates `status.used` after deletions.
//!
//! Quota admission charges a write before it is stored. This controller releases the usage of
//! deleted objects and of writes that were charged but never stored.

use crate::loopback_client::LoopbackClient;
use http::Method;
use optik_apiserver::{ApiServer, REGISTRY_PREFIX, key_prefix, quota_usage};
use optik_control_loop::{ControlLoop, Outcome, Step};
use optik_store::{KeyRange, ListWatch, ListWatchEvent, Store};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

const QUOTAS_PREFIX: &str = key_prefix("", "resourcequotas");
/// How long a namespace must be unchanged before its usage is recalculated. Admission charges a
/// write before it is stored, and the recalculation must not run in between.
const QUIET_PERIOD: Duration = Duration::from_millis(100);

/// Runs the controller until the future is dropped or the store stops.
pub async fn run_quota_controller(api: ApiServer, store: Store) {
    let client = LoopbackClient::new(api, "resourcequota-controller");
    // Without a ResourceQuota the controller does not watch every write.
    if wait_for_quota(&store).await.is_some() {
        follow_usage(&client, &store).await;
    }
}

/// Waits until a ResourceQuota exists; `None` if the store stops first.
async fn wait_for_quota(store: &Store) -> Option<()> {
    let quotas = KeyRange::prefix(QUOTAS_PREFIX);
    let mut list_watch = ListWatch::new(store, [quotas.clone()]);
    loop {
        match list_watch.next().await? {
            ListWatchEvent::Resync(state) if state.entries(&quotas).next().is_none() => {}
            _ => return Some(()),
        }
    }
}

/// Recalculates usage per namespace, debounced by [`QUIET_PERIOD`].
async fn follow_usage(client: &LoopbackClient, store: &Store) {
    let mut control = ControlLoop::new(store, [KeyRange::prefix(REGISTRY_PREFIX)])
        .with_batch_delay(crate::BATCH_DELAY);
    // The namespaces that have had quotas.
    let mut counted: BTreeSet<String> = BTreeSet::new();
    while let Some(step) = control.next().await {
        match step {
            Step::Resync(state) => {
                let quotas = state.entries(&KeyRange::prefix(QUOTAS_PREFIX));
                counted = quotas
                    .filter_map(|version| namespace_of_quota(version.key()))
                    .collect();
                counted.iter().for_each(|name| control.add(name.clone()));
            }
            Step::Changes(batch) => {
                for event in batch.events() {
                    if let Some(namespace) = affected_namespace(event.version().key(), &mut counted)
                    {
                        control.debounce(namespace, QUIET_PERIOD);
                    }
                }
            }
            Step::Work(namespaces) => {
                for namespace in namespaces {
                    let done = recalculate(client, store, &namespace).await;
                    control.finish(namespace, Outcome::done_if(done));
                }
            }
        }
    }
}

/// Returns the namespace whose quotas a change of this key may affect.
fn affected_namespace(key: &[u8], counted: &mut BTreeSet<String>) -> Option<String> {
    if key.starts_with(QUOTAS_PREFIX.as_bytes()) {
        let namespace = namespace_of_quota(key);
        counted.extend(namespace.clone());
        return namespace;
    }
    counted_namespace(key, counted)
}

fn namespace_of_quota(key: &[u8]) -> Option<String> {
    let rest = std::str::from_utf8(key.get(QUOTAS_PREFIX.len()..)?).ok()?;
    rest.split_once('/')
        .map(|(namespace, _)| namespace.to_owned())
}

/// Returns the namespace in a key if that namespace has quotas.
fn counted_namespace(key: &[u8], counted: &BTreeSet<String>) -> Option<String> {
    let key = std::str::from_utf8(key).ok()?;
    let mut parts = key.rsplit('/');
    let (_, namespace) = (parts.next(), parts.next()?);
    counted.get(namespace).cloned()
}

/// Recalculates the usage of the quotas of a namespace and updates statuses that differ. Returns
/// false if that failed.
async fn recalculate(client: &LoopbackClient, store: &Store, namespace: &str) -> bool {
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
    let mut is_done = true;
    for quota in changed {
        let name = quota["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("/api/v1/namespaces/{namespace}/resourcequotas/{name}/status");
        // A conflict means that the quota has changed; the watch delivers it again.
        let written = client.send(Method::PUT, &path, Some(&quota)).await;
        is_done &= matches!(written.code, 200 | 404 | 409);
    }
    is_done
}
