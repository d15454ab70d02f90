//! How long streams go on: while those who opened them are believed, and may.
//!
//! Streams do not ask. One task does, for all of them: when roles change, and every few
//! seconds, because credentials end without anybody writing anything.

use crate::access::{By, Impersonated};
use crate::handler::{Handler, StillGood};
use crate::server::Shared;
use futures::FutureExt;
use futures::future::BoxFuture;
use optik_access::{RequestInfo, User};
use optik_platform::UnixMillis;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How many streams are asked about before others get a turn.
const AT_A_TIME: usize = 256;

/// Streams that may have to end.
#[derive(Default)]
pub(crate) struct Tenures {
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    streams: BTreeMap<u64, Arc<Stream>>,
}

struct Stream {
    claim: Claim,
    info: Arc<RequestInfo>,
    end: CancellationToken,
}

/// By what right somebody reads.
pub(crate) struct Claim {
    proof: Proof,
    /// As whom it is carried out.
    user: Arc<User>,
    /// Who acts as them, and how they were described.
    acting: Option<(Arc<User>, User)>,
}

pub(crate) enum Proof {
    Standing,
    Until(UnixMillis),
    While(StillGood),
}

impl Proof {
    pub(crate) fn new<H: Handler>(by: By<'_>, handler: &H) -> Self {
        match by {
            By::Standing => Self::Standing,
            By::Certificate(expires) => Self::Until(expires),
            By::Token(token) => Self::While(handler.while_good(token)),
        }
    }

    fn holds(&self, now: UnixMillis) -> bool {
        match self {
            Self::Standing => true,
            Self::Until(expires) => now <= *expires,
            Self::While(good) => good(),
        }
    }
}

impl Claim {
    pub(crate) fn own(proof: Proof, user: Arc<User>) -> Self {
        Self {
            proof,
            user,
            acting: None,
        }
    }

    pub(crate) fn acting(proof: Proof, caller: Arc<User>, other: Impersonated) -> Self {
        Self {
            proof,
            user: other.user,
            acting: Some((caller, other.wanted)),
        }
    }

    /// Nobody takes anything away from administrators whose credentials do not end.
    fn is_for_ever(&self) -> bool {
        let actor = self
            .acting
            .as_ref()
            .map_or(&self.user, |(caller, _)| caller);
        matches!(self.proof, Proof::Standing) && actor.is_master() && self.user.is_master()
    }
}

impl Stream {
    fn holds<H: Handler>(&self, handler: &H, now: UnixMillis) -> bool {
        if !self.claim.proof.holds(now) {
            return false;
        }
        let asked = self.info.attributes();
        let acts = self.claim.acting.as_ref().is_none_or(|(caller, wanted)| {
            let acts = handler.impersonate(caller, wanted, &asked);
            acts.is_ok()
        });
        let allowed = handler.authorize(&self.claim.user, &asked);
        // A server that is cut off from its store has nothing new to show, and will know
        // of a right that was taken away before it has.
        acts && allowed.map_or_else(|refusal| refusal.code() == 503, |()| true)
    }
}

impl Tenures {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, stream: &Arc<Stream>) -> u64 {
        let mut open = self.lock();
        open.next += 1;
        let number = open.next;
        open.streams.insert(number, Arc::clone(stream));
        number
    }

    /// Ends the streams that have no right to go on.
    async fn review<H: Handler>(&self, handler: &H, now: UnixMillis) {
        // Whoever opens or closes a stream does not wait for this.
        let open: Vec<_> = self.lock().streams.values().cloned().collect();
        for streams in open.chunks(AT_A_TIME) {
            for stream in streams {
                if !stream.holds(handler, now) {
                    stream.end.cancel();
                }
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Takes a stream off the list when it is gone.
struct Listed<H> {
    shared: Arc<Shared<H>>,
    number: u64,
}

impl<H> Drop for Listed<H> {
    fn drop(&mut self) {
        self.shared.tenures.lock().streams.remove(&self.number);
    }
}

/// When a stream ends that would not end by itself: with the server, or with the right to
/// read it.
pub(crate) fn end<H: Handler>(
    shared: &Arc<Shared<H>>,
    claim: Option<Claim>,
    info: &Arc<RequestInfo>,
) -> BoxFuture<'static, ()> {
    let Some(claim) = claim.filter(|claim| !claim.is_for_ever()) else {
        return shared.stop.clone().cancelled_owned().boxed();
    };
    let stream = Arc::new(Stream {
        claim,
        info: Arc::clone(info),
        end: shared.stop.child_token(),
    });
    let listed = Listed {
        number: shared.tenures.add(&stream),
        shared: Arc::clone(shared),
    };
    // Something may have changed since it was allowed, and before it was listed.
    if !stream.holds(&shared.handler, shared.options.clock.wall()) {
        stream.end.cancel();
    }
    let ended = stream.end.clone().cancelled_owned();
    async move {
        ended.await;
        drop(listed);
    }
    .boxed()
}

/// Never returns.
pub(crate) async fn review<H: Handler>(shared: &Shared<H>) {
    let period = shared.options.limits.review_period;
    loop {
        let changed = shared.handler.access_changed();
        let now = shared.options.clock.wall();
        shared.tenures.review(&shared.handler, now).await;
        let _ = timeout(period, changed).await;
    }
}
