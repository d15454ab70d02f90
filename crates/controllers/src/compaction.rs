//! Periodic compaction of the store (CONC §6).
//!
//! Every tick records the current revision and compacts to the revision of the previous tick, so
//! history lasts between one and two intervals. The record is written with a precondition on its
//! version, so servers that share a store take turns. The write also advances the revision of an
//! idle store.

use optik_platform::Clock;
use optik_store::{CompactError, Compare, Op, Origin, Put, Revision, Store, Txn};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// The key that upstream uses.
const COMPACT_REVISION_KEY: &str = "compact_rev_key";

/// Compacts until the future is dropped.
pub(crate) async fn run_compaction(store: Store, every: Duration, clock: Arc<dyn Clock>) {
    let mut compactor = Compactor::default();
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick only records the current state.
    loop {
        ticks.tick().await;
        let began = clock.monotonic();
        compactor.tick(&store).await;
        let took = clock.monotonic().since(began);
        tracing::debug!("compaction took {took:?}");
    }
}

#[derive(Debug, Default)]
struct Compactor {
    /// The version of the key at the last tick.
    version: u64,
    /// The revision at the last tick.
    revision: Option<Revision>,
}

impl Compactor {
    /// Runs one tick. A failure is retried at the next tick.
    async fn tick(&mut self, store: &Store) {
        let Ok(latest) = store.latest().await else {
            return;
        };
        let now = latest.revision();
        let found = latest.get(COMPACT_REVISION_KEY.as_bytes());
        let version = found.map_or(0, |version| version.version());
        let ours = version == self.version && self.revision.is_some();
        let expected = found.map_or(Revision::ZERO, |version| version.mod_revision());
        if (ours || self.revision.is_none()) && write_mark(store, expected, now).await {
            self.version = version + 1;
        } else {
            self.version = version;
        }
        let previous = self.revision.replace(now);
        if let Some(previous) = previous.filter(|_| ours) {
            compact(store, previous).await;
        }
    }
}

/// Writes the record if no other server has written it.
async fn write_mark(store: &Store, expected: Revision, now: Revision) -> bool {
    let put = Put::new(COMPACT_REVISION_KEY, now.to_string());
    let txn = Txn {
        compares: vec![Compare::mod_revision_is(COMPACT_REVISION_KEY, expected)],
        success: vec![Op::Put(put)],
        failure: Vec::new(),
    };
    let done = store.commit(txn, Origin::system("compact")).await;
    done.is_ok_and(|done| done.succeeded)
}

async fn compact(store: &Store, revision: Revision) {
    match store.compact(revision).await {
        // Another server or the store itself has compacted already.
        Ok(()) | Err(CompactError::Compacted { .. }) => {}
        Err(error) => tracing::warn!("compaction failed: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_store::Options;

    /// CONC §6.
    #[tokio::test]
    async fn compaction_keeps_one_to_two_intervals_of_history() {
        let store = Store::open(Options::ephemeral()).unwrap();
        let put = |key: &'static str| store.commit(Txn::put(Put::new(key, "x")), Origin::default());
        let mut compactor = Compactor::default();
        let first = put("a").await.unwrap().revision;
        compactor.tick(&store).await;
        assert!(
            store.snapshot().oldest() <= first,
            "the first tick only takes note"
        );
        let after = store.snapshot().revision();
        assert!(after > first, "a tick moves the revision on");
        let second = put("a").await.unwrap().revision;
        compactor.tick(&store).await;
        assert_eq!(
            store.snapshot().oldest(),
            first,
            "to the revision of the tick before"
        );
        compactor.tick(&store).await;
        assert_eq!(store.snapshot().oldest(), second);
        store.close().await;
    }

    /// Two servers on one store: each history lasts at least an interval.
    #[tokio::test]
    async fn compaction_takes_turns_between_two_servers() {
        let store = Store::open(Options::ephemeral()).unwrap();
        let (mut one, mut two) = (Compactor::default(), Compactor::default());
        for _ in 0..5 {
            let before = store.snapshot().revision();
            one.tick(&store).await;
            two.tick(&store).await;
            assert!(store.snapshot().oldest() <= before);
        }
        store.close().await;
    }
}
