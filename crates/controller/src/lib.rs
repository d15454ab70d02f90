//! A runtime for Kubernetes controllers in which the classic mistakes cannot be written.
//!
//! It works with any Kubernetes API server. Types, configuration and authentication are
//! those of [`kube`]; what happens between a change and a reconcile is done here.
//!
//! | mistake | here |
//! |---|---|
//! | changing a cached object | a [`Cached`] can only be read |
//! | asking whether it was a create or an update | no event reaches a [`Reconciler`] |
//! | forgetting that an object may be gone | it is called with one that is there; reads give an `Option` |
//! | taking a conflict for an error | a [`ReconcileError`] cannot be taken apart; the runtime comes back |
//! | coming back too often | a [`PollInterval`] has a lower limit; waiting for something watched is a [`Wait`] |
//! | writing when nothing changed | [`ReconcileContext::apply`], [`ReconcileContext::edit`] and [`ReconcileContext::status`] send differences, or nothing |
//! | a status write that leads to a reconcile | it goes to `/status`, and changes of a status do not count |
//! | reading what one's own write has made stale | a key waits until the caches have seen its writes |
//! | reading what nobody watches | handles to read are given out for watching, by [`SourceWatches`] |
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::{ConfigMap, Secret};
//! use optik_controller::{ReconcileContext, ReconcileError, FieldManager, Outcome, OwnedNodes, Reconciler, Cached};
//!
//! /// Keeps a ConfigMap beside each Secret, with the names of what is in it.
//! struct Lister {
//!     maps: OwnedNodes<ConfigMap>,
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
//! let mut manager = FieldManager::new(kube::Config::infer().await?)?;
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
