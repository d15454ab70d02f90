//! The controllers a control plane cannot do without.
//!
//! They read directly from the store: each lists and watches key ranges of it
//! ([`optik_control_loop`]), reads snapshots, and parses the stored objects. So they run
//! in the process of the server, and know where objects of a kind are kept.
//!
//! They write through the API: each write is a request that this process hands to its own
//! [`ApiServer`](optik_apiserver::ApiServer), without a connection, as a service account in
//! `system:masters`. It passes defaults, validation, admission and the checks of
//! resourceVersion like the write of a client; authorization, which requests from outside
//! pass before, it does not. There are three exceptions. Objects of a definition that goes
//! are deleted without admission. The notes of certificate authorities ([`CaBundles`]), to
//! which no path of the API leads, and the mark of the compaction are written to the store.
//!
//! What a controller knows is made from the store. Started again in the middle, it begins
//! with the state and goes on.

use optik_apiserver::key_prefix;
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
pub use clusterrole_aggregation::run_clusterrole_aggregation_controller;
pub use crd_finalizer::run_crd_finalizer;
pub use enabled_controllers::{CONTROLLERS, EnabledControllers};
pub use garbage_collector::run_garbage_collector;
pub use namespace_controller::run_namespace_controller;
pub use namespace_defaults::{
    NamespaceDefault, run_namespace_default, start_authentication_config_publisher,
};
pub use resource_quota::run_quota_controller;
pub use validating_policy_status::run_validating_policy_status_controller;

const NAMESPACES_PREFIX: &str = key_prefix("", "namespaces");
/// How long a controller pauses that watches much more than it acts upon: in a busy store
/// every write would wake it.
const BATCH_DELAY: Duration = Duration::from_millis(10);
