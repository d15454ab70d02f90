//! Maps store errors to `Status`.

use optik_object::{CorruptBytes, Status};
use optik_store::{CommitError, ReadError, TxnError};

/// The error for a write that was not acknowledged.
pub(crate) fn commit_failed(error: CommitError) -> Status {
    match error {
        CommitError::Txn(TxnError::TooLarge { .. }) => {
            Status::storage_failure("etcdserver: request is too large")
        }
        CommitError::Txn(other) => {
            tracing::error!("store rejected a transaction built by the server: {other}");
            Status::internal("store rejected the transaction")
        }
        CommitError::NoSpace => {
            Status::storage_failure("etcdserver: mvcc: database space exceeded")
        }
        CommitError::Disk(cause) => {
            tracing::error!("disk write failed: {cause}");
            Status::internal("store write failed")
        }
        // The client must not assume that nothing was written.
        CommitError::Unknown(cause) => {
            tracing::warn!("write outcome unknown: {cause}");
            Status::timeout(
                "write outcome unknown: it may or may not have been applied",
                0,
            )
        }
        CommitError::Unavailable(cause) => {
            tracing::warn!("store unavailable: {cause}");
            Status::unavailable("store unavailable")
        }
        CommitError::Stopped => shutting_down(),
        other => {
            tracing::error!("write failed: {other}");
            Status::internal("store write failed")
        }
    }
}

/// The error for a read whose state cannot be confirmed as the newest.
pub(crate) fn read_failed(error: ReadError) -> Status {
    match error {
        ReadError::Stopped => shutting_down(),
        other => {
            tracing::warn!("linearizable read failed: {other}");
            Status::unavailable("store unavailable")
        }
    }
}

/// The error for a state that may have changed since it was last confirmed as the newest.
pub(crate) fn not_confirmed(error: ReadError) -> Status {
    match error {
        ReadError::Stopped => shutting_down(),
        // Not logged: every request gets this error, which would fill the log.
        other => {
            tracing::debug!("cannot confirm that the local state is current: {other}");
            Status::unavailable("store unavailable")
        }
    }
}

pub(crate) fn shutting_down() -> Status {
    Status::unavailable("apiserver is shutting down")
}

/// The error for stored bytes that are not an object.
pub(crate) fn damaged_object(key: &str, error: CorruptBytes) -> Status {
    tracing::error!("{key}: {error}");
    Status::internal("stored object is corrupt")
}
