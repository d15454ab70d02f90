//! Proof that a state is the newest: one question to the cluster for all who ask.

use super::cluster::{Cluster, Failure};
use crate::revision::Revision;
use crate::sync::{Arc, Mutex};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};

type Caller = oneshot::Sender<Result<Revision, Failure>>;

/// Those who wait for the next round. A round that has begun is no proof for them.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    waiting: Mutex<Vec<Caller>>,
    bell: Notify,
}

impl Rounds {
    /// Where the cluster stands: at least where it stood when this was called.
    pub(crate) async fn revision(&self, deadline: Instant) -> Result<Revision, Failure> {
        let (caller, answer) = oneshot::channel();
        self.waiting.lock().push(caller);
        self.bell.notify_one();
        match timeout_at(deadline, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Failure::Stopped),
            Err(_) => Err(Failure::Unavailable("no answer in time".into())),
        }
    }

    /// Lets nobody wait for a round that will not come.
    pub(crate) fn stop(&self) {
        self.waiting.lock().clear();
    }

    pub(crate) async fn run(self: Arc<Self>, cluster: Arc<Cluster>) {
        loop {
            self.bell.notified().await;
            let callers = std::mem::take(&mut *self.waiting.lock());
            let answer = ask(&cluster).await;
            for caller in callers {
                // Some have given up; the others count.
                let _ = caller.send(answer.clone());
            }
        }
    }
}

async fn ask(cluster: &Cluster) -> Result<Revision, Failure> {
    let deadline = Instant::now() + cluster.options.read_timeout;
    let revision = cluster.newest(deadline).await?;
    if cluster.view.revision() < revision {
        cluster.progress.ask();
    }
    Ok(revision)
}
