//! The manager: runs all controllers of a process, with the informer caches, leader election, event
//! recorder, health, metrics and webhook servers that they share. Counterpart of
//! controller-runtime's `Manager`.

use crate::api_client::ApiClient;
use crate::cache_entry::{CacheOptions, TransformFn};
use crate::controller::{Controller, ControllerOptions, Reconciler};
use crate::controller_queue::ControllerQueue;
use crate::controller_shared::ControllerShared;
use crate::events::{EventRecorder, EventSink};
use crate::http_server::{response, serve};
use crate::kind::{ApiObject, KindInfo};
use crate::kind_cache::{KindCache, ObjectSelector};
use crate::leader_election::{LeaderElection, LeaderElector};
use crate::leadership_fence::LeadershipFence;
use crate::metrics::ManagerMetrics;
use crate::monitor::Monitor;
use crate::predicate::Predicate;
use crate::reflector::{InitialListStrategy, Reflector};
use crate::watches::{Watches, enqueue};
use crate::webhook::WebhookServer;
use futures::FutureExt;
use http::StatusCode;
use kube::{Client, Config};
use optik_object::Value;
use optik_object::selector::LabelSelector;
use optik_platform::{Clock, Entropy, SystemClock, SystemEntropy};
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{error, info, warn};

/// An error while creating a manager or adding a controller.
///
/// ```
/// # use optik_controller::SetupError;
/// # let error =
/// SetupError::DuplicateName { name: "backup".into() }
/// # ;
/// # assert!(error.to_string().contains("backup"));
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SetupError {
    /// No client can be created from this configuration.
    #[error("cannot create a client from this configuration")]
    Client(#[source] Box<kube::Error>),
    /// A label selector cannot be parsed.
    #[error("invalid label selector {selector:?}: {cause}")]
    Selector {
        /// The selector as it was given.
        selector: String,
        /// The parse error.
        cause: String,
    },
    /// Two controllers have the same name. The name is the field manager, so each controller would
    /// treat the other's fields as its own.
    #[error("a controller named {name} already exists")]
    DuplicateName {
        /// The name of both controllers.
        name: String,
    },
}

/// An error that prevents a manager from running.
///
/// ```
/// # use optik_controller::RunError;
/// fn explain(error: &RunError) -> String { error.to_string() }
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The address for health and metrics, or for webhooks, cannot be bound.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        cause: io::Error,
    },
}

/// Options of a manager.
///
/// ```
/// # use optik_controller::{LeaderElection, ManagerOptions};
/// let mut options = ManagerOptions::default();
/// options.leader_election = Some(LeaderElection::new("default", "backup-operator"));
/// options.health = Some(([0, 0, 0, 0], 8080).into());
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ManagerOptions {
    /// Leader election. If `None`, this process always leads.
    pub leader_election: Option<LeaderElection>,
    /// The address that serves `/healthz`, `/livez`, `/readyz` and `/metrics`. If `None`, they are
    /// not served.
    pub health: Option<SocketAddr>,
    /// How long running reconciles may take to finish after the shutdown began. After that they are
    /// cancelled.
    pub shutdown_wait: Duration,
    /// Whether initial lists are streamed if the server supports it. Otherwise they are paged.
    pub streaming_lists: bool,
    /// Whether `managedFields` of other field managers are cached, too. They are often half of an
    /// object.
    pub keep_managed_fields: bool,
    /// The source of wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness.
    pub entropy: Arc<dyn Entropy>,
}

impl Default for ManagerOptions {
    fn default() -> Self {
        Self {
            leader_election: None,
            health: None,
            shutdown_wait: Duration::from_secs(30),
            streaming_lists: true,
            keep_managed_fields: false,
            clock: Arc::new(SystemClock::default()),
            entropy: Arc::new(SystemEntropy),
        }
    }
}

/// The caches of a manager: one for each kind and selector.
#[derive(Default)]
pub(crate) struct Caches {
    pub(crate) all: Vec<Arc<KindCache>>,
    transforms: Vec<(String, String, TransformFn)>,
}

impl Caches {
    pub(crate) fn get_or_create<K: ApiObject>(
        &mut self,
        mut selection: ObjectSelector,
    ) -> Result<Arc<KindCache>, SetupError> {
        let kind = KindInfo::for_type::<K>();
        selection.namespaces.sort_unstable();
        selection.namespaces.dedup();
        let same = |cache: &&Arc<KindCache>| {
            cache.kind.api_version == kind.api_version
                && cache.kind.kind == kind.kind
                && cache.kind.metadata_only == kind.metadata_only
                && cache.selection == selection
        };
        if let Some(cache) = self.all.iter().find(same) {
            return Ok(Arc::clone(cache));
        }
        let labels = LabelSelector::parse(&selection.labels);
        let labels = labels.map_err(|cause| SetupError::Selector {
            selector: selection.labels.clone(),
            cause: cause.to_string(),
        })?;
        // The number of caches of a manager is small.
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let cache = Arc::new(KindCache::new(number, kind, selection, labels));
        self.all.push(Arc::clone(&cache));
        Ok(cache)
    }
}

/// The delay before a reflector is restarted after a panic.
const PANIC_BACKOFF: Duration = Duration::from_secs(1);

type ControllerFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs controllers, with one cache for each kind that any of them watches.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// # use optik_controller::{ReconcileContext, ReconcileError, Manager, Outcome, Owned, Reconciler, Cached};
/// # struct Copier { maps: Owned<ConfigMap> }
/// # impl Reconciler for Copier {
/// #     type Primary = Secret;
/// #     const NAME: &'static str = "copier";
/// #     async fn reconcile(&self, _: Cached<Secret>, _: &mut ReconcileContext<Secret>) -> Result<Outcome, ReconcileError> {
/// #         Ok(Outcome::Done)
/// #     }
/// # }
/// # async fn start() -> Result<(), Box<dyn std::error::Error>> {
/// let config = kube::Config::infer().await?;
/// let mut manager = Manager::new(config)?;
/// manager.add(|watches| Copier { maps: watches.owns() })?;
/// manager.run(async { tokio::signal::ctrl_c().await.unwrap_or(()) }).await?;
/// # Ok(())
/// # }
/// ```
pub struct Manager {
    options: ManagerOptions,
    api: ApiClient,
    identity: String,
    caches: Caches,
    names: Vec<&'static str>,
    queues: Vec<Arc<ControllerQueue>>,
    controllers: Vec<ControllerFuture>,
    webhooks: Option<WebhookServer>,
    recorder: EventRecorder,
    event_sink: EventSink,
    stop: watch::Sender<bool>,
    leading: watch::Sender<bool>,
    fence: LeadershipFence,
}

impl Manager {
    /// Creates a manager with the default options. Its client does not retry requests: whether a
    /// retry is safe depends on the request, which a client cannot know.
    ///
    /// ```
    /// # use optik_controller::Manager;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let config = kube::Config::new("http://127.0.0.1:8080".parse().unwrap());
    /// let manager = Manager::new(config).unwrap();
    /// # let _ = manager;
    /// # }
    /// ```
    pub fn new(config: Config) -> Result<Self, SetupError> {
        Self::with_options(config, ManagerOptions::default())
    }

    /// Creates a manager with the given options.
    ///
    /// ```
    /// # use optik_controller::{Manager, ManagerOptions};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let config = kube::Config::new("http://127.0.0.1:8080".parse().unwrap());
    /// let manager = Manager::with_options(config, ManagerOptions::default()).unwrap();
    /// # let _ = manager;
    /// # }
    /// ```
    pub fn with_options(mut config: Config, options: ManagerOptions) -> Result<Self, SetupError> {
        config.default_retry = false;
        // Watches can be idle for a long time; the runtime has timeouts of its own.
        config.read_timeout = None;
        let client =
            Client::try_from(config).map_err(|cause| SetupError::Client(Box::new(cause)))?;
        Ok(Self::with_client(client, options))
    }

    /// Creates a manager with the given client, for example one with custom layers. The client
    /// should not retry requests.
    ///
    /// ```
    /// # use optik_controller::{Manager, ManagerOptions};
    /// fn make(client: kube::Client) -> Manager {
    ///     Manager::with_client(client, ManagerOptions::default())
    /// }
    /// ```
    #[must_use]
    pub fn with_client(client: Client, options: ManagerOptions) -> Self {
        let api = ApiClient::new(client, Arc::new(ManagerMetrics::default()));
        let asked = options.leader_election.as_ref();
        let asked = asked.and_then(|election| election.identity.clone());
        let identity = asked
            .unwrap_or_else(|| format!("optik-controller-{:016x}", options.entropy.next_u64()));
        let fence = LeadershipFence::default();
        if options.leader_election.is_some() {
            fence.require_lease();
        }
        let (recorder, event_sink) =
            EventRecorder::new(api.clone(), Arc::clone(&options.clock), identity.clone());
        Self {
            options,
            api,
            identity,
            caches: Caches::default(),
            names: Vec::new(),
            queues: Vec::new(),
            controllers: Vec::new(),
            webhooks: None,
            recorder,
            event_sink,
            stop: watch::Sender::new(false),
            leading: watch::Sender::new(false),
            fence,
        }
    }

    /// Adds a controller. `build` declares what the controller watches, and creates the reconciler
    /// from the handles that the declarations return.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # use optik_controller::{ReconcileContext, ReconcileError, Manager, Outcome, Owned, Reconciler, Cached, SetupError};
    /// # struct Copier { maps: Owned<ConfigMap> }
    /// # impl Reconciler for Copier {
    /// #     type Primary = Secret;
    /// #     const NAME: &'static str = "copier";
    /// #     async fn reconcile(&self, _: Cached<Secret>, _: &mut ReconcileContext<Secret>) -> Result<Outcome, ReconcileError> {
    /// #         Ok(Outcome::Done)
    /// #     }
    /// # }
    /// fn add(manager: &mut Manager) -> Result<(), SetupError> {
    ///     manager.add(|watches| Copier { maps: watches.owns() })
    /// }
    /// ```
    pub fn add<R: Reconciler>(
        &mut self,
        build: impl FnOnce(&mut Watches<'_, R::Primary>) -> R,
    ) -> Result<(), SetupError> {
        self.add_with(ControllerOptions::default(), build)
    }

    /// Adds a controller with the given options.
    ///
    /// ```
    /// # use optik_controller::{ControllerOptions, Manager, Reconciler, SetupError};
    /// fn add<R: Reconciler>(manager: &mut Manager, reconciler: R) -> Result<(), SetupError> {
    ///     let mut options = ControllerOptions::default();
    ///     options.workers = 2;
    ///     manager.add_with(options, |_| reconciler)
    /// }
    /// ```
    pub fn add_with<R: Reconciler>(
        &mut self,
        options: ControllerOptions,
        build: impl FnOnce(&mut Watches<'_, R::Primary>) -> R,
    ) -> Result<(), SetupError> {
        if self.names.contains(&R::NAME) {
            return Err(SetupError::DuplicateName {
                name: R::NAME.to_owned(),
            });
        }
        let primary = self
            .caches
            .get_or_create::<R::Primary>(options.selection.clone())?;
        let shared = Arc::new(ControllerShared::new(
            R::NAME,
            self.api.clone(),
            Arc::clone(&self.options.clock),
            Arc::clone(&self.options.entropy),
            self.recorder.clone(),
            self.fence.clone(),
            options.breaker.clone(),
        ));
        let queue = Arc::new(ControllerQueue::new(
            options.queue.clone(),
            Arc::clone(&self.options.entropy),
            Arc::clone(&shared.metrics),
        ));
        let mut watches = Watches {
            caches: &mut self.caches,
            queue: &queue,
            shared: &shared,
            primary: Arc::clone(&primary),
            used_caches: vec![Arc::clone(&primary)],
            primary_predicate: None,
            error: None,
            kind: PhantomData,
        };
        let reconciler = build(&mut watches);
        let (caches, failed) = (watches.used_caches, watches.error);
        let predicate = watches.primary_predicate;
        if let Some(failed) = failed {
            return Err(failed);
        }
        let predicate = predicate.unwrap_or_else(Predicate::ignore_status);
        enqueue(&primary, predicate, &queue, |change| {
            change.key().cloned().into_iter().collect()
        });
        let controller = Controller::new(
            reconciler,
            options,
            primary,
            Arc::clone(&queue),
            shared,
            caches,
        );
        let (stop, leading) = (self.stop.subscribe(), self.leading.subscribe());
        self.controllers
            .push(Box::pin(Arc::new(controller).run(stop, leading)));
        self.names.push(R::NAME);
        self.queues.push(queue);
        Ok(())
    }

    /// Changes objects of a kind before they are cached, for example to drop fields that no
    /// controller reads. The cache key, uid and revision are read before the transform.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use optik_controller::Manager;
    /// fn slim(manager: &mut Manager) {
    ///     manager.transform::<Pod>(|pod| {
    ///         pod["metadata"]["annotations"] = serde_json::Value::Null;
    ///     });
    /// }
    /// ```
    pub fn transform<K: ApiObject>(&mut self, change: impl Fn(&mut Value) + Send + Sync + 'static) {
        let kind = KindInfo::for_type::<K>();
        let change: TransformFn = Arc::new(change);
        self.caches
            .transforms
            .push((kind.api_version, kind.kind, change));
    }

    /// Serves admission and conversion webhooks while the controllers run, whether this process
    /// leads or not.
    ///
    /// ```
    /// # use optik_controller::{Manager, WebhookServer};
    /// fn add(manager: &mut Manager, webhooks: WebhookServer) {
    ///     manager.webhooks(webhooks);
    /// }
    /// ```
    pub fn webhooks(&mut self, webhooks: WebhookServer) {
        self.webhooks = Some(webhooks);
    }

    /// Returns a handle to the state and the metrics of this manager.
    ///
    /// ```
    /// # use optik_controller::{Manager, Monitor};
    /// fn watch(manager: &Manager) -> Monitor { manager.monitor() }
    /// ```
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        Monitor::new(
            self.api.clone(),
            self.caches.all.clone(),
            self.queues.clone(),
            self.leading.subscribe(),
        )
    }

    /// Runs until `shutdown` is ready. Then the manager shuts down in this order: no new reconciles
    /// are started; running reconciles get time to finish; pending events are sent and the lease is
    /// released; watches end.
    ///
    /// ```no_run
    /// # use optik_controller::{Manager, RunError};
    /// async fn run(manager: Manager) -> Result<(), RunError> {
    ///     manager.run(async { tokio::signal::ctrl_c().await.unwrap_or(()) }).await
    /// }
    /// ```
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
        let monitor = self.monitor();
        let mut background = JoinSet::new();
        if let Some(address) = self.options.health {
            background.spawn(serve_health(bind(address).await?, monitor));
        }
        self.start_informers(&mut background);
        if let Some(webhooks) = self.webhooks {
            let listener = bind(webhooks.address).await?;
            background.spawn(webhooks.serve(listener));
        }
        let (stop_late, stopped_late) = watch::channel(false);
        let mut late = JoinSet::new();
        late.spawn(self.event_sink.run(stopped_late.clone()));
        match self.options.leader_election {
            None => {
                self.leading.send_replace(true);
                self.api.metrics.leading.set(1);
            }
            Some(election) => {
                let candidate = LeaderElector {
                    election,
                    identity: self.identity,
                    api: self.api.clone(),
                    clock: self.options.clock,
                    entropy: self.options.entropy,
                    leading: self.leading.clone(),
                    fence: self.fence,
                    observed: None,
                };
                late.spawn(candidate.run(stopped_late));
            }
        }
        let mut controllers = JoinSet::new();
        for controller in self.controllers {
            controllers.spawn(controller);
        }
        shutdown.await;
        info!("shutting down");
        self.stop.send_replace(true);
        let wait = self.options.shutdown_wait;
        let finishing = async { while controllers.join_next().await.is_some() {} };
        if tokio::time::timeout(wait, finishing).await.is_err() {
            warn!("some reconciles did not finish in time");
            controllers.shutdown().await;
        }
        stop_late.send_replace(true);
        let finishing = async { while late.join_next().await.is_some() {} };
        if tokio::time::timeout(wait, finishing).await.is_err() {
            warn!("some events were not sent before the shutdown timeout");
        }
        background.shutdown().await;
        Ok(())
    }

    fn start_informers(&self, background: &mut JoinSet<()>) {
        let managers: Vec<String> = self.names.iter().map(|name| (*name).to_owned()).collect();
        let list_strategy = if self.options.streaming_lists {
            InitialListStrategy::StreamingList
        } else {
            InitialListStrategy::PagedList
        };
        for cache in &self.caches.all {
            let mut transforms = self.caches.transforms.iter();
            let transform = transforms.find(|(version, kind, _)| {
                *version == cache.kind.api_version && *kind == cache.kind.kind
            });
            cache.set_options(CacheOptions {
                managers: managers.clone(),
                all_managed_fields: self.options.keep_managed_fields,
                transform: transform.map(|(_, _, transform)| Arc::clone(transform)),
            });
            for informer in 0..cache.informers.len() {
                background.spawn(run_reflector(Reflector {
                    cache: Arc::clone(cache),
                    informer,
                    api: self.api.clone(),
                    entropy: Arc::clone(&self.options.entropy),
                    list_strategy,
                }));
            }
        }
    }
}

/// Runs a reflector, and restarts it after a panic, for example of a user-supplied transform.
async fn run_reflector(reflector: Reflector) {
    loop {
        let following = AssertUnwindSafe(reflector.clone().run()).catch_unwind();
        if following.await.is_err() {
            error!(
                kind = reflector.cache.kind.kind,
                "reflector panicked, possibly in a cache transform; restarting"
            );
            tokio::time::sleep(PANIC_BACKOFF).await;
        }
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, RunError> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|cause| RunError::Listen { address, cause })
}

async fn serve_health(listener: TcpListener, monitor: Monitor) {
    const TEXT: &str = "text/plain; charset=utf-8";
    serve(listener, None, move |request| {
        let answered = match request.uri().path() {
            "/healthz" | "/livez" => response(StatusCode::OK, TEXT, "ok"),
            "/readyz" if monitor.is_synced() => response(StatusCode::OK, TEXT, "ok"),
            "/readyz" => response(
                StatusCode::SERVICE_UNAVAILABLE,
                TEXT,
                "caches have not synced",
            ),
            "/metrics" => {
                let kind = "text/plain; version=0.0.4; charset=utf-8";
                response(StatusCode::OK, kind, monitor.metrics())
            }
            _ => response(StatusCode::NOT_FOUND, TEXT, "not found"),
        };
        std::future::ready(answered)
    })
    .await;
}
