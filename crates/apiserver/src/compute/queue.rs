//! Who is next.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What the requests that are begun may weigh together. See `server::long`.
pub(super) const BEGUN_WEIGHT_MAX: usize = 8 << 20;
/// And those of one user: who waits for a slow webhook with all of it leaves some to others.
/// Nothing counts for more: how much one request may be is bounded elsewhere.
pub(super) const USER_WEIGHT_MAX: usize = BEGUN_WEIGHT_MAX / 2;
/// How often others may pass somebody for whom there is not enough room.
const PASSED_OVER_MAX: u32 = 16;

/// Jobs in the order in which they are to be run: those that are begun first, so that they
/// end and make room.
#[derive(Debug)]
pub(super) struct Queue<J> {
    ready: VecDeque<J>,
    users: BTreeMap<Arc<str>, User<J>>,
    /// Users with something that is not begun, in the order of their turns.
    turns: VecDeque<Arc<str>>,
    begun_weight: usize,
    /// How many were begun since the first user was passed over for want of room.
    passed_over: u32,
    next_ticket: Ticket,
    stopped: bool,
}

/// By which a waiting job is known.
pub(super) type Ticket = u64;

#[derive(Debug)]
struct User<J> {
    waiting: VecDeque<(Ticket, usize, J)>,
    begun_weight: usize,
}

impl<J> User<J> {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.begun_weight == 0
    }
}

/// Whether somebody's next job can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Enough,
    /// Others hold it.
    TooLittle,
    /// The user holds as much as one may.
    OwnShareIsTaken,
}

impl<J> Default for Queue<J> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            users: BTreeMap::new(),
            turns: VecDeque::new(),
            begun_weight: 0,
            passed_over: 0,
            next_ticket: 0,
            stopped: false,
        }
    }
}

impl<J> Queue<J> {
    /// Something new. It waits for its turn.
    pub(super) fn enter(&mut self, user: &Arc<str>, weight: usize, job: J) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let queue = self.users.entry(Arc::clone(user)).or_insert(User {
            waiting: VecDeque::new(),
            begun_weight: 0,
        });
        if queue.waiting.is_empty() {
            self.turns.push_back(Arc::clone(user));
        }
        queue.waiting.push_back((ticket, weight, job));
        ticket
    }

    /// Nobody waits for it any more. Nothing is left of it if it was not begun.
    pub(super) fn withdraw(&mut self, user: &str, ticket: Ticket) -> Option<J> {
        let queue = self.users.get_mut(user)?;
        let at = queue
            .waiting
            .binary_search_by_key(&ticket, |(ticket, ..)| *ticket);
        let (_, _, job) = queue.waiting.remove(at.ok()?)?;
        if queue.waiting.is_empty() {
            self.turns.retain(|turn| &**turn != user);
        }
        if queue.is_idle() {
            self.users.remove(user);
        }
        Some(job)
    }

    /// Something that is begun can go on; or what waits for nobody begins.
    pub(super) fn ready(&mut self, job: J) {
        self.ready.push_back(job);
    }

    /// Something that was begun is at its end.
    pub(super) fn leave(&mut self, user: &str, weight: usize) {
        self.begun_weight = self.begun_weight.saturating_sub(weight);
        if let Some(queue) = self.users.get_mut(user) {
            queue.begun_weight = queue.begun_weight.saturating_sub(weight);
            if queue.is_idle() {
                self.users.remove(user);
            }
        }
    }

    pub(super) fn next(&mut self) -> Option<J> {
        self.ready.pop_front().or_else(|| self.begin())
    }

    /// The first of the first user for whom there is room. Who needs much is passed over only
    /// so often, or small requests of others would keep them waiting for ever.
    fn begin(&mut self) -> Option<J> {
        let mut passes = false;
        let mut found = None;
        for (at, user) in self.turns.iter().enumerate() {
            match self.room_for(user) {
                Room::Enough => {
                    found = Some(at);
                    break;
                }
                Room::OwnShareIsTaken => {}
                Room::TooLittle if self.passed_over >= PASSED_OVER_MAX => return None,
                Room::TooLittle => passes = true,
            }
        }
        let user = self.turns.remove(found?)?;
        self.passed_over = if passes { self.passed_over + 1 } else { 0 };
        let queue = self.users.get_mut(&user)?;
        let (_, weight, job) = queue.waiting.pop_front()?;
        queue.begun_weight += weight;
        self.begun_weight += weight;
        if !queue.waiting.is_empty() {
            self.turns.push_back(user);
        }
        Some(job)
    }

    /// One is always begun, however much it weighs.
    fn room_for(&self, user: &str) -> Room {
        let fits = |begun: usize, weight: usize, max: usize| begun == 0 || begun + weight <= max;
        let queue = self.users.get(user);
        let Some((queue, (_, weight, _))) = queue.and_then(|it| Some((it, it.waiting.front()?)))
        else {
            return Room::OwnShareIsTaken;
        };
        if !fits(queue.begun_weight, *weight, USER_WEIGHT_MAX) {
            return Room::OwnShareIsTaken;
        }
        match fits(self.begun_weight, *weight, BEGUN_WEIGHT_MAX) {
            true => Room::Enough,
            false => Room::TooLittle,
        }
    }

    /// Nothing is run any more; what was to be is handed out.
    pub(super) fn stop(&mut self) -> Vec<J> {
        self.stopped = true;
        self.turns.clear();
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
    fn users_take_turns() {
        let mut queue = Queue::default();
        for job in ["a1", "a2", "a3"] {
            queue.enter(&user("a"), 1, job);
        }
        queue.enter(&user("b"), 1, "b1");
        let order: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(order, ["a1", "b1", "a2", "a3"]);
    }

    #[test]
    fn nobody_takes_all_the_room() {
        let mut queue = Queue::default();
        for job in ["a1", "a2", "a3"] {
            queue.enter(&user("a"), USER_WEIGHT_MAX / 2, job);
        }
        queue.enter(&user("b"), USER_WEIGHT_MAX, "b1");
        let begun: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(begun, ["a1", "b1", "a2"]);
        // Everybody's room is taken, however little somebody wants.
        queue.enter(&user("c"), 1, "c1");
        assert_eq!(queue.next(), None);
        queue.leave("b", USER_WEIGHT_MAX);
        assert_eq!(queue.next(), Some("c1"));
        assert_eq!(queue.next(), None);
        queue.leave("a", USER_WEIGHT_MAX / 2);
        assert_eq!(queue.next(), Some("a3"));
    }

    #[test]
    fn what_is_too_long_for_the_room_is_run_alone() {
        let mut queue = Queue::default();
        queue.enter(&user("a"), 2 * BEGUN_WEIGHT_MAX, "a1");
        queue.enter(&user("b"), 1, "b1");
        assert_eq!(queue.next(), Some("a1"));
        assert_eq!(queue.next(), None);
        queue.leave("a", 2 * BEGUN_WEIGHT_MAX);
        assert_eq!(queue.next(), Some("b1"));
    }

    #[test]
    fn what_is_begun_comes_first() {
        let mut queue = Queue::default();
        queue.enter(&user("a"), 1, "a1");
        queue.ready("begun");
        assert_eq!(queue.next(), Some("begun"));
    }

    #[test]
    fn who_needs_much_is_not_passed_over_for_ever() {
        let mut queue = Queue::default();
        queue.enter(&user("a"), USER_WEIGHT_MAX, "a");
        queue.enter(&user("b"), USER_WEIGHT_MAX - 1, "b");
        assert_eq!((queue.next(), queue.next()), (Some("a"), Some("b")));
        queue.enter(&user("large"), USER_WEIGHT_MAX, "large");
        for _ in 0..PASSED_OVER_MAX {
            queue.enter(&user("small"), 1, "small");
            assert_eq!(queue.next(), Some("small"));
            queue.leave("small", 1);
        }
        queue.enter(&user("small"), 1, "small");
        assert_eq!(queue.next(), None, "the large one has waited long enough");
        queue.leave("a", USER_WEIGHT_MAX);
        assert_eq!(queue.next(), Some("large"));
        queue.leave("b", USER_WEIGHT_MAX - 1);
        assert_eq!(queue.next(), Some("small"));
    }

    #[test]
    fn nothing_is_left_of_what_is_withdrawn() {
        let mut queue = Queue::default();
        let first = queue.enter(&user("a"), 1, "a1");
        let second = queue.enter(&user("a"), 1, "a2");
        assert_eq!(queue.withdraw("a", first), Some("a1"));
        assert_eq!(queue.withdraw("a", first), None);
        assert_eq!(queue.next(), Some("a2"));
        assert_eq!(queue.withdraw("a", second), None, "it is begun");
        queue.leave("a", 1);
        let third = queue.enter(&user("a"), 1, "a3");
        assert_eq!(queue.withdraw("a", third), Some("a3"));
        assert!(queue.users.is_empty() && queue.turns.is_empty());
    }

    #[test]
    fn nobody_is_remembered_who_has_nothing() {
        let mut queue = Queue::default();
        queue.enter(&user("a"), 1, "a1");
        assert_eq!(queue.next(), Some("a1"));
        queue.leave("a", 1);
        assert!(queue.users.is_empty() && queue.turns.is_empty());
    }
}
