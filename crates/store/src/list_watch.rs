//! List-watch, as a controller's informer uses it: a snapshot and every event after it.
//!
//! A watch alone ends when its next events are compacted. A list-watch then lists again, so a
//! caller sees either every event or a newer state.

use crate::error::WatchError;
use crate::index::Snapshot;
use crate::key::KeyRange;
use crate::store::Store;
use crate::watch::{Watch, WatchBatch, WatchFrom, WatchSpec};
use std::future::poll_fn;
use std::task::{Context, Poll};

/// An item that a [`ListWatch`] returns.
#[derive(Clone, Debug)]
pub enum ListWatchEvent {
    /// A snapshot, which replaces everything known before; the events after it follow. It is the
    /// first item, and comes again when events were compacted before they were read.
    Resync(Snapshot),
    /// Commits in one of the ranges since the previous item.
    Changes(WatchBatch),
}

/// Lists some key ranges, then watches them.
///
/// The events of a range come in order and exactly once. There is no order between ranges, and an
/// event in several overlapping ranges is delivered once for each.
#[derive(Debug)]
pub struct ListWatch {
    store: Store,
    ranges: Vec<KeyRange>,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// The next item is a snapshot.
    List,
    Watch {
        /// One watch for each range.
        watches: Vec<Watch>,
        /// The index of the watch that is polled first; it rotates for fairness.
        first: usize,
    },
    Stopped,
}

impl ListWatch {
    #[must_use]
    pub fn new(store: &Store, ranges: impl IntoIterator<Item = KeyRange>) -> Self {
        Self {
            store: store.clone(),
            ranges: ranges.into_iter().collect(),
            phase: Phase::List,
        }
    }

    /// Waits for the next item; `None` when the store has stopped. Dropping the future loses
    /// nothing.
    pub async fn next(&mut self) -> Option<ListWatchEvent> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// See [`ListWatch::next`].
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<ListWatchEvent>> {
        match &mut self.phase {
            Phase::List => self.list(cx),
            Phase::Watch { watches, first } => match poll_watches(watches, first, cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Ok(batch)) => Poll::Ready(Some(ListWatchEvent::Changes(batch))),
                Poll::Ready(Err(WatchError::Compacted { .. })) => {
                    self.phase = Phase::List;
                    self.list(cx)
                }
                Poll::Ready(Err(WatchError::Stopped)) => self.stop(),
            },
            Phase::Stopped => Poll::Ready(None),
        }
    }

    /// Takes a current snapshot, and watches from its revision on.
    fn list(&mut self, cx: &Context<'_>) -> Poll<Option<ListWatchEvent>> {
        let state = self.store.snapshot();
        let from = WatchFrom::Revision(state.revision().next());
        let watches = self.ranges.iter().cloned().map(|range| {
            let spec = WatchSpec { range, from };
            self.store.watch(spec)
        });
        match watches.collect() {
            Ok(watches) => {
                self.phase = Phase::Watch { watches, first: 0 };
                Poll::Ready(Some(ListWatchEvent::Resync(state)))
            }
            // The state was replaced in between. The next attempt takes the new one; yielding first
            // avoids a busy loop.
            Err(WatchError::Compacted { .. }) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Err(WatchError::Stopped) => self.stop(),
        }
    }

    fn stop(&mut self) -> Poll<Option<ListWatchEvent>> {
        self.phase = Phase::Stopped;
        Poll::Ready(None)
    }
}

fn poll_watches(
    watches: &mut [Watch],
    first: &mut usize,
    cx: &mut Context<'_>,
) -> Poll<Result<WatchBatch, WatchError>> {
    for turn in 0..watches.len() {
        let at = (*first + turn) % watches.len();
        let polled = watches[at].poll_next(cx);
        if polled.is_ready() {
            *first = at + 1;
            return polled;
        }
    }
    Poll::Pending
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::MAILBOX_COMMITS_MAX;
    use crate::{Options, Origin, Put, Revision, Txn};
    use std::collections::BTreeMap;
    use std::task::Waker;

    async fn put(store: &Store, key: &str) -> Revision {
        let txn = Txn::put(Put::new(key, "x"));
        let done = store.commit(txn, Origin::default()).await;
        done.expect("an open store takes writes").revision
    }

    async fn delete(store: &Store, key: &str) -> Revision {
        let txn = Txn::delete(KeyRange::one(key));
        let done = store.commit(txn, Origin::default()).await;
        done.expect("an open store takes writes").revision
    }

    /// Returns the next item if it is ready.
    fn try_next(list_watch: &mut ListWatch) -> Poll<Option<ListWatchEvent>> {
        list_watch.poll_next(&mut Context::from_waker(Waker::noop()))
    }

    fn describe(event: ListWatchEvent, ranges: &[KeyRange]) -> Vec<String> {
        match event {
            ListWatchEvent::Resync(state) => {
                let entries = ranges.iter().flat_map(|range| state.entries(range));
                let keys = entries.map(|version| String::from_utf8_lossy(version.key()));
                vec![format!("state {}", keys.collect::<Vec<_>>().join(" "))]
            }
            ListWatchEvent::Changes(batch) => batch
                .events()
                .map(|event| {
                    let version = event.version();
                    let key = String::from_utf8_lossy(version.key());
                    let sign = if version.is_deletion() { '-' } else { '+' };
                    format!("{sign}{key}@{}", version.mod_revision())
                })
                .collect(),
        }
    }

    /// Reads until this number of lines has arrived.
    async fn read(list_watch: &mut ListWatch, count: usize) -> Vec<String> {
        let ranges = list_watch.ranges.clone();
        let mut lines = Vec::new();
        while lines.len() < count {
            let event = list_watch.next().await.expect("the store is open");
            lines.extend(describe(event, &ranges));
        }
        lines
    }

    #[tokio::test]
    async fn list_watch_hands_over_state_then_events_in_order() {
        let store = Store::open(Options::ephemeral()).unwrap();
        put(&store, "a/1").await;
        put(&store, "b/1").await;
        let mut list_watch = ListWatch::new(&store, [KeyRange::prefix("a/")]);
        assert_eq!(read(&mut list_watch, 1).await, ["state a/1"]);
        assert!(try_next(&mut list_watch).is_pending());
        let mut expected = Vec::new();
        for name in 2..20 {
            let key = format!("a/{name}");
            expected.push(format!("+{key}@{}", put(&store, &key).await));
            put(&store, "b/2").await;
        }
        expected.push(format!("-a/1@{}", delete(&store, "a/1").await));
        assert_eq!(read(&mut list_watch, expected.len()).await, expected);
    }

    #[tokio::test]
    async fn list_watch_sees_what_is_written_while_the_state_is_read() {
        let store = Store::open(Options::ephemeral()).unwrap();
        let mut list_watch = ListWatch::new(&store, [KeyRange::all()]);
        let before = put(&store, "before").await;
        let Some(ListWatchEvent::Resync(state)) = list_watch.next().await else {
            panic!("it begins with a state");
        };
        assert_eq!(state.revision(), before);
        let after = put(&store, "after").await;
        let expected = [format!("+after@{after}")];
        assert_eq!(read(&mut list_watch, 1).await, expected);
    }

    #[tokio::test]
    async fn list_watch_of_several_ranges_serves_each() {
        let store = Store::open(Options::ephemeral()).unwrap();
        let ranges = ["a/", "b/", "c/"].map(KeyRange::prefix);
        let mut list_watch = ListWatch::new(&store, ranges);
        read(&mut list_watch, 1).await;
        let mut expected = Vec::new();
        for key in ["c/1", "a/1", "d/1", "b/1", "c/2"] {
            expected.push(format!("+{key}@{}", put(&store, key).await));
        }
        expected.retain(|line| !line.contains('d'));
        let mut lines = read(&mut list_watch, 4).await;
        lines.sort();
        expected.sort();
        assert_eq!(lines, expected);
        assert!(try_next(&mut list_watch).is_pending());
    }

    #[tokio::test]
    async fn busy_range_does_not_keep_others_waiting() {
        let store = Store::open(Options::ephemeral()).unwrap();
        let ranges = ["a/", "b/"].map(KeyRange::prefix);
        let mut list_watch = ListWatch::new(&store, ranges);
        read(&mut list_watch, 1).await;
        put(&store, "a/1").await;
        let revision = put(&store, "b/1").await;
        read(&mut list_watch, 1).await;
        put(&store, "a/2").await;
        store.wait_dispatched(revision.next()).await;
        assert_eq!(read(&mut list_watch, 1).await, [format!("+b/1@{revision}")]);
    }

    /// Events that are compacted before they were read are replaced by a snapshot that includes
    /// them.
    #[tokio::test]
    async fn compaction_of_unread_events_begins_again_with_the_state() {
        let store = Store::open(Options::ephemeral()).unwrap();
        put(&store, "a").await;
        let mut list_watch = ListWatch::new(&store, [KeyRange::all()]);
        read(&mut list_watch, 1).await;
        // More than a mailbox holds for a slow reader.
        for _ in 0..MAILBOX_COMMITS_MAX + 10 {
            put(&store, "b").await;
        }
        let newest = delete(&store, "a").await;
        store.wait_dispatched(newest).await;
        store.compact(newest).await.unwrap();
        let kept = read(&mut list_watch, MAILBOX_COMMITS_MAX).await;
        assert!(kept.iter().all(|line| line.starts_with("+b@")), "{kept:?}");
        assert_eq!(read(&mut list_watch, 1).await, ["state b"]);
        let after = put(&store, "c").await;
        assert_eq!(
            read(&mut list_watch, 1).await,
            [format!("+c@{after}")],
            "what is in the state does not come again"
        );
    }

    /// A copy maintained by a list-watch equals the state of the store, however often events are
    /// lost.
    #[tokio::test]
    async fn copy_follows_the_store_through_compactions() {
        let store = Store::open(Options::ephemeral()).unwrap();
        let entropy = optik_platform::SeededEntropy::new(11);
        let mut list_watch = ListWatch::new(&store, [KeyRange::all()]);
        let mut copy: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        let mut resyncs = 0;
        for round in 0..60 {
            for _ in 0..entropy.below(MAILBOX_COMMITS_MAX as u64 * 2) {
                let key = format!("{}", entropy.below(20));
                if entropy.below(3) == 0 {
                    delete(&store, &key).await;
                } else {
                    put(&store, &key).await;
                }
            }
            let newest = store.snapshot().revision();
            store.wait_dispatched(newest).await;
            if round % 3 == 0 {
                let _ = store.compact(newest).await;
            }
            while let Poll::Ready(event) = try_next(&mut list_watch) {
                match event.expect("the store is open") {
                    ListWatchEvent::Resync(state) => {
                        resyncs += 1;
                        let entries = state.entries(&KeyRange::all());
                        let entries =
                            entries.map(|entry| (entry.key().to_vec(), entry.mod_revision().get()));
                        copy = entries.collect();
                    }
                    ListWatchEvent::Changes(batch) => {
                        for event in batch.events() {
                            let version = event.version();
                            let (key, revision) =
                                (version.key().to_vec(), version.mod_revision().get());
                            let known = match version.is_deletion() {
                                true => copy.remove(&key),
                                false => copy.insert(key, revision),
                            };
                            assert!(known.is_none_or(|known| known < revision));
                        }
                    }
                }
            }
            let state = store.snapshot();
            let entries = state.entries(&KeyRange::all());
            let stored: BTreeMap<Vec<u8>, u64> = entries
                .map(|entry| (entry.key().to_vec(), entry.mod_revision().get()))
                .collect();
            assert_eq!(copy, stored, "round {round}");
        }
        assert!(resyncs > 2, "events were lost {resyncs} times");
    }

    #[tokio::test]
    async fn list_watch_ends_when_the_store_stops() {
        let store = Store::open(Options::ephemeral()).unwrap();
        let mut list_watch = ListWatch::new(&store, ["a/", "b/"].map(KeyRange::prefix));
        read(&mut list_watch, 1).await;
        store.close().await;
        assert!(list_watch.next().await.is_none());
        assert!(list_watch.next().await.is_none());
    }

    #[tokio::test]
    async fn list_watch_wakes_for_an_event_of_any_range() {
        let store = Store::open(Options::ephemeral()).unwrap();
        let mut list_watch = ListWatch::new(&store, ["a/", "b/"].map(KeyRange::prefix));
        read(&mut list_watch, 1).await;
        for key in ["a/1", "b/1"] {
            let (lines, revision) = tokio::join!(read(&mut list_watch, 1), put(&store, key));
            assert_eq!(lines, [format!("+{key}@{revision}")]);
        }
    }
}
