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
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Requests that wait for the sequencer hold this much memory at most.
const QUEUE_KIB_MAX: u32 = 64 << 10;

#[derive(Debug)]
pub(crate) struct Embedded {
    queue: mpsc::UnboundedSender<Queued>,
    room: Arc<Semaphore>,
    id: u64,
}

impl Embedded {
    pub(crate) fn open(options: Options) -> Result<(Self, Arc<View>), OpenError> {
        let opened = match &options.directory {
            Some(path) => {
                let (disk, found) = Disk::open(path, &options)?;
                let now = options.clock.monotonic();
                let leases = revive_leases(&found.leases, &found.index, now);
                let view = View::new(found.index, found.history, found.floor);
                (Some(disk), view, leases, found.garbage, found.id)
            }
            None => {
                let index = Index::new(Revision::FIRST);
                let view = View::new(index, Vec::new(), Revision::FIRST);
                let id = options.entropy.next_u64();
                (None, view, Leases::default(), Vec::new(), id)
            }
        };
        let (disk, view, leases, garbage, id) = opened;
        let (queue, requests) = mpsc::unbounded_channel();
        let workplace = options.workplace.clone();
        let requests = Intake::new(requests, &workplace, Arc::clone(&options.clock));
        let sequencer = Sequencer::new(Arc::clone(&view), disk, options, leases, garbage);
        workplace.run("optik-sequencer", sequencer.run(requests));
        let dispatching = Arc::clone(&view);
        workplace.run("optik-dispatcher", async move {
            dispatching.hub().run(&dispatching).await;
        });
        let embedded = Self {
            queue,
            room: Arc::new(Semaphore::new(QUEUE_KIB_MAX as usize)),
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
        self.queue.send(queued).map_err(|_| CommitError::Stopped)?;
        answer.await.map_err(|_| CommitError::Stopped)
    }
}
