//! The controllers a control plane cannot do without.
//!
//! They are ordinary clients: they read, decide from what they see, and write through
//! the same door as everybody else. Started again in the middle, they begin with a
//! look at the state and go on.

mod authorities;
mod bootstrap;
mod choice;
mod client;
mod collector;
mod definitions;
mod departures;
mod followers;
mod furnishing;
mod namespaces;
mod pace;
mod policies;
mod quotas;
mod roles;
mod settling;

pub use authorities::{Authorities, start_noting_authorities};
pub use bootstrap::make_bootstrap_objects;
pub use choice::{CONTROLLERS, Choice};
pub use collector::keep_collecting;
pub use definitions::keep_definitions_clean;
pub use followers::{start_compaction, start_followers};

/// Where namespaces are kept.
pub(crate) const NAMESPACES: &str = "/registry/namespaces/";
pub use furnishing::{Furniture, keep_furnished, start_publishing_authentication};
pub use namespaces::keep_namespaces;
pub use policies::keep_policies_checked;
pub use quotas::keep_counting;
pub use roles::keep_aggregated_roles;

/// Who follows much that is nobody's concern looks at it in portions: in a busy store
/// every write would wake them.
async fn gather() {
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
}
