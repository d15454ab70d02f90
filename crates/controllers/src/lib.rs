//! The controllers a control plane cannot do without.
//!
//! They are ordinary clients: they read, decide from what they see, and write through
//! the same door as everybody else. Started again in the middle, they begin with a
//! look at the state and go on.

use std::time::Duration;

mod background_tasks;
mod bootstrap;
mod ca_bundles;
mod clusterrole_aggregation;
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

/// Who follows much that is nobody's concern looks at it in portions: in a busy store
/// every write would wake them.
async fn batch_delay() {
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
}

/// How long a controller pauses that watches much more than it acts upon: in a busy store
/// every write would wake it.
const BATCH_DELAY: Duration = Duration::from_millis(10);
