//! Periodic re-authorization of long-running streams: a stream ends when its credentials expire or
//! its user loses the permission.
//!
//! One background task checks all streams, whenever RBAC objects change and every few seconds:
//! credentials expire without any write.

use crate::access::{Credential, ImpersonatedUser};
use crate::handler::{Handler, TokenValidity};
use crate::server::ServerShared;
use futures::FutureExt;
use futures::future::BoxFuture;
use optik_auth::{RequestInfo, User};
use optik_platform::UnixMillis;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// The number of streams that are checked before other tasks get a turn.
const STREAMS_PER_TURN: usize = 256;

/// The open streams whose authorization may end.
#[derive(Default)]
pub(crate) struct StreamRegistry {
    streams: Mutex<OpenStreams>,
}

#[derive(Default)]
struct OpenStreams {
    next: u64,
    streams: BTreeMap<u64, Arc<OpenStream>>,
}

struct OpenStream {
    grant: StreamGrant,
    info: Arc<RequestInfo>,
    end: CancellationToken,
}

/// The authorization of a stream.
pub(crate) struct StreamGrant {
    credential: CredentialValidity,
    /// The effective user of the request.
    user: Arc<User>,
    /// The impersonating user, and the user that the impersonation headers describe.
    impersonator: Option<(Arc<User>, User)>,
}

pub(crate) enum CredentialValidity {
    Permanent,
    Until(UnixMillis),
    WhileValid(TokenValidity),
}

impl CredentialValidity {
    pub(crate) fn new<H: Handler>(by: Credential<'_>, handler: &H) -> Self {
        match by {
            Credential::Permanent => Self::Permanent,
            Credential::Certificate(expires) => Self::Until(expires),
            Credential::Token(token) => Self::WhileValid(handler.token_validity(token)),
        }
    }

    fn is_valid(&self, now: UnixMillis) -> bool {
        match self {
            Self::Permanent => true,
            Self::Until(expires) => now <= *expires,
            Self::WhileValid(good) => good(),
        }
    }
}

impl StreamGrant {
    pub(crate) fn for_user(proof: CredentialValidity, user: Arc<User>) -> Self {
        Self {
            credential: proof,
            user,
            impersonator: None,
        }
    }

    pub(crate) fn impersonating(
        proof: CredentialValidity,
        caller: Arc<User>,
        other: ImpersonatedUser,
    ) -> Self {
        Self {
            credential: proof,
            user: other.user,
            impersonator: Some((caller, other.requested)),
        }
    }

    /// Whether the authorization cannot end: members of `system:masters` with credentials that do
    /// not expire.
    fn is_permanent(&self) -> bool {
        let actor = self
            .impersonator
            .as_ref()
            .map_or(&self.user, |(caller, _)| caller);
        matches!(self.credential, CredentialValidity::Permanent)
            && actor.is_master()
            && self.user.is_master()
    }
}

impl OpenStream {
    fn is_authorized<H: Handler>(&self, handler: &H, now: UnixMillis) -> bool {
        if !self.grant.credential.is_valid(now) {
            return false;
        }
        let asked = self.info.attributes();
        let acts = self
            .grant
            .impersonator
            .as_ref()
            .is_none_or(|(caller, wanted)| {
                let acts = handler.impersonate(caller, wanted, &asked);
                acts.is_ok()
            });
        let allowed = handler.authorize(&self.grant.user, &asked);
        // A server that is cut off from its store (503) has no new events to send, and learns of a
        // revoked permission before it has any.
        acts && allowed.map_or_else(|refusal| refusal.code() == 503, |()| true)
    }
}

impl StreamRegistry {
    fn lock(&self) -> MutexGuard<'_, OpenStreams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, stream: &Arc<OpenStream>) -> u64 {
        let mut open = self.lock();
        open.next += 1;
        let number = open.next;
        open.streams.insert(number, Arc::clone(stream));
        number
    }

    /// Ends the streams that are no longer authorized.
    async fn end_unauthorized<H: Handler>(&self, handler: &H, now: UnixMillis) {
        // Opening and closing streams does not wait for the checks.
        let open: Vec<_> = self.lock().streams.values().cloned().collect();
        for streams in open.chunks(STREAMS_PER_TURN) {
            for stream in streams {
                if !stream.is_authorized(handler, now) {
                    stream.end.cancel();
                }
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Removes a stream from the registry when dropped.
struct StreamRegistration<H> {
    shared: Arc<ServerShared<H>>,
    number: u64,
}

impl<H> Drop for StreamRegistration<H> {
    fn drop(&mut self) {
        self.shared.streams.lock().streams.remove(&self.number);
    }
}

/// A future that completes when a long-running response has to end: on shutdown, or with the loss
/// of its authorization.
pub(crate) fn stream_end<H: Handler>(
    shared: &Arc<ServerShared<H>>,
    claim: Option<StreamGrant>,
    info: &Arc<RequestInfo>,
) -> BoxFuture<'static, ()> {
    let Some(claim) = claim.filter(|claim| !claim.is_permanent()) else {
        return shared.stop.clone().cancelled_owned().boxed();
    };
    let stream = Arc::new(OpenStream {
        grant: claim,
        info: Arc::clone(info),
        end: shared.stop.child_token(),
    });
    let listed = StreamRegistration {
        number: shared.streams.add(&stream),
        shared: Arc::clone(shared),
    };
    // The permission may have changed between the authorization and the registration.
    if !stream.is_authorized(&shared.handler, shared.options.clock.wall()) {
        stream.end.cancel();
    }
    let ended = stream.end.clone().cancelled_owned();
    async move {
        ended.await;
        drop(listed);
    }
    .boxed()
}

/// Re-authorizes streams; never returns.
pub(crate) async fn run_stream_reauth<H: Handler>(shared: &ServerShared<H>) {
    let period = shared.options.limits.stream_reauth_period;
    loop {
        let changed = shared.handler.access_changed();
        let now = shared.options.clock.wall();
        shared.streams.end_unauthorized(&shared.handler, now).await;
        let _ = timeout(period, changed).await;
    }
}
