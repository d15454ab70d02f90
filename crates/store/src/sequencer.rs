//! The one place where revisions are made.
//!
//! Requests queue up while the disk is busy with those before them. The sequencer
//! works out all that have gathered, makes them durable with one sync, shows them to
//! the world, and only then answers.

use crate::disk::{Change, Cleaning, Disk, DiskError, DiskStatus, State};
use crate::draft::{Draft, Stamp};
use crate::error::{CommitError, CompactError, LeaseError};
use crate::history::Commit;
use crate::index::Index;
use crate::intake::{Intake, Queued};
use crate::lease::{LeaseId, LeaseInfo, Leases};
use crate::options::Options;
use crate::origin::{Origin, Origins};
use crate::revision::Revision;
use crate::sweep::{
    SWEEP_COMMITS, compaction_target, frontier, has_garbage, is_history_too_large, sweep,
};
use crate::sync::Arc;
use crate::txn::{Txn, TxnResult};
use crate::view::View;
use optik_platform::Monotonic;
use std::time::Duration;
use tokio::sync::oneshot;

/// How often the sequencer looks at the time when nobody asks it anything.
const TICK: Duration = Duration::from_secs(1);
/// How long it leaves a failed disk alone before it tries again.
const REPAIR_PAUSE: Duration = Duration::from_millis(500);
/// How many leases end in one batch.
const EXPIRIES_MAX: usize = 256;
/// How many quiet ticks make a good time for cleaning the disk.
const QUIET_TICKS: u32 = 5;
/// A tick is quiet if there were no more commits: somebody always renews a lease.
const QUIET_COMMITS: u64 = 20;
/// How often the sequencer looks whether the disk is clean.
const CLEANING_PAUSE: Duration = Duration::from_millis(20);

pub(crate) type Reply<T> = oneshot::Sender<T>;

pub(crate) enum Request {
    Commit {
        txn: Txn,
        origin: Origin,
        reply: Reply<Result<TxnResult, CommitError>>,
    },
    Compact {
        revision: Revision,
        reply: Reply<Result<(), CompactError>>,
    },
    Grant {
        id: Option<LeaseId>,
        ttl: Duration,
        reply: Reply<Result<LeaseId, LeaseError>>,
    },
    Revoke {
        id: LeaseId,
        reply: Reply<Result<Revision, LeaseError>>,
    },
    KeepAlive {
        id: LeaseId,
        reply: Reply<Result<Duration, LeaseError>>,
    },
    LeaseInfo {
        id: LeaseId,
        reply: Reply<Result<LeaseInfo, LeaseError>>,
    },
    Leases {
        reply: Reply<Result<Vec<LeaseId>, LeaseError>>,
    },
    /// Look at the time now; answered when everything due has been done.
    Tick {
        reply: Reply<()>,
    },
    DiskState {
        reply: Reply<DiskState>,
    },
    /// A whole state: published, so durable.
    Export {
        reply: Reply<Exported>,
    },
    Shrink {
        reply: Reply<Result<(), CommitError>>,
    },
    Stop {
        reply: Reply<()>,
    },
}

/// How what holds the data is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskState {
    pub(crate) bytes: u64,
    /// Of an embedded engine on disk.
    pub(crate) status: Option<DiskStatus>,
    pub(crate) takes_writes: bool,
}

/// What an export is made of, as of one moment.
pub(crate) struct Exported {
    pub(crate) floor: Revision,
    pub(crate) state: (Vec<Arc<Commit>>, Index),
    pub(crate) leases: Vec<(LeaseId, Duration)>,
}

impl Request {
    /// About how much of a batch it fills.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Commit { txn, .. } => txn.size(),
            _ => 0,
        }
    }
}

pub(crate) struct Sequencer {
    view: Arc<View>,
    disk: Option<Disk>,
    options: Options,
    /// As published, but for what compaction has cleared away since.
    index: Index,
    leases: Leases,
    origins: Origins,
    failure: Option<Failure>,
    last_tick: Monotonic,
    noted: Revision,
    /// How many ticks there have been in which little was written.
    quiet: u32,
    /// Since the last batch.
    asked_to_shrink: Vec<Reply<Result<(), CommitError>>>,
    /// Answered when the disk is clean.
    shrinking: Vec<Reply<Result<(), CommitError>>>,
    stopping: Option<Reply<()>>,
}

/// The disk refuses writes; reads go on.
struct Failure {
    error: CommitError,
    tried: Monotonic,
}

/// An answer that is ready, but must not be given before the batch is durable.
type Answer = Box<dyn FnOnce(Option<&CommitError>) + Send>;

struct Batch {
    draft: Draft,
    answers: Vec<Answer>,
    floor: Option<Revision>,
}

impl Sequencer {
    pub(crate) fn new(
        view: Arc<View>,
        disk: Option<Disk>,
        options: Options,
        leases: Leases,
    ) -> Self {
        let index = view.with_index(Index::clone);
        Self {
            view,
            disk,
            index,
            leases,
            origins: Origins::default(),
            failure: None,
            last_tick: options.clock.monotonic(),
            noted: Revision::ZERO,
            quiet: 0,
            asked_to_shrink: Vec::new(),
            shrinking: Vec::new(),
            stopping: None,
            options,
        }
    }

    /// Carries requests out until it is told to stop, or nobody is left who could.
    pub(crate) async fn run(mut self, mut requests: Intake) {
        while self.stopping.is_none() {
            let Some(batch) = requests.next(self.pause()).await else {
                break;
            };
            let made = batch.len();
            self.process(batch);
            self.sweep(SWEEP_COMMITS.max(2 * made));
            if !self.asked_to_shrink.is_empty() {
                self.begin_shrinking();
            }
            self.clean_disk();
        }
        self.close();
    }

    /// How long nothing needs to be done unless somebody asks.
    fn pause(&self) -> Duration {
        let now = self.options.clock.monotonic();
        let to_expiry = self.leases.next_expiry().map(|expiry| expiry.since(now));
        let pause = to_expiry.map_or(TICK, |pause| pause.min(TICK));
        if has_garbage(&self.view) {
            return Duration::ZERO;
        }
        // A lease that ran out while the disk fails must not make us spin.
        if self.failure.is_some() {
            return TICK;
        }
        if self.disk.as_ref().is_some_and(Disk::is_cleaning) {
            return pause.min(CLEANING_PAUSE);
        }
        pause
    }

    fn process(&mut self, requests: Vec<Queued>) {
        let now = self.options.clock.monotonic();
        if self.failure.is_some() {
            self.try_repair(now);
        }
        let mut batch = Batch {
            draft: Draft::new(
                self.index.clone(),
                self.leases.clone(),
                self.view.floor().get(),
                self.options.limits,
            ),
            answers: Vec::with_capacity(requests.len()),
            floor: None,
        };
        self.expire_leases(&mut batch, now);
        for queued in requests {
            self.plan(queued.request, &mut batch, now);
        }
        let ticked = now.since(self.last_tick) >= TICK;
        if ticked {
            self.last_tick = now;
        }
        if ticked || is_history_too_large(&self.view, self.options.retention) {
            self.plan_compaction(&mut batch, now);
        }
        self.finish(batch);
        if ticked {
            self.note_quiet();
            if let Some(disk) = &mut self.disk {
                disk.tick();
            }
            self.note_synced();
        }
    }

    fn expire_leases(&mut self, batch: &mut Batch, now: Monotonic) {
        // The others follow with the next batches: leases that were granted at the same time
        // may hold millions of keys.
        for _ in 0..EXPIRIES_MAX {
            let Some(id) = batch.draft.leases.expired(now) else {
                return;
            };
            let stamp = self.stamp(Origin::system("expire"), now);
            let gone = batch.draft.revoke(id, &stamp);
            assert!(gone.is_ok(), "an expired lease is a lease");
        }
    }

    fn stamp(&mut self, origin: Origin, now: Monotonic) -> Stamp {
        Stamp {
            time: self.options.clock.wall(),
            now,
            origin: self.origins.intern(origin),
        }
    }

    fn plan(&mut self, request: Request, batch: &mut Batch, now: Monotonic) {
        let draft = &mut batch.draft;
        let answer = match request {
            Request::Commit { txn, origin, reply } => {
                let stamp = self.stamp(origin, now);
                let result = draft.execute(&txn, &stamp).map_err(CommitError::from);
                answer(reply, result, |error| error)
            }
            Request::Compact { revision, reply } => {
                let result = batch.compact(revision, self.view.floor().get());
                answer(reply, result, CompactError::from)
            }
            Request::Grant { id, ttl, reply } => {
                let id = id.unwrap_or_else(|| self.free_lease_id(&draft.leases));
                let result = draft.grant(id, ttl, now).map(|()| id);
                answer(reply, result, LeaseError::from)
            }
            Request::Revoke { id, reply } => {
                let stamp = self.stamp(Origin::system("revoke"), now);
                let result = draft.revoke(id, &stamp).map(|()| draft.index.revision());
                answer(reply, result, LeaseError::from)
            }
            Request::KeepAlive { id, reply } => {
                let result = draft.leases.renew(id, now).ok_or(LeaseError::NotFound);
                answer(reply, result, LeaseError::from)
            }
            Request::LeaseInfo { id, reply } => {
                let result = draft.leases.info(id, now).ok_or(LeaseError::NotFound);
                answer(reply, result, LeaseError::from)
            }
            Request::Leases { reply } => {
                let ids = draft.leases.ids();
                answer(reply, Ok(ids), LeaseError::from)
            }
            Request::Tick { reply } => {
                self.plan_compaction(batch, now);
                always(reply, ())
            }
            Request::DiskState { reply } => {
                let state = DiskState {
                    bytes: self.disk.as_ref().map_or(0, Disk::bytes),
                    status: self.disk.as_ref().map(|disk| disk.status(&self.index)),
                    takes_writes: self.failure.is_none(),
                };
                always(reply, state)
            }
            Request::Export { reply } => {
                let exported = Exported {
                    floor: self.view.floor().get(),
                    state: self.view.state_with_history(),
                    leases: self.leases.iter().collect(),
                };
                always(reply, exported)
            }
            Request::Shrink { reply } => {
                self.asked_to_shrink.push(reply);
                return;
            }
            Request::Stop { reply } => {
                self.stopping = Some(reply);
                return;
            }
        };
        batch.answers.push(answer);
    }

    fn free_lease_id(&self, leases: &Leases) -> LeaseId {
        loop {
            let random = self.options.entropy.next_u64() & (i64::MAX as u64);
            let id = LeaseId(random.cast_signed());
            if id != LeaseId::NONE && !leases.contains(id) {
                return id;
            }
        }
    }

    fn plan_compaction(&self, batch: &mut Batch, now: Monotonic) {
        if let Some(target) = compaction_target(&self.view, self.options.retention, now) {
            batch.floor = batch.floor.max(Some(target));
        }
    }

    /// Makes a batch durable, publishes it, answers: in this order.
    ///
    /// Watchers are told last. Waking their thread takes longer than all answers, and
    /// they cannot tell the difference.
    fn finish(&mut self, mut batch: Batch) {
        let written = self.write(&batch);
        let before = match written {
            Ok(()) => self.publish(&mut batch),
            Err(_) => None,
        };
        let error = written.err();
        for answer in batch.answers {
            answer(error.as_ref());
        }
        if before.is_some() {
            self.view.tell_watchers(self.index.revision());
        }
    }

    fn write(&mut self, batch: &Batch) -> Result<(), CommitError> {
        if !batch.draft.has_changes() && batch.floor.is_none() {
            return Ok(());
        }
        let Some(disk) = &mut self.disk else {
            return Ok(());
        };
        if let Some(failure) = &self.failure {
            return Err(failure.error.clone());
        }
        let floor = self.view.floor().get();
        let written = disk.write(&Change {
            commits: &batch.draft.commits,
            leases: &batch.draft.lease_changes,
            floor: batch.floor,
            state: State {
                floor: batch.floor.unwrap_or(floor),
                leases: &batch.draft.leases,
            },
        });
        written.map_err(|error| self.fail(error))
    }

    /// Returns the state before, if there is a new one.
    fn publish(&mut self, batch: &mut Batch) -> Option<Index> {
        let commits = std::mem::take(&mut batch.draft.commits);
        self.leases = batch.draft.leases.clone();
        let before = (!commits.is_empty()).then(|| {
            self.index = batch.draft.index.clone();
            self.view.show(self.index.clone(), commits)
        });
        if let Some(floor) = batch.floor {
            tracing::debug!(%floor, "compacted");
            self.view.compact(floor);
        }
        before
    }

    fn fail(&mut self, error: DiskError) -> CommitError {
        let error = CommitError::from(error);
        tracing::error!(%error, "the disk refuses writes; reads go on, and it will be tried again");
        self.failure = Some(Failure {
            error: error.clone(),
            tried: self.options.clock.monotonic(),
        });
        error
    }

    fn try_repair(&mut self, now: Monotonic) {
        let (Some(failure), Some(disk)) = (&mut self.failure, &mut self.disk) else {
            return;
        };
        if now.since(failure.tried) < REPAIR_PAUSE {
            return;
        }
        failure.tried = now;
        let state = State {
            floor: self.view.floor().get(),
            leases: &self.leases,
        };
        match disk.repair(state) {
            Ok(()) => {
                tracing::info!("the disk takes writes again");
                self.failure = None;
            }
            Err(error) => {
                let text = describe(&error);
                tracing::warn!(error = %text, "the disk still refuses writes");
            }
        }
    }

    /// Clears away a bounded part of what compaction made unreachable.
    fn sweep(&mut self, commits: usize) {
        let disk = &mut self.disk;
        sweep(&self.view, &mut self.index, commits, |version| {
            if let Some(disk) = disk {
                disk.note_dead(version);
            }
        });
    }

    /// Lets the cleaner of the disk do what is due.
    fn clean_disk(&mut self) {
        let Some(disk) = &mut self.disk else {
            return;
        };
        let cleaning = if self.quiet >= QUIET_TICKS {
            Cleaning::Idle
        } else {
            Cleaning::Busy
        };
        let state = State {
            floor: self.view.floor().get(),
            leases: &self.leases,
        };
        let result = disk.clean(cleaning, frontier(&self.view), state);
        let shrunk = disk.take_full_cleaning_result();
        if let (Err(error), None) = (result, &self.failure) {
            self.fail(error);
        }
        if let Some(shrunk) = shrunk {
            self.end_shrinking(&shrunk.map_err(CommitError::from));
        }
    }

    /// Clears everything away at once, for somebody who wants the disk space back. Others
    /// write meanwhile.
    ///
    /// Not in the middle of a batch: its draft began with the state before.
    fn begin_shrinking(&mut self) {
        while has_garbage(&self.view) {
            self.sweep(SWEEP_COMMITS);
        }
        self.shrinking.append(&mut self.asked_to_shrink);
        match (&self.failure, &mut self.disk) {
            (Some(failure), _) => {
                let error = failure.error.clone();
                self.end_shrinking(&Err(error));
            }
            (None, Some(disk)) => disk.request_full_cleaning(),
            (None, None) => self.end_shrinking(&Ok(())),
        }
    }

    fn end_shrinking(&mut self, result: &Result<(), CommitError>) {
        for reply in self.shrinking.drain(..) {
            let _ = reply.send(result.clone());
        }
    }

    /// The disk is cleaned less thoroughly while somebody writes.
    fn note_quiet(&mut self) {
        let commits = self.index.revision().get() - self.noted.get();
        self.quiet = if commits > QUIET_COMMITS {
            0
        } else {
            self.quiet.saturating_add(1)
        };
    }

    fn note_synced(&mut self) {
        let newest = self.index.revision();
        let (Some(disk), None) = (&mut self.disk, &self.failure) else {
            return;
        };
        match disk.sync(newest) {
            Ok(()) => self.noted = newest,
            Err(error) => drop(self.fail(error)),
        }
    }

    fn close(mut self) {
        self.note_synced();
        self.view.hub().stop();
        // Close the disk before saying so: whoever waits may open it again.
        if let Some(disk) = self.disk.take() {
            disk.close();
        }
        if let Some(reply) = self.stopping.take() {
            let _ = reply.send(());
        }
    }
}

impl Batch {
    fn compact(&mut self, to: Revision, floor: Revision) -> Result<(), CompactError> {
        let oldest = self.floor.unwrap_or(floor);
        if to <= oldest && oldest > Revision::FIRST || to < oldest {
            return Err(CompactError::Compacted { oldest });
        }
        let newest = self.draft.index.revision();
        if to > newest {
            return Err(CompactError::Future { newest });
        }
        self.floor = Some(to);
        Ok(())
    }
}

/// Keeps a result back until the batch is durable; if it is not, that is the answer.
fn answer<T: Send + 'static, E: Send + 'static>(
    reply: Reply<Result<T, E>>,
    result: Result<T, E>,
    failed: impl FnOnce(CommitError) -> E + Send + 'static,
) -> Answer {
    Box::new(move |error| {
        let result = match error {
            // What was refused for its own sake is refused whatever the disk does.
            Some(error) if result.is_ok() => Err(failed(error.clone())),
            _ => result,
        };
        // The caller may have gone away; the commit stands all the same.
        let _ = reply.send(result);
    })
}

/// An answer that does not depend on the disk.
fn always<T: Send + 'static>(reply: Reply<T>, result: T) -> Answer {
    Box::new(move |_: Option<&CommitError>| drop(reply.send(result)))
}

impl From<DiskError> for CommitError {
    fn from(error: DiskError) -> Self {
        match error {
            DiskError::NoSpace => Self::NoSpace,
            DiskError::Failed(reason) => Self::Disk(reason),
        }
    }
}

/// An error with all its causes, for the log.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
