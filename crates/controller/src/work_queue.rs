//! The work queue: decides which key is processed next. Counterpart of client-go's `workqueue`, but
//! a plain data structure: it has no clock, no tasks, and never blocks.
//!
//! A key is in one state at a time. Requests for a key that is being processed are remembered, and
//! decide its next state.
//!
//! ```text
//!            add                 take                    finish
//!   (none) ───────► Ready ─────────────► Processing ────────────────► (none)
//!      │              ▲                     │ requested meanwhile: Ready
//!      │ add_at       │ due                 │ After, Hold, Failed: Delayed
//!      └───────────► Delayed ◄──────────────┘
//! ```

use crate::backoff::doubled;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

/// A time, as the duration since an arbitrary start. The queue does not read a clock.
///
/// ```
/// # use optik_controller::MonotonicTime;
/// let a_minute_in: MonotonicTime = std::time::Duration::from_secs(60);
/// # let _ = a_minute_in;
/// ```
pub type MonotonicTime = Duration;

/// The priority of a key.
///
/// ```
/// # use optik_controller::QueuePriority;
/// assert!(QueuePriority::Normal > QueuePriority::Low);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueuePriority {
    /// The change was found by a list, and can wait for changes from a watch.
    Low,
    /// The change has just happened.
    #[default]
    Normal,
    /// A person waits for the result.
    High,
}

/// Options for the backoff of failing keys, and for fairness between priorities.
///
/// ```
/// # use optik_controller::WorkQueueOptions;
/// assert_eq!(WorkQueueOptions::default().fair_turns, 16);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkQueueOptions {
    /// The delay after the first failure. It doubles with each failure in a row.
    pub backoff_min: Duration,
    /// The maximum delay after a failure.
    pub backoff_max: Duration,
    /// After this many keys of higher priority, the oldest key of all is taken.
    pub fair_turns: u32,
}

impl Default for WorkQueueOptions {
    fn default() -> Self {
        Self {
            backoff_min: Duration::from_millis(5),
            backoff_max: Duration::from_secs(1000),
            fair_turns: 16,
        }
    }
}

/// The change that requests a key: the number of its source, and its revision.
///
/// ```
/// # use optik_controller::{ChangeId, QueuePriority, WorkQueue, WorkQueueOptions, RequeueDecision};
/// # use std::time::Duration;
/// # let now = Duration::ZERO;
/// let mut queue = WorkQueue::new(WorkQueueOptions::default());
/// queue.add("a", QueuePriority::Normal, None, now);
/// queue.take(now);
/// let own: ChangeId = (1, 42);
/// queue.add("a", QueuePriority::Normal, Some(own), now);
/// queue.finish(&"a", RequeueDecision::Done, &[own], now, 0.0);
/// assert_eq!(queue.take(now), None); // its own change does not requeue it
/// ```
pub type ChangeId = (u32, u64);

/// What happens to a key after it was processed.
///
/// ```
/// # use optik_controller::{QueuePriority, WorkQueue, WorkQueueOptions, RequeueDecision};
/// # use std::time::Duration;
/// # let now = Duration::ZERO;
/// let mut queue = WorkQueue::new(WorkQueueOptions::default());
/// queue.add("a", QueuePriority::Normal, None, now);
/// queue.take(now);
/// queue.finish(&"a", RequeueDecision::After(Duration::from_secs(60)), &[], now, 0.0);
/// assert_eq!(queue.take(now), None);
/// assert_eq!(queue.take(Duration::from_secs(60)), Some("a"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequeueDecision {
    /// The key is not requeued until it is requested again.
    Done,
    /// The key is requeued after this time, or when it is requested. This is not a failure.
    After(Duration),
    /// The key is requeued after this time and not earlier, even if it is requested.
    Hold(Duration),
    /// The key is requeued with a backoff that doubles with each failure in a row.
    Failed,
    /// The key is requeued immediately, as if it had not been taken.
    Abandoned,
}

/// A deduplicating work queue with priorities, delays, and a backoff for each key.
///
/// ```
/// # use optik_controller::{QueuePriority, WorkQueue, WorkQueueOptions, RequeueDecision};
/// # use std::time::Duration;
/// let mut queue = WorkQueue::new(WorkQueueOptions::default());
/// let now = Duration::ZERO;
/// queue.add("a", QueuePriority::Normal, None, now);
/// queue.add("a", QueuePriority::Normal, None, now);
/// assert_eq!(queue.take(now), Some("a"));
/// assert_eq!(queue.take(now), None); // one at a time
/// queue.finish(&"a", RequeueDecision::Done, &[], now, 0.0);
/// assert_eq!(queue.take(now), None);
/// ```
#[derive(Debug)]
pub struct WorkQueue<K> {
    options: WorkQueueOptions,
    states: BTreeMap<K, KeyState>,
    ready: BTreeMap<(Reverse<QueuePriority>, u64), K>,
    /// The ready keys by age alone.
    oldest: BTreeMap<u64, (QueuePriority, K)>,
    delayed: BTreeMap<(MonotonicTime, u64), K>,
    processing: usize,
    last_number: u64,
    /// The number of keys taken since the oldest one was.
    turns_since_oldest: u32,
}

#[derive(Debug)]
struct KeyState {
    phase: KeyPhase,
    failures: u32,
    /// When the key was requested, to measure its time in the queue.
    since: MonotonicTime,
}

#[derive(Debug)]
enum KeyPhase {
    Ready {
        priority: QueuePriority,
        number: u64,
    },
    Delayed {
        at: MonotonicTime,
        number: u64,
        /// A request does not shorten the delay.
        held: bool,
    },
    Processing {
        dirty: DirtyState,
    },
    /// Not queued; only the failure count is kept.
    Idle,
}

/// The requests for a key while it is processed.
#[derive(Debug)]
enum DirtyState {
    Clean,
    /// Requested by these changes, which may turn out to be its own writes.
    ByChanges(Vec<ChangeId>, QueuePriority),
    Unconditional(QueuePriority),
}

/// The maximum number of changes that are compared with a key's own. With more, the key is
/// requeued.
const CHANGE_IDS_MAX: usize = 64;

impl<K: Ord + Clone> WorkQueue<K> {
    /// Creates an empty queue.
    ///
    /// ```
    /// # use optik_controller::{WorkQueue, WorkQueueOptions};
    /// let queue: WorkQueue<&str> = WorkQueue::new(WorkQueueOptions::default());
    /// assert_eq!(queue.depth(), 0);
    /// ```
    #[must_use]
    pub fn new(options: WorkQueueOptions) -> Self {
        Self {
            options,
            states: BTreeMap::new(),
            ready: BTreeMap::new(),
            oldest: BTreeMap::new(),
            delayed: BTreeMap::new(),
            processing: 0,
            last_number: 0,
            turns_since_oldest: 0,
        }
    }

    /// Requests a key now.
    ///
    /// ```
    /// # use optik_controller::{QueuePriority, WorkQueue, WorkQueueOptions, RequeueDecision};
    /// # use std::time::Duration;
    /// let mut queue = WorkQueue::new(WorkQueueOptions::default());
    /// queue.add("a", QueuePriority::Normal, None, Duration::ZERO);
    /// assert_eq!(queue.depth(), 1);
    /// ```
    pub fn add(
        &mut self,
        key: K,
        priority: QueuePriority,
        cause: Option<ChangeId>,
        now: MonotonicTime,
    ) {
        let number = self.next_number();
        let Some(slot) = self.states.get_mut(&key) else {
            self.make_ready(key, priority, number, 0, now);
            return;
        };
        match &mut slot.phase {
            KeyPhase::Ready { priority: own, .. } if *own >= priority => {}
            KeyPhase::Ready {
                priority: own,
                number: own_number,
            } => {
                // The key keeps its age among the keys of its new priority.
                let number = *own_number;
                self.ready.remove(&(Reverse(*own), number));
                *own = priority;
                self.ready.insert((Reverse(priority), number), key.clone());
                self.oldest.insert(number, (priority, key));
            }
            KeyPhase::Processing { dirty: again } => again.add(cause, priority),
            KeyPhase::Delayed { held: true, .. } => {}
            KeyPhase::Delayed {
                at, number: old, ..
            } => {
                self.delayed.remove(&(*at, *old));
                let failures = slot.failures;
                self.make_ready(key, priority, number, failures, now);
            }
            KeyPhase::Idle => {
                let failures = slot.failures;
                self.make_ready(key, priority, number, failures, now);
            }
        }
    }

    /// Requests a key for a given time. A key that is due earlier keeps its time.
    ///
    /// ```
    /// # use optik_controller::{QueuePriority, WorkQueue, WorkQueueOptions, RequeueDecision};
    /// # use std::time::Duration;
    /// let mut queue = WorkQueue::new(WorkQueueOptions::default());
    /// queue.add_at("a", Duration::from_secs(5), Duration::ZERO);
    /// assert_eq!(queue.next_wake(), Some(Duration::from_secs(5)));
    /// ```
    pub fn add_at(&mut self, key: K, at: MonotonicTime, now: MonotonicTime) {
        let number = self.next_number();
        let failures = match self.states.get_mut(&key) {
            None => 0,
            Some(slot) => match &mut slot.phase {
                KeyPhase::Ready { .. }
                | KeyPhase::Processing { .. }
                | KeyPhase::Delayed { held: true, .. } => {
                    return;
                }
                KeyPhase::Delayed { at: own, .. } if *own <= at => return,
                KeyPhase::Delayed {
                    at: own, number, ..
                } => {
                    self.delayed.remove(&(*own, *number));
                    slot.failures
                }
                KeyPhase::Idle => slot.failures,
            },
        };
        self.make_delayed(key, at, number, failures, now, false);
    }

    /// Takes the next key that is ready. The key is not returned again until it is finished.
    ///
    /// ```
    /// # use optik_controller::{QueuePriority, WorkQueue, WorkQueueOptions, RequeueDecision};
    /// # use std::time::Duration;
    /// let mut queue = WorkQueue::new(WorkQueueOptions::default());
    /// queue.add("a", QueuePriority::Normal, None, Duration::ZERO);
    /// assert_eq!(queue.take(Duration::ZERO), Some("a"));
    /// ```
    pub fn take(&mut self, now: MonotonicTime) -> Option<K> {
        self.promote_due(now);
        let fair = self.turns_since_oldest >= self.options.fair_turns;
        let number = if fair {
            self.oldest
                .first_key_value()
                .map(|(number, (priority, _))| (Reverse(*priority), *number))
        } else {
            self.ready.first_key_value().map(|(place, _)| *place)
        }?;
        let (Reverse(priority), _) = number;
        let key = self.ready.remove(&number)?;
        self.oldest.remove(&number.1);
        let others_wait = self.ready.last_key_value();
        let lower_waits = others_wait.is_some_and(|((Reverse(last), _), _)| *last < priority);
        self.turns_since_oldest = if fair || !lower_waits {
            0
        } else {
            self.turns_since_oldest + 1
        };
        if let Some(slot) = self.states.get_mut(&key) {
            slot.phase = KeyPhase::Processing {
                dirty: DirtyState::Clean,
            };
        }
        self.processing += 1;
        Some(key)
    }

    /// Finishes a key that was taken. `own_changes` are the changes that its processing made: they
    /// do not requeue the key. `jitter` between 0 and 1 shortens the backoff, so that keys do not
    /// become ready all at once.
    ///
    /// ```
    /// # use optik_controller::{QueuePriority, WorkQueue, WorkQueueOptions, RequeueDecision};
    /// # use std::time::Duration;
    /// let mut queue = WorkQueue::new(WorkQueueOptions::default());
    /// queue.add("a", QueuePriority::Normal, None, Duration::ZERO);
    /// queue.take(Duration::ZERO);
    /// queue.finish(&"a", RequeueDecision::Failed, &[], Duration::ZERO, 0.0);
    /// assert_eq!(queue.failures(&"a"), 1);
    /// ```
    pub fn finish(
        &mut self,
        key: &K,
        decision: RequeueDecision,
        own_changes: &[ChangeId],
        now: MonotonicTime,
        jitter: f64,
    ) {
        let Some(slot) = self.states.get_mut(key) else {
            return;
        };
        let KeyPhase::Processing { dirty: again } =
            std::mem::replace(&mut slot.phase, KeyPhase::Idle)
        else {
            return;
        };
        self.processing -= 1;
        slot.failures = match decision {
            RequeueDecision::Failed => slot.failures.saturating_add(1),
            RequeueDecision::Done | RequeueDecision::After(_) | RequeueDecision::Hold(_) => 0,
            RequeueDecision::Abandoned => slot.failures,
        };
        let failures = slot.failures;
        let number = self.next_number();
        let asked = match decision {
            RequeueDecision::Abandoned => Some(again.priority().unwrap_or_default()),
            RequeueDecision::Hold(_) => None,
            _ => again.priority_unless_own(own_changes),
        };
        if let Some(priority) = asked {
            self.make_ready(key.clone(), priority, number, failures, now);
            return;
        }
        match decision {
            RequeueDecision::After(wait) | RequeueDecision::Hold(wait) => {
                let held = matches!(decision, RequeueDecision::Hold(_));
                self.make_delayed(key.clone(), now + wait, number, failures, now, held);
            }
            RequeueDecision::Failed => {
                let (min, max) = (self.options.backoff_min, self.options.backoff_max);
                let wait = doubled(min, failures - 1, max);
                let wait = wait.mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 2.0);
                self.make_delayed(key.clone(), now + wait, number, failures, now, false);
            }
            RequeueDecision::Done | RequeueDecision::Abandoned => {
                self.states.remove(key);
            }
        }
    }

    /// Removes a key and its failure count, unless it is being processed.
    ///
    /// ```
    /// # use optik_controller::{QueuePriority, WorkQueue, WorkQueueOptions, RequeueDecision};
    /// # use std::time::Duration;
    /// let mut queue = WorkQueue::new(WorkQueueOptions::default());
    /// queue.add("a", QueuePriority::Normal, None, Duration::ZERO);
    /// queue.forget(&"a");
    /// assert_eq!(queue.take(Duration::ZERO), None);
    /// ```
    pub fn forget(&mut self, key: &K) {
        let Some(slot) = self.states.get(key) else {
            return;
        };
        match slot.phase {
            KeyPhase::Processing { .. } => return,
            KeyPhase::Ready { priority, number } => {
                self.ready.remove(&(Reverse(priority), number));
                self.oldest.remove(&number);
            }
            KeyPhase::Delayed { at, number, .. } => {
                self.delayed.remove(&(at, number));
            }
            KeyPhase::Idle => {}
        }
        self.states.remove(key);
    }

    /// Returns when the next delayed key becomes ready.
    ///
    /// ```
    /// # use optik_controller::{QueuePriority, WorkQueue, WorkQueueOptions, RequeueDecision};
    /// # use std::time::Duration;
    /// let mut queue = WorkQueue::new(WorkQueueOptions::default());
    /// assert_eq!(queue.next_wake(), None);
    /// queue.add_at("a", Duration::from_secs(5), Duration::ZERO);
    /// assert_eq!(queue.next_wake(), Some(Duration::from_secs(5)));
    /// ```
    #[must_use]
    pub fn next_wake(&self) -> Option<MonotonicTime> {
        self.delayed.first_key_value().map(|((at, _), _)| *at)
    }

    /// The number of ready keys.
    ///
    /// ```
    /// # use optik_controller::{QueuePriority, WorkQueue, WorkQueueOptions, RequeueDecision};
    /// # use std::time::Duration;
    /// let mut queue = WorkQueue::new(WorkQueueOptions::default());
    /// queue.add("a", QueuePriority::Normal, None, Duration::ZERO);
    /// assert_eq!(queue.depth(), 1);
    /// ```
    #[must_use]
    pub fn depth(&self) -> usize {
        self.ready.len()
    }

    /// The number of delayed keys.
    ///
    /// ```
    /// # use optik_controller::{QueuePriority, WorkQueue, WorkQueueOptions, RequeueDecision};
    /// # use std::time::Duration;
    /// let mut queue = WorkQueue::new(WorkQueueOptions::default());
    /// queue.add_at("a", Duration::from_secs(5), Duration::ZERO);
    /// assert_eq!(queue.delayed(), 1);
    /// ```
    #[must_use]
    pub fn delayed(&self) -> usize {
        self.delayed.len()
    }

    /// The number of keys that are being processed.
    ///
    /// ```
    /// # use optik_controller::{QueuePriority, WorkQueue, WorkQueueOptions, RequeueDecision};
    /// # use std::time::Duration;
    /// let mut queue = WorkQueue::new(WorkQueueOptions::default());
    /// queue.add("a", QueuePriority::Normal, None, Duration::ZERO);
    /// queue.take(Duration::ZERO);
    /// assert_eq!(queue.processing(), 1);
    /// ```
    #[must_use]
    pub fn processing(&self) -> usize {
        self.processing
    }

    /// The number of failures of a key in a row.
    ///
    /// ```
    /// # use optik_controller::{QueuePriority, WorkQueue, WorkQueueOptions, RequeueDecision};
    /// # use std::time::Duration;
    /// let mut queue = WorkQueue::new(WorkQueueOptions::default());
    /// queue.add("a", QueuePriority::Normal, None, Duration::ZERO);
    /// queue.take(Duration::ZERO);
    /// queue.finish(&"a", RequeueDecision::Failed, &[], Duration::ZERO, 0.0);
    /// assert_eq!(queue.failures(&"a"), 1);
    /// ```
    pub fn failures(&self, key: &K) -> u32 {
        self.states.get(key).map_or(0, |slot| slot.failures)
    }

    /// Returns when a key was requested.
    ///
    /// ```
    /// # use optik_controller::{QueuePriority, WorkQueue, WorkQueueOptions, RequeueDecision};
    /// # use std::time::Duration;
    /// let mut queue = WorkQueue::new(WorkQueueOptions::default());
    /// queue.add("a", QueuePriority::Normal, None, Duration::ZERO);
    /// assert_eq!(queue.queued_since(&"a"), Some(Duration::ZERO));
    /// ```
    pub fn queued_since(&self, key: &K) -> Option<MonotonicTime> {
        self.states.get(key).map(|slot| slot.since)
    }

    fn promote_due(&mut self, now: MonotonicTime) {
        while let Some(((at, _), _)) = self.delayed.first_key_value()
            && *at <= now
            && let Some(((at, number), key)) = self.delayed.pop_first()
        {
            let failures = self.failures(&key);
            self.make_ready(key, QueuePriority::Normal, number, failures, at);
        }
    }

    fn make_ready(
        &mut self,
        key: K,
        priority: QueuePriority,
        number: u64,
        failures: u32,
        since: MonotonicTime,
    ) {
        self.ready.insert((Reverse(priority), number), key.clone());
        self.oldest.insert(number, (priority, key.clone()));
        let place = KeyPhase::Ready { priority, number };
        self.states.insert(
            key,
            KeyState {
                phase: place,
                failures,
                since,
            },
        );
    }

    fn make_delayed(
        &mut self,
        key: K,
        at: MonotonicTime,
        number: u64,
        failures: u32,
        since: MonotonicTime,
        held: bool,
    ) {
        self.delayed.insert((at, number), key.clone());
        let place = KeyPhase::Delayed { at, number, held };
        let slot = KeyState {
            phase: place,
            failures,
            since,
        };
        self.states.insert(key, slot);
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

impl DirtyState {
    fn add(&mut self, cause: Option<ChangeId>, priority: QueuePriority) {
        let priority = self.priority().map_or(priority, |own| own.max(priority));
        let causes =
            match std::mem::replace(self, Self::Clean) {
                Self::Clean => cause.map(|cause| vec![cause]),
                Self::ByChanges(mut causes, _) => cause
                    .filter(|_| causes.len() < CHANGE_IDS_MAX)
                    .map(|cause| {
                        causes.push(cause);
                        causes
                    }),
                Self::Unconditional(_) => None,
            };
        *self = match causes {
            Some(causes) => Self::ByChanges(causes, priority),
            None => Self::Unconditional(priority),
        };
    }

    fn priority(&self) -> Option<QueuePriority> {
        match self {
            Self::Clean => None,
            Self::ByChanges(_, priority) | Self::Unconditional(priority) => Some(*priority),
        }
    }

    /// The priority of the requests, or `None` if all of them are the key's own changes.
    fn priority_unless_own(&self, own: &[ChangeId]) -> Option<QueuePriority> {
        match self {
            Self::ByChanges(causes, _) if causes.iter().all(|cause| own.contains(cause)) => None,
            asked => asked.priority(),
        }
    }
}

#[cfg(test)]
mod tests;
