//! The task that keeps admission what the stored configurations say.

use super::hooks::{MUTATING, VALIDATING};
use super::policies;
use crate::follow::keep;
use crate::server::ApiServer;
use optik_store::{Snapshot, Store};

/// Follows the configurations of admission for as long as it is polled, or until the
/// store stops.
pub async fn keep_admission(api: ApiServer, store: Store) {
    let directories = [&[MUTATING, VALIDATING], policies::DIRECTORIES].concat();
    let refreshed = |state: &Snapshot| api.refresh_admission(state);
    keep(&store, &directories, refreshed).await;
}
