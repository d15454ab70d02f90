//! The watch on the etcd cluster that feeds the mirror; it is reopened whenever it breaks.

use super::backoff::EtcdBackoff;
use super::cluster::EtcdCluster;
use super::cluster_identity::ClusterMismatch;
use super::connection::{DialError, EtcdConnection, describe};
use super::load::load;
use super::mirror::group_by_revision;
use super::wire::{decode_revision, encode_range, encode_revision};
use crate::sync::Arc;
use optik_etcd_api::etcdserverpb::watch_request::RequestUnion;
use optik_etcd_api::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

/// How long the watch task waits for responses to our own transactions; see
/// [`super::origin_tracker`].
const ORIGIN_WAIT_MAX: Duration = Duration::from_millis(20);
/// Idle time after which a progress notification is requested.
const PROGRESS_IDLE_INTERVAL: Duration = Duration::from_secs(5);
/// Time without a response to a progress request after which a member counts as hung, even if its
/// connection is alive.
const PROGRESS_ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// The reason why a watch ended.
enum WatchEnd {
    /// A watch on another connection can resume at the same revision.
    Lost(String),
    /// The cluster has compacted the next revision.
    Compacted,
    Mismatch(ClusterMismatch),
}

impl From<DialError> for WatchEnd {
    fn from(error: DialError) -> Self {
        match error {
            DialError::Unreachable(why) | DialError::Unsupported(why) => Self::Lost(why),
            DialError::Mismatch(betrayal) => Self::Mismatch(betrayal),
        }
    }
}

impl From<Status> for WatchEnd {
    fn from(status: Status) -> Self {
        Self::Lost(describe(&status))
    }
}

impl From<ClusterMismatch> for WatchEnd {
    fn from(betrayal: ClusterMismatch) -> Self {
        Self::Mismatch(betrayal)
    }
}

/// The state that a watch task starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClusterWatchStart {
    /// The view holds the state that was loaded on connect.
    Loaded,
    /// The previous watch task panicked: the state is reloaded from etcd.
    Reload,
}

/// Follows the cluster until the engine is closed or fails.
pub(crate) async fn run(cluster: Arc<EtcdCluster>, beginning: ClusterWatchStart) {
    let _adrift = OutOfSyncGuard(Arc::clone(&cluster));
    let mut feed = ClusterWatch {
        backoff: EtcdBackoff::new(&cluster.options.entropy),
        cluster,
        contiguous: beginning == ClusterWatchStart::Loaded,
    };
    while feed.cluster.check().is_ok() {
        let end = match Box::pin(feed.connect_and_watch()).await {
            Ok(never) => match never {},
            Err(end) => end,
        };
        feed.cluster.progress.disconnect();
        feed.handle_end(end).await;
    }
}

/// Marks the mirror as out of sync when the watch task ends, for whatever reason.
struct OutOfSyncGuard(Arc<EtcdCluster>);

impl Drop for OutOfSyncGuard {
    fn drop(&mut self) {
        self.0.progress.disconnect();
        self.0
            .set_out_of_sync("the task that follows etcd begins again".into());
    }
}

struct ClusterWatch {
    cluster: Arc<EtcdCluster>,
    backoff: EtcdBackoff,
    /// Whether the next event is known to follow the mirror's revision.
    contiguous: bool,
}

enum NoReturn {}

impl ClusterWatch {
    async fn handle_end(&mut self, end: WatchEnd) {
        match end {
            WatchEnd::Mismatch(betrayal) => drop(self.cluster.fail(betrayal)),
            WatchEnd::Compacted => {
                self.cluster
                    .set_out_of_sync("reading all of it again".into());
                let revision = self.cluster.view.revision();
                tracing::warn!(%revision, "etcd compacted the next revision; reloading the full state");
                self.contiguous = false;
            }
            WatchEnd::Lost(why) => {
                tracing::warn!(%why, "the watch on etcd is interrupted");
                self.cluster.set_out_of_sync(why);
                sleep(self.backoff.next()).await;
            }
        }
    }

    async fn connect_and_watch(&mut self) -> Result<NoReturn, WatchEnd> {
        let cluster = Arc::clone(&self.cluster);
        let link = cluster.connections.dial().await?;
        let followed = self.watch_on(&link).await;
        cluster.connections.discard_member(link.member);
        followed
    }

    async fn watch_on(&mut self, link: &EtcdConnection) -> Result<NoReturn, WatchEnd> {
        let cluster = Arc::clone(&self.cluster);
        if !self.contiguous {
            let index = load(link, &cluster.options.range, &cluster.identity).await?;
            cluster.mirror.lock_clearing_poison().reset(index)?;
            self.contiguous = true;
        }
        let (requests, mut responses) = self.watch(link).await?;
        // Probes before the first event: it must come from the known cluster, and a newly created
        // cluster would make us wait for revisions it has not reached.
        let probe = link.probe(&cluster.options.range, &cluster.identity);
        timeout(cluster.options.connect_timeout, probe)
            .await
            .map_err(|_| WatchEnd::Lost("no answer in time".into()))??;
        cluster.progress.connect(requests);
        // A caller may be waiting for a revision outside the range.
        cluster.progress.request();
        cluster.set_in_sync();
        self.backoff.reset();
        self.receive(&mut responses).await
    }

    async fn watch(
        &self,
        link: &EtcdConnection,
    ) -> Result<(mpsc::Sender<WatchRequest>, Streaming<WatchResponse>), WatchEnd> {
        let (key, range_end) = encode_range(&self.cluster.options.range);
        let create = WatchCreateRequest {
            key,
            range_end,
            start_revision: encode_revision(self.cluster.view.revision().next()),
            progress_notify: true,
            ..WatchCreateRequest::default()
        };
        let (requests, outgoing) = mpsc::channel(1);
        let create = WatchRequest {
            request_union: Some(RequestUnion::CreateRequest(create)),
        };
        // The channel is empty and its other end is here.
        let _ = requests.try_send(create);
        let mut client = link.watch();
        let begin = async {
            let responses = client.watch(ReceiverStream::new(outgoing)).await?;
            let mut responses = responses.into_inner();
            let first = responses.message().await?;
            self.check_created(&first.ok_or_else(stream_ended)?)?;
            Ok::<_, WatchEnd>(responses)
        };
        let patience = self.cluster.options.connect_timeout;
        let responses = timeout(patience, begin)
            .await
            .map_err(|_| WatchEnd::Lost("no answer in time".into()))??;
        Ok((requests, responses))
    }

    fn check_created(&self, response: &WatchResponse) -> Result<(), WatchEnd> {
        self.check(response)?;
        if response.created {
            return Ok(());
        }
        Err(WatchEnd::Lost("etcd did not create the watch".into()))
    }

    fn check(&self, response: &WatchResponse) -> Result<(), WatchEnd> {
        let header = response.header.as_ref();
        self.cluster.identity.check_cluster(header)?;
        if response.compact_revision != 0 {
            return Err(WatchEnd::Compacted);
        }
        if response.canceled {
            let why = &response.cancel_reason;
            return Err(WatchEnd::Lost(format!("etcd ended it: {why}")));
        }
        if response.fragment {
            return Err(WatchEnd::Lost("etcd sent a part of an answer".into()));
        }
        Ok(())
    }

    async fn receive(
        &self,
        responses: &mut Streaming<WatchResponse>,
    ) -> Result<NoReturn, WatchEnd> {
        let progress = &self.cluster.progress;
        loop {
            tokio::select! {
                // Received events take precedence over timeouts.
                biased;
                response = responses.message() => {
                    progress.record_response();
                    self.apply_response(response?.ok_or_else(stream_ended)?).await?;
                }
                () = progress.wait_unanswered(PROGRESS_ANSWER_TIMEOUT) => {
                    return Err(WatchEnd::Lost("etcd does not answer".into()));
                }
                () = sleep(PROGRESS_IDLE_INTERVAL) => progress.request(),
            }
        }
    }

    async fn apply_response(&self, response: WatchResponse) -> Result<(), WatchEnd> {
        self.check(&response)?;
        let cluster = &self.cluster;
        if response.events.is_empty() {
            let header = response.header.unwrap_or_default();
            let revision = decode_revision(header.revision);
            cluster.mirror.lock().advance_to(revision);
            cluster.identity.record_shown(revision);
            return Ok(());
        }
        // The header of a response may be ahead of events still to come, so only the revisions of
        // events count.
        let mut changes = group_by_revision(response.events);
        let deadline = Instant::now() + ORIGIN_WAIT_MAX;
        for change in &mut changes {
            let first = change.events.first().and_then(|event| event.kv.as_ref());
            let key = first.map_or(&[][..], |kv| &kv.key);
            change.origin = cluster
                .origin_tracker
                .origin_at(change.revision, key, deadline)
                .await;
        }
        cluster.mirror.lock().apply(changes)?;
        let revision = cluster.view.revision();
        cluster.identity.record_shown(revision);
        cluster.origin_tracker.forget_through(revision);
        Ok(())
    }
}

fn stream_ended() -> WatchEnd {
    WatchEnd::Lost("etcd ended the stream".into())
}
