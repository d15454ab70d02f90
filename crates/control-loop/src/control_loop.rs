use crate::backoff::BackoffOptions;
use crate::work_queue::{Outcome, WorkQueue};
use optik_platform::{Monotonic, SystemEntropy};
use optik_store::{KeyRange, ListWatch, ListWatchEvent, Snapshot, Store, WatchBatch};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Number of event batches in a row after which a key is reconciled. Only an endless stream of
/// events reaches it: reconciliation uses all available events if possible.
const EVENTS_BEFORE_WORK_MAX: u32 = 1024;
/// Number of event batches in a row after which the loop yields to other tasks.
const EVENTS_BEFORE_YIELD: u32 = 16;

/// The next step of a controller.
#[derive(Debug)]
pub enum Step<K> {
    /// Discard the known state and start from this one. The queue is empty.
    Resync(Snapshot),
    /// Process these events.
    Changes(WatchBatch),
    /// Reconcile these keys, then call [`ControlLoop::finish`] for each.
    Work(Vec<K>),
}

/// A list-watch and a work queue.
///
/// Events take precedence over work: a key is reconciled after all events so far were processed.
#[derive(Debug)]
pub struct ControlLoop<K> {
    list_watch: ListWatch,
    queue: WorkQueue<K>,
    started: Instant,
    work_max: usize,
    batch_delay: Option<Duration>,
    /// Event batches since a key was reconciled.
    events_in_a_row: u32,
    /// Whether the loop must yield to other tasks.
    is_yield_due: bool,
    /// Whether an event arrived since the last batch delay.
    is_pause_due: bool,
}

impl<K: Clone + Ord> ControlLoop<K> {
    #[must_use]
    pub fn new(store: &Store, ranges: impl IntoIterator<Item = KeyRange>) -> Self {
        Self {
            list_watch: ListWatch::new(store, ranges),
            queue: WorkQueue::new(BackoffOptions::default(), Arc::new(SystemEntropy)),
            started: Instant::now(),
            work_max: 1,
            batch_delay: None,
            events_in_a_row: 0,
            is_yield_due: false,
            is_pause_due: false,
        }
    }

    /// Sets the backoff after failures.
    #[must_use]
    pub fn with_backoff(mut self, backoff: BackoffOptions) -> Self {
        self.queue = WorkQueue::new(backoff, Arc::new(SystemEntropy));
        self
    }

    /// Sets how many keys a step may hold, for a controller that reconciles them concurrently.
    #[must_use]
    pub fn with_work_max(mut self, keys: usize) -> Self {
        self.work_max = keys;
        self
    }

    /// Sets the delay after events that led to no work. Otherwise every write to a busy store wakes
    /// a controller that watches much more than it acts upon.
    #[must_use]
    pub fn with_batch_delay(mut self, delay: Duration) -> Self {
        self.batch_delay = Some(delay);
        self
    }

    /// Waits for the next step; `None` when the store has stopped. Cancel-safe.
    pub async fn next(&mut self) -> Option<Step<K>> {
        loop {
            if self.is_yield_due {
                tokio::task::yield_now().await;
                self.is_yield_due = false;
            }
            if let Poll::Ready(event) = self.poll_event().await {
                return Some(self.take_in(event?));
            }
            let keys = self.queue.take(self.work_max, self.now());
            if !keys.is_empty() {
                self.events_in_a_row = 0;
                // Work may be done without waiting for anything.
                self.is_yield_due = true;
                return Some(Step::Work(keys));
            }
            if std::mem::take(&mut self.events_in_a_row) >= EVENTS_BEFORE_WORK_MAX {
                // No key was due.
                continue;
            }
            if let Some(delay) = self.batch_delay.filter(|_| self.is_pause_due) {
                sleep(delay).await;
                self.is_pause_due = false;
                continue;
            }
            if let Some(event) = self.wait().await {
                return Some(self.take_in(event?));
            }
        }
    }

    /// Returns a pending event, unless a key must be reconciled first.
    async fn poll_event(&mut self) -> Poll<Option<ListWatchEvent>> {
        if self.events_in_a_row >= EVENTS_BEFORE_WORK_MAX {
            return Poll::Pending;
        }
        poll_fn(|cx| Poll::Ready(self.list_watch.poll_next(cx))).await
    }

    /// Waits for an event or for a key to be due; `None` if a key is due.
    async fn wait(&mut self) -> Option<Option<ListWatchEvent>> {
        let started = self.started;
        let due = self.queue.next_due();
        let due = async {
            match due {
                Some(due) => sleep_until(started + due.since(Monotonic::default())).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = self.list_watch.next() => Some(event),
            () = due => None,
        }
    }

    fn take_in(&mut self, event: ListWatchEvent) -> Step<K> {
        self.events_in_a_row += 1;
        self.is_yield_due = self.events_in_a_row.is_multiple_of(EVENTS_BEFORE_YIELD);
        match event {
            ListWatchEvent::Resync(state) => {
                self.queue.clear();
                Step::Resync(state)
            }
            ListWatchEvent::Changes(batch) => {
                self.is_pause_due = true;
                Step::Changes(batch)
            }
        }
    }

    fn now(&self) -> Monotonic {
        Monotonic::default().plus(self.started.elapsed())
    }

    /// Enqueues a key now.
    pub fn add(&mut self, key: K) {
        self.queue.add(key);
    }

    /// Enqueues a key after `delay`, unless it is queued for an earlier time.
    pub fn add_after(&mut self, key: K, delay: Duration) {
        let time = self.now().plus(delay);
        self.queue.add_at(key, time);
    }

    /// Enqueues a key when `delay` has passed since the last call for it.
    pub fn debounce(&mut self, key: K, delay: Duration) {
        let time = self.now().plus(delay);
        self.queue.postpone(key, time);
    }

    /// Removes a key from the queue.
    pub fn forget(&mut self, key: &K) {
        self.queue.forget(key);
    }

    /// Records the outcome of a key of [`Step::Work`].
    pub fn finish(&mut self, key: K, outcome: Outcome<K>) {
        let now = self.now();
        self.queue.finish(key, outcome, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_store::{Options, Origin, Put, Revision, Txn};
    use tokio::time::advance;

    fn store() -> Store {
        Store::open(Options::ephemeral()).expect("it is in memory")
    }

    async fn put(store: &Store, key: &str) -> Revision {
        let txn = Txn::put(Put::new(key, "x"));
        let done = store.commit(txn, Origin::default()).await;
        done.expect("an open store takes writes").revision
    }

    /// Puts, and waits until watches have it.
    async fn put_and_dispatch(store: &Store, key: &str) {
        let revision = put(store, key).await;
        store.wait_dispatched(revision).await;
    }

    fn follow(store: &Store) -> ControlLoop<String> {
        ControlLoop::new(store, [KeyRange::prefix("a/")])
    }

    /// The next step in a word; events and states put their keys into the queue.
    async fn step(control: &mut ControlLoop<String>) -> String {
        let name = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        match control.next().await {
            None => "end".into(),
            Some(Step::Resync(state)) => {
                for version in state.entries(&KeyRange::prefix("a/")) {
                    control.add(name(version.key()));
                }
                "state".into()
            }
            Some(Step::Changes(batch)) => {
                for event in batch.events() {
                    control.add(name(event.version().key()));
                }
                "events".into()
            }
            Some(Step::Work(keys)) => keys.join(" "),
        }
    }

    #[tokio::test]
    async fn control_loop_lists_watches_and_works() {
        let store = store();
        put(&store, "a/1").await;
        put(&store, "b/1").await;
        let mut control = follow(&store).with_work_max(8);
        assert_eq!(step(&mut control).await, "state");
        assert_eq!(step(&mut control).await, "a/1");
        control.finish("a/1".into(), Outcome::Done);
        put_and_dispatch(&store, "a/2").await;
        put_and_dispatch(&store, "b/2").await;
        put_and_dispatch(&store, "a/1").await;
        assert_eq!(step(&mut control).await, "events");
        assert_eq!(step(&mut control).await, "a/1 a/2");
        store.close().await;
        assert_eq!(step(&mut control).await, "end");
    }

    /// What is reconciled is judged by everything that had happened by then.
    #[tokio::test]
    async fn events_come_before_work() {
        let store = store();
        let mut control = follow(&store);
        assert_eq!(step(&mut control).await, "state");
        control.add("a/0".into());
        put_and_dispatch(&store, "a/1").await;
        assert_eq!(step(&mut control).await, "events");
        assert_eq!(step(&mut control).await, "a/0");
    }

    #[tokio::test]
    async fn endless_events_do_not_keep_work_waiting() {
        let store = store();
        let mut control = follow(&store);
        assert_eq!(step(&mut control).await, "state");
        for number in 0..EVENTS_BEFORE_WORK_MAX * 2 {
            control.add("a/0".into());
            put_and_dispatch(&store, "a/1").await;
            if step(&mut control).await == "a/0" {
                assert!(number > 1, "events come first");
                return;
            }
        }
        panic!("it never had its turn");
    }

    #[tokio::test(start_paused = true)]
    async fn key_that_fails_comes_again_after_its_backoff() {
        let store = store();
        let mut control = follow(&store);
        assert_eq!(step(&mut control).await, "state");
        let start = Instant::now();
        control.finish("a/1".into(), Outcome::Retry);
        assert_eq!(step(&mut control).await, "a/1");
        let BackoffOptions { first, .. } = BackoffOptions::default();
        let waited = start.elapsed();
        assert!(waited >= first / 2 && waited <= first * 2, "{waited:?}");
        control.add_after("a/2".into(), Duration::from_secs(60));
        assert_eq!(step(&mut control).await, "a/2");
        assert!(start.elapsed() >= Duration::from_secs(60));
    }

    #[tokio::test(start_paused = true)]
    async fn events_do_not_postpone_a_key_that_waits() {
        let store = store();
        let mut control = follow(&store);
        assert_eq!(step(&mut control).await, "state");
        control.add_after("a/9".into(), Duration::from_secs(1));
        for _ in 0..3 {
            put_and_dispatch(&store, "a/1").await;
            assert_eq!(step(&mut control).await, "events");
            assert_eq!(step(&mut control).await, "a/1");
            advance(Duration::from_millis(400)).await;
        }
        assert_eq!(step(&mut control).await, "a/9");
    }

    /// An event does not wait for a key that waits.
    #[tokio::test]
    async fn event_interrupts_the_wait_for_a_key() {
        let store = store();
        let mut control = follow(&store);
        assert_eq!(step(&mut control).await, "state");
        control.add_after("a/1".into(), Duration::from_secs(3600));
        let (seen, _) = tokio::join!(step(&mut control), put(&store, "a/2"));
        assert_eq!(seen, "events");
        assert_eq!(step(&mut control).await, "a/2");
    }

    #[tokio::test(start_paused = true)]
    async fn batch_delay_applies_only_after_events_without_work() {
        let delay = Duration::from_millis(10);
        let store = store();
        let mut control = follow(&store).with_batch_delay(delay);
        assert_eq!(step(&mut control).await, "state");
        put_and_dispatch(&store, "a/1").await;
        let start = Instant::now();
        assert_eq!(step(&mut control).await, "events");
        assert_eq!(step(&mut control).await, "a/1");
        assert_eq!(start.elapsed(), Duration::ZERO, "there was work");
        put_and_dispatch(&store, "a/1").await;
        assert!(matches!(control.next().await, Some(Step::Changes(_))));
        let start = Instant::now();
        control.add_after("a/2".into(), Duration::from_millis(1));
        assert_eq!(step(&mut control).await, "a/2");
        assert!(start.elapsed() >= delay, "there was none");
    }

    #[tokio::test]
    async fn resync_empties_the_queue() {
        let store = store();
        let mut control = follow(&store);
        control.add("a/stale".into());
        assert_eq!(step(&mut control).await, "state");
        put_and_dispatch(&store, "a/1").await;
        assert_eq!(step(&mut control).await, "events");
        assert_eq!(step(&mut control).await, "a/1");
    }
}
