//! A runtime for Kubernetes controllers in which the classic mistakes cannot be written.
//!
//! It works with any Kubernetes API server. Types, configuration and authentication are
//! those of [`kube`]; what happens between a change and a reconcile is done here.
//!
//! | mistake | here |
//! |---|---|
//! | changing a cached object | a [`Snap`] can only be read |
//! | asking whether it was a create or an update | no event reaches a [`Reconciler`] |
//! | forgetting that an object may be gone | it is called with one that is there; reads give an `Option` |
//! | taking a conflict for an error | a [`Fault`] cannot be taken apart; the runtime comes back |
//! | coming back too often | a [`Poll`] has a lower limit; waiting for something watched is a [`Wait`] |
//! | writing when nothing changed | [`Cx::apply`], [`Cx::edit`] and [`Cx::status`] send differences, or nothing |
//! | a status write that leads to a reconcile | it goes to `/status`, and changes of a status do not count |
//! | reading what one's own write has made stale | a key waits until the caches have seen its writes |
//! | reading what nobody watches | handles to read are given out for watching, by [`Watches`] |
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::{ConfigMap, Secret};
//! use optik_controller::{Cx, Fault, Manager, Outcome, Owned, Reconciler, Snap};
//!
//! /// Keeps a ConfigMap beside each Secret, with the names of what is in it.
//! struct Lister {
//!     maps: Owned<ConfigMap>,
//! }
//!
//! impl Reconciler for Lister {
//!     type Primary = Secret;
//!     const NAME: &'static str = "lister";
//!
//!     async fn reconcile(&self, secret: Snap<Secret>, cx: &mut Cx<Secret>) -> Result<Outcome, Fault> {
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

mod api;
mod applied;
mod backoff;
mod breaker;
mod context;
mod controller;
mod current;
mod desk;
mod diff;
mod entry;
mod events;
mod gate;
mod http_server;
mod key;
mod keys;
mod kind;
mod lease;
mod manager;
mod metrics;
mod monitor;
mod outcome;
mod pass;
mod predicate;
mod queue;
mod reflector;
mod shelf;
mod snap;
mod status;
mod term;
mod watches;
mod webhook;

pub use breaker::BreakerOptions;
pub use context::Cx;
pub use controller::{ControllerOptions, Reconciler};
pub use events::Event;
pub use key::ObjectKey;
pub use kind::Object;
pub use lease::LeaderElection;
pub use manager::{Manager, ManagerOptions, RunError, StartError};
pub use monitor::{CacheSize, Monitor};
pub use outcome::{Cleanup, Fault, Outcome, Poll, Wait};
pub use predicate::Predicate;
pub use queue::{Cause, Moment, Priority, Queue, QueueOptions, Verdict};
pub use shelf::Selection;
pub use snap::Snap;
pub use status::{Status, condition, set_condition};
pub use watches::{Index, Owned, Reader, WatchOptions, Watches};
pub use webhook::{Denial, Review, WebhookError, Webhooks};
