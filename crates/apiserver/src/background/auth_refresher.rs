//! Background tasks that keep compiled RBAC and flow schemas up to date with the stored objects.

use crate::auth::{authorizer, flow_schemas};
use crate::background::refresher::run_refresh;
use crate::server::ApiServer;
use optik_store::{Snapshot, Store};

/// Follows roles and role bindings until it is dropped or the store stops.
pub async fn run_rbac_refresh(api: ApiServer, store: Store) {
    let caught_up = |state: &Snapshot| api.refresh_rbac(state);
    run_refresh(&store, &authorizer::RBAC_DIRECTORIES, caught_up).await;
}

/// Follows flow schemas and priority levels until it is dropped or the store stops.
pub async fn run_flow_schema_refresh(api: ApiServer, store: Store) {
    let caught_up = |state: &Snapshot| api.refresh_flow_schemas(state);
    run_refresh(&store, &flow_schemas::FLOW_CONTROL_DIRECTORIES, caught_up).await;
}
