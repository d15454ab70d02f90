//! One request, one answer.

mod answer;
mod asked;
mod deputies;
mod endpoint;
mod long;
mod own;
mod reading;
#[cfg(test)]
mod rows;
mod writing;

pub(crate) use asked::Asked;
pub(crate) use own::Own;

use crate::access::{AccessOptions, Accounts, Flows, Gate};
use crate::admission::hooks::{Asking, Hooks};
use crate::admission::policies::{CelJudge, Policies};
use crate::admission::{Admission, HookMetrics, everybody};
use crate::calling::{Caller, Nobody, Outside};
use crate::compute::ComputePool;
use crate::counted::{counted, storage_size};
use crate::exchange::{Request, Response};
use crate::kinds::Kinds;
use crate::lifetimes::Lifetimes;
use crate::live::LiveKinds;
use crate::press::Press;
use crate::watch::{EncodedEvents, Surroundings};
use optik_access::Tokens;
use optik_builtin::allocation::Ranges as ServiceRanges;
use optik_object::Timestamp;
use optik_platform::{Clock, Entropy, SystemClock, SystemEntropy};
use optik_store::{Snapshot, Store, Version};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// Whoever reads metrics does not wait longer for a store that may be far away.
const STATUS_ANSWER_MAX: Duration = Duration::from_secs(1);

/// The API on a store.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) kinds: LiveKinds,
    pub(crate) clock: Arc<dyn Clock>,
    around_watches: Surroundings,
    press: Arc<Press>,
    outside: Outside,
    admission: Admission,
    lifetimes: Lifetimes,
    services: ServiceRanges,
    pub(crate) gate: Arc<Gate>,
    /// Tokens that reviews find good.
    pub(crate) tokens: Tokens,
    pub(crate) accounts: Option<Accounts>,
    pub(crate) flows: Flows,
    hooks: Arc<Hooks>,
    policies: Arc<Policies>,
    hook_metrics: Arc<HookMetrics>,
    /// Where long requests are carried out; without it, where they are asked.
    compute: Option<ComputePool>,
}

impl ApiServer {
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self::reaching(store, Arc::new(Nobody))
    }

    /// With somebody who can reach the webhooks that are configured.
    #[must_use]
    pub fn reaching(store: Store, caller: Arc<dyn Caller>) -> Self {
        let (clock, entropy) = (SystemClock::default(), SystemEntropy);
        Self::with(store, Arc::new(clock), Arc::new(entropy), caller)
    }

    /// With time and chance of one's own.
    #[must_use]
    pub fn with(
        store: Store,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        caller: Arc<dyn Caller>,
    ) -> Self {
        Self::with_access(store, clock, entropy, caller, AccessOptions::default())
    }

    /// And with a say in who may do what.
    #[must_use]
    pub fn with_access(
        store: Store,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        caller: Arc<dyn Caller>,
        access: AccessOptions,
    ) -> Self {
        let gate = Arc::new(Gate::new(access.authorization));
        let accounts = access.accounts.map(|options| {
            let (clock, entropy) = (Arc::clone(&clock), Arc::clone(&entropy));
            Accounts::new(options, store.clone(), clock, entropy)
        });
        let outside = Outside {
            caller,
            store: store.clone(),
            entropy: Arc::clone(&entropy),
        };
        let (hooks, hook_metrics) = (Arc::default(), Arc::default());
        let policies = Arc::default();
        let admission = everybody(
            &hooks,
            &policies,
            &gate,
            Asking {
                outside: outside.clone(),
                metrics: Arc::clone(&hook_metrics),
                judge: Some(Arc::new(CelJudge::new(&gate))),
            },
        );
        let around_watches = Surroundings {
            outside: outside.clone(),
            store: store.clone(),
            encoded: Arc::new(EncodedEvents::default()),
            entropy,
            clock: Arc::clone(&clock),
        };
        Self {
            shared: Arc::new(Shared {
                store,
                kinds: LiveKinds::new(Kinds::of(optik_catalog::builtin())),
                clock,
                around_watches,
                lifetimes: Lifetimes::default(),
                services: ServiceRanges::default(),
                press: Arc::new(Press::new()),
                outside,
                admission,
                hooks,
                policies,
                hook_metrics,
                gate,
                tokens: access.tokens,
                accounts,
                flows: Flows::default(),
                compute: None,
            }),
        }
    }

    /// With other addresses and ports for services. Said before it is shared with others.
    #[must_use]
    pub fn with_services(mut self, ranges: ServiceRanges) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.services = ranges;
        }
        self
    }

    /// With threads of their own for long requests. Said before it is shared with others.
    #[must_use]
    pub fn with_compute(mut self, pool: ComputePool) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.compute = Some(pool);
        }
        self
    }

    /// The network of services, and the address in it that is the API's own.
    #[must_use]
    pub fn service_network(&self) -> (String, String) {
        let ranges = &self.shared.services;
        (ranges.network_text(), ranges.first_address().to_string())
    }

    pub(crate) fn watch_kinds(&self) -> watch::Receiver<Arc<Kinds>> {
        self.shared.kinds.subscribe()
    }

    /// Compiles the definitions of a snapshot, and serves what they define.
    pub(crate) fn open_definitions(&self, state: &Snapshot) {
        self.shared.kinds.open(state);
    }

    /// Has those asked about writes that the configurations of a snapshot name.
    pub(crate) fn refresh_admission(&self, state: &Snapshot) {
        self.shared.hooks.refresh(state);
        self.shared.policies.refresh(state);
    }

    pub(crate) fn note_definitions(&self, versions: &[Arc<Version>]) {
        self.shared.kinds.note(versions);
    }

    /// The kinds of this moment.
    pub(crate) fn current_kinds(&self) -> Arc<Kinds> {
        self.shared.kinds.current()
    }

    /// How many objects there are of each kind, as Prometheus reads it.
    pub async fn metrics(&self) -> String {
        let (kinds, state) = (self.shared.kinds.current(), self.shared.store.snapshot());
        let counted = tokio::task::spawn_blocking(move || counted(&kinds, &state)).await;
        let status = timeout(STATUS_ANSWER_MAX, self.shared.store.status()).await;
        let storage = status.ok().and_then(Result::ok);
        let storage = storage.map(|status| storage_size(&status));
        counted.unwrap_or_default()
            + &storage.unwrap_or_default()
            + &self.shared.hook_metrics.page()
    }

    /// Whether there is such a resource, and such a subresource of it, at this moment.
    #[must_use]
    pub fn serves(&self, of: &optik_access::Resource<'_>) -> bool {
        let kinds = self.shared.kinds.current();
        let kind = kinds.find(of.group, of.version, of.resource);
        kind.is_some_and(|kind| {
            let mut parts = kind.resource.subresources.iter();
            of.subresource.is_empty() || parts.any(|part| part.name == of.subresource)
        })
    }

    /// Answers one request. Never panics, never waits longer than the request asks for.
    pub async fn handle(&self, request: Request) -> Response {
        self.carry_out(request, Voices::Everybody).await
    }

    /// The same for a part of the server whose writes are nobody else's concern.
    pub async fn handle_unadmitted(&self, request: Request) -> Response {
        self.carry_out(request, Voices::Nobody).await
    }

    async fn carry_out(&self, request: Request, voices: Voices) -> Response {
        let Some(pool) = &self.shared.compute else {
            return self.shared.answered(&request, voices).await;
        };
        let Some(weight) = self.shared.long(&request) else {
            return self.shared.answered(&request, voices).await;
        };
        let (shared, user) = (Arc::clone(&self.shared), Arc::clone(&request.user));
        let work = Box::pin(async move { shared.answered(&request, voices).await });
        pool.run(user, weight, work).await
    }
}

/// Who has a say in a write.
#[derive(Clone, Copy)]
enum Voices {
    Everybody,
    Nobody,
}

impl Shared {
    async fn answered(&self, request: &Request, voices: Voices) -> Response {
        let admission = match voices {
            Voices::Everybody => Some(&self.admission),
            Voices::Nobody => None,
        };
        let answered = self.answer(request, admission).await;
        answered.unwrap_or_else(|status| Response::refused(&status, &request.headers))
    }
}

impl Shared {
    pub(crate) fn now(&self) -> Timestamp {
        let millis = i64::try_from(self.clock.wall().0).unwrap_or(i64::MAX);
        Timestamp::from_seconds(millis / 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Servers answer on many threads.
    #[test]
    fn answers_can_move_between_threads() {
        fn check<T: Send>(_: impl FnOnce(ApiServer, Request) -> T) {}
        check(|server, request| async move { server.handle(request).await });
    }
}
