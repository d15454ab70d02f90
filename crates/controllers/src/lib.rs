//! The controllers a control plane cannot do without.
//!
//! They read directly from the store: each lists and watches key ranges of it
//! ([`optik_control_loop`]), reads snapshots, and parses the stored objects. So they run
//! in the process of the server, and know where objects of a kind are kept.
//!
//! They write through the API, by requests that this process sends to itself: what they
//! change is authorized as that of any client, and goes through admission (with one exception:
//! instances of a definition that goes are deleted without it), validation and the checks
//! of resourceVersion. Only the notes of certificate authorities ([`CaBundles`]), which no
//! API path leads to, and the mark of the compaction are written to the store.
//!
//! What a controller knows is made from the store. Started again in the middle, it begins
//! with the state and goes on.

use std::time::Duration;

mod background_tasks;
mod bootstrap;
mod ca_bundles;
mod clusterrole_aggregation;
mod compaction;
mod crd_finalizer;
mod enabled_controllers;
mod finalizer_controller;
mod garbage_collector;
mod loopback_client;
mod namespace_controller;
mod namespace_defaults;
mod resource_quota;
mod validating_policy_status;
mod write_backoff;

pub use background_tasks::{start_background_tasks, start_compaction};
pub use bootstrap::create_bootstrap_objects;
pub use ca_bundles::{CaBundles, start_ca_bundle_sharing};
pub use crd_finalizer::run_crd_finalizer;
pub use enabled_controllers::{CONTROLLERS, EnabledControllers};
pub use garbage_collector::run_garbage_collector;

/// Where namespaces are kept.
pub(crate) const NAMESPACES_PREFIX: &str = "/registry/namespaces/";
pub use clusterrole_aggregation::run_clusterrole_aggregation_controller;
pub use namespace_controller::run_namespace_controller;
pub use namespace_defaults::{
    NamespaceDefault, run_namespace_default, start_authentication_config_publisher,
};
pub use resource_quota::run_quota_controller;
pub use validating_policy_status::run_validating_policy_status_controller;

/// How long a controller pauses that watches much more than it acts upon: in a busy store
/// every write would wake it.
const BATCH_DELAY: Duration = Duration::from_millis(10);
