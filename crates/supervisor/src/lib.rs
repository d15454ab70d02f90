//! Supervision of background tasks.
//!
//! Every background task runs under a [`Supervisor`]. A task that panics, or returns although it
//! was not asked to stop, is logged and counted under its name, and restarted after a pause. Its
//! memory is dropped with it: the next run starts from the state of the store, never from state
//! that the failed run left half changed.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! use optik_supervisor::{Supervisor, Task};
//!
//! let supervisor = Supervisor::default();
//! supervisor.spawn(Task::upkeep("garbage-collector"), || async {
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
