//! Background task that recompiles the admission configuration when stored objects change.

use crate::admission::policies;
use crate::admission::webhooks::{MUTATING_DIRECTORY, VALIDATING_DIRECTORY};
use crate::background::refresher::run_refresh;
use crate::server::ApiServer;
use optik_store::{Snapshot, Store};

/// Follows the stored admission configuration until it is dropped or the store stops.
pub async fn run_admission_refresh(api: ApiServer, store: Store) {
    let directories = [
        &[MUTATING_DIRECTORY, VALIDATING_DIRECTORY],
        policies::POLICY_DIRECTORIES,
    ]
    .concat();
    let refreshed = |state: &Snapshot| api.refresh_admission(state);
    run_refresh(&store, &directories, refreshed).await;
}
