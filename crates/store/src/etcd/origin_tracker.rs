//! Tracks the origin of this process's commits, which etcd does not store.
//!
//! The watch often delivers a commit before the response to its transaction arrives. So pending
//! transactions are tracked by the keys they may write, and the watch task waits briefly for the
//! response of a transaction that may have made the commit.

use crate::key::KeyRange;
use crate::origin::{Origin, OriginInterner};
use crate::revision::Revision;
use crate::sync::{Arc, Mutex};
use crate::txn::{Op, Txn};
use std::collections::BTreeMap;
use std::pin::pin;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Commits whose response arrived before their watch event.
const ATTRIBUTED_MAX: usize = 65_536;

#[derive(Debug, Default)]
pub(crate) struct OriginTracker {
    state: Mutex<OriginTrackerState>,
    answered: Notify,
}

#[derive(Debug, Default)]
struct OriginTrackerState {
    origins: OriginInterner,
    next_ticket: u64,
    pending: BTreeMap<u64, Vec<KeyRange>>,
    attributed: BTreeMap<Revision, Arc<Origin>>,
}

/// A pending transaction.
#[derive(Debug)]
pub(crate) struct PendingTxn {
    authors: Arc<OriginTracker>,
    number: u64,
    origin: Arc<Origin>,
}

impl OriginTracker {
    /// Registers a transaction before it is sent. `None` if its origin is unknown.
    pub(crate) fn register(self: &Arc<Self>, txn: &Txn, origin: Origin) -> Option<PendingTxn> {
        let mut state = self.state.lock();
        let origin = state.origins.intern(origin)?;
        let number = state.next_ticket;
        state.next_ticket += 1;
        state.pending.insert(number, write_ranges(txn));
        Some(PendingTxn {
            authors: Arc::clone(self),
            number,
            origin,
        })
    }

    /// Returns the origin of the commit at `revision`, whose first change is to `key`. Waits until
    /// it is known or the deadline passes.
    pub(crate) async fn origin_at(
        &self,
        revision: Revision,
        key: &[u8],
        deadline: Instant,
    ) -> Option<Arc<Origin>> {
        // Transactions registered from now on are sent after the commit was made.
        let horizon = self.state.lock().next_ticket;
        loop {
            let mut answered = pin!(self.answered.notified());
            answered.as_mut().enable();
            {
                let mut state = self.state.lock();
                if let Some(origin) = state.attributed.remove(&revision) {
                    return Some(origin);
                }
                if !state.may_write(key, horizon) {
                    return None;
                }
            }
            timeout_at(deadline, answered).await.ok()?;
        }
    }

    /// Drops origins up to `revision`, which the watch has delivered.
    pub(crate) fn forget_through(&self, revision: Revision) {
        let mut state = self.state.lock();
        state.attributed = state.attributed.split_off(&revision.next());
    }
}

impl OriginTrackerState {
    fn may_write(&self, key: &[u8], horizon: u64) -> bool {
        let earlier = self.pending.range(..horizon);
        let mut ranges = earlier.flat_map(|(_, ranges)| ranges);
        ranges.any(|range| range.contains(key))
    }
}

impl PendingTxn {
    /// Records that the transaction made the commit at `revision`.
    pub(crate) fn set_revision(&self, revision: Revision) {
        let mut state = self.authors.state.lock();
        state.attributed.insert(revision, Arc::clone(&self.origin));
        if state.attributed.len() > ATTRIBUTED_MAX {
            state.attributed.pop_first();
        }
    }
}

impl Drop for PendingTxn {
    fn drop(&mut self) {
        self.authors.state.lock().pending.remove(&self.number);
        self.authors.answered.notify_waiters();
    }
}

/// Every key that some branch may write.
pub(crate) fn write_ranges(txn: &Txn) -> Vec<KeyRange> {
    let mut ranges = Vec::new();
    collect_write_ranges(txn, &mut ranges);
    ranges
}

fn collect_write_ranges(txn: &Txn, ranges: &mut Vec<KeyRange>) {
    for op in txn.success.iter().chain(&txn.failure) {
        match op {
            Op::Range(_) => {}
            Op::Put(put) => ranges.push(KeyRange::one(&put.key)),
            Op::Delete(range) => ranges.push(range.clone()),
            Op::Txn(inner) => collect_write_ranges(inner, ranges),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::txn::Put;
    use std::time::Duration;

    const REVISION: Revision = Revision::new(7);

    async fn find(authors: &OriginTracker, key: &str) -> Option<Arc<Origin>> {
        let deadline = Instant::now() + Duration::from_secs(5);
        authors.origin_at(REVISION, key.as_bytes(), deadline).await
    }

    #[tokio::test(start_paused = true)]
    async fn origin_lookup_waits_for_pending_txn_on_same_key() {
        let authors = Arc::new(OriginTracker::default());
        let txn = Txn::put(Put::new("a", "1"));
        let start = Instant::now();
        let ticket = authors
            .register(&txn, Origin::system("test"))
            .expect("known");
        assert_eq!(find(&authors, "b").await, None);
        assert_eq!(start.elapsed(), Duration::ZERO);

        let answer = async {
            tokio::time::sleep(Duration::from_millis(3)).await;
            ticket.set_revision(REVISION);
            drop(ticket);
        };
        let (found, ()) = tokio::join!(find(&authors, "a"), answer);
        assert_eq!(found.as_deref(), Some(&Origin::system("test")));
        assert_eq!(start.elapsed(), Duration::from_millis(3));
        assert_eq!(find(&authors, "a").await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn origin_lookup_gives_up_at_deadline() {
        let authors = Arc::new(OriginTracker::default());
        let txn = Txn::delete(KeyRange::prefix("a"));
        let _ticket = authors.register(&txn, Origin::system("test"));
        let start = Instant::now();
        assert_eq!(find(&authors, "ab").await, None);
        assert_eq!(start.elapsed(), Duration::from_secs(5));
    }
}
