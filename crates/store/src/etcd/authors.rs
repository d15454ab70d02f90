//! Who made the commits of this process. etcd keeps no place for it.
//!
//! The watch often tells of a commit before the answer to its transaction comes.
//! So transactions under way are known by the keys they may write, and the feed
//! waits a moment for an answer if a commit could be one of them.

use crate::key::KeyRange;
use crate::origin::{Origin, Origins};
use crate::revision::Revision;
use crate::sync::{Arc, Mutex};
use crate::txn::{Op, Txn};
use std::collections::BTreeMap;
use std::pin::pin;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Commits whose answer came before the watch told of them.
const ANSWERED_MAX: usize = 65_536;

#[derive(Debug, Default)]
pub(crate) struct Authors {
    state: Mutex<State>,
    answered: Notify,
}

#[derive(Debug, Default)]
struct State {
    origins: Origins,
    next_ticket: u64,
    under_way: BTreeMap<u64, Vec<KeyRange>>,
    answered: BTreeMap<Revision, Arc<Origin>>,
}

/// A transaction under way.
#[derive(Debug)]
pub(crate) struct Ticket {
    authors: Arc<Authors>,
    number: u64,
    origin: Arc<Origin>,
}

impl Authors {
    /// To be called before the transaction is sent. `None` if nobody knows its origin.
    pub(crate) fn announce(self: &Arc<Self>, txn: &Txn, origin: Origin) -> Option<Ticket> {
        let mut state = self.state.lock();
        let origin = state.origins.intern(origin)?;
        let number = state.next_ticket;
        state.next_ticket += 1;
        state.under_way.insert(number, writes(txn));
        Some(Ticket {
            authors: Arc::clone(self),
            number,
            origin,
        })
    }

    /// Who made the commit at `revision`, whose first change is to `key`. Waits until
    /// that is clear, or until the deadline.
    pub(crate) async fn find(
        &self,
        revision: Revision,
        key: &[u8],
        deadline: Instant,
    ) -> Option<Arc<Origin>> {
        // What is announced from now on is sent after the commit was made.
        let horizon = self.state.lock().next_ticket;
        loop {
            let mut answered = pin!(self.answered.notified());
            answered.as_mut().enable();
            {
                let mut state = self.state.lock();
                if let Some(origin) = state.answered.remove(&revision) {
                    return Some(origin);
                }
                if !state.may_write(key, horizon) {
                    return None;
                }
            }
            timeout_at(deadline, answered).await.ok()?;
        }
    }

    /// Says that the watch has come to `revision`: nobody will ask for earlier ones.
    pub(crate) fn forget_through(&self, revision: Revision) {
        let mut state = self.state.lock();
        state.answered = state.answered.split_off(&revision.next());
    }
}

impl State {
    fn may_write(&self, key: &[u8], horizon: u64) -> bool {
        let earlier = self.under_way.range(..horizon);
        let mut ranges = earlier.flat_map(|(_, ranges)| ranges);
        ranges.any(|range| range.contains(key))
    }
}

impl Ticket {
    /// Says that the transaction made the commit at `revision`.
    pub(crate) fn answered(&self, revision: Revision) {
        let mut state = self.authors.state.lock();
        state.answered.insert(revision, Arc::clone(&self.origin));
        if state.answered.len() > ANSWERED_MAX {
            state.answered.pop_first();
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.authors.state.lock().under_way.remove(&self.number);
        self.authors.answered.notify_waiters();
    }
}

/// Every key that some branch may write.
pub(crate) fn writes(txn: &Txn) -> Vec<KeyRange> {
    let mut ranges = Vec::new();
    collect_writes(txn, &mut ranges);
    ranges
}

fn collect_writes(txn: &Txn, ranges: &mut Vec<KeyRange>) {
    for op in txn.success.iter().chain(&txn.failure) {
        match op {
            Op::Range(_) => {}
            Op::Put(put) => ranges.push(KeyRange::one(&put.key)),
            Op::Delete(range) => ranges.push(range.clone()),
            Op::Txn(inner) => collect_writes(inner, ranges),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::txn::Put;
    use std::time::Duration;

    const REVISION: Revision = Revision::new(7);

    async fn find(authors: &Authors, key: &str) -> Option<Arc<Origin>> {
        let deadline = Instant::now() + Duration::from_secs(5);
        authors.find(REVISION, key.as_bytes(), deadline).await
    }

    #[tokio::test(start_paused = true)]
    async fn the_feed_waits_for_answers_that_may_matter() {
        let authors = Arc::new(Authors::default());
        let txn = Txn::put(Put::new("a", "1"));
        let start = Instant::now();
        let ticket = authors
            .announce(&txn, Origin::system("test"))
            .expect("known");
        assert_eq!(find(&authors, "b").await, None);
        assert_eq!(start.elapsed(), Duration::ZERO);

        let answer = async {
            tokio::time::sleep(Duration::from_millis(3)).await;
            ticket.answered(REVISION);
            drop(ticket);
        };
        let (found, ()) = tokio::join!(find(&authors, "a"), answer);
        assert_eq!(found.as_deref(), Some(&Origin::system("test")));
        assert_eq!(start.elapsed(), Duration::from_millis(3));
        assert_eq!(find(&authors, "a").await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_feed_does_not_wait_forever() {
        let authors = Arc::new(Authors::default());
        let txn = Txn::delete(KeyRange::prefix("a"));
        let _ticket = authors.announce(&txn, Origin::system("test"));
        let start = Instant::now();
        assert_eq!(find(&authors, "ab").await, None);
        assert_eq!(start.elapsed(), Duration::from_secs(5));
    }
}
