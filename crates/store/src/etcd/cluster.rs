//! State shared by the parts of the etcd engine: the connections, the mirror, and whether both may
//! be used.

use super::backoff::EtcdBackoff;
use super::cluster_identity::{ClusterIdentity, ClusterMismatch};
use super::connection::{DialError, EtcdConnection, describe};
use super::connection_pool::EtcdConnectionPool;
use super::error_class::{ErrorClass, classify};
use super::etcd_options::EtcdOptions;
use super::mirror::Mirror;
use super::origin_tracker::OriginTracker;
use super::progress::ProgressRequester;
use super::staleness::StalenessTracker;
use super::wire::{decode_revision, probe_request};
use crate::revision::Revision;
use crate::sync::{Arc, Mutex};
use crate::view::View;
use optik_etcd_api::etcdserverpb as pb;
use std::time::Duration;
use tokio::sync::watch as signal;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tonic::{Response, Status};

/// Most of our writes arrive through the watch within this time.
const PROGRESS_DELAY: Duration = Duration::from_millis(10);
/// After that, progress notifications are requested at this interval.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Lock order: `mirror`, then the locks of the view.
#[derive(Debug)]
pub(crate) struct EtcdCluster {
    pub(crate) options: EtcdOptions,
    pub(crate) connections: EtcdConnectionPool,
    pub(crate) identity: Arc<ClusterIdentity>,
    pub(crate) view: Arc<View>,
    pub(crate) mirror: Mutex<Mirror>,
    pub(crate) origin_tracker: Arc<OriginTracker>,
    pub(crate) progress: ProgressRequester,
    pub(crate) status: signal::Sender<MirrorStatus>,
    pub(crate) staleness: StalenessTracker,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MirrorStatus {
    /// The mirror does not follow the cluster; the text is the reason.
    OutOfSync(String),
    InSync,
    /// The published state is not in the cluster's history: the engine has failed permanently.
    Failed(String),
    Stopped,
}

/// Why a call failed.
#[derive(Clone, Debug)]
pub(crate) enum EtcdCallError {
    Stopped,
    /// The call was not executed.
    Unavailable(String),
    /// The call may or may not have been executed.
    Unknown(String),
    /// The cluster rejected the call.
    Refused(Status),
}

/// Whether a call may be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallIntent {
    Read,
    Write,
}

/// The cluster header of a response.
pub(crate) trait EtcdResponse {
    /// Whether the response is linearizable, so that its revision is current.
    const LINEARIZABLE: bool;
    fn header(&self) -> Option<&pb::ResponseHeader>;
}

macro_rules! responses {
    ($($response:ident: $linearizable:literal;)*) => {
        $(impl EtcdResponse for pb::$response {
            const LINEARIZABLE: bool = $linearizable;
            fn header(&self) -> Option<&pb::ResponseHeader> {
                self.header.as_ref()
            }
        })*
    };
}

responses! {
    RangeResponse: true;
    TxnResponse: true;
    CompactionResponse: false;
    LeaseGrantResponse: false;
    LeaseRevokeResponse: false;
    LeaseKeepAliveResponse: false;
    LeaseTimeToLiveResponse: false;
    LeaseLeasesResponse: false;
    StatusResponse: false;
}

impl EtcdCluster {
    /// Sends a call and retries it while that is safe.
    pub(crate) async fn call<T, F>(
        &self,
        intent: CallIntent,
        deadline: Instant,
        send: impl Fn(Arc<EtcdConnection>) -> F,
    ) -> Result<T, EtcdCallError>
    where
        T: EtcdResponse,
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let mut backoff = EtcdBackoff::new(&self.options.entropy);
        loop {
            self.check()?;
            let link = self.connection(deadline).await?;
            let patience = self.attempt_deadline(intent, deadline);
            let why = match self.attempt(patience, send(Arc::clone(&link))).await {
                Ok(answer) => return Ok(answer),
                Err(AttemptError::Refused(status)) => return Err(EtcdCallError::Refused(status)),
                Err(AttemptError::Mismatch(why)) => return Err(EtcdCallError::Unknown(why)),
                Err(AttemptError::Overloaded(why)) => why,
                Err(AttemptError::NotExecuted(why)) => {
                    self.connections.discard(&link);
                    why
                }
                Err(AttemptError::Unknown(why)) => {
                    self.connections.discard(&link);
                    if intent == CallIntent::Write {
                        return Err(EtcdCallError::Unknown(why));
                    }
                    why
                }
            };
            self.pause(&mut backoff, deadline, why).await?;
        }
    }

    async fn attempt<T: EtcdResponse>(
        &self,
        patience: Instant,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, AttemptError> {
        let before = self.identity.position();
        let answer = timeout_at(patience, call)
            .await
            .map_err(|_| AttemptError::Unknown("no answer in time".into()))??
            .into_inner();
        let checked = if T::LINEARIZABLE {
            self.identity
                .check_linearizable(answer.header(), before)
                .map(drop)
        } else {
            self.identity.check_cluster(answer.header())
        };
        checked.map_err(|betrayal| AttemptError::Mismatch(self.fail(betrayal)))?;
        Ok(answer)
    }

    async fn connection(&self, deadline: Instant) -> Result<Arc<EtcdConnection>, EtcdCallError> {
        match self.connections.get(deadline).await {
            Ok(link) => Ok(link),
            Err(DialError::Mismatch(betrayal)) => {
                Err(EtcdCallError::Unavailable(self.fail(betrayal)))
            }
            Err(DialError::Unreachable(why) | DialError::Unsupported(why)) => {
                Err(EtcdCallError::Unavailable(why))
            }
        }
    }

    /// Deadline of one attempt. A read leaves time to try another member.
    fn attempt_deadline(&self, intent: CallIntent, deadline: Instant) -> Instant {
        if intent == CallIntent::Write || self.connections.member_count() == 1 {
            return deadline;
        }
        let now = Instant::now();
        now + deadline.saturating_duration_since(now) / 2
    }

    async fn pause(
        &self,
        backoff: &mut EtcdBackoff,
        deadline: Instant,
        why: String,
    ) -> Result<(), EtcdCallError> {
        let pause = backoff.next();
        if Instant::now() + pause >= deadline {
            return Err(EtcdCallError::Unavailable(why));
        }
        sleep(pause).await;
        Ok(())
    }

    /// Returns an error if the engine may not be used.
    pub(crate) fn check(&self) -> Result<(), EtcdCallError> {
        match &*self.status.borrow() {
            MirrorStatus::OutOfSync(_) | MirrorStatus::InSync => Ok(()),
            MirrorStatus::Failed(why) => Err(EtcdCallError::Unavailable(why.clone())),
            MirrorStatus::Stopped => Err(EtcdCallError::Stopped),
        }
    }

    /// Waits until the mirror follows the cluster.
    pub(crate) async fn wait_in_sync(&self, deadline: Instant) -> Result<(), EtcdCallError> {
        let mut fate = self.status.subscribe();
        let settled = fate.wait_for(|fate| !matches!(fate, MirrorStatus::OutOfSync(_)));
        // The sender lives as long as `self`.
        if timeout_at(deadline, settled).await.is_ok() {
            return self.check();
        }
        match &*self.status.borrow() {
            MirrorStatus::OutOfSync(why) => Err(EtcdCallError::Unavailable(format!(
                "the watch on etcd is interrupted: {why}"
            ))),
            _ => Err(EtcdCallError::Unavailable("it took too long".into())),
        }
    }

    /// Waits until the mirror has reached `revision`, which the cluster has.
    pub(crate) async fn wait_for_revision(
        &self,
        revision: Revision,
        deadline: Instant,
    ) -> Result<(), EtcdCallError> {
        let mut pause = PROGRESS_DELAY;
        loop {
            let slice = deadline.min(Instant::now() + pause);
            if timeout_at(slice, self.view.wait_for_revision(revision))
                .await
                .is_ok()
            {
                return Ok(());
            }
            self.check()?;
            if Instant::now() >= deadline {
                return Err(EtcdCallError::Unavailable(format!(
                    "etcd is at revision {revision}, but the watch has only delivered revision {}",
                    self.view.revision()
                )));
            }
            self.progress.request_throttled(PROGRESS_DELAY);
            pause = PROGRESS_INTERVAL;
        }
    }

    /// As [`EtcdCluster::wait_for_revision`], without a deadline.
    pub(crate) async fn wait_for_revision_unbounded(&self, revision: Revision) {
        while self.view.revision() < revision {
            self.progress.request_throttled(PROGRESS_DELAY);
            // The result of the wait is checked above.
            let _ = timeout(PROGRESS_INTERVAL, self.view.wait_for_revision(revision)).await;
        }
    }

    /// Returns a linearizable revision: no write beyond it was acknowledged before the call.
    pub(crate) async fn linearizable_revision(
        &self,
        deadline: Instant,
    ) -> Result<Revision, EtcdCallError> {
        let request = probe_request(&self.options.range);
        let send = |link: Arc<EtcdConnection>| {
            let request = request.clone();
            async move { link.kv().range(request).await }
        };
        let answer = self.call(CallIntent::Read, deadline, send).await?;
        Ok(decode_revision(answer.header.unwrap_or_default().revision))
    }

    /// Records that the mirror follows the cluster.
    pub(crate) fn set_in_sync(&self) {
        self.set_status(MirrorStatus::InSync);
    }

    /// Records that the mirror does not follow the cluster.
    pub(crate) fn set_out_of_sync(&self, why: String) {
        self.set_status(MirrorStatus::OutOfSync(why));
    }

    fn set_status(&self, to: MirrorStatus) {
        self.status.send_if_modified(|fate| {
            let open = matches!(fate, MirrorStatus::OutOfSync(_) | MirrorStatus::InSync);
            if open {
                *fate = to;
            }
            open
        });
    }

    /// Fails the engine permanently; see [`ClusterIdentity`]. Returns the error text for callers.
    pub(crate) fn fail(&self, betrayal: ClusterMismatch) -> String {
        let why = betrayal.0;
        let first = self.end(MirrorStatus::Failed(why.clone()));
        if first {
            tracing::error!(%why, "etcd cluster mismatch; the store has failed and serves only its cached state");
        }
        why
    }

    pub(crate) fn stop(&self) {
        self.end(MirrorStatus::Stopped);
    }

    fn end(&self, with: MirrorStatus) -> bool {
        let first = self.status.send_if_modified(|fate| {
            let open = !matches!(fate, MirrorStatus::Failed(_) | MirrorStatus::Stopped);
            if open || with == MirrorStatus::Stopped {
                *fate = with;
            }
            open
        });
        self.view.hub().stop();
        first
    }
}

/// Why an attempt failed.
enum AttemptError {
    /// The call was not executed.
    NotExecuted(String),
    /// The call was not executed, and another member would not execute it either.
    Overloaded(String),
    Unknown(String),
    Refused(Status),
    /// The call was executed by a cluster that is not ours.
    Mismatch(String),
}

impl From<Status> for AttemptError {
    fn from(status: Status) -> Self {
        match classify(&status) {
            ErrorClass::Refused => Self::Refused(status),
            ErrorClass::Unknown => Self::Unknown(describe(&status)),
            ErrorClass::Reconnect => Self::NotExecuted(describe(&status)),
            ErrorClass::Overloaded => Self::Overloaded(describe(&status)),
        }
    }
}
