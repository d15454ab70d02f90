//! How many requests are carried out at a time, and whose turn it is.
//!
//! Reads and writes have a pool each. While a pool has room, a request takes a place and
//! goes on. When it is full, requests wait in a queue of their user, and places that
//! become free go round the users: whoever sends a thousand requests waits behind
//! themselves, not in front of others.

use crate::options::Limits;
use crate::retry::Refusals;
use optik_access::User;
use optik_platform::Monotonic;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// The pools of a server.
#[derive(Debug)]
pub(crate) struct Flow {
    reading: Arc<Pool>,
    writing: Arc<Pool>,
    refusals: Refusals,
}

/// Which pool a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Reading,
    Writing,
}

/// There is no room, and no room to wait either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Flow {
    pub(crate) fn new(limits: &Limits) -> Self {
        let pool = |places: usize| {
            Arc::new(Pool {
                places,
                queued_max: limits.requests_waiting_max,
                queued_per_user_max: limits.requests_waiting_per_user_max,
                wait_max: limits.wait_max,
                state: Mutex::default(),
            })
        };
        Self {
            reading: pool(limits.reads_max),
            writing: pool(limits.writes_max),
            refusals: Refusals::default(),
        }
    }

    /// In how many seconds somebody is to come again who finds no room now.
    pub(crate) fn come_again_after(&self, now: Monotonic) -> u64 {
        let second = now.since(Monotonic::default()).as_secs();
        self.refusals.one_more(second)
    }

    /// A place for a request, perhaps after a while. Administrators need none: they must
    /// be able to help.
    pub(crate) async fn enter(&self, lane: Lane, user: &User) -> Result<Option<Place>, Full> {
        let pool = match lane {
            Lane::Reading => &self.reading,
            Lane::Writing => &self.writing,
        };
        if pool.places == 0 || user.is_master() {
            return Ok(None);
        }
        pool.enter(&user.name).await.map(Some)
    }
}

#[derive(Debug)]
struct Pool {
    places: usize,
    queued_max: usize,
    queued_per_user_max: usize,
    wait_max: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    queued: usize,
    queues: BTreeMap<String, VecDeque<oneshot::Sender<Place>>>,
    /// Users with a queue, in the order of their turns.
    turns: VecDeque<String>,
}

/// A place in a pool, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Option<Arc<Pool>>);

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(pool) = self.0.take() {
            pool.hand_on();
        }
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn enter(self: &Arc<Self>, user: &str) -> Result<Place, Full> {
        let waiting = {
            let mut state = self.lock();
            if state.taken < self.places {
                state.taken += 1;
                return Ok(Place(Some(Arc::clone(self))));
            }
            self.queue(&mut state, user)?
        };
        match timeout(self.wait_max, waiting).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => Err(Full),
        }
    }

    fn queue(&self, state: &mut State, user: &str) -> Result<oneshot::Receiver<Place>, Full> {
        // Who has given up does not count.
        let own = state.queues.get_mut(user).map_or(0, |queue| {
            let before = queue.len();
            queue.retain(|waiter| !waiter.is_closed());
            state.queued -= before - queue.len();
            queue.len()
        });
        if own >= self.queued_per_user_max || state.queued >= self.queued_max {
            return Err(Full);
        }
        let (waiter, waiting) = oneshot::channel();
        let queue = state.queues.entry(user.to_owned()).or_default();
        if own == 0 && !state.turns.iter().any(|known| known == user) {
            state.turns.push_back(user.to_owned());
        }
        queue.push_back(waiter);
        state.queued += 1;
        Ok(waiting)
    }

    /// A place has become free: the next user's first request gets it.
    fn hand_on(self: Arc<Self>) {
        let mut place = Place(Some(Arc::clone(&self)));
        loop {
            let mut state = self.lock();
            let Some(waiter) = state.next() else {
                state.taken -= 1;
                // It has been given back already.
                place.0 = None;
                return;
            };
            drop(state);
            match waiter.send(place) {
                Ok(()) => return,
                // Whoever waited has given up.
                Err(returned) => place = returned,
            }
        }
    }
}

impl State {
    fn next(&mut self) -> Option<oneshot::Sender<Place>> {
        while let Some(user) = self.turns.pop_front() {
            let Some(queue) = self.queues.get_mut(&user) else {
                continue;
            };
            let first = queue.pop_front();
            if queue.is_empty() {
                self.queues.remove(&user);
            } else {
                self.turns.push_back(user);
            }
            if first.is_some() {
                self.queued -= 1;
                return first;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use futures::future::BoxFuture;

    fn user(name: &str) -> User {
        User {
            name: name.into(),
            ..User::default()
        }
    }

    fn flow() -> Arc<Flow> {
        Arc::new(Flow::new(&Limits {
            reads_max: 1,
            writes_max: 2,
            requests_waiting_max: 6,
            requests_waiting_per_user_max: 4,
            wait_max: Duration::from_secs(60),
            ..Limits::default()
        }))
    }

    type Waiting = BoxFuture<'static, Result<Option<Place>, Full>>;

    /// Comes in, and waits if there is no room.
    fn come(
        flow: &Arc<Flow>,
        lane: Lane,
        name: &'static str,
    ) -> (Waiting, Option<Result<Option<Place>, Full>>) {
        let flow = Arc::clone(flow);
        let mut waiting = async move { flow.enter(lane, &user(name)).await }.boxed();
        let now = (&mut waiting).now_or_never();
        (waiting, now)
    }

    #[tokio::test]
    async fn places_go_round_the_users() {
        let flow = flow();
        let (_, first) = come(&flow, Lane::Reading, "flood");
        let mut first = first.unwrap().unwrap();
        let mut floods: Vec<Waiting> = Vec::new();
        for _ in 0..4 {
            let (waiting, now) = come(&flow, Lane::Reading, "flood");
            assert!(now.is_none(), "there is no room");
            floods.push(waiting);
        }
        let (_, fifth) = come(&flow, Lane::Reading, "flood");
        assert_eq!(fifth.unwrap().unwrap_err(), Full, "its queue is full");
        let (mut kim, now) = come(&flow, Lane::Reading, "kim");
        assert!(now.is_none());
        let (_, writing) = come(&flow, Lane::Writing, "flood");
        assert!(writing.unwrap().is_ok(), "writes have room of their own");

        // One of the flood goes first: it was there first. Then it is kim's turn.
        first.take();
        let second = (&mut floods[0]).now_or_never().unwrap().unwrap();
        assert!((&mut kim).now_or_never().is_none());
        drop(second);
        let kims = (&mut kim).now_or_never().unwrap().unwrap();
        assert!((&mut floods[1]).now_or_never().is_none());
        // Who gives up is passed over.
        drop(floods.remove(1));
        drop(kims);
        assert!((&mut floods[1]).now_or_never().unwrap().is_ok());
    }

    #[tokio::test]
    async fn places_are_not_lost() {
        let flow = flow();
        for _ in 0..100 {
            let (_, one) = come(&flow, Lane::Writing, "a");
            let (_, two) = come(&flow, Lane::Writing, "b");
            let (three, now) = come(&flow, Lane::Writing, "c");
            assert!(one.unwrap().is_ok() && two.unwrap().is_ok() && now.is_none());
            drop(three);
        }
        assert_eq!(flow.writing.lock().taken, 0);
        let (_, many) = come(&flow, Lane::Writing, "a");
        assert!(many.unwrap().is_ok());
    }

    #[tokio::test]
    async fn administrators_need_no_place() {
        let flow = flow();
        let (_place, _) = come(&flow, Lane::Reading, "flood");
        let admin = user("admin").and_in(optik_access::MASTERS);
        assert!(flow.enter(Lane::Reading, &admin).await.unwrap().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever() {
        let flow = flow();
        let (_, _place) = come(&flow, Lane::Reading, "flood");
        let waited = flow.enter(Lane::Reading, &user("kim")).await;
        assert_eq!(waited.unwrap_err(), Full);
    }
}
