//! Conversion of the store's errors to the errors that etcd clients recognise.

use optik_etcd_api::errors::{
    COMPACTED, DUPLICATE_KEY, FUTURE_REVISION, KEY_NOT_FOUND, KEY_NOT_PROVIDED, LEASE_EXISTS,
    LEASE_NOT_FOUND, LEASE_TTL_TOO_LARGE, NO_SPACE, REQUEST_TOO_LARGE, STOPPED, TIMEOUT,
    TOO_MANY_OPS, TOO_MANY_REQUESTS,
};
use optik_store::{CommitError, CompactError, LeaseError, RangeError, ReadError, TxnError};
use tonic::Status;

pub(crate) fn from_txn_error(error: &TxnError) -> Status {
    match error {
        TxnError::NoKey => KEY_NOT_PROVIDED.into(),
        TxnError::DuplicateKey => DUPLICATE_KEY.into(),
        TxnError::TooManyOperations => TOO_MANY_OPS.into(),
        TxnError::TooLarge { .. } => REQUEST_TOO_LARGE.into(),
        TxnError::KeyNotFound => KEY_NOT_FOUND.into(),
        TxnError::LeaseNotFound => LEASE_NOT_FOUND.into(),
        TxnError::KeyOutOfRange => {
            Status::invalid_argument("etcdserver: the key lies outside the range of this store")
        }
        TxnError::Range(error) => from_range_error(*error),
        other => unknown_error(other),
    }
}

pub(crate) fn from_commit_error(error: &CommitError) -> Status {
    match error {
        CommitError::Txn(error) => from_txn_error(error),
        CommitError::NoSpace => NO_SPACE.into(),
        // The store has logged the cause; clients need to know only that the write did not happen.
        CommitError::Disk(_) => Status::unavailable("etcdserver: disk write failed"),
        CommitError::Unknown(_) => TIMEOUT.into(),
        CommitError::Unavailable(_) => Status::unavailable("etcdserver: store unavailable"),
        CommitError::Stopped => STOPPED.into(),
        other => unknown_error(other),
    }
}

pub(crate) fn from_range_error(error: RangeError) -> Status {
    match error {
        RangeError::Compacted { .. } => COMPACTED.into(),
        RangeError::Future { .. } => FUTURE_REVISION.into(),
    }
}

pub(crate) fn from_read_error(error: &ReadError) -> Status {
    match error {
        ReadError::Unavailable(_) => Status::unavailable("etcdserver: store unavailable"),
        ReadError::Stopped => STOPPED.into(),
        other => unknown_error(other),
    }
}

pub(crate) fn from_compact_error(error: &CompactError) -> Status {
    match error {
        CompactError::Compacted { .. } => COMPACTED.into(),
        CompactError::Future { .. } => FUTURE_REVISION.into(),
        CompactError::Commit(error) => from_commit_error(error),
        other => unknown_error(other),
    }
}

pub(crate) fn from_lease_error(error: &LeaseError) -> Status {
    match error {
        LeaseError::NotFound => LEASE_NOT_FOUND.into(),
        LeaseError::Exists => LEASE_EXISTS.into(),
        LeaseError::TtlTooLarge => LEASE_TTL_TOO_LARGE.into(),
        LeaseError::TooMany => TOO_MANY_REQUESTS.into(),
        LeaseError::Commit(error) => from_commit_error(error),
        other => unknown_error(other),
    }
}

/// For variants that are added to the store's errors later.
fn unknown_error(error: &dyn std::error::Error) -> Status {
    tracing::warn!(%error, "store error has no etcd equivalent");
    Status::unavailable("etcdserver: store unavailable")
}
