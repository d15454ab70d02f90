//! Limits of requests in flight (upstream: the max-in-flight filter), with fairness between users.
//!
//! Reads and writes have a pool of permits each. While a pool has room, a request takes a permit
//! and proceeds. When it is full, requests wait in a queue of their user, and released permits go
//! to the queues round-robin: a user who sends a thousand requests waits behind their own requests,
//! not in front of others. Nor can one user hold all permits, for example with responses that are
//! not read.

use crate::dropped_requests_tracker::DroppedRequestsTracker;
use crate::options::Limits;
use optik_auth::User;
use optik_platform::Monotonic;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// A user may hold at most this many times the free permits.
const USER_SHARE_OF_FREE: usize = 3;
/// Beyond this many entries, users without a permit are removed from the map.
const IDLE_USERS_MAX: usize = 1024;

/// The in-flight limits of a server: one pool for reads, one for writes.
#[derive(Debug)]
pub(crate) struct InflightLimiter {
    read_only: Arc<InflightPool>,
    mutating: Arc<InflightPool>,
    dropped_requests: DroppedRequestsTracker,
}

/// The pool that a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestClass {
    ReadOnly,
    Mutating,
}

/// The pool is full, and so are its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overloaded;

impl InflightLimiter {
    pub(crate) fn new(limits: &Limits) -> Self {
        let pool = |places: usize| {
            Arc::new(InflightPool {
                permits: places,
                queued_max: limits.requests_waiting_max,
                queued_per_user_max: limits.requests_waiting_per_user_max,
                wait_max: limits.queue_wait_max,
                state: Mutex::default(),
            })
        };
        Self {
            read_only: pool(limits.reads_max),
            mutating: pool(limits.writes_max),
            dropped_requests: DroppedRequestsTracker::default(),
        }
    }

    /// The `Retry-After`, in seconds, for a request that is rejected now.
    pub(crate) fn retry_after_seconds(&self, now: Monotonic) -> u64 {
        let second = now.since(Monotonic::default()).as_secs();
        self.dropped_requests.record_dropped_request(second)
    }

    /// A permit, if one is available without waiting. Members of `system:masters` need none: they
    /// must be able to repair an overloaded server.
    pub(crate) fn try_acquire(
        &self,
        lane: RequestClass,
        user: &User,
    ) -> Result<Option<InflightPermit>, Overloaded> {
        match self.pool(lane, user) {
            None => Ok(None),
            Some(pool) => pool.try_acquire(&user.name).map(Some).ok_or(Overloaded),
        }
    }

    /// A permit, waiting in the user's queue if the pool is full.
    pub(crate) async fn acquire(
        &self,
        lane: RequestClass,
        user: &User,
    ) -> Result<Option<InflightPermit>, Overloaded> {
        match self.pool(lane, user) {
            None => Ok(None),
            Some(pool) => pool.acquire(&user.name).await.map(Some),
        }
    }

    fn pool(&self, lane: RequestClass, user: &User) -> Option<&Arc<InflightPool>> {
        let pool = match lane {
            RequestClass::ReadOnly => &self.read_only,
            RequestClass::Mutating => &self.mutating,
        };
        Some(pool).filter(|pool| pool.permits > 0 && !user.is_master())
    }
}

#[derive(Debug)]
struct InflightPool {
    permits: usize,
    queued_max: usize,
    queued_per_user_max: usize,
    wait_max: Duration,
    state: Mutex<InflightPoolState>,
}

#[derive(Debug, Default)]
struct InflightPoolState {
    in_use: usize,
    /// Permits held by each user; zero for some users who held one before.
    in_use_by_user: BTreeMap<Arc<str>, usize>,
    queued: usize,
    queues: BTreeMap<Arc<str>, VecDeque<oneshot::Sender<InflightPermit>>>,
    /// Users with a queue, in round-robin order.
    turns: VecDeque<Arc<str>>,
}

/// A permit of a pool; dropping it releases it.
#[derive(Debug)]
pub(crate) struct InflightPermit(Option<PermitOwner>);

/// The pool and the user of a permit.
#[derive(Debug)]
struct PermitOwner {
    pool: Arc<InflightPool>,
    user: Arc<str>,
}

impl Drop for InflightPermit {
    fn drop(&mut self) {
        if let Some(PermitOwner { pool, user }) = self.0.take() {
            pool.release(&user);
        }
    }
}

impl InflightPool {
    fn lock(&self) -> MutexGuard<'_, InflightPoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_acquire(self: &Arc<Self>, user: &str) -> Option<InflightPermit> {
        let mut state = self.lock();
        self.try_take(&mut state, user)
    }

    fn try_take(
        self: &Arc<Self>,
        state: &mut InflightPoolState,
        user: &str,
    ) -> Option<InflightPermit> {
        let room = self.has_room_for(state, user);
        room.then(|| self.permit(state.take_for(user)))
    }

    async fn acquire(self: &Arc<Self>, user: &str) -> Result<InflightPermit, Overloaded> {
        let waiting = {
            let mut state = self.lock();
            if let Some(place) = self.try_take(&mut state, user) {
                return Ok(place);
            }
            self.enqueue(&mut state, user)?
        };
        match timeout(self.wait_max, waiting).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => Err(Overloaded),
        }
    }

    /// Whether a user may take another permit: at most [`USER_SHARE_OF_FREE`] times the free
    /// permits.
    ///
    /// So no user takes all permits: one user leaves a quarter free, two leave a seventh. A new
    /// user finds room for as long as the others hold what they have.
    fn has_room_for(&self, state: &InflightPoolState, user: &str) -> bool {
        let own = state.in_use_by_user.get(user).copied().unwrap_or(0);
        own < (self.permits - state.in_use).saturating_mul(USER_SHARE_OF_FREE)
    }

    fn permit(self: &Arc<Self>, user: Arc<str>) -> InflightPermit {
        let pool = Arc::clone(self);
        InflightPermit(Some(PermitOwner { pool, user }))
    }

    fn enqueue(
        &self,
        state: &mut InflightPoolState,
        user: &str,
    ) -> Result<oneshot::Receiver<InflightPermit>, Overloaded> {
        // Waiters that gave up do not count.
        let own = state.queues.get_mut(user).map_or(0, |queue| {
            let before = queue.len();
            queue.retain(|waiter| !waiter.is_closed());
            state.queued -= before - queue.len();
            queue.len()
        });
        if own >= self.queued_per_user_max || state.queued >= self.queued_max {
            return Err(Overloaded);
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

    /// Releases a permit and hands it to the first request of the next user.
    fn release(self: Arc<Self>, user: &Arc<str>) {
        self.lock().give_back(user);
        loop {
            let (waiter, place) = {
                let mut state = self.lock();
                let Some((user, waiter)) = self.next_waiter(&mut state) else {
                    return;
                };
                (waiter, self.permit(state.take_for(&user)))
            };
            if let Err(mut returned) = waiter.send(place) {
                // The waiter gave up: take the permit back without another release, and try the
                // next one.
                if let Some(taken) = returned.0.take() {
                    self.lock().give_back(&taken.user);
                }
            }
        }
    }

    /// The first waiter in round-robin order whose user may take a permit.
    fn next_waiter(
        &self,
        state: &mut InflightPoolState,
    ) -> Option<(Arc<str>, oneshot::Sender<InflightPermit>)> {
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
            // An empty queue, should one be left behind, must not block the others.
            if let Some(first) = first {
                state.queued -= 1;
                return Some((user, first));
            }
        }
    }
}

impl InflightPoolState {
    fn take_for(&mut self, user: &str) -> Arc<str> {
        self.in_use += 1;
        let known = self
            .in_use_by_user
            .get_key_value(user)
            .map(|(name, _)| Arc::clone(name));
        let name = known.unwrap_or_else(|| {
            if self.in_use_by_user.len() >= IDLE_USERS_MAX {
                self.in_use_by_user.retain(|_, own| *own > 0);
            }
            user.into()
        });
        *self.in_use_by_user.entry(Arc::clone(&name)).or_default() += 1;
        name
    }

    fn give_back(&mut self, user: &str) {
        self.in_use -= 1;
        if let Some(own) = self.in_use_by_user.get_mut(user) {
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

    fn flow() -> Arc<InflightLimiter> {
        Arc::new(InflightLimiter::new(&Limits {
            reads_max: 1,
            writes_max: 2,
            requests_waiting_max: 6,
            requests_waiting_per_user_max: 4,
            queue_wait_max: Duration::from_secs(60),
            ..Limits::default()
        }))
    }

    type Waiting = BoxFuture<'static, Result<Option<InflightPermit>, Overloaded>>;

    /// Acquires a permit, waiting if the pool is full.
    fn come(
        flow: &Arc<InflightLimiter>,
        lane: RequestClass,
        name: &'static str,
    ) -> (Waiting, Option<Result<Option<InflightPermit>, Overloaded>>) {
        let flow = Arc::clone(flow);
        let mut waiting = async move { flow.acquire(lane, &user(name)).await }.boxed();
        let now = (&mut waiting).now_or_never();
        (waiting, now)
    }

    #[tokio::test]
    async fn inflight_permits_are_granted_round_robin_by_user() {
        let flow = flow();
        let (_, first) = come(&flow, RequestClass::ReadOnly, "flood");
        let mut first = first.unwrap().unwrap();
        let mut floods: Vec<Waiting> = Vec::new();
        for _ in 0..4 {
            let (waiting, now) = come(&flow, RequestClass::ReadOnly, "flood");
            assert!(now.is_none(), "there is no room");
            floods.push(waiting);
        }
        let (_, fifth) = come(&flow, RequestClass::ReadOnly, "flood");
        assert_eq!(fifth.unwrap().unwrap_err(), Overloaded, "its queue is full");
        let (mut kim, now) = come(&flow, RequestClass::ReadOnly, "kim");
        assert!(now.is_none());
        let (_, writing) = come(&flow, RequestClass::Mutating, "flood");
        assert!(writing.unwrap().is_ok(), "writes have room of their own");

        // The first permit goes to the flood, which came first; the next one goes to kim.
        first.take();
        let second = (&mut floods[0]).now_or_never().unwrap().unwrap();
        assert!((&mut kim).now_or_never().is_none());
        drop(second);
        let kims = (&mut kim).now_or_never().unwrap().unwrap();
        assert!((&mut floods[1]).now_or_never().is_none());
        // Waiters that gave up are skipped.
        drop(floods.remove(1));
        drop(kims);
        assert!((&mut floods[1]).now_or_never().unwrap().is_ok());
    }

    /// Each user leaves some permits for the next user, and may take them when others release
    /// theirs.
    #[tokio::test]
    async fn one_user_cannot_hold_all_inflight_permits() {
        let flow = Arc::new(InflightLimiter::new(&Limits {
            reads_max: 400,
            ..Limits::default()
        }));
        let fill = |name: &'static str| {
            let mut held = Vec::new();
            while let (_, Some(place)) = come(&flow, RequestClass::ReadOnly, name) {
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
        let (mut waiting, now) = come(&flow, RequestClass::ReadOnly, "first");
        assert!(now.is_none());
        drop(third);
        assert!((&mut waiting).now_or_never().is_none(), "it has its share");
        drop(second);
        let more = (&mut waiting).now_or_never();
        assert!(more.is_none(), "three times as much as is free");
        drop(first);
        assert!(waiting.now_or_never().unwrap().is_ok());
        assert_eq!(flow.read_only.lock().in_use, 0);
    }

    #[tokio::test]
    async fn inflight_permits_of_dropped_waiters_are_not_lost() {
        let flow = flow();
        for _ in 0..100 {
            let (_, one) = come(&flow, RequestClass::Mutating, "a");
            let (_, two) = come(&flow, RequestClass::Mutating, "b");
            let (three, now) = come(&flow, RequestClass::Mutating, "c");
            assert!(one.unwrap().is_ok() && two.unwrap().is_ok() && now.is_none());
            drop(three);
        }
        assert_eq!(flow.mutating.lock().in_use, 0);
        let (_, many) = come(&flow, RequestClass::Mutating, "a");
        assert!(many.unwrap().is_ok());
    }

    #[tokio::test]
    async fn inflight_limit_does_not_apply_to_system_masters() {
        let flow = flow();
        let (_place, _) = come(&flow, RequestClass::ReadOnly, "flood");
        let admin = user("admin").with_group(optik_auth::MASTERS);
        let needed = flow.acquire(RequestClass::ReadOnly, &admin).await;
        assert!(needed.unwrap().is_none());
    }

    /// An empty queue whose turn it is does not block the others.
    #[tokio::test]
    async fn inflight_limiter_skips_empty_user_queues() {
        let flow = flow();
        let (_, first) = come(&flow, RequestClass::ReadOnly, "flood");
        let (mut kim, _) = come(&flow, RequestClass::ReadOnly, "kim");
        {
            let mut state = flow.read_only.lock();
            state.turns.push_front("gone".into());
            state.queues.insert("gone".into(), VecDeque::new());
        }
        drop(first);
        assert!((&mut kim).now_or_never().unwrap().is_ok());
        assert!(!flow.read_only.lock().queues.contains_key("gone"));
    }

    #[tokio::test(start_paused = true)]
    async fn inflight_queue_wait_times_out() {
        let flow = flow();
        let (_, _place) = come(&flow, RequestClass::ReadOnly, "flood");
        let kim = user("kim");
        assert_eq!(
            flow.try_acquire(RequestClass::ReadOnly, &kim).unwrap_err(),
            Overloaded
        );
        let waited = flow.acquire(RequestClass::ReadOnly, &kim).await;
        assert_eq!(waited.unwrap_err(), Overloaded);
    }
}
