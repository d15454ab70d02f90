//! Tasks that keep roles and flows what the stored objects say.

use super::{flows, gate};
use crate::follow::keep;
use crate::server::ApiServer;
use optik_store::{Snapshot, Store};

/// Follows roles and bindings for as long as it is polled, or until the store stops.
pub async fn keep_roles(api: ApiServer, store: Store) {
    let caught_up = |state: &Snapshot| api.catch_up_with_roles(state);
    keep(&store, &gate::DIRECTORIES, caught_up).await;
}

/// The same for flow schemas and priority levels.
pub async fn keep_flows(api: ApiServer, store: Store) {
    let caught_up = |state: &Snapshot| api.catch_up_with_flows(state);
    keep(&store, &flows::DIRECTORIES, caught_up).await;
}
