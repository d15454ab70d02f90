//! The threads that long requests are carried out by.

use crate::StartError;
use optik_apiserver::ComputePool;
use std::num::NonZero;
use tokio::runtime::Handle;

/// How much later than those that serve these threads are scheduled. They still get a third of
/// a busy processor.
const NICENESS: i32 = 5;

/// One processor is left to those who serve, if there is one to leave.
pub(crate) fn start_pool(threads: Option<usize>) -> Result<ComputePool, StartError> {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    // On Linux this is about the thread that calls, not the process. If it is refused, they are
    // as urgent as all.
    let lower_priority = || {
        let _ = rustix::process::nice(NICENESS);
    };
    let threads = threads.unwrap_or(processors - 1);
    ComputePool::start(threads, Handle::current(), lower_priority).map_err(StartError::Threads)
}
