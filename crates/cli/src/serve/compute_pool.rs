//! The threads that long requests are carried out by.

use crate::error::CliError;
use optik_apiserver::ComputePool;
use std::num::NonZero;
use tokio::runtime::Handle;

/// How much later than those that serve these threads have their turn. They still get a third of
/// a busy processor.
const COMPUTE_NICENESS: i32 = 5;

/// One processor is left to those who serve, if there is one to leave.
pub(super) fn start_compute_pool() -> Result<ComputePool, CliError> {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    // On Linux this is about the thread that calls, not the process. If it is refused, they are
    // as urgent as all.
    let yielding = || {
        let _ = rustix::process::nice(COMPUTE_NICENESS);
    };
    ComputePool::start(processors - 1, Handle::current(), yielding)
        .map_err(|cause| CliError::new("cannot start", cause))
}
