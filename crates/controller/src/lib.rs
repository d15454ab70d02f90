//! A runtime for Kubernetes controllers: informers with shared caches, work queues, reconciles,
//! leader election and webhooks. Its API rules out the classic mistakes of controllers.
//!
//! It works with any Kubernetes API server. Types, configuration and authentication come from
//! [`kube`]; everything between a watch event and a reconcile is implemented here.
//!
//! | mistake | here |
//! |---|---|
//! | changing a cached object | a [`Cached`] is read-only |
//! | branching on create or update | a [`Reconciler`] receives no events |
//! | forgetting that an object may be gone | [`Reconciler::reconcile`] is called only with an existing object; reads return an `Option` |
//! | handling a conflict as an error | a [`ReconcileError`] is opaque; the runtime retries with fresh data |
//! | requeuing too often | a [`PollInterval`] has a lower limit; a [`Wait`] for a watched change does not poll |
//! | writing when nothing changed | [`ReconcileContext::apply`], [`ReconcileContext::edit`] and [`ReconcileContext::update_status`] send differences, or nothing |
//! | a status write that triggers a reconcile | it goes to `/status`, and status changes do not trigger a reconcile |
//! | reading data that an own write has made stale | a key is parked until the caches contain its writes |
//! | reading a kind that is not watched | handles to read are returned only by declaring a watch in [`Watches`] |
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::{ConfigMap, Secret};
//! use optik_controller::{ReconcileContext, ReconcileError, Manager, Outcome, Owned, Reconciler, Cached};
//!
//! /// Keeps a ConfigMap beside each Secret, with the names of the Secret's keys.
//! struct Lister {
//!     maps: Owned<ConfigMap>,
//! }
//!
//! impl Reconciler for Lister {
//!     type Primary = Secret;
//!     const NAME: &'static str = "lister";
//!
//!     async fn reconcile(&self, secret: Cached<Secret>, cx: &mut ReconcileContext<Secret>) -> Result<Outcome, ReconcileError> {
//!         let mut map = ConfigMap::default();
//!         map.metadata.name = secret.metadata.name.clone();
//!         let names = secret.data.iter().flatten().map(|(name, _)| (name.clone(), String::new()));
//!         map.data = Some(names.collect());
//!         cx.apply(&self.maps, map).await?;
//!         Ok(Outcome::Done)
//!     }
//! }
//!
//! # async fn start() -> Result<(), Box<dyn std::error::Error>> {
//! let mut manager = Manager::new(kube::Config::infer().await?)?;
//! manager.add(|watches| Lister { maps: watches.owns() })?;
//! manager.run(async { tokio::signal::ctrl_c().await.unwrap_or(()) }).await?;
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]

mod api_client;
mod backoff;
mod breaker;
mod cache_barrier;
mod cache_entry;
mod cached;
mod context;
mod controller;
mod controller_queue;
mod controller_shared;
mod events;
mod freshness;
mod http_server;
mod key;
mod kind;
mod kind_cache;
mod leader_election;
mod leadership_fence;
mod manager;
mod merge_patch;
mod metrics;
mod monitor;
mod outcome;
mod predicate;
mod reconcile_run;
mod redundant_apply;
mod reflector;
mod status;
mod watches;
mod webhook;
mod work_queue;

pub use breaker::BreakerOptions;
pub use cached::Cached;
pub use context::ReconcileContext;
pub use controller::{ControllerOptions, Reconciler};
pub use events::EventRecord;
pub use key::ObjectKey;
pub use kind::ApiObject;
pub use kind_cache::ObjectSelector;
pub use leader_election::LeaderElection;
pub use manager::{Manager, ManagerOptions, RunError, SetupError};
pub use monitor::{CacheSize, Monitor};
pub use outcome::{Cleanup, Outcome, PollInterval, ReconcileError, Wait};
pub use predicate::Predicate;
pub use status::{ObjectStatus, new_condition, set_condition};
pub use watches::{CacheIndex, CacheReader, Owned, WatchOptions, Watches};
pub use webhook::{AdmissionDenial, AdmissionReview, WebhookError, WebhookServer};
pub use work_queue::{
    ChangeId, MonotonicTime, QueuePriority, RequeueDecision, WorkQueue, WorkQueueOptions,
};
