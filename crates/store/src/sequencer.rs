//! The sequencer: the single task of the embedded engine that assigns revisions.
//!
//! Requests queue while the disk syncs the previous batch (group commit). The sequencer executes
//! all queued requests, makes them durable with one fsync, publishes them to readers, and then
//! replies.

use crate::batch_receiver::{BatchReceiver, QueuedRequest};
use crate::compaction::{
    SWEEP_COMMITS, compaction_target, frontier, has_garbage, is_history_too_large, sweep,
};
use crate::disk::{CleaningMode, Disk, DiskError, DiskStatus, DiskWrite, LogMeta};
use crate::draft::{CommitContext, Draft};
use crate::error::{CommitError, CompactError, LeaseError};
use crate::history::Commit;
use crate::index::Index;
use crate::lease::{LeaseId, LeaseInfo, Leases};
use crate::options::Options;
use crate::origin::{Origin, OriginInterner};
use crate::revision::Revision;
use crate::sync::Arc;
use crate::txn::{Txn, TxnResult};
use crate::verify::{self, VerifySchedule};
use crate::view::View;
use optik_platform::Monotonic;
use std::time::Duration;
use tokio::sync::oneshot;

/// Interval of the sequencer's tick when no requests arrive.
const TICK_INTERVAL: Duration = Duration::from_secs(1);
/// Pause between attempts to repair a failed disk.
const REPAIR_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of leases that expire in one batch.
const BATCH_EXPIRIES_MAX: usize = 256;
/// Number of quiet ticks after which the disk is cleaned thoroughly.
const QUIET_TICKS_MIN: u32 = 5;
/// Maximum commits of a quiet tick. It is not zero because clients renew leases continuously.
const QUIET_TICK_COMMITS_MAX: u64 = 20;
/// Interval at which the sequencer polls the state of cleaning.
const CLEANING_POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) type Reply<T> = oneshot::Sender<T>;

pub(crate) enum SequencerRequest {
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
    /// Runs the due periodic work now; the reply follows when it is done.
    Tick {
        reply: Reply<()>,
    },
    BackendStatus {
        reply: Reply<BackendStatus>,
    },
    /// Exports the whole published, and therefore durable, state.
    Export {
        reply: Reply<ExportState>,
    },
    Defragment {
        reply: Reply<Result<(), CommitError>>,
    },
    Stop {
        reply: Reply<()>,
    },
}

/// Status of the embedded engine's disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackendStatus {
    pub(crate) bytes: u64,
    /// The disk of an embedded engine; `None` in memory.
    pub(crate) status: Option<DiskStatus>,
    pub(crate) accepts_writes: bool,
}

/// The state that an export is made of, at one revision.
pub(crate) struct ExportState {
    pub(crate) floor: Revision,
    pub(crate) state: (Vec<Arc<Commit>>, Index),
    pub(crate) leases: Vec<(LeaseId, Duration)>,
}

impl SequencerRequest {
    /// Approximate share of the batch size.
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
    /// The published index, minus the versions that compaction has removed since.
    index: Index,
    leases: Leases,
    origins: OriginInterner,
    failure: Option<DiskFailure>,
    last_tick: Monotonic,
    last_synced: Revision,
    /// Number of consecutive ticks with few commits.
    quiet_ticks: u32,
    /// Requests since the last batch.
    defragment_requests: Vec<Reply<Result<(), CommitError>>>,
    /// Replied to when the disk is clean.
    defragment_waiters: Vec<Reply<Result<(), CommitError>>>,
    stop_reply: Option<Reply<()>>,
    verify_schedule: VerifySchedule,
}

/// A failure of the disk: writes are rejected, reads continue.
struct DiskFailure {
    error: CommitError,
    last_attempt: Monotonic,
}

/// A computed reply that is held back until the batch is durable.
type PendingReply = Box<dyn FnOnce(Option<&CommitError>) + Send>;

struct CommitBatch {
    draft: Draft,
    replies: Vec<PendingReply>,
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
            origins: OriginInterner::default(),
            failure: None,
            last_tick: options.clock.monotonic(),
            last_synced: Revision::ZERO,
            quiet_ticks: 0,
            defragment_requests: Vec::new(),
            defragment_waiters: Vec::new(),
            stop_reply: None,
            verify_schedule: VerifySchedule::default(),
            options,
        }
    }

    /// Executes requests until it is stopped or all senders are dropped.
    pub(crate) async fn run(mut self, mut requests: BatchReceiver) {
        if crate::VERIFY {
            self.verify();
        }
        while self.stop_reply.is_none() {
            let Some(batch) = requests.next_batch(self.idle_timeout()).await else {
                break;
            };
            let made = batch.len();
            self.process(batch);
            self.sweep(SWEEP_COMMITS.max(2 * made));
            if self.verify_schedule.is_due(&self.view, made) {
                self.verify();
            }
            if !self.defragment_requests.is_empty() {
                self.begin_defragment();
            }
            self.clean_disk();
        }
        self.close();
    }

    /// Asserts the invariants that hold between batches; see [`verify`].
    fn verify(&self) {
        verify::view(&self.view);
        verify::leases(&self.leases, &self.index);
        assert_eq!(
            (self.index.revision(), self.index.size()),
            self.view
                .with_index(|index| (index.revision(), index.size())),
            "the sequencer works on what readers see"
        );
        if let Some(disk) = &self.disk {
            disk.verify(&self.view, &self.index);
        }
    }

    /// Returns how long the sequencer may sleep if no request arrives.
    fn idle_timeout(&self) -> Duration {
        let now = self.options.clock.monotonic();
        let to_expiry = self.leases.next_expiry().map(|expiry| expiry.since(now));
        let pause = to_expiry.map_or(TICK_INTERVAL, |pause| pause.min(TICK_INTERVAL));
        if has_garbage(&self.view) {
            return Duration::ZERO;
        }
        // An expired lease must not cause a busy loop while the disk fails.
        if self.failure.is_some() {
            return TICK_INTERVAL;
        }
        if self.disk.as_ref().is_some_and(Disk::is_cleaning) {
            return pause.min(CLEANING_POLL_INTERVAL);
        }
        pause
    }

    fn process(&mut self, requests: Vec<QueuedRequest>) {
        let now = self.options.clock.monotonic();
        if self.failure.is_some() {
            self.try_repair(now);
        }
        let mut batch = CommitBatch {
            draft: Draft::new(
                self.index.clone(),
                self.leases.clone(),
                self.view.floor().get(),
                self.options.limits,
            ),
            replies: Vec::with_capacity(requests.len()),
            floor: None,
        };
        self.expire_leases(&mut batch, now);
        for queued in requests {
            self.execute_request(queued.request, &mut batch, now);
        }
        let ticked = now.since(self.last_tick) >= TICK_INTERVAL;
        if ticked {
            self.last_tick = now;
        }
        if ticked || is_history_too_large(&self.view, self.options.retention) {
            self.plan_compaction(&mut batch, now);
        }
        self.commit_batch(batch);
        if ticked {
            self.update_quiet_ticks();
            if let Some(disk) = &mut self.disk {
                disk.tick();
            }
            self.sync_disk();
        }
    }

    fn expire_leases(&mut self, batch: &mut CommitBatch, now: Monotonic) {
        // Further leases expire in the next batches: leases that were granted at the same time may
        // hold millions of keys.
        for _ in 0..BATCH_EXPIRIES_MAX {
            let Some(id) = batch.draft.leases.expired(now) else {
                return;
            };
            let stamp = self.stamp(Origin::system("expire"), now);
            let gone = batch.draft.revoke(id, &stamp);
            assert!(gone.is_ok(), "an expired lease is a lease");
        }
    }

    fn stamp(&mut self, origin: Origin, now: Monotonic) -> CommitContext {
        CommitContext {
            time: self.options.clock.wall(),
            now,
            origin: self.origins.intern(origin),
        }
    }

    fn execute_request(
        &mut self,
        request: SequencerRequest,
        batch: &mut CommitBatch,
        now: Monotonic,
    ) {
        let draft = &mut batch.draft;
        let answer = match request {
            SequencerRequest::Commit { txn, origin, reply } => {
                let stamp = self.stamp(origin, now);
                let result = draft.execute(&txn, &stamp).map_err(CommitError::from);
                reply_when_durable(reply, result, |error| error)
            }
            SequencerRequest::Compact { revision, reply } => {
                let result = batch.compact(revision, self.view.floor().get());
                reply_when_durable(reply, result, CompactError::from)
            }
            SequencerRequest::Grant { id, ttl, reply } => {
                let id = id.unwrap_or_else(|| self.free_lease_id(&draft.leases));
                let result = draft.grant(id, ttl, now).map(|()| id);
                reply_when_durable(reply, result, LeaseError::from)
            }
            SequencerRequest::Revoke { id, reply } => {
                let stamp = self.stamp(Origin::system("revoke"), now);
                let result = draft.revoke(id, &stamp).map(|()| draft.index.revision());
                reply_when_durable(reply, result, LeaseError::from)
            }
            SequencerRequest::KeepAlive { id, reply } => {
                let result = draft.leases.renew(id, now).ok_or(LeaseError::NotFound);
                reply_when_durable(reply, result, LeaseError::from)
            }
            SequencerRequest::LeaseInfo { id, reply } => {
                let result = draft.leases.info(id, now).ok_or(LeaseError::NotFound);
                reply_when_durable(reply, result, LeaseError::from)
            }
            SequencerRequest::Leases { reply } => {
                let ids = draft.leases.ids();
                reply_when_durable(reply, Ok(ids), LeaseError::from)
            }
            SequencerRequest::Tick { reply } => {
                self.plan_compaction(batch, now);
                reply_regardless(reply, ())
            }
            SequencerRequest::BackendStatus { reply } => {
                let state = BackendStatus {
                    bytes: self.disk.as_ref().map_or(0, Disk::bytes),
                    status: self.disk.as_ref().map(|disk| disk.status(&self.index)),
                    accepts_writes: self.failure.is_none(),
                };
                reply_regardless(reply, state)
            }
            SequencerRequest::Export { reply } => {
                let exported = ExportState {
                    floor: self.view.floor().get(),
                    state: self.view.state_with_history(),
                    leases: self.leases.iter().collect(),
                };
                reply_regardless(reply, exported)
            }
            SequencerRequest::Defragment { reply } => {
                self.defragment_requests.push(reply);
                return;
            }
            SequencerRequest::Stop { reply } => {
                self.stop_reply = Some(reply);
                return;
            }
        };
        batch.replies.push(answer);
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

    fn plan_compaction(&self, batch: &mut CommitBatch, now: Monotonic) {
        if let Some(target) = compaction_target(&self.view, self.options.retention, now) {
            batch.floor = batch.floor.max(Some(target));
        }
    }

    /// Makes a batch durable, publishes it, then replies.
    ///
    /// Watchers are notified last: waking the dispatcher takes longer than all replies, and
    /// watchers cannot observe the order.
    fn commit_batch(&mut self, mut batch: CommitBatch) {
        let written = self.write(&batch);
        let before = match written {
            Ok(()) => self.publish(&mut batch),
            Err(_) => None,
        };
        let error = written.err();
        for answer in batch.replies {
            answer(error.as_ref());
        }
        if before.is_some() {
            self.view.notify_watchers(self.index.revision());
        }
    }

    fn write(&mut self, batch: &CommitBatch) -> Result<(), CommitError> {
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
        let written = disk.write(&DiskWrite {
            commits: &batch.draft.commits,
            leases: &batch.draft.lease_changes,
            floor: batch.floor,
            state: LogMeta {
                floor: batch.floor.unwrap_or(floor),
                leases: &batch.draft.leases,
            },
        });
        written.map_err(|error| self.record_failure(error))
    }

    /// Publishes the batch; returns the previous index if there is a new one.
    fn publish(&mut self, batch: &mut CommitBatch) -> Option<Index> {
        self.check_publishable(batch);
        let commits = std::mem::take(&mut batch.draft.commits);
        self.leases = batch.draft.leases.clone();
        let before = (!commits.is_empty()).then(|| {
            self.index = batch.draft.index.clone();
            self.view.publish_to_readers(self.index.clone(), commits)
        });
        if let Some(floor) = batch.floor {
            tracing::debug!(%floor, "compacted");
            self.view.compact(floor);
        }
        before
    }

    /// Asserts that the batch continues the published state and is on disk.
    fn check_publishable(&self, batch: &CommitBatch) {
        let (before, revision) = (self.index.revision(), batch.draft.index.revision());
        let commits = &batch.draft.commits;
        assert_eq!(
            before.get() + commits.len() as u64,
            revision.get(),
            "contiguous revisions: a batch of commits from {before} to {revision}"
        );
        assert!(
            commits
                .first()
                .is_none_or(|first| first.revision == before.next()),
            "contiguous revisions: a batch does not begin behind {before}"
        );
        if let Some(disk) = self.disk.as_ref().filter(|_| !commits.is_empty()) {
            assert!(
                revision <= disk.newest_revision() && self.failure.is_none(),
                "durable before published: {revision} is not on disk, which has {}",
                disk.newest_revision()
            );
        }
        assert!(
            batch
                .floor
                .is_none_or(|floor| (self.view.floor().get()..=revision).contains(&floor)),
            "the floor never falls, and stays below what is published: {:?}",
            batch.floor
        );
    }

    fn record_failure(&mut self, error: DiskError) -> CommitError {
        let error = CommitError::from(error);
        tracing::error!(%error, "disk write failed; the store is read-only until a retry succeeds");
        self.failure = Some(DiskFailure {
            error: error.clone(),
            last_attempt: self.options.clock.monotonic(),
        });
        error
    }

    fn try_repair(&mut self, now: Monotonic) {
        let (Some(failure), Some(disk)) = (&mut self.failure, &mut self.disk) else {
            return;
        };
        if now.since(failure.last_attempt) < REPAIR_INTERVAL {
            return;
        }
        failure.last_attempt = now;
        let state = LogMeta {
            floor: self.view.floor().get(),
            leases: &self.leases,
        };
        match disk.repair(state) {
            Ok(()) => {
                tracing::info!("disk recovered; writes are accepted again");
                self.failure = None;
            }
            Err(error) => {
                let text = describe(&error);
                tracing::warn!(error = %text, "retry of the disk failed; the store stays read-only");
            }
        }
    }

    /// Removes a bounded number of versions that compaction made unreachable.
    fn sweep(&mut self, commits: usize) {
        let disk = &mut self.disk;
        sweep(&self.view, &mut self.index, commits, |version| {
            if let Some(disk) = disk {
                disk.mark_dead(version);
            }
        });
    }

    /// Starts due cleaning of the disk.
    fn clean_disk(&mut self) {
        let Some(disk) = &mut self.disk else {
            return;
        };
        let cleaning = if self.quiet_ticks >= QUIET_TICKS_MIN {
            CleaningMode::Idle
        } else {
            CleaningMode::Busy
        };
        let state = LogMeta {
            floor: self.view.floor().get(),
            leases: &self.leases,
        };
        let result = disk.clean(cleaning, frontier(&self.view), state);
        let shrunk = disk.take_full_cleaning_result();
        if let (Err(error), None) = (result, &self.failure) {
            self.record_failure(error);
        }
        if let Some(shrunk) = shrunk {
            self.finish_defragment(&shrunk.map_err(CommitError::from));
        }
    }

    /// Sweeps all compacted versions at once for a defragment request. Writes continue meanwhile.
    ///
    /// Must not be called during a batch: the batch's draft is based on the state before.
    fn begin_defragment(&mut self) {
        while has_garbage(&self.view) {
            self.sweep(SWEEP_COMMITS);
        }
        self.defragment_waiters
            .append(&mut self.defragment_requests);
        match (&self.failure, &mut self.disk) {
            (Some(failure), _) => {
                let error = failure.error.clone();
                self.finish_defragment(&Err(error));
            }
            (None, Some(disk)) => disk.request_full_cleaning(),
            (None, None) => self.finish_defragment(&Ok(())),
        }
    }

    fn finish_defragment(&mut self, result: &Result<(), CommitError>) {
        for reply in self.defragment_waiters.drain(..) {
            let _ = reply.send(result.clone());
        }
    }

    /// Updates the quiet ticks; the disk is cleaned less thoroughly under write load.
    fn update_quiet_ticks(&mut self) {
        let commits = self.index.revision().get() - self.last_synced.get();
        self.quiet_ticks = if commits > QUIET_TICK_COMMITS_MAX {
            0
        } else {
            self.quiet_ticks.saturating_add(1)
        };
    }

    fn sync_disk(&mut self) {
        let newest = self.index.revision();
        let (Some(disk), None) = (&mut self.disk, &self.failure) else {
            return;
        };
        assert_eq!(
            newest,
            self.view.revision(),
            "the sequencer works on what readers see"
        );
        match disk.sync(newest) {
            Ok(()) => self.last_synced = newest,
            Err(error) => drop(self.record_failure(error)),
        }
    }

    fn close(mut self) {
        self.sync_disk();
        self.view.hub().stop();
        // The disk is closed before the reply, because the caller may open it again.
        if let Some(disk) = self.disk.take() {
            disk.close();
        }
        if let Some(reply) = self.stop_reply.take() {
            let _ = reply.send(());
        }
    }
}

impl CommitBatch {
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

/// Returns a reply that is sent once the batch is durable; if the batch fails, it carries the
/// error.
fn reply_when_durable<T: Send + 'static, E: Send + 'static>(
    reply: Reply<Result<T, E>>,
    result: Result<T, E>,
    failed: impl FnOnce(CommitError) -> E + Send + 'static,
) -> PendingReply {
    Box::new(move |error| {
        let result = match error {
            // A request that was rejected by validation keeps its error, whatever the disk does.
            Some(error) if result.is_ok() => Err(failed(error.clone())),
            _ => result,
        };
        // The caller may be gone; the commit stands.
        let _ = reply.send(result);
    })
}

/// Returns a reply that does not depend on the disk.
fn reply_regardless<T: Send + 'static>(reply: Reply<T>, result: T) -> PendingReply {
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

/// Formats an error with all its causes for the log.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
