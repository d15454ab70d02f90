use crate::control_loop::{ControlLoop, Step};
use crate::work_queue::Outcome;
use optik_store::{KeyRange, Store};

/// Runs a full reconciliation at the start and after every change below one of the prefixes, until
/// the future is dropped or the store stops.
pub async fn reconcile_on_change<F: Future<Output = Outcome<()>>>(
    store: &Store,
    prefixes: &[&str],
    mut reconcile: impl FnMut() -> F,
) {
    let ranges = prefixes.iter().map(KeyRange::prefix);
    let mut control = ControlLoop::new(store, ranges);
    while let Some(step) = control.next().await {
        match step {
            Step::Resync(_) | Step::Changes(_) => control.add(()),
            Step::Work(_) => {
                let outcome = reconcile().await;
                control.finish((), outcome);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_store::{Options, Origin, Put, Txn};
    use std::cell::Cell;

    /// At the beginning, again if that failed, and after a change.
    #[tokio::test(start_paused = true)]
    async fn reconciles_at_start_after_failure_and_after_change() {
        let store = Store::open(Options::ephemeral()).expect("it is in memory");
        let calls = Cell::new(0);
        let reconcile = || {
            let call = calls.replace(calls.get() + 1);
            let store = store.clone();
            async move {
                match call {
                    0 => return Outcome::Retry,
                    1 => {
                        let txn = Txn::put(Put::new("a/1", "x"));
                        let done = store.commit(txn, Origin::default()).await;
                        done.expect("an open store takes writes");
                    }
                    _ => store.close().await,
                }
                Outcome::Done
            }
        };
        reconcile_on_change(&store, &["a/", "b/"], reconcile).await;
        assert_eq!(calls.get(), 3);
    }
}
