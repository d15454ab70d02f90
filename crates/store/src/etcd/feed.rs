//! Follows the cluster: one watch, taken up again whenever it breaks.

use super::backoff::Backoff;
use super::cluster::Cluster;
use super::link::{Link, LinkError, describe};
use super::load::load;
use super::mirror::changes;
use super::wire::{bounds, signed, unsigned};
use super::witness::Betrayal;
use crate::sync::Arc;
use optik_etcd_api::etcdserverpb::watch_request::RequestUnion;
use optik_etcd_api::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

/// How long the feed waits for the answers to our own writes; see [`super::authors`].
const AUTHOR_PATIENCE: Duration = Duration::from_millis(20);
/// When nothing comes for so long, ask whether there is anything.
const QUIET: Duration = Duration::from_secs(5);
/// A member that says nothing for so long after it was asked hangs, even if its
/// connection lives.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);

/// Why a watch is over.
enum End {
    /// Another connection may go on where this one stopped.
    Lost(String),
    /// The cluster has forgotten what came next.
    Compacted,
    Betrayal(Betrayal),
}

impl From<LinkError> for End {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Unreachable(why) | LinkError::Unsupported(why) => Self::Lost(why),
            LinkError::Betrayal(betrayal) => Self::Betrayal(betrayal),
        }
    }
}

impl From<Status> for End {
    fn from(status: Status) -> Self {
        Self::Lost(describe(&status))
    }
}

impl From<Betrayal> for End {
    fn from(betrayal: Betrayal) -> Self {
        Self::Betrayal(betrayal)
    }
}

/// What a feed has to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// The view is what was loaded when we connected.
    Loaded,
    /// A feed before this one panicked. All that it built is built again from etcd.
    Anew,
}

/// Follows for as long as the engine may be used.
pub(crate) async fn run(cluster: Arc<Cluster>, beginning: Beginning) {
    let _adrift = AdriftAtEnd(Arc::clone(&cluster));
    let mut feed = Feed {
        backoff: Backoff::new(&cluster.options.entropy),
        cluster,
        whole: beginning == Beginning::Loaded,
    };
    while feed.cluster.check().is_ok() {
        let end = match Box::pin(feed.follow()).await {
            Ok(never) => match never {},
            Err(end) => end,
        };
        feed.cluster.progress.disconnect();
        feed.recover(end).await;
    }
}

/// Nobody follows the cluster any more, however that came about.
struct AdriftAtEnd(Arc<Cluster>);

impl Drop for AdriftAtEnd {
    fn drop(&mut self) {
        self.0.progress.disconnect();
        self.0
            .drift("the task that follows etcd begins again".into());
    }
}

struct Feed {
    cluster: Arc<Cluster>,
    backoff: Backoff,
    /// Whether the next event is known to follow what we have.
    whole: bool,
}

enum Never {}

impl Feed {
    async fn recover(&mut self, end: End) {
        match end {
            End::Betrayal(betrayal) => drop(self.cluster.fail(betrayal)),
            End::Compacted => {
                self.cluster.drift("reading all of it again".into());
                let revision = self.cluster.view.revision();
                tracing::warn!(%revision, "etcd has compacted what comes next; reading it all");
                self.whole = false;
            }
            End::Lost(why) => {
                tracing::warn!(%why, "the watch on etcd is interrupted");
                self.cluster.drift(why);
                sleep(self.backoff.next()).await;
            }
        }
    }

    async fn follow(&mut self) -> Result<Never, End> {
        let cluster = Arc::clone(&self.cluster);
        let link = cluster.links.dial().await?;
        let followed = self.follow_on(&link).await;
        cluster.links.discard_member(link.member);
        followed
    }

    async fn follow_on(&mut self, link: &Link) -> Result<Never, End> {
        let cluster = Arc::clone(&self.cluster);
        if !self.whole {
            let index = load(link, &cluster.options.range, &cluster.witness).await?;
            cluster.mirror.lock_again().reset(index)?;
            self.whole = true;
        }
        let (requests, mut responses) = self.watch(link).await?;
        // Before the first event: it must come from the cluster that we know, and
        // one that was set up anew would let us wait for revisions it has not reached.
        let probe = link.probe(&cluster.options.range, &cluster.witness);
        timeout(cluster.options.connect_timeout, probe)
            .await
            .map_err(|_| End::Lost("no answer in time".into()))??;
        cluster.progress.connect(requests);
        // Somebody may be waiting for what happened outside the range meanwhile.
        cluster.progress.ask();
        cluster.follow();
        self.backoff.reset();
        self.listen(&mut responses).await
    }

    async fn watch(
        &self,
        link: &Link,
    ) -> Result<(mpsc::Sender<WatchRequest>, Streaming<WatchResponse>), End> {
        let (key, range_end) = bounds(&self.cluster.options.range);
        let create = WatchCreateRequest {
            key,
            range_end,
            start_revision: signed(self.cluster.view.revision().next()),
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
            self.check_created(&first.ok_or_else(ended)?)?;
            Ok::<_, End>(responses)
        };
        let patience = self.cluster.options.connect_timeout;
        let responses = timeout(patience, begin)
            .await
            .map_err(|_| End::Lost("no answer in time".into()))??;
        Ok((requests, responses))
    }

    fn check_created(&self, response: &WatchResponse) -> Result<(), End> {
        self.check(response)?;
        if response.created {
            return Ok(());
        }
        Err(End::Lost("etcd did not create the watch".into()))
    }

    fn check(&self, response: &WatchResponse) -> Result<(), End> {
        let header = response.header.as_ref();
        self.cluster.witness.check_cluster(header)?;
        if response.compact_revision != 0 {
            return Err(End::Compacted);
        }
        if response.canceled {
            let why = &response.cancel_reason;
            return Err(End::Lost(format!("etcd ended it: {why}")));
        }
        if response.fragment {
            return Err(End::Lost("etcd sent a part of an answer".into()));
        }
        Ok(())
    }

    async fn listen(&self, responses: &mut Streaming<WatchResponse>) -> Result<Never, End> {
        let progress = &self.cluster.progress;
        loop {
            tokio::select! {
                // What has come counts before what has not.
                biased;
                response = responses.message() => {
                    progress.heard();
                    self.take(response?.ok_or_else(ended)?).await?;
                }
                () = progress.unanswered(ANSWER_PATIENCE) => {
                    return Err(End::Lost("etcd does not answer".into()));
                }
                () = sleep(QUIET) => progress.ask(),
            }
        }
    }

    async fn take(&self, response: WatchResponse) -> Result<(), End> {
        self.check(&response)?;
        let cluster = &self.cluster;
        if response.events.is_empty() {
            let header = response.header.unwrap_or_default();
            let revision = unsigned(header.revision);
            cluster.mirror.lock().advance_to(revision);
            cluster.witness.show(revision);
            return Ok(());
        }
        // The header of an answer with events may be ahead of events still to come:
        // only the events count.
        let mut changes = changes(response.events);
        let deadline = Instant::now() + AUTHOR_PATIENCE;
        for change in &mut changes {
            let first = change.events.first().and_then(|event| event.kv.as_ref());
            let key = first.map_or(&[][..], |kv| &kv.key);
            change.origin = cluster.authors.find(change.revision, key, deadline).await;
        }
        cluster.mirror.lock().apply(changes)?;
        let revision = cluster.view.revision();
        cluster.witness.show(revision);
        cluster.authors.forget_through(revision);
        Ok(())
    }
}

fn ended() -> End {
    End::Lost("etcd ended the stream".into())
}
