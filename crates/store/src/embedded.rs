//! The embedded engine: a queue, the sequencer that serves it, and an optional disk.

use crate::batch_receiver::{BatchReceiver, QueuedRequest};
use crate::disk::{Disk, revive_leases};
use crate::error::{CommitError, OpenError};
use crate::index::Index;
use crate::lease::Leases;
use crate::options::Options;
use crate::revision::Revision;
use crate::sequencer::{Reply, Sequencer, SequencerRequest};
use crate::sync::Arc;
use crate::view::View;
use optik_supervisor::{Supervisor, Task};
use std::sync::OnceLock;
use tokio::sync::{Semaphore, mpsc, oneshot, watch as signal};

/// The memory limit of requests that wait for the sequencer, in KiB.
const QUEUE_KIB_MAX: u32 = 64 << 10;

const SEQUENCER_TASK: Task = Task::serving("store-sequencer");
/// The task completes when the hub is stopped.
const DISPATCHER_TASK: Task = Task::serving("store-dispatcher").that_completes();
const SEQUENCER_FAILED: &str = "the sequencer task panicked; restart Optik to reload the data from \
    disk";

#[derive(Debug)]
pub(crate) struct EmbeddedEngine {
    queue: mpsc::UnboundedSender<QueuedRequest>,
    queue_permits: Arc<Semaphore>,
    exit: Arc<SequencerExit>,
    id: u64,
}

/// Whether the sequencer has ended, and how.
#[derive(Debug, Default)]
struct SequencerExit {
    failed: OnceLock<()>,
    ended: signal::Sender<bool>,
}

impl EmbeddedEngine {
    pub(crate) fn open(options: Options) -> Result<(Self, Arc<View>), OpenError> {
        let opened = match &options.directory {
            Some(path) => {
                let (disk, found) = Disk::open(path, &options)?;
                let now = options.clock.monotonic();
                let leases = revive_leases(&found.leases, &found.index, now);
                let view = View::new(found.index, found.history, found.floor);
                (Some(disk), view, leases, found.id)
            }
            None => {
                let index = Index::new(Revision::FIRST);
                let view = View::new(index, Vec::new(), Revision::FIRST);
                let id = options.entropy.next_u64();
                (None, view, Leases::default(), id)
            }
        };
        let (disk, view, leases, id) = opened;
        let (queue, requests) = mpsc::unbounded_channel();
        let executor = options.executor.clone();
        let supervisor = options.supervisor.clone();
        let requests = BatchReceiver::new(requests, &executor, Arc::clone(&options.clock));
        let sequencer = Sequencer::new(Arc::clone(&view), disk, options, leases);
        let end = Arc::new(SequencerExit::default());
        let sequencing = run_sequencer(&supervisor, sequencer, requests, &view, &end);
        executor.run("optik-sequencer", sequencing);
        executor.run("optik-dispatcher", run_dispatcher(&supervisor, &view));
        let embedded = Self {
            queue,
            queue_permits: Arc::new(Semaphore::new(QUEUE_KIB_MAX as usize)),
            exit: end,
            id,
        };
        Ok((embedded, view))
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Sends a request to the sequencer and waits for its answer. Dropping the future only stops
    /// the waiting: a request that was sent is still executed.
    pub(crate) async fn call<T>(
        &self,
        request: impl FnOnce(Reply<T>) -> SequencerRequest,
    ) -> Result<T, CommitError> {
        let (reply, answer) = oneshot::channel();
        let request = request(reply);
        let kib = u32::try_from(request.size() >> 10).unwrap_or(u32::MAX);
        let share = kib.saturating_add(1).min(QUEUE_KIB_MAX);
        debug_assert!(
            (1..=QUEUE_KIB_MAX).contains(&share),
            "bounds: a request takes {share} KiB of the queue"
        );
        let room = Arc::clone(&self.queue_permits)
            .acquire_many_owned(share)
            .await;
        let queued = QueuedRequest {
            request,
            _permit: room.map_err(|_| CommitError::Stopped)?,
        };
        if self.queue.send(queued).is_err() {
            return Err(match self.check() {
                Ok(()) => CommitError::Stopped,
                Err(why) => CommitError::Unavailable(why.into()),
            });
        }
        match answer.await {
            Ok(answer) => Ok(answer),
            Err(_) => Err(self.exit.lost_reply_error().await),
        }
    }

    /// Checks that the last published state is still the newest.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        match self.exit.failed.get() {
            None => Ok(()),
            Some(()) => Err(SEQUENCER_FAILED),
        }
    }
}

impl SequencerExit {
    /// The error for a request whose answer was lost: it may have reached the disk, if the
    /// sequencer panicked meanwhile.
    async fn lost_reply_error(&self) -> CommitError {
        let mut ended = self.ended.subscribe();
        // The reply channels are dropped first; how the sequencer ended is known a little later.
        // The sender lives as long as `self`.
        let _ = ended.wait_for(|ended| *ended).await;
        match self.failed.get() {
            None => CommitError::Stopped,
            Some(()) => CommitError::Unknown(SEQUENCER_FAILED.into()),
        }
    }
}

/// Runs the sequencer. It is the one task that cannot be restarted: after a panic, its view of the
/// disk and the disk may differ. Nothing is acknowledged any more, and a new process starts from
/// the contents of the disk.
fn run_sequencer(
    supervisor: &Supervisor,
    sequencer: Sequencer,
    requests: BatchReceiver,
    view: &Arc<View>,
    end: &Arc<SequencerExit>,
) -> impl Future<Output = ()> + Send + 'static {
    let ending = ExitGuard(Arc::clone(end));
    let (view, end) = (Arc::clone(view), Arc::clone(end));
    let work = supervisor.supervise_once(SEQUENCER_TASK, sequencer.run(requests), move |_| {
        let _ = end.failed.set(());
        view.hub().stop();
    });
    async move {
        let _ending = ending;
        work.await;
    }
}

/// Reports the end of the sequencer when dropped, also if its runtime was dropped.
struct ExitGuard(Arc<SequencerExit>);

impl Drop for ExitGuard {
    fn drop(&mut self) {
        self.0.ended.send_replace(true);
    }
}

/// Runs the dispatcher, which delivers commits to watches. While it fails, watches read the history
/// instead.
pub(crate) fn run_dispatcher(
    supervisor: &Supervisor,
    view: &Arc<View>,
) -> impl Future<Output = ()> + Send + 'static {
    let view = Arc::clone(view);
    supervisor.supervise(DISPATCHER_TASK, move || {
        let view = Arc::clone(&view);
        async move { view.hub().run(&view).await }
    })
}
