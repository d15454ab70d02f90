//! The engine inside this process: a queue, the sequencer behind it, and a disk or none.

use crate::disk::{Disk, revive_leases};
use crate::error::{CommitError, OpenError};
use crate::index::Index;
use crate::intake::{Intake, Queued};
use crate::lease::Leases;
use crate::options::Options;
use crate::revision::Revision;
use crate::sequencer::{Reply, Request, Sequencer};
use crate::sync::Arc;
use crate::view::View;
use optik_supervisor::{Supervisor, Task};
use std::sync::OnceLock;
use tokio::sync::{Semaphore, mpsc, oneshot, watch as signal};

/// Requests that wait for the sequencer hold this much memory at most.
const QUEUE_KIB_MAX: u32 = 64 << 10;

const SEQUENCER: Task = Task::serving("store-sequencer");
/// It returns when the hub is stopped.
const DISPATCHER: Task = Task::serving("store-dispatcher").that_completes();
const FAILED: &str = "the task that makes revisions panicked; restart Optik to go on with what \
    is on disk";

#[derive(Debug)]
pub(crate) struct Embedded {
    queue: mpsc::UnboundedSender<Queued>,
    room: Arc<Semaphore>,
    end: Arc<End>,
    id: u64,
}

/// How the sequencer ended, once it has.
#[derive(Debug, Default)]
struct End {
    failed: OnceLock<()>,
    ended: signal::Sender<bool>,
}

impl Embedded {
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
        let workplace = options.workplace.clone();
        let supervisor = options.supervisor.clone();
        let requests = Intake::new(requests, &workplace, Arc::clone(&options.clock));
        let sequencer = Sequencer::new(Arc::clone(&view), disk, options, leases);
        let end = Arc::new(End::default());
        let sequencing = sequence(&supervisor, sequencer, requests, &view, &end);
        workplace.run("optik-sequencer", sequencing);
        workplace.run("optik-dispatcher", dispatch(&supervisor, &view));
        let embedded = Self {
            queue,
            room: Arc::new(Semaphore::new(QUEUE_KIB_MAX as usize)),
            end,
            id,
        };
        Ok((embedded, view))
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Hands a request to the sequencer and waits for its answer. Dropping the future
    /// gives up only the waiting: what has been handed over is carried out.
    pub(crate) async fn ask<T>(
        &self,
        request: impl FnOnce(Reply<T>) -> Request,
    ) -> Result<T, CommitError> {
        let (reply, answer) = oneshot::channel();
        let request = request(reply);
        let kib = u32::try_from(request.size() >> 10).unwrap_or(u32::MAX);
        let share = kib.saturating_add(1).min(QUEUE_KIB_MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(share).await;
        let queued = Queued {
            request,
            _share: room.map_err(|_| CommitError::Stopped)?,
        };
        if self.queue.send(queued).is_err() {
            return Err(match self.check() {
                Ok(()) => CommitError::Stopped,
                Err(why) => CommitError::Unavailable(why.into()),
            });
        }
        match answer.await {
            Ok(answer) => Ok(answer),
            Err(_) => Err(self.end.without_answer().await),
        }
    }

    /// Whether what was published last is still the newest that there is.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        match self.end.failed.get() {
            None => Ok(()),
            Some(()) => Err(FAILED),
        }
    }
}

impl End {
    /// What to say to somebody whose request is lost: it may have reached the disk, if the
    /// sequencer panicked meanwhile.
    async fn without_answer(&self) -> CommitError {
        let mut ended = self.ended.subscribe();
        // The answers go first, and how it ended is known a little later. The sender lives
        // as long as `self`.
        let _ = ended.wait_for(|ended| *ended).await;
        match self.failed.get() {
            None => CommitError::Stopped,
            Some(()) => CommitError::Unknown(FAILED.into()),
        }
    }
}

/// The one task that cannot be started again: what it knows of the disk, and the disk of
/// it, may differ after a panic. Then nothing is acknowledged any more, and a new process
/// begins with what is on disk.
fn sequence(
    supervisor: &Supervisor,
    sequencer: Sequencer,
    requests: Intake,
    view: &Arc<View>,
    end: &Arc<End>,
) -> impl Future<Output = ()> + Send + 'static {
    let ending = Ending(Arc::clone(end));
    let (view, end) = (Arc::clone(view), Arc::clone(end));
    let work = supervisor.supervise_once(SEQUENCER, sequencer.run(requests), move |_| {
        let _ = end.failed.set(());
        view.hub().stop();
    });
    async move {
        let _ending = ending;
        work.await;
    }
}

/// Says so when the sequencer has ended, also if its runtime did.
struct Ending(Arc<End>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.ended.send_replace(true);
    }
}

/// Tells watches of commits. If that fails, they go on with the history meanwhile.
pub(crate) fn dispatch(
    supervisor: &Supervisor,
    view: &Arc<View>,
) -> impl Future<Output = ()> + Send + 'static {
    let view = Arc::clone(view);
    supervisor.supervise(DISPATCHER, move || {
        let view = Arc::clone(&view);
        async move { view.hub().run(&view).await }
    })
}
