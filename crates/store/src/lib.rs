//! The store: transactions, snapshots and watches over keys, bytes and revisions.
//!
//! The design rests on optimistic concurrency: a write names the revision it was based on, and is
//! accepted only if that is still the current one. There is one sequence of revisions, assigned in
//! one place, and every layer above passes it on unchanged.
//!
//! * [`Store`] executes transactions and returns snapshots and watches.
//! * A [`Snapshot`] is a whole state, held by a pointer. Reads never wait for writes.
//! * A [`Watch`] delivers every commit that touches a range, in order and exactly once, from any
//!   revision that is not compacted.
//! * A [`ListWatch`] is a snapshot followed by a watch, and lists again when its events were
//!   compacted.
//!
//! The crate knows nothing of JSON, HTTP or Kubernetes.

mod backup;
mod batch_receiver;
mod compaction;
mod disk;
mod draft;
mod embedded;
mod error;
mod etcd;
mod executor;
mod history;
mod hub;
mod index;
mod key;
mod lease;
mod list_watch;
mod mailbox;
mod options;
mod origin;
#[cfg(test)]
mod panic_tests;
mod replay;
mod revision;
mod sequencer;
mod store;
mod sync;
mod txn;
mod txn_validation;
mod verify;
mod version;
mod view;
mod watch;
mod watcher_index;

/// Whether the full checks of [`verify`] and `disk::log_verify` run. They assert what local assertions
/// cannot: each visits the whole state. They are off in optimised builds, because a benchmark
/// shares the dev-dependencies of the tests.
const VERIFY: bool = cfg!(all(feature = "verify", debug_assertions));

pub use backup::{Export, RestoreError, RestoreSummary, restore};
pub use disk::DiskStatus;
pub use error::{
    CommitError, CompactError, ConnectError, LeaseError, OpenError, RangeError, ReadError,
    TxnError, WatchError,
};
pub use etcd::{EtcdIdentity, EtcdOptions, EtcdTls, EtcdUser};
pub use executor::Executor;
pub use history::{Commit, Event};
pub use index::{LiveSize, Snapshot};
pub use key::{Key, KeyRange};
pub use lease::{LEASE_TTL_SECONDS_MAX, LeaseId, LeaseInfo};
pub use list_watch::{ListWatch, ListWatchEvent};
pub use options::{Durability, Options, Retention};
pub use origin::Origin;
pub use revision::Revision;
pub use store::{Store, StoreStatus};
pub use txn::{
    Compare, Op, OpResult, Operand, Put, RangeQuery, RangeResult, Relation, RevisionFilter, Txn,
    TxnResult,
};
pub use txn_validation::TxnLimits;
pub use version::Version;
pub use watch::{Watch, WatchBatch, WatchFrom, WatchSpec};
