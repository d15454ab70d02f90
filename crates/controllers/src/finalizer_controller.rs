//! A generic controller that finalizes objects under deletion.

use optik_control_loop::{ControlLoop, Outcome, Step};
use optik_store::{KeyRange, Store, Version};
use serde_json::Value;
use std::time::Duration;

/// Requeue interval of an object that waits for something without an event: a finalizer on its
/// content, or the grace period of a pod.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A controller that finalizes deleted objects.
pub(crate) trait FinalizerController: Sync {
    /// The key prefix of the objects; a key is this and the name.
    const PREFIX: &'static str;

    /// Whether an object is being deleted and has the finalizer of this controller.
    fn needs_finalizing(object: &Value) -> bool;

    /// Finalizes the object as far as possible.
    fn finalize(&self, name: &str) -> impl Future<Output = Outcome<String>> + Send;
}

/// Runs the controller until the future is dropped or the store stops.
pub(crate) async fn run_finalizer_controller<F: FinalizerController>(
    controller: &F,
    store: &Store,
) {
    let range = KeyRange::prefix(F::PREFIX);
    let mut control = ControlLoop::new(store, [range.clone()]);
    while let Some(step) = control.next().await {
        match step {
            Step::Resync(state) => {
                let names = state.entries(&range).filter_map(terminating_name::<F>);
                names.for_each(|name| control.add(name));
            }
            Step::Changes(batch) => {
                for event in batch.events() {
                    let version = event.version();
                    match terminating_name::<F>(version) {
                        Some(name) => control.add(name),
                        // It is gone, or another object has its name now.
                        None => object_name::<F>(version)
                            .iter()
                            .for_each(|name| control.forget(name)),
                    }
                }
            }
            Step::Work(names) => {
                for name in names {
                    let outcome = controller.finalize(&name).await;
                    control.finish(name, outcome);
                }
            }
        }
    }
}

/// Returns the name of an object that waits for the controller.
fn terminating_name<F: FinalizerController>(version: &std::sync::Arc<Version>) -> Option<String> {
    if version.is_deletion() {
        return None;
    }
    let object: Value = serde_json::from_slice(version.value()).ok()?;
    let name = object_name::<F>(version)?;
    F::needs_finalizing(&object).then_some(name)
}

fn object_name<F: FinalizerController>(version: &Version) -> Option<String> {
    let name = version.key().get(F::PREFIX.len()..)?;
    Some(String::from_utf8_lossy(name).into_owned())
}
