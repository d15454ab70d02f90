//! The work queue: which keys are reconciled next. It has no clock and no tasks; callers pass the
//! time.

use crate::backoff::BackoffOptions;
use optik_platform::{Entropy, Monotonic};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// The result of reconciling a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<K> {
    /// Nothing remains to be done until something changes.
    Done,
    /// As `Done`, and enqueues these keys now.
    Enqueue(Vec<K>),
    /// Requeue for changes that no watch reports, such as time.
    RequeueAfter(Duration),
    /// Failed: requeue with backoff.
    Retry,
}

impl<K> Outcome<K> {
    /// Returns `Done` if `done`, otherwise `Retry`.
    #[must_use]
    pub fn done_if(done: bool) -> Self {
        match done {
            true => Self::Done,
            false => Self::Retry,
        }
    }
}

/// A work queue of distinct keys, each due now or later.
///
/// Ready keys are taken round-robin in key order, so that keys which are enqueued continuously
/// cannot starve others.
#[derive(Debug)]
pub struct WorkQueue<K> {
    ready: BTreeSet<K>,
    /// The key that was taken last.
    cursor: Option<K>,
    /// The delayed keys by time and by key. None of them is ready.
    delayed: BTreeSet<(Monotonic, K)>,
    due: BTreeMap<K, Monotonic>,
    /// Consecutive failures by key.
    failures: BTreeMap<K, u32>,
    backoff: BackoffOptions,
    entropy: Arc<dyn Entropy>,
}

impl<K: Clone + Ord> WorkQueue<K> {
    #[must_use]
    pub fn new(backoff: BackoffOptions, entropy: Arc<dyn Entropy>) -> Self {
        Self {
            ready: BTreeSet::new(),
            cursor: None,
            delayed: BTreeSet::new(),
            due: BTreeMap::new(),
            failures: BTreeMap::new(),
            backoff,
            entropy,
        }
    }

    /// Enqueues a key now, even if it was delayed.
    pub fn add(&mut self, key: K) {
        self.remove_delayed(&key);
        self.ready.insert(key);
    }

    /// Enqueues a key at `time`, unless it is queued for an earlier time.
    pub fn add_at(&mut self, key: K, time: Monotonic) {
        let is_earlier = self.due.get(&key).is_some_and(|due| *due <= time);
        if !is_earlier && !self.ready.contains(&key) {
            self.postpone(key, time);
        }
    }

    /// Enqueues a key at `time` and not before.
    pub fn postpone(&mut self, key: K, time: Monotonic) {
        self.ready.remove(&key);
        self.remove_delayed(&key);
        self.due.insert(key.clone(), time);
        self.delayed.insert((time, key));
    }

    fn remove_delayed(&mut self, key: &K) {
        if let Some((key, due)) = self.due.remove_entry(key) {
            self.delayed.remove(&(due, key));
        }
    }

    /// Removes a key.
    pub fn forget(&mut self, key: &K) {
        self.ready.remove(key);
        self.remove_delayed(key);
        self.failures.remove(key);
    }

    /// Removes every key.
    pub fn clear(&mut self) {
        self.ready.clear();
        self.delayed.clear();
        self.due.clear();
        self.failures.clear();
    }

    /// Takes up to `max` due keys. Each must be passed to [`WorkQueue::finish`].
    pub fn take(&mut self, max: usize, now: Monotonic) -> Vec<K> {
        self.promote_due(now);
        let mut keys = Vec::new();
        while keys.len() < max
            && let Some(key) = self.take_one()
        {
            keys.push(key);
        }
        keys
    }

    fn promote_due(&mut self, now: Monotonic) {
        while let Some((due, _)) = self.delayed.first()
            && *due <= now
            && let Some((_, key)) = self.delayed.pop_first()
        {
            self.due.remove(&key);
            self.ready.insert(key);
        }
    }

    fn take_one(&mut self) -> Option<K> {
        let cursor = self.cursor.take();
        let after = cursor.as_ref().and_then(|cursor| {
            let mut rest = self
                .ready
                .range((Bound::Excluded(cursor), Bound::Unbounded));
            rest.next().cloned()
        });
        let key = match after {
            Some(key) => self.ready.take(&key),
            None => self.ready.pop_first(),
        }?;
        self.cursor = Some(key.clone());
        Some(key)
    }

    /// Records the outcome of a taken key.
    pub fn finish(&mut self, key: K, outcome: Outcome<K>, now: Monotonic) {
        if outcome != Outcome::Retry {
            self.failures.remove(&key);
        }
        match outcome {
            Outcome::Done => {}
            Outcome::Enqueue(keys) => {
                for key in keys {
                    self.add(key);
                }
            }
            Outcome::RequeueAfter(wait) => self.add_at(key, now.plus(wait)),
            Outcome::Retry => {
                let failures = self.failures.entry(key.clone()).or_default();
                let wait = self.backoff.wait(*failures, &*self.entropy);
                *failures = failures.saturating_add(1);
                self.add_at(key, now.plus(wait));
            }
        }
    }

    /// Whether a key can be taken without waiting.
    #[must_use]
    pub fn is_ready(&self, now: Monotonic) -> bool {
        !self.ready.is_empty() || self.next_due().is_some_and(|due| due <= now)
    }

    /// Returns when the first delayed key is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Monotonic> {
        self.delayed.first().map(|(due, _)| *due)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.delayed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_platform::SeededEntropy;

    fn queue() -> WorkQueue<&'static str> {
        let entropy = Arc::new(SeededEntropy::new(3));
        WorkQueue::new(BackoffOptions::default(), entropy)
    }

    fn at(millis: u64) -> Monotonic {
        Monotonic::default().plus(Duration::from_millis(millis))
    }

    #[test]
    fn key_is_queued_once_however_often_it_is_added() {
        let mut queue = queue();
        for key in ["b", "a", "b"] {
            queue.add(key);
        }
        assert_eq!(queue.take(10, at(0)), ["a", "b"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn keys_that_come_again_do_not_starve_others() {
        let mut queue = queue();
        for key in ["a", "b", "c"] {
            queue.add(key);
        }
        let mut taken = Vec::new();
        for _ in 0..4 {
            let keys = queue.take(1, at(0));
            // The first key comes back at once, every time.
            queue.add("a");
            taken.extend(keys);
        }
        assert_eq!(taken, ["a", "b", "c", "a"]);
    }

    #[test]
    fn delayed_key_is_taken_when_due_at_the_earliest_time_asked_for() {
        let mut queue = queue();
        queue.add_at("a", at(50));
        queue.add_at("a", at(100));
        queue.add_at("b", at(80));
        queue.add_at("b", at(20));
        assert_eq!(queue.next_due(), Some(at(20)));
        assert!(queue.take(10, at(19)).is_empty());
        assert!(queue.is_ready(at(20)) && !queue.is_ready(at(19)));
        assert_eq!(queue.take(10, at(20)), ["b"]);
        assert_eq!(queue.take(10, at(50)), ["a"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn postponed_key_waits_for_the_last_time_asked_for() {
        let mut queue = queue();
        queue.add("a");
        queue.postpone("a", at(50));
        queue.postpone("a", at(100));
        assert!(queue.take(10, at(99)).is_empty());
        assert_eq!(queue.take(10, at(100)), ["a"]);
    }

    #[test]
    fn added_key_does_not_wait_for_its_backoff() {
        let mut queue = queue();
        queue.add("a");
        queue.take(1, at(0));
        queue.finish("a", Outcome::Retry, at(0));
        assert!(!queue.is_ready(at(0)));
        queue.add("a");
        queue.add_at("a", at(10));
        assert_eq!(queue.take(10, at(0)), ["a"]);
        assert_eq!(queue.next_due(), None);
    }

    #[test]
    fn each_key_backs_off_by_itself_until_it_is_done() {
        let mut queue = queue();
        let mut now = at(0);
        let mut waits = Vec::new();
        for _ in 0..8 {
            queue.finish("a", Outcome::Retry, now);
            let due = queue.next_due().expect("it is retried");
            waits.push(due.since(now));
            now = due;
            assert_eq!(queue.take(1, now), ["a"]);
        }
        let BackoffOptions { first, max } = BackoffOptions::default();
        for (failures, wait) in waits.iter().enumerate() {
            let longest = max.min(first * (1 << failures));
            assert!(*wait >= longest / 2 && *wait <= longest, "{waits:?}");
        }
        queue.finish("b", Outcome::Retry, now);
        assert!(queue.next_due().expect("b").since(now) <= first);
        queue.finish("a", Outcome::Done, now);
        queue.finish("a", Outcome::Retry, now);
        queue.take(1, at(1_000_000));
        assert_eq!(queue.failures["a"], 1, "it began again");
    }

    #[test]
    fn backoff_is_the_same_for_the_same_seed() {
        let waits = || {
            let mut queue = queue();
            let retry = |key| {
                queue.finish(key, Outcome::Retry, at(0));
                queue.next_due()
            };
            ["a", "b", "a", "c"].map(retry)
        };
        assert_eq!(waits(), waits());
    }

    #[test]
    fn outcome_says_when_a_key_comes_again() {
        let mut queue = queue();
        queue.finish(
            "a",
            Outcome::RequeueAfter(Duration::from_millis(500)),
            at(0),
        );
        queue.finish("b", Outcome::Enqueue(vec!["c"]), at(0));
        assert_eq!(queue.take(10, at(0)), ["c"]);
        assert_eq!(queue.take(10, at(500)), ["a"]);
    }

    #[test]
    fn forgotten_keys_leave_nothing() {
        let mut queue = queue();
        for key in ["a", "b", "c"] {
            queue.finish(key, Outcome::Retry, at(0));
        }
        queue.add("b");
        queue.forget(&"a");
        queue.forget(&"b");
        assert_eq!(queue.take(10, at(10_000)), ["c"]);
        assert_eq!(queue.failures.len(), 1);
        queue.add("d");
        queue.clear();
        assert!(queue.is_empty() && queue.failures.is_empty() && queue.due.is_empty());
    }
}
