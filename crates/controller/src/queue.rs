//! Which key is worked on next: no clock, no tasks, nothing to wait for.
//!
//! A key is in one place at a time. What comes in while it is worked on is remembered,
//! and decides where it goes afterwards.
//!
//! ```text
//!            add                 take                 finish
//!   (none) ───────► Ready ─────────────► Running ───────────────► (none)
//!      │              ▲                     │ told meanwhile: Ready
//!      │ add_later    │ time                │ After, Failed: Later
//!      └───────────► Later ◄────────────────┘
//! ```

use crate::backoff::doubled;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time since some beginning. The queue never asks what time it is.
///
/// ```
/// # use optik_controller::Moment;
/// let a_minute_in: Moment = std::time::Duration::from_secs(60);
/// # let _ = a_minute_in;
/// ```
pub type Moment = Duration;

/// What is worked on first.
///
/// ```
/// # use optik_controller::Priority;
/// assert!(Priority::Normal > Priority::Low);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// What was found by a list, and can wait for what just happened.
    Low,
    /// What just happened.
    #[default]
    Normal,
    /// What a person waits for.
    High,
}

/// How long failing keys wait, and how often waiting keys of lower priority get a turn.
///
/// ```
/// # use optik_controller::QueueOptions;
/// assert_eq!(QueueOptions::default().fair_turns, 16);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueueOptions {
    /// The wait after the first failure; it doubles.
    pub backoff_min: Duration,
    /// The longest wait after a failure.
    pub backoff_max: Duration,
    /// After so many turns of higher priority, the oldest key of all gets one.
    pub fair_turns: u32,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            backoff_min: Duration::from_millis(5),
            backoff_max: Duration::from_secs(1000),
            fair_turns: 16,
        }
    }
}

/// The change that asks for a key: the number of a source, and its revision.
///
/// ```
/// # use optik_controller::{Cause, Priority, Queue, QueueOptions, Verdict};
/// # use std::time::Duration;
/// # let now = Duration::ZERO;
/// let mut queue = Queue::new(QueueOptions::default());
/// queue.add("a", Priority::Normal, None, now);
/// queue.take(now);
/// let own: Cause = (1, 42);
/// queue.add("a", Priority::Normal, Some(own), now);
/// queue.finish(&"a", Verdict::Done, &[own], now, 0.0);
/// assert_eq!(queue.take(now), None); // its own change does not bring it back
/// ```
pub type Cause = (u32, u64);

/// What becomes of a key that was worked on.
///
/// ```
/// # use optik_controller::{Priority, Queue, QueueOptions, Verdict};
/// # use std::time::Duration;
/// # let now = Duration::ZERO;
/// let mut queue = Queue::new(QueueOptions::default());
/// queue.add("a", Priority::Normal, None, now);
/// queue.take(now);
/// queue.finish(&"a", Verdict::After(Duration::from_secs(60)), &[], now, 0.0);
/// assert_eq!(queue.take(now), None);
/// assert_eq!(queue.take(Duration::from_secs(60)), Some("a"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing, until somebody asks for it again.
    Done,
    /// Again after this time; it did not fail.
    After(Duration),
    /// Again after this time and not before, whoever asks for it.
    Hold(Duration),
    /// Again, later each time.
    Failed,
    /// Again at once, as if it had not been taken.
    Undone,
}

/// Keys that wait, keys that are worked on.
///
/// ```
/// # use optik_controller::{Priority, Queue, QueueOptions, Verdict};
/// # use std::time::Duration;
/// let mut queue = Queue::new(QueueOptions::default());
/// let now = Duration::ZERO;
/// queue.add("a", Priority::Normal, None, now);
/// queue.add("a", Priority::Normal, None, now);
/// assert_eq!(queue.take(now), Some("a"));
/// assert_eq!(queue.take(now), None); // one at a time
/// queue.finish(&"a", Verdict::Done, &[], now, 0.0);
/// assert_eq!(queue.take(now), None);
/// ```
#[derive(Debug)]
pub struct Queue<K> {
    options: QueueOptions,
    slots: BTreeMap<K, Slot>,
    ready: BTreeMap<(Reverse<Priority>, u64), K>,
    /// The ready ones by age alone.
    oldest: BTreeMap<u64, (Priority, K)>,
    later: BTreeMap<(Moment, u64), K>,
    running: usize,
    numbers: u64,
    /// Turns since the oldest had one.
    turns: u32,
}

#[derive(Debug)]
struct Slot {
    place: Place,
    failures: u32,
    /// When it was asked for, to know how long it waited.
    since: Moment,
}

#[derive(Debug)]
enum Place {
    Ready {
        priority: Priority,
        number: u64,
    },
    Later {
        at: Moment,
        number: u64,
        /// Nobody can have it sooner.
        held: bool,
    },
    Running {
        again: Again,
    },
    /// Only its failures are remembered.
    Out,
}

/// What was asked of a key while it was worked on.
#[derive(Debug)]
enum Again {
    No,
    /// By these changes, which may turn out to be its own.
    Causes(Vec<Cause>, Priority),
    Anyway(Priority),
}

/// More causes than this are not compared.
const CAUSES_MAX: usize = 64;

impl<K: Ord + Clone> Queue<K> {
    /// An empty queue.
    ///
    /// ```
    /// # use optik_controller::{Queue, QueueOptions};
    /// let queue: Queue<&str> = Queue::new(QueueOptions::default());
    /// assert_eq!(queue.depth(), 0);
    /// ```
    #[must_use]
    pub fn new(options: QueueOptions) -> Self {
        Self {
            options,
            slots: BTreeMap::new(),
            ready: BTreeMap::new(),
            oldest: BTreeMap::new(),
            later: BTreeMap::new(),
            running: 0,
            numbers: 0,
            turns: 0,
        }
    }

    /// Asks for a key, now.
    ///
    /// ```
    /// # use optik_controller::{Priority, Queue, QueueOptions, Verdict};
    /// # use std::time::Duration;
    /// let mut queue = Queue::new(QueueOptions::default());
    /// queue.add("a", Priority::Normal, None, Duration::ZERO);
    /// assert_eq!(queue.depth(), 1);
    /// ```
    pub fn add(&mut self, key: K, priority: Priority, cause: Option<Cause>, now: Moment) {
        let number = self.next_number();
        let Some(slot) = self.slots.get_mut(&key) else {
            self.make_ready(key, priority, number, 0, now);
            return;
        };
        match &mut slot.place {
            Place::Ready { priority: own, .. } if *own >= priority => {}
            Place::Ready {
                priority: own,
                number: own_number,
            } => {
                // It keeps its turn among those that it now belongs to.
                let number = *own_number;
                self.ready.remove(&(Reverse(*own), number));
                *own = priority;
                self.ready.insert((Reverse(priority), number), key.clone());
                self.oldest.insert(number, (priority, key));
            }
            Place::Running { again } => again.add(cause, priority),
            Place::Later { held: true, .. } => {}
            Place::Later {
                at, number: old, ..
            } => {
                self.later.remove(&(*at, *old));
                let failures = slot.failures;
                self.make_ready(key, priority, number, failures, now);
            }
            Place::Out => {
                let failures = slot.failures;
                self.make_ready(key, priority, number, failures, now);
            }
        }
    }

    /// Asks for a key at a time. One that is asked for sooner stays where it is.
    ///
    /// ```
    /// # use optik_controller::{Priority, Queue, QueueOptions, Verdict};
    /// # use std::time::Duration;
    /// let mut queue = Queue::new(QueueOptions::default());
    /// queue.add_at("a", Duration::from_secs(5), Duration::ZERO);
    /// assert_eq!(queue.next_wake(), Some(Duration::from_secs(5)));
    /// ```
    pub fn add_at(&mut self, key: K, at: Moment, now: Moment) {
        let number = self.next_number();
        let failures = match self.slots.get_mut(&key) {
            None => 0,
            Some(slot) => match &mut slot.place {
                Place::Ready { .. } | Place::Running { .. } | Place::Later { held: true, .. } => {
                    return;
                }
                Place::Later { at: own, .. } if *own <= at => return,
                Place::Later {
                    at: own, number, ..
                } => {
                    self.later.remove(&(*own, *number));
                    slot.failures
                }
                Place::Out => slot.failures,
            },
        };
        self.make_later(key, at, number, failures, now, false);
    }

    /// The next key, if one may be worked on. It is nobody else's until it is finished.
    ///
    /// ```
    /// # use optik_controller::{Priority, Queue, QueueOptions, Verdict};
    /// # use std::time::Duration;
    /// let mut queue = Queue::new(QueueOptions::default());
    /// queue.add("a", Priority::Normal, None, Duration::ZERO);
    /// assert_eq!(queue.take(Duration::ZERO), Some("a"));
    /// ```
    pub fn take(&mut self, now: Moment) -> Option<K> {
        self.wake(now);
        let fair = self.turns >= self.options.fair_turns;
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
        self.turns = if fair || !lower_waits {
            0
        } else {
            self.turns + 1
        };
        if let Some(slot) = self.slots.get_mut(&key) {
            slot.place = Place::Running { again: Again::No };
        }
        self.running += 1;
        Some(key)
    }

    /// A key has been worked on. `own` are the changes it made itself: they do not bring
    /// it back. `chance` between 0 and 1 spreads what would otherwise come at once.
    ///
    /// ```
    /// # use optik_controller::{Priority, Queue, QueueOptions, Verdict};
    /// # use std::time::Duration;
    /// let mut queue = Queue::new(QueueOptions::default());
    /// queue.add("a", Priority::Normal, None, Duration::ZERO);
    /// queue.take(Duration::ZERO);
    /// queue.finish(&"a", Verdict::Failed, &[], Duration::ZERO, 0.0);
    /// assert_eq!(queue.failures(&"a"), 1);
    /// ```
    pub fn finish(&mut self, key: &K, verdict: Verdict, own: &[Cause], now: Moment, chance: f64) {
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        let Place::Running { again } = std::mem::replace(&mut slot.place, Place::Out) else {
            return;
        };
        self.running -= 1;
        slot.failures = match verdict {
            Verdict::Failed => slot.failures.saturating_add(1),
            Verdict::Done | Verdict::After(_) | Verdict::Hold(_) => 0,
            Verdict::Undone => slot.failures,
        };
        let failures = slot.failures;
        let number = self.next_number();
        let asked = match verdict {
            Verdict::Undone => Some(again.priority().unwrap_or_default()),
            Verdict::Hold(_) => None,
            _ => again.unless_only(own),
        };
        if let Some(priority) = asked {
            self.make_ready(key.clone(), priority, number, failures, now);
            return;
        }
        match verdict {
            Verdict::After(wait) | Verdict::Hold(wait) => {
                let held = matches!(verdict, Verdict::Hold(_));
                self.make_later(key.clone(), now + wait, number, failures, now, held);
            }
            Verdict::Failed => {
                let (min, max) = (self.options.backoff_min, self.options.backoff_max);
                let wait = doubled(min, failures - 1, max);
                let wait = wait.mul_f64(1.0 - chance.clamp(0.0, 1.0) / 2.0);
                self.make_later(key.clone(), now + wait, number, failures, now, false);
            }
            Verdict::Done | Verdict::Undone => {
                self.slots.remove(key);
            }
        }
    }

    /// Forgets a key and its failures, unless it is worked on.
    ///
    /// ```
    /// # use optik_controller::{Priority, Queue, QueueOptions, Verdict};
    /// # use std::time::Duration;
    /// let mut queue = Queue::new(QueueOptions::default());
    /// queue.add("a", Priority::Normal, None, Duration::ZERO);
    /// queue.forget(&"a");
    /// assert_eq!(queue.take(Duration::ZERO), None);
    /// ```
    pub fn forget(&mut self, key: &K) {
        let Some(slot) = self.slots.get(key) else {
            return;
        };
        match slot.place {
            Place::Running { .. } => return,
            Place::Ready { priority, number } => {
                self.ready.remove(&(Reverse(priority), number));
                self.oldest.remove(&number);
            }
            Place::Later { at, number, .. } => {
                self.later.remove(&(at, number));
            }
            Place::Out => {}
        }
        self.slots.remove(key);
    }

    /// When there will be something to take that cannot be taken now.
    ///
    /// ```
    /// # use optik_controller::{Priority, Queue, QueueOptions, Verdict};
    /// # use std::time::Duration;
    /// let mut queue = Queue::new(QueueOptions::default());
    /// assert_eq!(queue.next_wake(), None);
    /// queue.add_at("a", Duration::from_secs(5), Duration::ZERO);
    /// assert_eq!(queue.next_wake(), Some(Duration::from_secs(5)));
    /// ```
    #[must_use]
    pub fn next_wake(&self) -> Option<Moment> {
        self.later.first_key_value().map(|((at, _), _)| *at)
    }

    /// How many wait for a turn.
    ///
    /// ```
    /// # use optik_controller::{Priority, Queue, QueueOptions, Verdict};
    /// # use std::time::Duration;
    /// let mut queue = Queue::new(QueueOptions::default());
    /// queue.add("a", Priority::Normal, None, Duration::ZERO);
    /// assert_eq!(queue.depth(), 1);
    /// ```
    #[must_use]
    pub fn depth(&self) -> usize {
        self.ready.len()
    }

    /// How many wait for a time.
    ///
    /// ```
    /// # use optik_controller::{Priority, Queue, QueueOptions, Verdict};
    /// # use std::time::Duration;
    /// let mut queue = Queue::new(QueueOptions::default());
    /// queue.add_at("a", Duration::from_secs(5), Duration::ZERO);
    /// assert_eq!(queue.delayed(), 1);
    /// ```
    #[must_use]
    pub fn delayed(&self) -> usize {
        self.later.len()
    }

    /// How many are worked on.
    ///
    /// ```
    /// # use optik_controller::{Priority, Queue, QueueOptions, Verdict};
    /// # use std::time::Duration;
    /// let mut queue = Queue::new(QueueOptions::default());
    /// queue.add("a", Priority::Normal, None, Duration::ZERO);
    /// queue.take(Duration::ZERO);
    /// assert_eq!(queue.running(), 1);
    /// ```
    #[must_use]
    pub fn running(&self) -> usize {
        self.running
    }

    /// How often a key has failed in a row.
    ///
    /// ```
    /// # use optik_controller::{Priority, Queue, QueueOptions, Verdict};
    /// # use std::time::Duration;
    /// let mut queue = Queue::new(QueueOptions::default());
    /// queue.add("a", Priority::Normal, None, Duration::ZERO);
    /// queue.take(Duration::ZERO);
    /// queue.finish(&"a", Verdict::Failed, &[], Duration::ZERO, 0.0);
    /// assert_eq!(queue.failures(&"a"), 1);
    /// ```
    pub fn failures(&self, key: &K) -> u32 {
        self.slots.get(key).map_or(0, |slot| slot.failures)
    }

    /// Since when a key has been asked for.
    ///
    /// ```
    /// # use optik_controller::{Priority, Queue, QueueOptions, Verdict};
    /// # use std::time::Duration;
    /// let mut queue = Queue::new(QueueOptions::default());
    /// queue.add("a", Priority::Normal, None, Duration::ZERO);
    /// assert_eq!(queue.since(&"a"), Some(Duration::ZERO));
    /// ```
    pub fn since(&self, key: &K) -> Option<Moment> {
        self.slots.get(key).map(|slot| slot.since)
    }

    fn wake(&mut self, now: Moment) {
        while let Some(((at, _), _)) = self.later.first_key_value()
            && *at <= now
            && let Some(((at, number), key)) = self.later.pop_first()
        {
            let failures = self.failures(&key);
            self.make_ready(key, Priority::Normal, number, failures, at);
        }
    }

    fn make_ready(
        &mut self,
        key: K,
        priority: Priority,
        number: u64,
        failures: u32,
        since: Moment,
    ) {
        self.ready.insert((Reverse(priority), number), key.clone());
        self.oldest.insert(number, (priority, key.clone()));
        let place = Place::Ready { priority, number };
        self.slots.insert(
            key,
            Slot {
                place,
                failures,
                since,
            },
        );
    }

    fn make_later(
        &mut self,
        key: K,
        at: Moment,
        number: u64,
        failures: u32,
        since: Moment,
        held: bool,
    ) {
        self.later.insert((at, number), key.clone());
        let place = Place::Later { at, number, held };
        let slot = Slot {
            place,
            failures,
            since,
        };
        self.slots.insert(key, slot);
    }

    fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }
}

impl Again {
    fn add(&mut self, cause: Option<Cause>, priority: Priority) {
        let priority = self.priority().map_or(priority, |own| own.max(priority));
        let causes = match std::mem::replace(self, Self::No) {
            Self::No => cause.map(|cause| vec![cause]),
            Self::Causes(mut causes, _) => {
                cause.filter(|_| causes.len() < CAUSES_MAX).map(|cause| {
                    causes.push(cause);
                    causes
                })
            }
            Self::Anyway(_) => None,
        };
        *self = match causes {
            Some(causes) => Self::Causes(causes, priority),
            None => Self::Anyway(priority),
        };
    }

    fn priority(&self) -> Option<Priority> {
        match self {
            Self::No => None,
            Self::Causes(_, priority) | Self::Anyway(priority) => Some(*priority),
        }
    }

    /// With what priority it was asked for by others.
    fn unless_only(&self, own: &[Cause]) -> Option<Priority> {
        match self {
            Self::Causes(causes, _) if causes.iter().all(|cause| own.contains(cause)) => None,
            asked => asked.priority(),
        }
    }
}

#[cfg(test)]
mod tests;
