//! The compute pool: threads for long requests, at a lower priority than the threads that serve
//! connections.

use crate::StartError;
use optik_apiserver::ComputePool;
use std::num::NonZero;
use tokio::runtime::Handle;

/// The niceness of the pool's threads relative to the serving threads. They still get a third of a
/// busy processor.
const NICENESS: i32 = 5;

/// Starts the pool. One processor is left to the serving threads, if there is more than one.
pub(crate) fn start_pool(threads: Option<usize>) -> Result<ComputePool, StartError> {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    // On Linux this affects the calling thread, elsewhere the process. If it fails, the thread keeps the
    // normal priority.
    let lower_priority = || {
        if cfg!(target_os = "linux") {
            let _ = rustix::process::nice(NICENESS);
        }
    };
    let threads = threads.unwrap_or(processors - 1);
    ComputePool::start(threads, Handle::current(), lower_priority).map_err(StartError::Threads)
}
