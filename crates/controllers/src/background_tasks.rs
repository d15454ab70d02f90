//! Background tasks that every API server runs, whichever controllers are enabled.

use crate::compaction::run_compaction;
use crate::run_crd_finalizer;
use futures::future::{BoxFuture, FutureExt};
use optik_apiserver::{
    ApiServer, run_admission_refresh, run_apiservice_controller, run_crd_controller,
    run_flow_schema_refresh, run_rbac_refresh,
};
use optik_platform::Clock;
use optik_store::Store;
use optik_supervisor::{Supervisor, Task};
use std::sync::Arc;
use std::time::Duration;

type StartTask = fn(ApiServer, Store) -> BoxFuture<'static, ()>;

/// Serving tasks; without them requests would be authorized and admitted by outdated objects.
const BACKGROUND_TASKS: &[(Task, StartTask)] = &[
    (Task::serving("admission"), |api, store| {
        run_admission_refresh(api, store).boxed()
    }),
    (Task::serving("definitions"), |api, store| {
        run_crd_controller(api, store).boxed()
    }),
    (Task::serving("roles"), |api, store| {
        run_rbac_refresh(api, store).boxed()
    }),
    (Task::upkeep("flow-schemas"), |api, store| {
        run_flow_schema_refresh(api, store).boxed()
    }),
    (Task::upkeep("api-services"), |api, store| {
        run_apiservice_controller(api, store).boxed()
    }),
    (Task::upkeep("definition-finalizer"), |api, store| {
        run_crd_finalizer(api, store).boxed()
    }),
];

/// Starts the watches on stored CRDs, RBAC objects and admission configuration.
pub fn start_background_tasks(supervisor: &Supervisor, api: &ApiServer, store: &Store) {
    for (task, start) in BACKGROUND_TASKS.iter().copied() {
        let (api, store) = (api.clone(), store.clone());
        supervisor.spawn(task, move || start(api.clone(), store.clone()));
    }
}

/// Starts periodic compaction of the store.
pub fn start_compaction(
    supervisor: &Supervisor,
    store: &Store,
    every: Duration,
    clock: Arc<dyn Clock>,
) {
    let store = store.clone();
    let start = move || run_compaction(store.clone(), every, Arc::clone(&clock));
    supervisor.spawn(Task::upkeep("compaction"), start);
}
