//! How many requests are carried out at a time, and whose turn it is.
//!
//! Reads and writes have a pool each. While a pool has room, a request takes a place and
//! goes on. When it is full, requests wait in a queue of their user, and places that
//! become free go round the users: whoever sends a thousand requests waits behind
//! themselves, not in front of others. Nor can one user hold all places, as by answers that
//! are not read.

use crate::options::Limits;
use crate::retry::Refusals;
use optik_access::User;
use optik_platform::Monotonic;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How many times as many places as are free a user may have.
const SHARE_OF_FREE: usize = 3;
/// Beyond this many, users who have no place are forgotten.
const IDLE_USERS_MAX: usize = 1024;

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

    /// A place for a request, if there is room. Administrators need none: they must be able
    /// to help.
    pub(crate) fn at_once(&self, lane: Lane, user: &User) -> Result<Option<Place>, Full> {
        match self.pool(lane, user) {
            None => Ok(None),
            Some(pool) => pool.at_once(&user.name).map(Some).ok_or(Full),
        }
    }

    /// The same, perhaps after a while.
    pub(crate) async fn enter(&self, lane: Lane, user: &User) -> Result<Option<Place>, Full> {
        match self.pool(lane, user) {
            None => Ok(None),
            Some(pool) => pool.enter(&user.name).await.map(Some),
        }
    }

    fn pool(&self, lane: Lane, user: &User) -> Option<&Arc<Pool>> {
        let pool = match lane {
            Lane::Reading => &self.reading,
            Lane::Writing => &self.writing,
        };
        Some(pool).filter(|pool| pool.places > 0 && !user.is_master())
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
    /// How many each user has taken; zero for some who had one.
    own: BTreeMap<Arc<str>, usize>,
    queued: usize,
    queues: BTreeMap<Arc<str>, VecDeque<oneshot::Sender<Place>>>,
    /// Users with a queue, in the order of their turns.
    turns: VecDeque<Arc<str>>,
}

/// A place in a pool, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Option<Taken>);

/// By whom, and of what.
#[derive(Debug)]
struct Taken {
    pool: Arc<Pool>,
    user: Arc<str>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(Taken { pool, user }) = self.0.take() {
            pool.release(&user);
        }
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at_once(self: &Arc<Self>, user: &str) -> Option<Place> {
        let mut state = self.lock();
        self.take(&mut state, user)
    }

    fn take(self: &Arc<Self>, state: &mut State, user: &str) -> Option<Place> {
        let room = self.has_room_for(state, user);
        room.then(|| self.place(state.take(user)))
    }

    async fn enter(self: &Arc<Self>, user: &str) -> Result<Place, Full> {
        let waiting = {
            let mut state = self.lock();
            if let Some(place) = self.take(&mut state, user) {
                return Ok(place);
            }
            self.queue(&mut state, user)?
        };
        match timeout(self.wait_max, waiting).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => Err(Full),
        }
    }

    /// Whether a user may have another place: so many times what is free, and no more.
    ///
    /// So nobody takes all places: one user leaves a quarter, two leave a seventh. Whoever
    /// comes next finds room, for as long as those before them hold what they have.
    fn has_room_for(&self, state: &State, user: &str) -> bool {
        let own = state.own.get(user).copied().unwrap_or(0);
        own < (self.places - state.taken).saturating_mul(SHARE_OF_FREE)
    }

    fn place(self: &Arc<Self>, user: Arc<str>) -> Place {
        let pool = Arc::clone(self);
        Place(Some(Taken { pool, user }))
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
        let user: Arc<str> = user.into();
        if own == 0 && !state.turns.contains(&user) {
            state.turns.push_back(Arc::clone(&user));
        }
        state.queues.entry(user).or_default().push_back(waiter);
        state.queued += 1;
        Ok(waiting)
    }

    /// A place has become free: it goes to the next user's first request.
    fn release(self: Arc<Self>, user: &Arc<str>) {
        self.lock().give_back(user);
        loop {
            let (waiter, place) = {
                let mut state = self.lock();
                let Some((user, waiter)) = self.next(&mut state) else {
                    return;
                };
                (waiter, self.place(state.take(&user)))
            };
            if let Err(mut returned) = waiter.send(place) {
                // Whoever waited has given up: the next one, without another release.
                if let Some(taken) = returned.0.take() {
                    self.lock().give_back(&taken.user);
                }
            }
        }
    }

    /// The first in turn who may have a place.
    fn next(&self, state: &mut State) -> Option<(Arc<str>, oneshot::Sender<Place>)> {
        loop {
            let mut turns = 0..state.turns.len();
            let at = turns.find(|at| self.has_room_for(state, &state.turns[*at]))?;
            let user = state.turns.remove(at)?;
            let queue = state.queues.entry(Arc::clone(&user)).or_default();
            let first = queue.pop_front();
            if queue.is_empty() {
                state.queues.remove(&user);
            } else {
                state.turns.push_back(Arc::clone(&user));
            }
            // An empty queue, should one be left behind, must not keep others waiting.
            if let Some(first) = first {
                state.queued -= 1;
                return Some((user, first));
            }
        }
    }
}

impl State {
    fn take(&mut self, user: &str) -> Arc<str> {
        self.taken += 1;
        let known = self
            .own
            .get_key_value(user)
            .map(|(name, _)| Arc::clone(name));
        let name = known.unwrap_or_else(|| {
            if self.own.len() >= IDLE_USERS_MAX {
                self.own.retain(|_, own| *own > 0);
            }
            user.into()
        });
        *self.own.entry(Arc::clone(&name)).or_default() += 1;
        name
    }

    fn give_back(&mut self, user: &str) {
        self.taken -= 1;
        if let Some(own) = self.own.get_mut(user) {
            *own -= 1;
        }
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

    /// Each leaves something to whoever comes next, and has it again when others go.
    #[tokio::test]
    async fn nobody_holds_all_places() {
        let flow = Arc::new(Flow::new(&Limits {
            reads_max: 400,
            ..Limits::default()
        }));
        let fill = |name: &'static str| {
            let mut held = Vec::new();
            while let (_, Some(place)) = come(&flow, Lane::Reading, name) {
                held.push(place.unwrap().unwrap());
            }
            held
        };
        let first = fill("first");
        assert_eq!(first.len(), 300);
        let second = fill("second");
        assert_eq!(second.len(), 75);
        let third = fill("third");
        assert_eq!(third.len(), 19);
        let (mut waiting, now) = come(&flow, Lane::Reading, "first");
        assert!(now.is_none());
        drop(third);
        assert!((&mut waiting).now_or_never().is_none(), "it has its share");
        drop(second);
        let more = (&mut waiting).now_or_never();
        assert!(more.is_none(), "three times as much as is free");
        drop(first);
        assert!(waiting.now_or_never().unwrap().is_ok());
        assert_eq!(flow.reading.lock().taken, 0);
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
        let needed = flow.enter(Lane::Reading, &admin).await;
        assert!(needed.unwrap().is_none());
    }

    /// Not even when nobody is left in a queue that has its turn.
    #[tokio::test]
    async fn a_queue_of_nobody_takes_no_turn() {
        let flow = flow();
        let (_, first) = come(&flow, Lane::Reading, "flood");
        let (mut kim, _) = come(&flow, Lane::Reading, "kim");
        {
            let mut state = flow.reading.lock();
            state.turns.push_front("gone".into());
            state.queues.insert("gone".into(), VecDeque::new());
        }
        drop(first);
        assert!((&mut kim).now_or_never().unwrap().is_ok());
        assert!(!flow.reading.lock().queues.contains_key("gone"));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever() {
        let flow = flow();
        let (_, _place) = come(&flow, Lane::Reading, "flood");
        let kim = user("kim");
        assert_eq!(flow.at_once(Lane::Reading, &kim).unwrap_err(), Full);
        let waited = flow.enter(Lane::Reading, &kim).await;
        assert_eq!(waited.unwrap_err(), Full);
    }
}
