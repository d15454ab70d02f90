//! Batches linearizable reads: concurrent callers share one request to the cluster.

use super::cluster::{EtcdCallError, EtcdCluster};
use crate::revision::Revision;
use crate::sync::{Arc, Mutex};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};

type ReadWaiter = oneshot::Sender<Result<Revision, EtcdCallError>>;

/// Callers that wait for the next round. A round that has already begun proves nothing for them.
#[derive(Debug, Default)]
pub(crate) struct ReadIndex {
    waiting: Mutex<Vec<ReadWaiter>>,
    wakeup: Notify,
}

impl ReadIndex {
    /// Returns a linearizable revision, at least the cluster's revision at the time of the call.
    pub(crate) async fn revision(&self, deadline: Instant) -> Result<Revision, EtcdCallError> {
        let (caller, answer) = oneshot::channel();
        self.waiting.lock().push(caller);
        self.wakeup.notify_one();
        match timeout_at(deadline, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(EtcdCallError::Stopped),
            Err(_) => Err(EtcdCallError::Unavailable("no answer in time".into())),
        }
    }

    /// Fails all waiters, because no further round will run.
    pub(crate) fn stop(&self) {
        self.waiting.lock().clear();
    }

    pub(crate) async fn run(self: Arc<Self>, cluster: Arc<EtcdCluster>) {
        loop {
            self.wakeup.notified().await;
            let callers = std::mem::take(&mut *self.waiting.lock());
            let answer = query_revision(&cluster).await;
            for caller in callers {
                // Some callers may have been dropped.
                let _ = caller.send(answer.clone());
            }
        }
    }
}

async fn query_revision(cluster: &EtcdCluster) -> Result<Revision, EtcdCallError> {
    let deadline = Instant::now() + cluster.options.read_timeout;
    let revision = cluster.linearizable_revision(deadline).await?;
    if cluster.view.revision() < revision {
        cluster.progress.request();
    }
    Ok(revision)
}
