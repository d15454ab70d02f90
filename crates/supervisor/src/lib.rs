//! Background tasks by name.
//!
//! Whatever runs beside requests runs under a [`Supervisor`]. A task that panics, or
//! returns although nobody told it to, is logged and counted under its name, and started
//! again from the beginning after a pause. What a task knew is dropped with it: the next
//! one starts from the state of the store, never from what the last one left half done.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! use optik_supervisor::{Supervisor, RuntimeArgs};
//!
//! let supervisor = Supervisor::default();
//! supervisor.spawn(RuntimeArgs::upkeep("garbage-collector"), || async {
//!     std::future::pending().await
//! });
//! assert!(supervisor.is_up("garbage-collector"));
//! supervisor.shutdown().await;
//! # });
//! ```

mod catch_panic;
#[cfg(feature = "failpoints")]
mod failpoint;
mod restart_backoff;
mod supervisor;
mod task;
mod task_registry;

#[cfg(feature = "failpoints")]
pub use failpoint::FailpointHold;
pub use supervisor::Supervisor;
pub use task::{Impact, Task};
pub use task_registry::TaskStatus;
