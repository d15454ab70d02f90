//! Fair queue of compute jobs: round robin over users, bounded by weight.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Maximum total weight of the started requests. See `server::work_estimate`.
pub(super) const STARTED_WEIGHT_MAX: usize = 8 << 20;
/// Maximum total weight of one user's started requests: a user whose requests all wait for a slow
/// webhook leaves capacity to others. No request counts for more: its size is bounded elsewhere.
pub(super) const USER_WEIGHT_MAX: usize = STARTED_WEIGHT_MAX / 2;
/// How often others may pass a user for whose job there is not enough capacity.
const SKIPPED_MAX: u32 = 16;

/// Jobs in the order in which they are run: started ones first, so that they end and free capacity.
#[derive(Debug)]
pub(super) struct FairQueue<J> {
    ready: VecDeque<J>,
    users: BTreeMap<Arc<str>, UserQueue<J>>,
    /// Users with queued jobs, in round-robin order.
    round_robin: VecDeque<Arc<str>>,
    started_weight: usize,
    /// How many jobs were started since the first user was passed over for lack of capacity.
    skipped: u32,
    next_ticket: Ticket,
    stopped: bool,
}

/// Identifies a queued job.
pub(super) type Ticket = u64;

#[derive(Debug)]
struct UserQueue<J> {
    waiting: VecDeque<(Ticket, usize, J)>,
    started_weight: usize,
}

impl<J> UserQueue<J> {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.started_weight == 0
    }
}

/// Whether a user's next job can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StartCapacity {
    Available,
    /// Other users hold the capacity.
    PoolFull,
    /// The user is at the per-user limit.
    UserQuotaFull,
}

impl<J> Default for FairQueue<J> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            users: BTreeMap::new(),
            round_robin: VecDeque::new(),
            started_weight: 0,
            skipped: 0,
            next_ticket: 0,
            stopped: false,
        }
    }
}

impl<J> FairQueue<J> {
    /// Adds a new job to the queue of its user.
    pub(super) fn push(&mut self, user: &Arc<str>, weight: usize, job: J) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let queue = self.users.entry(Arc::clone(user)).or_insert(UserQueue {
            waiting: VecDeque::new(),
            started_weight: 0,
        });
        if queue.waiting.is_empty() {
            self.round_robin.push_back(Arc::clone(user));
        }
        queue.waiting.push_back((ticket, weight, job));
        ticket
    }

    /// Cancels a job. Returns it if it was not started.
    pub(super) fn cancel(&mut self, user: &str, ticket: Ticket) -> Option<J> {
        let queue = self.users.get_mut(user)?;
        let at = queue
            .waiting
            .binary_search_by_key(&ticket, |(ticket, ..)| *ticket);
        let (_, _, job) = queue.waiting.remove(at.ok()?)?;
        if queue.waiting.is_empty() {
            self.round_robin.retain(|turn| &**turn != user);
        }
        if queue.is_idle() {
            self.users.remove(user);
        }
        Some(job)
    }

    /// Adds a started job that can go on, or a job that starts without queueing.
    pub(super) fn push_runnable(&mut self, job: J) {
        self.ready.push_back(job);
    }

    /// Releases the capacity of a started job that ended.
    pub(super) fn finish(&mut self, user: &str, weight: usize) {
        self.started_weight = self.started_weight.saturating_sub(weight);
        if let Some(queue) = self.users.get_mut(user) {
            queue.started_weight = queue.started_weight.saturating_sub(weight);
            if queue.is_idle() {
                self.users.remove(user);
            }
        }
    }

    pub(super) fn next(&mut self) -> Option<J> {
        self.ready.pop_front().or_else(|| self.start_next())
    }

    /// Starts the first job of the first user for whom there is capacity. A user with a large job
    /// is passed over only a limited number of times, or small requests of others would starve it.
    fn start_next(&mut self) -> Option<J> {
        let mut passes = false;
        let mut found = None;
        for (at, user) in self.round_robin.iter().enumerate() {
            match self.capacity_for(user) {
                StartCapacity::Available => {
                    found = Some(at);
                    break;
                }
                StartCapacity::UserQuotaFull => {}
                StartCapacity::PoolFull if self.skipped >= SKIPPED_MAX => return None,
                StartCapacity::PoolFull => passes = true,
            }
        }
        let user = self.round_robin.remove(found?)?;
        self.skipped = if passes { self.skipped + 1 } else { 0 };
        let queue = self.users.get_mut(&user)?;
        let (_, weight, job) = queue.waiting.pop_front()?;
        queue.started_weight += weight;
        self.started_weight += weight;
        if !queue.waiting.is_empty() {
            self.round_robin.push_back(user);
        }
        Some(job)
    }

    /// If nothing is started, one job always can be, whatever its weight.
    fn capacity_for(&self, user: &str) -> StartCapacity {
        let fits = |begun: usize, weight: usize, max: usize| begun == 0 || begun + weight <= max;
        let queue = self.users.get(user);
        let Some((queue, (_, weight, _))) = queue.and_then(|it| Some((it, it.waiting.front()?)))
        else {
            return StartCapacity::UserQuotaFull;
        };
        if !fits(queue.started_weight, *weight, USER_WEIGHT_MAX) {
            return StartCapacity::UserQuotaFull;
        }
        match fits(self.started_weight, *weight, STARTED_WEIGHT_MAX) {
            true => StartCapacity::Available,
            false => StartCapacity::PoolFull,
        }
    }

    /// Stops the queue and returns the jobs that would have run.
    pub(super) fn stop(&mut self) -> Vec<J> {
        self.stopped = true;
        self.round_robin.clear();
        let users = std::mem::take(&mut self.users).into_values();
        let waiting = users.flat_map(|user| user.waiting).map(|(_, _, job)| job);
        waiting.chain(self.ready.drain(..)).collect()
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> Arc<str> {
        name.into()
    }

    #[test]
    fn fair_queue_serves_users_round_robin() {
        let mut queue = FairQueue::default();
        for job in ["a1", "a2", "a3"] {
            queue.push(&user("a"), 1, job);
        }
        queue.push(&user("b"), 1, "b1");
        let order: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(order, ["a1", "b1", "a2", "a3"]);
    }

    #[test]
    fn fair_queue_limits_the_weight_of_one_user() {
        let mut queue = FairQueue::default();
        for job in ["a1", "a2", "a3"] {
            queue.push(&user("a"), USER_WEIGHT_MAX / 2, job);
        }
        queue.push(&user("b"), USER_WEIGHT_MAX, "b1");
        let begun: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(begun, ["a1", "b1", "a2"]);
        // The capacity is used up, however small the next job is.
        queue.push(&user("c"), 1, "c1");
        assert_eq!(queue.next(), None);
        queue.finish("b", USER_WEIGHT_MAX);
        assert_eq!(queue.next(), Some("c1"));
        assert_eq!(queue.next(), None);
        queue.finish("a", USER_WEIGHT_MAX / 2);
        assert_eq!(queue.next(), Some("a3"));
    }

    #[test]
    fn fair_queue_runs_an_oversized_job_alone() {
        let mut queue = FairQueue::default();
        queue.push(&user("a"), 2 * STARTED_WEIGHT_MAX, "a1");
        queue.push(&user("b"), 1, "b1");
        assert_eq!(queue.next(), Some("a1"));
        assert_eq!(queue.next(), None);
        queue.finish("a", 2 * STARTED_WEIGHT_MAX);
        assert_eq!(queue.next(), Some("b1"));
    }

    #[test]
    fn fair_queue_prefers_started_jobs() {
        let mut queue = FairQueue::default();
        queue.push(&user("a"), 1, "a1");
        queue.push_runnable("begun");
        assert_eq!(queue.next(), Some("begun"));
    }

    #[test]
    fn fair_queue_does_not_starve_heavy_jobs() {
        let mut queue = FairQueue::default();
        queue.push(&user("a"), USER_WEIGHT_MAX, "a");
        queue.push(&user("b"), USER_WEIGHT_MAX - 1, "b");
        assert_eq!((queue.next(), queue.next()), (Some("a"), Some("b")));
        queue.push(&user("large"), USER_WEIGHT_MAX, "large");
        for _ in 0..SKIPPED_MAX {
            queue.push(&user("small"), 1, "small");
            assert_eq!(queue.next(), Some("small"));
            queue.finish("small", 1);
        }
        queue.push(&user("small"), 1, "small");
        assert_eq!(queue.next(), None, "the large one has waited long enough");
        queue.finish("a", USER_WEIGHT_MAX);
        assert_eq!(queue.next(), Some("large"));
        queue.finish("b", USER_WEIGHT_MAX - 1);
        assert_eq!(queue.next(), Some("small"));
    }

    #[test]
    fn fair_queue_forgets_cancelled_jobs() {
        let mut queue = FairQueue::default();
        let first = queue.push(&user("a"), 1, "a1");
        let second = queue.push(&user("a"), 1, "a2");
        assert_eq!(queue.cancel("a", first), Some("a1"));
        assert_eq!(queue.cancel("a", first), None);
        assert_eq!(queue.next(), Some("a2"));
        assert_eq!(queue.cancel("a", second), None, "it is begun");
        queue.finish("a", 1);
        let third = queue.push(&user("a"), 1, "a3");
        assert_eq!(queue.cancel("a", third), Some("a3"));
        assert!(queue.users.is_empty() && queue.round_robin.is_empty());
    }

    #[test]
    fn fair_queue_forgets_idle_users() {
        let mut queue = FairQueue::default();
        queue.push(&user("a"), 1, "a1");
        assert_eq!(queue.next(), Some("a1"));
        queue.finish("a", 1);
        assert!(queue.users.is_empty() && queue.round_robin.is_empty());
    }
}
