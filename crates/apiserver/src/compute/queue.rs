//! Who is next.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What the requests that are begun may be long together. A tree takes many times as much.
pub(super) const BEGUN_BYTES_MAX: usize = 8 << 20;
/// And those of one user: who waits for a slow webhook with all of it leaves some to others.
pub(super) const USER_BYTES_MAX: usize = BEGUN_BYTES_MAX / 2;

/// Jobs in the order in which they are to be run: those that are begun first, so that they
/// end and make room.
#[derive(Debug)]
pub(super) struct Queue<J> {
    ready: VecDeque<J>,
    users: BTreeMap<Arc<str>, User<J>>,
    /// Users with something that is not begun, in the order of their turns.
    turns: VecDeque<Arc<str>>,
    begun_bytes: usize,
    stopped: bool,
}

#[derive(Debug)]
struct User<J> {
    waiting: VecDeque<(usize, J)>,
    begun_bytes: usize,
}

impl<J> Default for Queue<J> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            users: BTreeMap::new(),
            turns: VecDeque::new(),
            begun_bytes: 0,
            stopped: false,
        }
    }
}

impl<J> Queue<J> {
    /// Something new. It waits for its turn.
    pub(super) fn enter(&mut self, user: &Arc<str>, bytes: usize, job: J) {
        let queue = self.users.entry(Arc::clone(user)).or_insert(User {
            waiting: VecDeque::new(),
            begun_bytes: 0,
        });
        if queue.waiting.is_empty() {
            self.turns.push_back(Arc::clone(user));
        }
        queue.waiting.push_back((bytes, job));
    }

    /// Something that is begun can go on.
    pub(super) fn ready(&mut self, job: J) {
        self.ready.push_back(job);
    }

    /// Something that was begun is at its end.
    pub(super) fn leave(&mut self, user: &str, bytes: usize) {
        self.begun_bytes = self.begun_bytes.saturating_sub(bytes);
        if let Some(queue) = self.users.get_mut(user) {
            queue.begun_bytes = queue.begun_bytes.saturating_sub(bytes);
            if queue.waiting.is_empty() && queue.begun_bytes == 0 {
                self.users.remove(user);
            }
        }
    }

    pub(super) fn next(&mut self) -> Option<J> {
        self.ready.pop_front().or_else(|| self.begin())
    }

    /// The first of the first user for whom there is room.
    fn begin(&mut self) -> Option<J> {
        let at = (0..self.turns.len()).find(|&at| self.has_room(&self.turns[at]))?;
        let user = self.turns.remove(at)?;
        let queue = self.users.get_mut(&user)?;
        let (bytes, job) = queue.waiting.pop_front()?;
        queue.begun_bytes += bytes;
        self.begun_bytes += bytes;
        if !queue.waiting.is_empty() {
            self.turns.push_back(user);
        }
        Some(job)
    }

    /// One is always begun, however long it is.
    fn has_room(&self, user: &str) -> bool {
        let fits = |begun: usize, bytes: usize, max: usize| begun == 0 || begun + bytes <= max;
        self.users.get(user).is_some_and(|queue| {
            queue.waiting.front().is_some_and(|(bytes, _)| {
                fits(self.begun_bytes, *bytes, BEGUN_BYTES_MAX)
                    && fits(queue.begun_bytes, *bytes, USER_BYTES_MAX)
            })
        })
    }

    /// Nothing is run any more; what was to be is handed out.
    pub(super) fn stop(&mut self) -> Vec<J> {
        self.stopped = true;
        self.turns.clear();
        let users = std::mem::take(&mut self.users).into_values();
        let waiting = users.flat_map(|user| user.waiting).map(|(_, job)| job);
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
            queue.enter(&user("a"), USER_BYTES_MAX / 2, job);
        }
        queue.enter(&user("b"), USER_BYTES_MAX, "b1");
        let begun: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(begun, ["a1", "b1", "a2"]);
        // Everybody's room is taken, however little somebody wants.
        queue.enter(&user("c"), 1, "c1");
        assert_eq!(queue.next(), None);
        queue.leave("b", USER_BYTES_MAX);
        assert_eq!(queue.next(), Some("c1"));
        assert_eq!(queue.next(), None);
        queue.leave("a", USER_BYTES_MAX / 2);
        assert_eq!(queue.next(), Some("a3"));
    }

    #[test]
    fn what_is_too_long_for_the_room_is_run_alone() {
        let mut queue = Queue::default();
        queue.enter(&user("a"), 2 * BEGUN_BYTES_MAX, "a1");
        queue.enter(&user("b"), 1, "b1");
        assert_eq!(queue.next(), Some("a1"));
        assert_eq!(queue.next(), None);
        queue.leave("a", 2 * BEGUN_BYTES_MAX);
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
    fn nobody_is_remembered_who_has_nothing() {
        let mut queue = Queue::default();
        queue.enter(&user("a"), 1, "a1");
        assert_eq!(queue.next(), Some("a1"));
        queue.leave("a", 1);
        assert!(queue.users.is_empty() && queue.turns.is_empty());
    }
}
