//! Keys, bytes and revisions.
//!
//! One idea carries everything: a write names the revision it was based on, and is
//! accepted only if that is still the current one. So there is one sequence of
//! revisions, made in one place, and every layer above passes it on unchanged.
//!
//! * [`Store`] takes transactions and gives out snapshots and watches.
//! * A [`Snapshot`] is a whole state, held by a pointer. Reads never wait for writes.
//! * A [`Watch`] hands over every commit that touches a range, in order, none left
//!   out and none twice, from any revision that is not compacted.
//!
//! The crate knows nothing of JSON, HTTP or Kubernetes.

#[cfg(test)]
mod after_panics;
mod backup;
mod check;
mod disk;
mod draft;
mod embedded;
mod error;
mod etcd;
mod history;
mod hub;
mod index;
mod intake;
mod interest;
mod key;
mod lease;
mod mailbox;
mod options;
mod origin;
mod replay;
mod revision;
mod sequencer;
mod store;
mod sweep;
mod sync;
mod txn;
mod version;
mod view;
mod watch;
mod workplace;

pub use backup::{Export, RestoreError, Restored, restore};
pub use check::TxnLimits;
pub use disk::DiskStatus;
pub use error::{
    CommitError, CompactError, ConnectError, LeaseError, OpenError, RangeError, ReadError,
    TxnError, WatchError,
};
pub use etcd::{EtcdIdentity, EtcdOptions, EtcdTls, EtcdUser};
pub use history::{Commit, Event};
pub use index::{Size, Snapshot};
pub use key::{Key, KeyRange};
pub use lease::{LEASE_TTL_SECONDS_MAX, LeaseId, LeaseInfo};
pub use options::{Durability, Options, Retention};
pub use origin::Origin;
pub use revision::Revision;
pub use store::{Status, Store};
pub use txn::{
    Compare, Op, OpResult, Operand, Put, RangeQuery, RangeResult, Relation, RevisionFilter, Txn,
    TxnResult,
};
pub use version::Version;
pub use watch::{Batch, Watch, WatchFrom, WatchSpec};
pub use workplace::Workplace;
