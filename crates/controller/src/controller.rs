//! Takes keys, runs reconciles, and decides what becomes of each.

use crate::backoff::fraction;
use crate::breaker::BreakerOptions;
use crate::context::Cx;
use crate::current::catch_up;
use crate::desk::{Desk, told};
use crate::gate::Gate;
use crate::key::ObjectKey;
use crate::keys::Keys;
use crate::kind::Object;
use crate::outcome::{Cleanup, Fault, Kind as FaultKind, Outcome, Poll, Wait};
use crate::pass::{Hitch, Pass};
use crate::queue::{Cause, QueueOptions, Verdict};
use crate::shelf::{Selection, Shelf};
use crate::snap::Snap;
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

/// Makes the world what an object says it should be.
///
/// It is called with the object as it is now: never for one that is gone, never with the
/// event that led to it, never twice at a time for the same object, and not before the
/// caches have seen what the last call wrote.
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use optik_controller::{Cx, Fault, Outcome, Owned, Reconciler, Snap};
///
/// struct Copier {
///     maps: Owned<ConfigMap>,
/// }
///
/// impl Reconciler for Copier {
///     type Primary = Secret;
///     const NAME: &'static str = "copier";
///
///     async fn reconcile(&self, secret: Snap<Secret>, cx: &mut Cx<Secret>) -> Result<Outcome, Fault> {
///         let mut map = ConfigMap::default();
///         map.metadata.name = secret.metadata.name.clone();
///         map.data = Some([("type".into(), secret.type_.clone().unwrap_or_default())].into());
///         cx.apply(&self.maps, map).await?;
///         Ok(Outcome::Done)
///     }
/// }
/// ```
pub trait Reconciler: Send + Sync + 'static {
    /// What is reconciled.
    type Primary: Object;

    /// The name of the controller, in logs and metrics; also the field manager, so it
    /// must stay the same over versions.
    const NAME: &'static str;

    /// With a finalizer, an object stays until [`cleanup`](Self::cleanup) is through. The
    /// runtime adds it before the first reconcile and removes it after the last cleanup.
    const FINALIZER: Option<&'static str> = None;

    /// Makes it so. Called again whenever something changes that was watched, so it must
    /// not matter how often.
    fn reconcile(
        &self,
        object: Snap<Self::Primary>,
        cx: &mut Cx<Self::Primary>,
    ) -> impl Future<Output = Result<Outcome, Fault>> + Send;

    /// Undoes what owner references cannot. Only called if there is a
    /// [`FINALIZER`](Self::FINALIZER).
    fn cleanup(
        &self,
        object: Snap<Self::Primary>,
        cx: &mut Cx<Self::Primary>,
    ) -> impl Future<Output = Result<Cleanup, Fault>> + Send {
        let _ = (object, cx);
        async { Ok(Cleanup::Finished) }
    }
}

/// How a controller works.
///
/// ```
/// # use optik_controller::ControllerOptions;
/// let mut options = ControllerOptions::default();
/// options.workers = 16;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ControllerOptions {
    /// How many objects are reconciled at the same time.
    pub workers: usize,
    /// A reconcile that takes longer is broken off and tried again.
    pub timeout: Duration,
    /// Nothing is polled more often than this.
    pub poll_min: Duration,
    /// Which primary objects.
    pub selection: Selection,
    /// How failing keys wait.
    pub queue: QueueOptions,
    /// When writes are taken for a loop.
    pub breaker: BreakerOptions,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self {
            workers: 8,
            timeout: Duration::from_secs(120),
            poll_min: Duration::from_secs(10),
            selection: Selection::default(),
            queue: QueueOptions::default(),
            breaker: BreakerOptions::default(),
        }
    }
}

/// A controller, ready to run.
pub(crate) struct Core<R: Reconciler> {
    pub(crate) reconciler: R,
    pub(crate) options: ControllerOptions,
    pub(crate) primary: Arc<Shelf>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) desk: Arc<Desk>,
    /// Every cache it reads.
    pub(crate) used: Vec<Arc<Shelf>>,
    /// What is worked on, or parked.
    active: Mutex<BTreeSet<ObjectKey>>,
    /// What was cleaned up, by its uid, while its finalizer is still there: a conflict
    /// is no reason to do it again.
    cleaned: Mutex<BTreeMap<ObjectKey, u128>>,
}

/// A reconcile that is over.
struct Settled {
    key: ObjectKey,
    verdict: Verdict,
    own: Vec<Cause>,
    gates: Vec<Gate>,
}

/// How a reconcile goes on.
enum Next {
    Done,
    After(Duration),
}

/// How a reconcile was driven to its end.
type Driven = Result<Result<Result<Next, Fault>, tokio::time::error::Elapsed>, Box<dyn Any + Send>>;

impl<R: Reconciler> Core<R> {
    pub(crate) fn new(
        reconciler: R,
        options: ControllerOptions,
        primary: Arc<Shelf>,
        keys: Arc<Keys>,
        desk: Arc<Desk>,
        used: Vec<Arc<Shelf>>,
    ) -> Self {
        desk.metrics
            .workers_max
            .set(i64::try_from(options.workers).unwrap_or(i64::MAX));
        Self {
            reconciler,
            options,
            primary,
            keys,
            desk,
            used,
            active: Mutex::default(),
            cleaned: Mutex::default(),
        }
    }

    fn active(&self) -> MutexGuard<'_, BTreeSet<ObjectKey>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cleaned(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, u128>> {
        self.cleaned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until it is told to stop; then finishes what it has begun.
    pub(crate) async fn run(
        self: Arc<Self>,
        mut stop: watch::Receiver<bool>,
        mut leading: watch::Receiver<bool>,
    ) {
        let synced = async {
            for shelf in &self.used {
                shelf.synced().await;
            }
        };
        tokio::select! {
            () = synced => {}
            () = told(&mut stop) => return,
        }
        let (parking, mut to_park) = mpsc::channel(self.workers());
        let mut crew: JoinSet<()> = JoinSet::new();
        let mut parked: JoinSet<()> = JoinSet::new();
        // Somebody else may have written until this process was the one to lead.
        let mut caught_up = !self.desk.term.is_limited();
        let mut catching_up = Box::pin(self.catch_up());
        loop {
            let leads = *leading.borrow_and_update();
            while leads && caught_up && crew.len() < self.workers() {
                crew.spawn(Arc::clone(&self).work(parking.clone(), stop.clone()));
            }
            tokio::select! {
                biased;
                () = told(&mut stop) => break,
                changed = leading.changed() => {
                    if changed.is_err() || !*leading.borrow() {
                        self.abandon(&mut crew, &mut parked, &mut to_park).await;
                        caught_up = false;
                        catching_up = Box::pin(self.catch_up());
                    }
                }
                () = &mut catching_up, if leads && !caught_up => caught_up = true,
                Some(settled) = to_park.recv() => Arc::clone(&self).park(settled, &mut parked),
                Some(_) = parked.join_next() => self.desk.metrics.parked.add(-1),
                Some(_) = crew.join_next() => {}
            }
        }
        // Nobody comes back to what is left.
        to_park.close();
        while crew.join_next().await.is_some() {}
    }

    fn workers(&self) -> usize {
        self.options.workers.max(1)
    }

    /// One of those who take keys, until it is told to stop.
    async fn work(
        self: Arc<Self>,
        parking: mpsc::Sender<Settled>,
        mut stop: watch::Receiver<bool>,
    ) {
        while !*stop.borrow() {
            let key = tokio::select! {
                biased;
                key = self.keys.take() => key,
                () = told(&mut stop) => return,
            };
            self.active().insert(key.clone());
            self.desk.metrics.active.add(1);
            let settled = Arc::clone(&self).one(key).await;
            self.desk.metrics.active.add(-1);
            if settled.gates.is_empty() {
                self.release(&settled);
            } else if parking.send(settled).await.is_err() {
                return;
            }
            // Others have a turn, even if there is always a next key.
            tokio::task::consume_budget().await;
        }
    }

    /// Waits until the caches have what the server has.
    async fn catch_up(&self) {
        for shelf in &self.used {
            catch_up(&self.desk.api, shelf, &*self.desk.entropy).await;
        }
    }

    /// Somebody else leads now: whatever is going on ends where it is.
    async fn abandon(
        &self,
        crew: &mut JoinSet<()>,
        parked: &mut JoinSet<()>,
        to_park: &mut mpsc::Receiver<Settled>,
    ) {
        crew.shutdown().await;
        parked.shutdown().await;
        while to_park.try_recv().is_ok() {}
        self.desk.metrics.active.set(0);
        self.desk.metrics.parked.set(0);
        for key in std::mem::take(&mut *self.active()) {
            self.keys.finish(&key, Verdict::Undone, &[]);
        }
    }

    /// Gives a key back, once the caches have seen what it wrote.
    fn park(self: Arc<Self>, settled: Settled, parked: &mut JoinSet<()>) {
        self.desk.metrics.parked.add(1);
        parked.spawn(async move {
            for gate in &settled.gates {
                if !gate.pass(&self.desk.api, &*self.desk.entropy).await {
                    self.desk.metrics.gate_timeouts.add(1);
                    warn!(controller = R::NAME, key = %settled.key, ?gate, "a cache does not catch up");
                }
            }
            self.release(&settled);
        });
    }

    fn release(&self, settled: &Settled) {
        self.active().remove(&settled.key);
        self.keys
            .finish(&settled.key, settled.verdict, &settled.own);
    }

    /// One reconcile of one key.
    async fn one(self: Arc<Self>, key: ObjectKey) -> Settled {
        let mut settled = Settled {
            key,
            verdict: Verdict::Done,
            own: Vec::new(),
            gates: Vec::new(),
        };
        let Some(entry) = self.primary.get(&settled.key) else {
            self.cleaned().remove(&settled.key);
            return settled;
        };
        let primary = match Snap::new(entry, &self.primary) {
            Ok(primary) => primary,
            Err(fault) => {
                self.desk.metrics.terminal.add(1);
                error!(controller = R::NAME, key = %settled.key, %fault, "cannot be reconciled");
                return settled;
            }
        };
        let begun = Instant::now();
        let mut cx = Box::new(Cx::new(Arc::clone(&self.desk), primary));
        let driven = {
            let driving = Box::pin(self.drive(&mut cx));
            let limited = tokio::time::timeout(self.options.timeout, driving);
            AssertUnwindSafe(limited).catch_unwind().await
        };
        if !matches!(driven, Ok(Ok(_))) {
            cx.pass.break_off();
        }
        self.desk.metrics.reconcile.note(begun.elapsed());
        settled.verdict = self.judge(&settled.key, driven, &cx.pass);
        settled.own = std::mem::take(&mut cx.pass.own);
        settled.gates = std::mem::take(&mut cx.pass.gates);
        settled
    }

    async fn drive(&self, cx: &mut Cx<R::Primary>) -> Result<Next, Fault> {
        let worked = self.make_so(cx).await;
        if cx.pass.hitch.is_none() {
            // A status says what went wrong, too.
            cx.flush_status().await?;
        }
        worked
    }

    async fn make_so(&self, cx: &mut Cx<R::Primary>) -> Result<Next, Fault> {
        let object = cx.primary().clone();
        if object.entry().deleting {
            return self.let_go(object, cx).await;
        }
        if let Some(finalizer) = R::FINALIZER {
            // Before anything is made that it must clean up.
            cx.set_finalizer(finalizer, true).await?;
        }
        let object = cx.primary().clone();
        let outcome = self.reconciler.reconcile(object, cx).await?;
        Ok(match outcome {
            Outcome::Done => Next::Done,
            Outcome::After(poll) => self.poll(poll),
            Outcome::Wait(wait) => self.wait(cx, &wait),
        })
    }

    async fn let_go(
        &self,
        object: Snap<R::Primary>,
        cx: &mut Cx<R::Primary>,
    ) -> Result<Next, Fault> {
        use kube::Resource;
        let finalizers = object.meta().finalizers.clone().unwrap_or_default();
        let Some(finalizer) = R::FINALIZER.filter(|own| finalizers.iter().any(|f| f == own)) else {
            return Ok(Next::Done);
        };
        let (key, uid) = (Snap::key(&object).clone(), object.entry().uid);
        if self.cleaned().get(&key) != Some(&uid) {
            match self.reconciler.cleanup(object, cx).await? {
                Cleanup::Pending(wait) => return Ok(self.wait(cx, &wait)),
                Cleanup::Polling(poll) => return Ok(self.poll(poll)),
                Cleanup::Finished => self.cleaned().insert(key.clone(), uid),
            };
            cx.discard_status();
        }
        cx.set_finalizer(finalizer, false).await?;
        self.cleaned().remove(&key);
        Ok(Next::Done)
    }

    /// Never too often, never all at once, never earlier than asked.
    fn poll(&self, poll: Poll) -> Next {
        let length = poll.0.max(self.options.poll_min);
        Next::After(length.mul_f64(1.0 + fraction(&*self.desk.entropy) / 10.0))
    }

    fn wait(&self, cx: &Cx<R::Primary>, wait: &Wait) -> Next {
        debug!(controller = R::NAME, key = %Snap::key(cx.primary()), reason = wait.reason, "waits");
        wait.at_most
            .map_or(Next::Done, |limit| self.poll(Poll::every(limit)))
    }

    fn judge(&self, key: &ObjectKey, driven: Driven, pass: &Pass) -> Verdict {
        let metrics = &self.desk.metrics;
        if let Some(wait) = pass.tripped {
            return Verdict::Hold(wait);
        }
        match (pass.hitch, driven) {
            (_, Err(panic)) => {
                metrics.panics.add(1);
                metrics.failed.add(1);
                error!(controller = R::NAME, %key, panic = panic_text(&*panic), "a reconcile panicked");
                Verdict::Failed
            }
            (_, Ok(Err(_elapsed))) => {
                metrics.timeouts.add(1);
                metrics.failed.add(1);
                warn!(controller = R::NAME, %key, "a reconcile took too long");
                Verdict::Failed
            }
            (Some(Hitch::Conflict), _) | (_, Ok(Ok(Err(Fault(FaultKind::Conflict(_)))))) => {
                metrics.conflicts.add(1);
                Verdict::Failed
            }
            (Some(Hitch::Overload(wait)), _) => Verdict::Hold(wait),
            (Some(Hitch::Lost), _) => {
                metrics.lost.add(1);
                Verdict::Failed
            }
            (None, Ok(Ok(Ok(Next::Done)))) => {
                metrics.succeeded.add(1);
                Verdict::Done
            }
            (None, Ok(Ok(Ok(Next::After(wait))))) => {
                metrics.requeued.add(1);
                Verdict::After(wait)
            }
            (None, Ok(Ok(Err(Fault(FaultKind::Terminal(cause)))))) => {
                metrics.terminal.add(1);
                metrics.failed.add(1);
                error!(controller = R::NAME, %key, %cause, "will not work until something changes");
                Verdict::Done
            }
            (None, Ok(Ok(Err(fault)))) => {
                metrics.failed.add(1);
                metrics.retries.add(1);
                warn!(controller = R::NAME, %key, %fault, "a reconcile failed");
                Verdict::Failed
            }
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    text.or(owned).unwrap_or("without a text")
}
