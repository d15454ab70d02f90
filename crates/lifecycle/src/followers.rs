//! What every API server runs beside requests, whichever controllers were chosen.

use crate::keep_definitions_clean;
use futures::future::{BoxFuture, FutureExt};
use optik_apiserver::{
    ApiServer, keep_admission, keep_api_services, keep_compacting, keep_definitions, keep_flows,
    keep_roles,
};
use optik_platform::Clock;
use optik_store::Store;
use optik_supervisor::{Supervisor, Task};
use std::sync::Arc;
use std::time::Duration;

type Start = fn(ApiServer, Store) -> BoxFuture<'static, ()>;

/// Without those that serve, requests are judged by what is no longer stored.
const FOLLOWERS: &[(Task, Start)] = &[
    (Task::serving("admission"), |api, store| {
        keep_admission(api, store).boxed()
    }),
    (Task::serving("definitions"), |api, store| {
        keep_definitions(api, store).boxed()
    }),
    (Task::serving("roles"), |api, store| {
        keep_roles(api, store).boxed()
    }),
    (Task::upkeep("flow-schemas"), |api, store| {
        keep_flows(api, store).boxed()
    }),
    (Task::upkeep("api-services"), |api, store| {
        keep_api_services(api, store).boxed()
    }),
    (Task::upkeep("definition-finalizer"), |api, store| {
        keep_definitions_clean(api, store).boxed()
    }),
];

/// Follows what is stored about kinds, roles and admission.
pub fn start_followers(supervisor: &Supervisor, api: &ApiServer, store: &Store) {
    for (task, start) in FOLLOWERS.iter().copied() {
        let (api, store) = (api.clone(), store.clone());
        supervisor.spawn(task, move || start(api.clone(), store.clone()));
    }
}

/// Compacts the store again and again.
pub fn start_compaction(
    supervisor: &Supervisor,
    store: &Store,
    every: Duration,
    clock: Arc<dyn Clock>,
) {
    let store = store.clone();
    let start = move || keep_compacting(store.clone(), every, Arc::clone(&clock));
    supervisor.spawn(Task::upkeep("compaction"), start);
}
