//! Tasks that keep roles and flows what the stored objects say.

use crate::auth::{authorizer, flow_schemas};
use crate::background::refresher::run_refresh;
use crate::server::ApiServer;
use optik_store::{Snapshot, Store};

/// Follows roles and bindings for as long as it is polled, or until the store stops.
pub async fn run_rbac_refresh(api: ApiServer, store: Store) {
    let caught_up = |state: &Snapshot| api.refresh_rbac(state);
    run_refresh(&store, &authorizer::RBAC_DIRECTORIES, caught_up).await;
}

/// The same for flow schemas and priority levels.
pub async fn run_flow_schema_refresh(api: ApiServer, store: Store) {
    let caught_up = |state: &Snapshot| api.refresh_flow_schemas(state);
    run_refresh(&store, &flow_schemas::FLOW_CONTROL_DIRECTORIES, caught_up).await;
}
