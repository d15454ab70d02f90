//! Waiting for a state. Time only decides that a wait has failed.

use std::time::Duration;

/// Timeout, longer than any operation takes on a busy machine.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits for `future`.
///
/// # Panics
/// If it takes unreasonably long.
#[track_caller]
pub fn within<F: Future>(what: &str, future: F) -> impl Future<Output = F::Output> {
    let at = std::panic::Location::caller();
    let future = Box::pin(tokio::time::timeout(WAIT_TIMEOUT, future));
    async move {
        match future.await {
            Ok(done) => done,
            Err(_) => panic!("{at}: waited {WAIT_TIMEOUT:?} in vain for {what}"),
        }
    }
}
