//! Errors: one enum per operation; a caller can act on every variant.

use crate::revision::Revision;
use std::path::PathBuf;

/// Why a transaction is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TxnError {
    #[error("key is not provided")]
    NoKey,
    #[error("duplicate key in transaction")]
    DuplicateKey,
    #[error("too many operations in one transaction")]
    TooManyOperations,
    #[error("the transaction has {bytes} bytes, more than {bytes_max}")]
    TooLarge { bytes: usize, bytes_max: usize },
    #[error("key not found (ignore_value/ignore_lease need an existing key)")]
    KeyNotFound,
    #[error("the lease does not exist")]
    LeaseNotFound,
    #[error("a written key is outside the key range of this store")]
    KeyOutOfRange,
    #[error(transparent)]
    Range(#[from] RangeError),
}

/// Why a commit was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    #[error(transparent)]
    Txn(#[from] TxnError),
    /// The disk is full. Nothing was written.
    #[error("no space left on disk")]
    NoSpace,
    /// The disk failed. Nothing was written that will become visible.
    #[error("disk write failed: {0}")]
    Disk(String),
    /// The transaction may or may not have been executed.
    #[error("the outcome of the write is unknown: {0}")]
    Unknown(String),
    /// The transaction was not executed.
    #[error("store unavailable: {0}")]
    Unavailable(String),
    #[error("the store has stopped")]
    Stopped,
}

/// Why a state cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    #[error("the revision is compacted; the oldest kept is {oldest}")]
    Compacted { oldest: Revision },
    #[error("the revision is a future revision; the newest is {newest}")]
    Future { newest: Revision },
}

/// Why the newest state cannot be proven to be current.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    #[error("store unavailable: {0}")]
    Unavailable(String),
    #[error("the store has stopped")]
    Stopped,
}

/// Why a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    #[error("events from before revision {oldest} are compacted")]
    Compacted { oldest: Revision },
    #[error("the store has stopped")]
    Stopped,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompactError {
    #[error("compacted already, up to revision {oldest}")]
    Compacted { oldest: Revision },
    #[error("the revision is a future revision; the newest is {newest}")]
    Future { newest: Revision },
    #[error(transparent)]
    Commit(#[from] CommitError),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    #[error("the lease does not exist")]
    NotFound,
    #[error("the lease exists already")]
    Exists,
    #[error("the time to live is too long")]
    TtlTooLarge,
    #[error("there are too many leases")]
    TooMany,
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Why an etcd cluster cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    #[error("the options for etcd cannot be used: {0}")]
    Options(String),
    /// No member answers; a retry may succeed.
    #[error("etcd cannot be reached: {0}")]
    Unreachable(String),
    /// A member answers, but retrying will not help.
    #[error("this etcd cannot be used: {0}")]
    Unsupported(String),
}

/// Why a data directory cannot be opened. Nothing in it has been changed, unless a variant says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error("{path} is in use by another process")]
    InUse { path: PathBuf },
    #[error("{path} was written by a newer Optik (format {found}; this one reads {known})")]
    NewerFormat {
        path: PathBuf,
        found: u32,
        known: u32,
    },
    #[error("{path} is not an Optik data directory: {reason}")]
    NotADataDirectory { path: PathBuf, reason: String },
    #[error("{path} is damaged: {reason}")]
    Damaged { path: PathBuf, reason: String },
    #[error("cannot {action} {path}")]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        cause: std::io::Error,
    },
    #[error("{path} is accessible to other users and its permissions cannot be restricted")]
    PermissionsTooOpen {
        path: PathBuf,
        #[source]
        cause: std::io::Error,
    },
    #[error("the storage engine cannot open {path}")]
    Engine {
        path: PathBuf,
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
}
