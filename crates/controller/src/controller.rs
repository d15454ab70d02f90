//! The controller: takes keys from the work queue, runs reconciles and cleanups, and decides when
//! keys are requeued.

use crate::backoff::random_fraction;
use crate::breaker::BreakerOptions;
use crate::cache_barrier::CacheBarrier;
use crate::cached::Cached;
use crate::context::ReconcileContext;
use crate::controller_queue::ControllerQueue;
use crate::controller_shared::{ControllerShared, wait_until_set};
use crate::freshness::wait_until_fresh;
use crate::key::ObjectKey;
use crate::kind::ApiObject;
use crate::kind_cache::{KindCache, ObjectSelector};
use crate::outcome::{
    Cleanup, Outcome, PollInterval, ReconcileError, ReconcileErrorKind as FaultKind, Wait,
};
use crate::reconcile_run::{ReconcileRun, TransientFailure};
use crate::work_queue::{ChangeId, RequeueDecision, WorkQueueOptions};
use futures::FutureExt;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{debug, error, warn};

/// Brings the cluster to the state that an object declares.
///
/// [`reconcile`](Self::reconcile) is called with the current object: never for an object that is
/// gone, never with the event that led to the call, never concurrently for the same object, and not
/// before the caches contain the writes of the previous call.
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use optik_controller::{ReconcileContext, ReconcileError, Outcome, Owned, Reconciler, Cached};
///
/// struct Copier {
///     maps: Owned<ConfigMap>,
/// }
///
/// impl Reconciler for Copier {
///     type Primary = Secret;
///     const NAME: &'static str = "copier";
///
///     async fn reconcile(&self, secret: Cached<Secret>, cx: &mut ReconcileContext<Secret>) -> Result<Outcome, ReconcileError> {
///         let mut map = ConfigMap::default();
///         map.metadata.name = secret.metadata.name.clone();
///         map.data = Some([("type".into(), secret.type_.clone().unwrap_or_default())].into());
///         cx.apply(&self.maps, map).await?;
///         Ok(Outcome::Done)
///     }
/// }
/// ```
pub trait Reconciler: Send + Sync + 'static {
    /// The kind of the primary objects.
    type Primary: ApiObject;

    /// The name of the controller in logs and metrics. It is also the field manager, so it must not
    /// change between versions.
    const NAME: &'static str;

    /// A finalizer, which keeps an object until [`cleanup`](Self::cleanup) is finished. The runtime
    /// adds it before the first reconcile and removes it after the last cleanup.
    const FINALIZER: Option<&'static str> = None;

    /// Brings the cluster to the desired state. It is called again after each change of a watched
    /// object, so it must be idempotent.
    fn reconcile(
        &self,
        object: Cached<Self::Primary>,
        cx: &mut ReconcileContext<Self::Primary>,
    ) -> impl Future<Output = Result<Outcome, ReconcileError>> + Send;

    /// Removes what owner references do not. It is only called if there is a
    /// [`FINALIZER`](Self::FINALIZER).
    fn cleanup(
        &self,
        object: Cached<Self::Primary>,
        cx: &mut ReconcileContext<Self::Primary>,
    ) -> impl Future<Output = Result<Cleanup, ReconcileError>> + Send {
        let _ = (object, cx);
        async { Ok(Cleanup::Finished) }
    }
}

/// Options of a controller.
///
/// ```
/// # use optik_controller::ControllerOptions;
/// let mut options = ControllerOptions::default();
/// options.workers = 16;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ControllerOptions {
    /// The maximum number of objects that are reconciled concurrently.
    pub workers: usize,
    /// The time limit of a reconcile. A reconcile that takes longer is cancelled and retried.
    pub timeout: Duration,
    /// The lower limit for a [`PollInterval`].
    pub poll_min: Duration,
    /// Which primary objects are watched.
    pub selection: ObjectSelector,
    /// Options of the work queue: backoff and fairness.
    pub queue: WorkQueueOptions,
    /// When writes count as a write loop.
    pub breaker: BreakerOptions,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self {
            workers: 8,
            timeout: Duration::from_secs(120),
            poll_min: Duration::from_secs(10),
            selection: ObjectSelector::default(),
            queue: WorkQueueOptions::default(),
            breaker: BreakerOptions::default(),
        }
    }
}

/// A controller, ready to run.
pub(crate) struct Controller<R: Reconciler> {
    pub(crate) reconciler: R,
    pub(crate) options: ControllerOptions,
    pub(crate) primary: Arc<KindCache>,
    pub(crate) queue: Arc<ControllerQueue>,
    pub(crate) shared: Arc<ControllerShared>,
    /// All caches that the reconciler can read.
    pub(crate) caches: Vec<Arc<KindCache>>,
    /// The keys that are being reconciled, or parked.
    active: Mutex<BTreeSet<ObjectKey>>,
    /// Objects that were cleaned up but still have the finalizer, with their uids. A conflict while
    /// removing the finalizer does not repeat the cleanup.
    cleaned_up: Mutex<BTreeMap<ObjectKey, u128>>,
}

/// A reconcile that has ended.
struct FinishedReconcile {
    key: ObjectKey,
    decision: RequeueDecision,
    own_changes: Vec<ChangeId>,
    barriers: Vec<CacheBarrier>,
}

/// How a key is requeued after a successful reconcile.
enum ReconcileAction {
    Done,
    RequeueAfter(Duration),
}

/// The result of a reconcile, inside the guards for timeouts and panics.
type GuardedResult = Result<
    Result<Result<ReconcileAction, ReconcileError>, tokio::time::error::Elapsed>,
    Box<dyn Any + Send>,
>;

impl<R: Reconciler> Controller<R> {
    pub(crate) fn new(
        reconciler: R,
        options: ControllerOptions,
        primary: Arc<KindCache>,
        queue: Arc<ControllerQueue>,
        shared: Arc<ControllerShared>,
        caches: Vec<Arc<KindCache>>,
    ) -> Self {
        shared
            .metrics
            .workers_max
            .set(i64::try_from(options.workers).unwrap_or(i64::MAX));
        Self {
            reconciler,
            options,
            primary,
            queue,
            shared,
            caches,
            active: Mutex::default(),
            cleaned_up: Mutex::default(),
        }
    }

    fn active(&self) -> MutexGuard<'_, BTreeSet<ObjectKey>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cleaned_up(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, u128>> {
        self.cleaned_up
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs until `stop` is set; then finishes the running reconciles.
    pub(crate) async fn run(
        self: Arc<Self>,
        mut stop: watch::Receiver<bool>,
        mut leading: watch::Receiver<bool>,
    ) {
        let synced = async {
            for cache in &self.caches {
                cache.wait_synced().await;
            }
        };
        tokio::select! {
            () = synced => {}
            () = wait_until_set(&mut stop) => return,
        }
        let (parking, mut to_park) = mpsc::channel(self.workers());
        let mut workers: JoinSet<()> = JoinSet::new();
        let mut parked: JoinSet<()> = JoinSet::new();
        // With leader election, another process may have written before this one became leader.
        let mut caught_up = !self.shared.fence.requires_lease();
        let mut catching_up = Box::pin(self.wait_until_caches_fresh());
        loop {
            let leads = *leading.borrow_and_update();
            while leads && caught_up && workers.len() < self.workers() {
                workers.spawn(Arc::clone(&self).run_worker(parking.clone(), stop.clone()));
            }
            tokio::select! {
                biased;
                () = wait_until_set(&mut stop) => break,
                changed = leading.changed() => {
                    if changed.is_err() || !*leading.borrow() {
                        self.abandon(&mut workers, &mut parked, &mut to_park).await;
                        caught_up = false;
                        catching_up = Box::pin(self.wait_until_caches_fresh());
                    }
                }
                () = &mut catching_up, if leads && !caught_up => caught_up = true,
                Some(finished) = to_park.recv() => Arc::clone(&self).park(finished, &mut parked),
                Some(_) = parked.join_next() => self.shared.metrics.parked.add(-1),
                Some(_) = workers.join_next() => {}
            }
        }
        // No more keys are taken, so finished keys need not be parked.
        to_park.close();
        while workers.join_next().await.is_some() {}
    }

    fn workers(&self) -> usize {
        self.options.workers.max(1)
    }

    /// A worker: reconciles keys until `stop` is set.
    async fn run_worker(
        self: Arc<Self>,
        parking: mpsc::Sender<FinishedReconcile>,
        mut stop: watch::Receiver<bool>,
    ) {
        while !*stop.borrow() {
            let key = tokio::select! {
                biased;
                key = self.queue.take() => key,
                () = wait_until_set(&mut stop) => return,
            };
            self.active().insert(key.clone());
            self.shared.metrics.active.add(1);
            let finished = Arc::clone(&self).reconcile_key(key).await;
            self.shared.metrics.active.add(-1);
            if finished.barriers.is_empty() {
                self.release(&finished);
            } else if parking.send(finished).await.is_err() {
                return;
            }
            // Yields to other tasks, even if there is always a next key.
            tokio::task::consume_budget().await;
        }
    }

    /// Waits until the caches are up to date with the server.
    async fn wait_until_caches_fresh(&self) {
        for cache in &self.caches {
            wait_until_fresh(&self.shared.api, cache, &*self.shared.entropy).await;
        }
    }

    /// Ends all running reconciles and parked waits after leadership was lost, and requeues their
    /// keys.
    async fn abandon(
        &self,
        workers: &mut JoinSet<()>,
        parked: &mut JoinSet<()>,
        to_park: &mut mpsc::Receiver<FinishedReconcile>,
    ) {
        workers.shutdown().await;
        parked.shutdown().await;
        while to_park.try_recv().is_ok() {}
        self.shared.metrics.active.set(0);
        self.shared.metrics.parked.set(0);
        for key in std::mem::take(&mut *self.active()) {
            self.queue.finish(&key, RequeueDecision::Abandoned, &[]);
        }
    }

    /// Parks a key until the caches contain its writes, then releases it.
    fn park(self: Arc<Self>, finished: FinishedReconcile, parked: &mut JoinSet<()>) {
        self.shared.metrics.parked.add(1);
        parked.spawn(async move {
            for barrier in &finished.barriers {
                if !barrier.wait(&self.shared.api, &*self.shared.entropy).await {
                    self.shared.metrics.gate_timeouts.add(1);
                    warn!(controller = R::NAME, key = %finished.key, ?barrier, "timed out waiting for the cache to observe this controller's own write");
                }
            }
            self.release(&finished);
        });
    }

    fn release(&self, finished: &FinishedReconcile) {
        self.active().remove(&finished.key);
        self.queue
            .finish(&finished.key, finished.decision, &finished.own_changes);
    }

    /// Runs one reconcile of one key.
    async fn reconcile_key(self: Arc<Self>, key: ObjectKey) -> FinishedReconcile {
        let mut finished = FinishedReconcile {
            key,
            decision: RequeueDecision::Done,
            own_changes: Vec::new(),
            barriers: Vec::new(),
        };
        let Some(entry) = self.primary.get(&finished.key) else {
            self.cleaned_up().remove(&finished.key);
            return finished;
        };
        let primary = match Cached::new(entry, &self.primary) {
            Ok(primary) => primary,
            Err(fault) => {
                self.shared.metrics.terminal.add(1);
                error!(controller = R::NAME, key = %finished.key, %fault, "cannot be reconciled");
                return finished;
            }
        };
        let begun = Instant::now();
        let mut cx = Box::new(ReconcileContext::new(Arc::clone(&self.shared), primary));
        let guarded = {
            let driving = Box::pin(self.reconcile_and_write_status(&mut cx));
            let limited = tokio::time::timeout(self.options.timeout, driving);
            AssertUnwindSafe(limited).catch_unwind().await
        };
        if !matches!(guarded, Ok(Ok(_))) {
            cx.run.abort();
        }
        self.shared.metrics.reconcile_time.observe(begun.elapsed());
        finished.decision = self.requeue_decision(&finished.key, guarded, &cx.run);
        finished.own_changes = std::mem::take(&mut cx.run.own_changes);
        finished.barriers = std::mem::take(&mut cx.run.barriers);
        finished
    }

    async fn reconcile_and_write_status(
        &self,
        cx: &mut ReconcileContext<R::Primary>,
    ) -> Result<ReconcileAction, ReconcileError> {
        let worked = self.reconcile_or_finalize(cx).await;
        if cx.run.transient_failure.is_none() {
            // The status is also written after an error, because it reports the error.
            cx.flush_status().await?;
        }
        worked
    }

    async fn reconcile_or_finalize(
        &self,
        cx: &mut ReconcileContext<R::Primary>,
    ) -> Result<ReconcileAction, ReconcileError> {
        let object = cx.primary().clone();
        if object.entry().deleting {
            return self.finalize(object, cx).await;
        }
        if let Some(finalizer) = R::FINALIZER {
            // The finalizer is added before anything is created that the cleanup has to remove.
            cx.set_finalizer(finalizer, true).await?;
        }
        let object = cx.primary().clone();
        let outcome = self.reconciler.reconcile(object, cx).await?;
        Ok(match outcome {
            Outcome::Done => ReconcileAction::Done,
            Outcome::RequeueAfter(poll) => self.requeue_after(poll),
            Outcome::Wait(wait) => self.await_change(cx, &wait),
        })
    }

    async fn finalize(
        &self,
        object: Cached<R::Primary>,
        cx: &mut ReconcileContext<R::Primary>,
    ) -> Result<ReconcileAction, ReconcileError> {
        use kube::Resource;
        let finalizers = object.meta().finalizers.clone().unwrap_or_default();
        let Some(finalizer) = R::FINALIZER.filter(|own| finalizers.iter().any(|f| f == own)) else {
            return Ok(ReconcileAction::Done);
        };
        let (key, uid) = (Cached::key(&object).clone(), object.entry().uid);
        if self.cleaned_up().get(&key) != Some(&uid) {
            match self.reconciler.cleanup(object, cx).await? {
                Cleanup::Pending(wait) => return Ok(self.await_change(cx, &wait)),
                Cleanup::RequeueAfter(poll) => return Ok(self.requeue_after(poll)),
                Cleanup::Finished => self.cleaned_up().insert(key.clone(), uid),
            };
            cx.discard_status();
        }
        cx.set_finalizer(finalizer, false).await?;
        self.cleaned_up().remove(&key);
        Ok(ReconcileAction::Done)
    }

    /// At least `poll_min`, with up to 10 % of jitter, and never earlier than requested.
    fn requeue_after(&self, poll: PollInterval) -> ReconcileAction {
        let length = poll.0.max(self.options.poll_min);
        ReconcileAction::RequeueAfter(
            length.mul_f64(1.0 + random_fraction(&*self.shared.entropy) / 10.0),
        )
    }

    fn await_change(&self, cx: &ReconcileContext<R::Primary>, wait: &Wait) -> ReconcileAction {
        debug!(controller = R::NAME, key = %Cached::key(cx.primary()), reason = wait.reason, "reconcile waits for a watched change");
        wait.at_most.map_or(ReconcileAction::Done, |limit| {
            self.requeue_after(PollInterval::every(limit))
        })
    }

    fn requeue_decision(
        &self,
        key: &ObjectKey,
        guarded: GuardedResult,
        run: &ReconcileRun,
    ) -> RequeueDecision {
        let metrics = &self.shared.metrics;
        if let Some(wait) = run.breaker_wait {
            return RequeueDecision::Hold(wait);
        }
        match (run.transient_failure, guarded) {
            (_, Err(panic)) => {
                metrics.panics.add(1);
                metrics.failed.add(1);
                error!(controller = R::NAME, %key, panic = panic_message(&*panic), "a reconcile panicked");
                RequeueDecision::Failed
            }
            (_, Ok(Err(_elapsed))) => {
                metrics.timeouts.add(1);
                metrics.failed.add(1);
                warn!(controller = R::NAME, %key, "reconcile timed out");
                RequeueDecision::Failed
            }
            (Some(TransientFailure::Conflict), _)
            | (_, Ok(Ok(Err(ReconcileError(FaultKind::Conflict(_)))))) => {
                metrics.conflicts.add(1);
                RequeueDecision::Failed
            }
            (Some(TransientFailure::Overload(wait)), _) => RequeueDecision::Hold(wait),
            (Some(TransientFailure::LostResponse), _) => {
                metrics.lost_responses.add(1);
                RequeueDecision::Failed
            }
            (None, Ok(Ok(Ok(ReconcileAction::Done)))) => {
                metrics.succeeded.add(1);
                RequeueDecision::Done
            }
            (None, Ok(Ok(Ok(ReconcileAction::RequeueAfter(wait))))) => {
                metrics.requeued.add(1);
                RequeueDecision::After(wait)
            }
            (None, Ok(Ok(Err(ReconcileError(FaultKind::Terminal(cause)))))) => {
                metrics.terminal.add(1);
                metrics.failed.add(1);
                error!(controller = R::NAME, %key, %cause, "terminal reconcile error; not retried until the object changes");
                RequeueDecision::Done
            }
            (None, Ok(Ok(Err(fault)))) => {
                metrics.failed.add(1);
                metrics.retries.add(1);
                warn!(controller = R::NAME, %key, %fault, "a reconcile failed");
                RequeueDecision::Failed
            }
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    text.or(owned).unwrap_or("no panic message")
}
