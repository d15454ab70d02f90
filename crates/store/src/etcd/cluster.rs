//! What the parts of the engine share: the way to the cluster, our copy of it, and
//! whether both may still be used.

use super::authors::Authors;
use super::backoff::Backoff;
use super::confirmed::Confirmed;
use super::link::{Link, LinkError, describe};
use super::links::Links;
use super::mirror::Mirror;
use super::options::EtcdOptions;
use super::progress::Progress;
use super::verdict::{Verdict, judge};
use super::wire::{probe_request, unsigned};
use super::witness::{Betrayal, Witness};
use crate::revision::Revision;
use crate::sync::{Arc, Mutex};
use crate::view::View;
use optik_etcd_api::etcdserverpb as pb;
use std::time::Duration;
use tokio::sync::watch as signal;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tonic::{Response, Status};

/// Most writes come back by themselves within this time …
const PROGRESS_DELAY: Duration = Duration::from_millis(10);
/// … otherwise progress is asked for, so often.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Lock order: `mirror`, then those of the view.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) options: EtcdOptions,
    pub(crate) links: Links,
    pub(crate) witness: Arc<Witness>,
    pub(crate) view: Arc<View>,
    pub(crate) mirror: Mutex<Mirror>,
    pub(crate) authors: Arc<Authors>,
    pub(crate) progress: Progress,
    pub(crate) fate: signal::Sender<Fate>,
    pub(crate) confirmed: Confirmed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The copy does not follow the cluster at the moment, and why.
    Adrift(String),
    Following,
    /// What we have shown is not the cluster's past: nothing can be promised any more.
    Failed(String),
    Stopped,
}

/// Why a call has no answer.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    Stopped,
    /// It was not carried out.
    Unavailable(String),
    /// It may or may not have been carried out.
    Unclear(String),
    /// It was refused for its own sake.
    Refused(Status),
}

/// Whether a call may be sent twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    Read,
    Write,
}

/// What every answer tells about the cluster.
pub(crate) trait Answer {
    /// Whether it went through the whole cluster, so that its revision is fresh.
    const FRESH: bool;
    fn header(&self) -> Option<&pb::ResponseHeader>;
}

macro_rules! answers {
    ($($answer:ident: $fresh:literal;)*) => {
        $(impl Answer for pb::$answer {
            const FRESH: bool = $fresh;
            fn header(&self) -> Option<&pb::ResponseHeader> {
                self.header.as_ref()
            }
        })*
    };
}

answers! {
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

impl Cluster {
    /// Sends a call until it has an answer, if that can do no harm.
    pub(crate) async fn call<T, F>(
        &self,
        intent: Intent,
        deadline: Instant,
        send: impl Fn(Arc<Link>) -> F,
    ) -> Result<T, Failure>
    where
        T: Answer,
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let mut backoff = Backoff::new(&self.options.entropy);
        loop {
            self.check()?;
            let link = self.link(deadline).await?;
            let patience = self.patience(intent, deadline);
            let why = match self.try_once(patience, send(Arc::clone(&link))).await {
                Ok(answer) => return Ok(answer),
                Err(Tried::Refused(status)) => return Err(Failure::Refused(status)),
                Err(Tried::Betrayed(why)) => return Err(Failure::Unclear(why)),
                Err(Tried::Overloaded(why)) => why,
                Err(Tried::NotDone(why)) => {
                    self.links.discard(&link);
                    why
                }
                Err(Tried::Unclear(why)) => {
                    self.links.discard(&link);
                    if intent == Intent::Write {
                        return Err(Failure::Unclear(why));
                    }
                    why
                }
            };
            self.pause(&mut backoff, deadline, why).await?;
        }
    }

    async fn try_once<T: Answer>(
        &self,
        patience: Instant,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Tried> {
        let before = self.witness.seen();
        let answer = timeout_at(patience, call)
            .await
            .map_err(|_| Tried::Unclear("no answer in time".into()))??
            .into_inner();
        let checked = if T::FRESH {
            self.witness.check(answer.header(), before).map(drop)
        } else {
            self.witness.check_cluster(answer.header())
        };
        checked.map_err(|betrayal| Tried::Betrayed(self.fail(betrayal)))?;
        Ok(answer)
    }

    async fn link(&self, deadline: Instant) -> Result<Arc<Link>, Failure> {
        match self.links.get(deadline).await {
            Ok(link) => Ok(link),
            Err(LinkError::Betrayal(betrayal)) => Err(Failure::Unavailable(self.fail(betrayal))),
            Err(LinkError::Unreachable(why) | LinkError::Unsupported(why)) => {
                Err(Failure::Unavailable(why))
            }
        }
    }

    /// Until when one try may take. A read leaves time to ask another member.
    fn patience(&self, intent: Intent, deadline: Instant) -> Instant {
        if intent == Intent::Write || self.links.members() == 1 {
            return deadline;
        }
        let now = Instant::now();
        now + deadline.saturating_duration_since(now) / 2
    }

    async fn pause(
        &self,
        backoff: &mut Backoff,
        deadline: Instant,
        why: String,
    ) -> Result<(), Failure> {
        let pause = backoff.next();
        if Instant::now() + pause >= deadline {
            return Err(Failure::Unavailable(why));
        }
        sleep(pause).await;
        Ok(())
    }

    /// Whether the engine may still be used.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match &*self.fate.borrow() {
            Fate::Adrift(_) | Fate::Following => Ok(()),
            Fate::Failed(why) => Err(Failure::Unavailable(why.clone())),
            Fate::Stopped => Err(Failure::Stopped),
        }
    }

    /// Waits until the copy follows the cluster.
    pub(crate) async fn following(&self, deadline: Instant) -> Result<(), Failure> {
        let mut fate = self.fate.subscribe();
        let settled = fate.wait_for(|fate| !matches!(fate, Fate::Adrift(_)));
        // The sender lives as long as `self`.
        if timeout_at(deadline, settled).await.is_ok() {
            return self.check();
        }
        match &*self.fate.borrow() {
            Fate::Adrift(why) => Err(Failure::Unavailable(format!(
                "the watch on etcd is interrupted: {why}"
            ))),
            _ => Err(Failure::Unavailable("it took too long".into())),
        }
    }

    /// Waits until the copy has reached `revision`, which the cluster has.
    pub(crate) async fn reached(
        &self,
        revision: Revision,
        deadline: Instant,
    ) -> Result<(), Failure> {
        let mut pause = PROGRESS_DELAY;
        loop {
            let slice = deadline.min(Instant::now() + pause);
            if timeout_at(slice, self.view.reached(revision)).await.is_ok() {
                return Ok(());
            }
            self.check()?;
            if Instant::now() >= deadline {
                return Err(Failure::Unavailable(format!(
                    "etcd is at revision {revision}, but its watch has only told of {}",
                    self.view.revision()
                )));
            }
            self.progress.ask_again(PROGRESS_DELAY);
            pause = PROGRESS_INTERVAL;
        }
    }

    /// As [`Cluster::reached`], for as long as it takes.
    pub(crate) async fn reached_at_last(&self, revision: Revision) {
        while self.view.revision() < revision {
            self.progress.ask_again(PROGRESS_DELAY);
            // Only a wait: whether it came in time shows above.
            let _ = timeout(PROGRESS_INTERVAL, self.view.reached(revision)).await;
        }
    }

    /// Where the cluster stands: it has acknowledged nothing beyond that before.
    pub(crate) async fn newest(&self, deadline: Instant) -> Result<Revision, Failure> {
        let request = probe_request(&self.options.range);
        let send = |link: Arc<Link>| {
            let request = request.clone();
            async move { link.kv().range(request).await }
        };
        let answer = self.call(Intent::Read, deadline, send).await?;
        Ok(unsigned(answer.header.unwrap_or_default().revision))
    }

    /// Notes that the copy follows the cluster.
    pub(crate) fn follow(&self) {
        self.turn(Fate::Following);
    }

    /// Notes that it does not.
    pub(crate) fn drift(&self, why: String) {
        self.turn(Fate::Adrift(why));
    }

    fn turn(&self, to: Fate) {
        self.fate.send_if_modified(|fate| {
            let open = matches!(fate, Fate::Adrift(_) | Fate::Following);
            if open {
                *fate = to;
            }
            open
        });
    }

    /// Gives up for good: see [`Witness`]. Returns the text for those who ask.
    pub(crate) fn fail(&self, betrayal: Betrayal) -> String {
        let why = betrayal.0;
        let first = self.end(Fate::Failed(why.clone()));
        if first {
            tracing::error!(%why, "the store has failed; it answers only what it knew before");
        }
        why
    }

    pub(crate) fn stop(&self) {
        self.end(Fate::Stopped);
    }

    fn end(&self, with: Fate) -> bool {
        let first = self.fate.send_if_modified(|fate| {
            let open = !matches!(fate, Fate::Failed(_) | Fate::Stopped);
            if open || with == Fate::Stopped {
                *fate = with;
            }
            open
        });
        self.view.hub().stop();
        first
    }
}

/// How one try went wrong.
enum Tried {
    /// It was not carried out.
    NotDone(String),
    /// It was not carried out, and another member would not do so either.
    Overloaded(String),
    Unclear(String),
    Refused(Status),
    /// It was carried out by a cluster that is not ours.
    Betrayed(String),
}

impl From<Status> for Tried {
    fn from(status: Status) -> Self {
        match judge(&status) {
            Verdict::Refused => Self::Refused(status),
            Verdict::Unclear => Self::Unclear(describe(&status)),
            Verdict::Reconnect => Self::NotDone(describe(&status)),
            Verdict::Wait => Self::Overloaded(describe(&status)),
        }
    }
}
