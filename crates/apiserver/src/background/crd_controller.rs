//! The task that keeps kinds what the stored definitions say.
//!
//! Every change of a definition, by this server or another one, comes through a watch
//! of the store. It is compiled, the new kinds are published, and then the definition
//! is granted its names.

use crate::registry::crd::CRD_DIRECTORY;
use crate::server::ApiServer;
use optik_control_loop::{ControlLoop, Outcome, Step};
use optik_store::{KeyRange, Store};

/// Follows the definitions for as long as it is polled, or until the store stops.
pub async fn run_crd_controller(api: ApiServer, store: Store) {
    let mut control = ControlLoop::new(&store, [KeyRange::prefix(CRD_DIRECTORY)]);
    // What has gathered is published together.
    let mut changes = Vec::new();
    while let Some(step) = control.next().await {
        match step {
            Step::Resync(state) => {
                changes.clear();
                api.load_crds(&state);
                control.add(());
            }
            Step::Changes(batch) => {
                changes.extend(batch.events().map(|event| event.version().clone()));
                control.add(());
            }
            Step::Work(_) => {
                if !changes.is_empty() {
                    api.update_crds(&std::mem::take(&mut changes));
                }
                let settled = api.update_crd_statuses().await;
                control.finish((), Outcome::done_if(settled));
            }
        }
    }
}
