//! Controller that keeps the resource registry up to date with the stored
//! CustomResourceDefinitions.
//!
//! Every change of a CRD, by this server or another one, arrives through a store watch. The CRD is
//! compiled, the new kinds are published, and then the CRD's names are accepted in its status.

use crate::registry::crd::CRD_DIRECTORY;
use crate::server::ApiServer;
use optik_control_loop::{ControlLoop, Outcome, Step};
use optik_store::{KeyRange, Store};

/// Runs the CRD controller until it is dropped or the store stops.
pub async fn run_crd_controller(api: ApiServer, store: Store) {
    let mut control = ControlLoop::new(&store, [KeyRange::prefix(CRD_DIRECTORY)]);
    // Pending changes are published together.
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
