//! The API server: handles one request and returns one response.

pub(crate) mod compute_pool;
mod dispatch;
mod endpoint;
#[cfg(test)]
mod oracle_coverage;
mod read_handlers;
mod request_scope;
pub(crate) mod storage_metrics;
pub(crate) mod store_errors;
mod system_writer;
mod virtual_resources;
pub(crate) mod webhook_client;
mod work_estimate;
mod write_handlers;

pub(crate) use crate::server::request_scope::RequestScope;
pub(crate) use crate::server::system_writer::SystemWriter;

use crate::admission::policies::{CelMatchConditions, Policies};
use crate::admission::webhooks::{AdmissionWebhooks, WebhookInvoker};
use crate::admission::{AdmissionChain, WebhookMetrics, default_chain};
use crate::auth::{AuthOptions, FlowSchemas, RbacAuthorizer, ServiceAccountTokens};
use crate::encoding::encode_pool::EncodePool;
use crate::handlers::watch::{EncodedEvents, WatchDeps};
use crate::registry::lease_manager::LeaseManager;
use crate::registry::registry_handle::RegistryHandle;
use crate::registry::served_resource::ResourceRegistry;
use crate::request::http_types::{ApiRequest, ApiResponse};
use crate::server::compute_pool::ComputePool;
use crate::server::storage_metrics::{object_counts, storage_size};
use crate::server::webhook_client::{NoTransport, WebhookClient, WebhookTransport};
use optik_auth::TokenFile;
use optik_builtin::service_allocation::ServiceRanges;
use optik_object::Timestamp;
use optik_platform::{Clock, Entropy, SystemClock, SystemEntropy};
use optik_store::{Snapshot, Store, Version};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// A metrics request waits at most this long for a remote store.
const STORE_STATUS_WAIT_MAX: Duration = Duration::from_secs(1);

/// The API on a store.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) shared: Arc<ApiServerInner>,
}

pub(crate) struct ApiServerInner {
    pub(crate) store: Store,
    pub(crate) registry: RegistryHandle,
    pub(crate) clock: Arc<dyn Clock>,
    watch_deps: WatchDeps,
    encode_pool: Arc<EncodePool>,
    webhook_client: WebhookClient,
    admission: AdmissionChain,
    lease_manager: LeaseManager,
    service_ranges: ServiceRanges,
    pub(crate) authorizer: Arc<RbacAuthorizer>,
    /// Tokens that TokenReview accepts.
    pub(crate) tokens: TokenFile,
    pub(crate) service_accounts: Option<ServiceAccountTokens>,
    pub(crate) flow_schemas: FlowSchemas,
    webhooks: Arc<AdmissionWebhooks>,
    policies: Arc<Policies>,
    webhook_metrics: Arc<WebhookMetrics>,
    /// The pool for large requests; without it they are handled by the caller.
    compute: Option<ComputePool>,
}

impl ApiServer {
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self::with_webhook_transport(store, Arc::new(NoTransport))
    }

    /// A server that calls webhooks through a transport.
    #[must_use]
    pub fn with_webhook_transport(store: Store, caller: Arc<dyn WebhookTransport>) -> Self {
        let (clock, entropy) = (SystemClock::default(), SystemEntropy);
        Self::with_platform(store, Arc::new(clock), Arc::new(entropy), caller)
    }

    /// A server with a clock and a random source of the caller's.
    #[must_use]
    pub fn with_platform(
        store: Store,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        caller: Arc<dyn WebhookTransport>,
    ) -> Self {
        Self::with_access(store, clock, entropy, caller, AuthOptions::default())
    }

    /// A server that also gets authentication and authorization options.
    #[must_use]
    pub fn with_access(
        store: Store,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        caller: Arc<dyn WebhookTransport>,
        access: AuthOptions,
    ) -> Self {
        let gate = Arc::new(RbacAuthorizer::new(access.authorization));
        let accounts = access.service_accounts.map(|options| {
            let (clock, entropy) = (Arc::clone(&clock), Arc::clone(&entropy));
            ServiceAccountTokens::new(options, store.clone(), clock, entropy)
        });
        let outside = WebhookClient {
            transport: caller,
            store: store.clone(),
            entropy: Arc::clone(&entropy),
        };
        let (hooks, hook_metrics) = (Arc::default(), Arc::default());
        let policies = Arc::default();
        let admission = default_chain(
            &hooks,
            &policies,
            &gate,
            WebhookInvoker {
                client: outside.clone(),
                metrics: Arc::clone(&hook_metrics),
                condition_evaluator: Some(Arc::new(CelMatchConditions::new(&gate))),
            },
        );
        let around_watches = WatchDeps {
            webhook_client: outside.clone(),
            store: store.clone(),
            encoded: Arc::new(EncodedEvents::default()),
            entropy,
            clock: Arc::clone(&clock),
        };
        Self {
            shared: Arc::new(ApiServerInner {
                store,
                registry: RegistryHandle::new(ResourceRegistry::from_resources(
                    optik_catalog::builtin(),
                )),
                clock,
                watch_deps: around_watches,
                lease_manager: LeaseManager::default(),
                service_ranges: ServiceRanges::default(),
                encode_pool: Arc::new(EncodePool::new()),
                webhook_client: outside,
                admission,
                webhooks: hooks,
                policies,
                webhook_metrics: hook_metrics,
                authorizer: gate,
                tokens: access.tokens,
                service_accounts: accounts,
                flow_schemas: FlowSchemas::default(),
                compute: None,
            }),
        }
    }

    /// Sets the address and port ranges of services. Called before the server is shared.
    #[must_use]
    pub fn with_service_ranges(mut self, ranges: ServiceRanges) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.service_ranges = ranges;
        }
        self
    }

    /// Sets the compute pool for large requests. Called before the server is shared.
    #[must_use]
    pub fn with_compute(mut self, pool: ComputePool) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.compute = Some(pool);
        }
        self
    }

    /// The service network, and the API server's own address in it.
    #[must_use]
    pub fn service_network(&self) -> (String, String) {
        let ranges = &self.shared.service_ranges;
        (ranges.cidr(), ranges.first_address().to_string())
    }

    pub(crate) fn watch_registry(&self) -> watch::Receiver<Arc<ResourceRegistry>> {
        self.shared.registry.subscribe()
    }

    /// Compiles the CRDs of a snapshot and serves their kinds.
    pub(crate) fn load_crds(&self, state: &Snapshot) {
        self.shared.registry.load_crds(state);
    }

    /// Recompiles the admission configuration from a snapshot.
    pub(crate) fn refresh_admission(&self, state: &Snapshot) {
        self.shared.webhooks.refresh(state);
        self.shared.policies.refresh(state);
    }

    pub(crate) fn update_crds(&self, versions: &[Arc<Version>]) {
        self.shared.registry.update_crds(versions);
    }

    /// The current registry.
    pub(crate) fn current_registry(&self) -> Arc<ResourceRegistry> {
        self.shared.registry.current()
    }

    /// Object counts per kind, storage size and webhook metrics, in the Prometheus format.
    pub async fn metrics(&self) -> String {
        let (kinds, state) = (self.shared.registry.current(), self.shared.store.snapshot());
        let counted = tokio::task::spawn_blocking(move || object_counts(&kinds, &state)).await;
        let status = timeout(STORE_STATUS_WAIT_MAX, self.shared.store.status()).await;
        let storage = status.ok().and_then(Result::ok);
        let storage = storage.map(|status| storage_size(&status));
        counted.unwrap_or_default()
            + &storage.unwrap_or_default()
            + &self.shared.webhook_metrics.render()
    }

    /// Whether this resource and subresource are served now.
    #[must_use]
    pub fn serves(&self, of: &optik_auth::ResourceAttributes<'_>) -> bool {
        let kinds = self.shared.registry.current();
        let kind = kinds.find(of.group, of.version, of.resource);
        kind.is_some_and(|kind| {
            let mut parts = kind.resource.subresources.iter();
            of.subresource.is_empty() || parts.any(|part| part.name == of.subresource)
        })
    }

    /// Handles one request. Never panics, never waits longer than the request allows.
    pub async fn handle(&self, request: ApiRequest) -> ApiResponse {
        self.run_or_offload(request, AdmissionMode::Admit).await
    }

    /// Handles a request without admission, for internal writes.
    pub async fn handle_without_admission(&self, request: ApiRequest) -> ApiResponse {
        self.run_or_offload(request, AdmissionMode::Bypass).await
    }

    async fn run_or_offload(&self, request: ApiRequest, voices: AdmissionMode) -> ApiResponse {
        let Some(pool) = &self.shared.compute else {
            return self.shared.respond(&request, voices).await;
        };
        let Some(weight) = self.shared.offload_weight(&request) else {
            return self.shared.respond(&request, voices).await;
        };
        let (shared, user) = (Arc::clone(&self.shared), Arc::clone(&request.user));
        let work = Box::pin(async move { shared.respond(&request, voices).await });
        pool.run(user, weight, work).await
    }
}

/// Whether admission plugins run for a write.
#[derive(Clone, Copy)]
enum AdmissionMode {
    Admit,
    Bypass,
}

impl ApiServerInner {
    async fn respond(&self, request: &ApiRequest, voices: AdmissionMode) -> ApiResponse {
        let admission = match voices {
            AdmissionMode::Admit => Some(&self.admission),
            AdmissionMode::Bypass => None,
        };
        let answered = self.dispatch(request, admission).await;
        answered.unwrap_or_else(|status| ApiResponse::from_status(&status, &request.headers))
    }
}

impl ApiServerInner {
    pub(crate) fn now(&self) -> Timestamp {
        let millis = i64::try_from(self.clock.wall().0).unwrap_or(i64::MAX);
        Timestamp::from_seconds(millis / 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The server handles requests on many threads.
    #[test]
    fn handle_future_is_send() {
        fn check<T: Send>(_: impl FnOnce(ApiServer, ApiRequest) -> T) {}
        check(|server, request| async move { server.handle(request).await });
    }
}
