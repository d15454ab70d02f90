//! Where the store's errors become a `Status`.

use optik_object::{CorruptBytes, Status};
use optik_store::{CommitError, ReadError, TxnError};

/// A write that was not acknowledged.
pub(crate) fn commit_failed(error: CommitError) -> Status {
    match error {
        CommitError::Txn(TxnError::TooLarge { .. }) => {
            Status::storage_failure("etcdserver: request is too large")
        }
        CommitError::Txn(other) => {
            tracing::error!("a write we made was refused: {other}");
            Status::internal("the store refused the write")
        }
        CommitError::NoSpace => {
            Status::storage_failure("etcdserver: mvcc: database space exceeded")
        }
        CommitError::Disk(cause) => {
            tracing::error!("the disk refuses writes: {cause}");
            Status::internal("the store cannot write")
        }
        // The client must not assume that nothing happened.
        CommitError::Unknown(cause) => {
            tracing::warn!("the outcome of a write is unknown: {cause}");
            Status::timeout("the outcome of the write is not known", 0)
        }
        CommitError::Unavailable(cause) => {
            tracing::warn!("the store cannot be reached: {cause}");
            Status::unavailable("the store cannot be reached")
        }
        CommitError::Stopped => shutting_down(),
        other => {
            tracing::error!("a write failed: {other}");
            Status::internal("the store failed")
        }
    }
}

/// A state that cannot be proven to be the newest.
pub(crate) fn read_failed(error: ReadError) -> Status {
    match error {
        ReadError::Stopped => shutting_down(),
        other => {
            tracing::warn!("cannot read: {other}");
            Status::unavailable("the store cannot be reached")
        }
    }
}

/// A state that others may have changed since it was last known to be the newest.
pub(crate) fn not_confirmed(error: ReadError) -> Status {
    match error {
        ReadError::Stopped => shutting_down(),
        // Each request is told, which would fill the log.
        other => {
            tracing::debug!("what is known may be out of date: {other}");
            Status::unavailable("the store cannot be reached")
        }
    }
}

pub(crate) fn shutting_down() -> Status {
    Status::unavailable("apiserver is shutting down")
}

/// Bytes in the store that are no object.
pub(crate) fn damaged_object(key: &str, error: CorruptBytes) -> Status {
    tracing::error!("{key}: {error}");
    Status::internal("the stored object cannot be read")
}
