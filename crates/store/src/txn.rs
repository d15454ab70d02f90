//! Transactions: compares and operations that a client requests in one atomic step.

use crate::key::{Key, KeyRange};
use crate::lease::LeaseId;
use crate::revision::Revision;
use crate::sync::Arc;
use crate::version::Version;
use bytes::Bytes;
use std::cmp::Ordering;

/// A transaction: if every compare holds, `success` is executed, otherwise `failure`.
///
/// All its writes share one revision. A transaction that writes nothing takes none.
#[derive(Clone, Debug, Default)]
pub struct Txn {
    pub compares: Vec<Compare>,
    pub success: Vec<Op>,
    pub failure: Vec<Op>,
}

#[derive(Clone, Debug)]
pub enum Op {
    Range(RangeQuery),
    Put(Put),
    Delete(KeyRange),
    Txn(Box<Txn>),
}

#[derive(Clone, Debug)]
pub struct Put {
    pub key: Key,
    /// `None` keeps the current value; the key must exist.
    pub value: Option<Bytes>,
    /// `None` keeps the current lease; the key must exist.
    pub lease: Option<LeaseId>,
}

impl Put {
    pub fn new(key: impl AsRef<[u8]>, value: impl Into<Bytes>) -> Self {
        Self {
            key: Key::from(&key),
            value: Some(value.into()),
            lease: Some(LeaseId::NONE),
        }
    }
}

/// A condition on every key of a range. A range without keys is evaluated as one key whose numbers
/// are all zero.
#[derive(Clone, Debug)]
pub struct Compare {
    pub range: KeyRange,
    pub relation: Relation,
    pub operand: Operand,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Equal,
    NotEqual,
    Greater,
    Less,
}

/// The compared field and the expected value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    Version(u64),
    CreateRevision(Revision),
    ModRevision(Revision),
    Value(Bytes),
    Lease(LeaseId),
}

impl Compare {
    /// The precondition of every optimistic write: the key was not written since.
    pub fn mod_revision_is(key: impl AsRef<[u8]>, revision: Revision) -> Self {
        Self {
            range: KeyRange::one(key),
            relation: Relation::Equal,
            operand: Operand::ModRevision(revision),
        }
    }

    /// Whether the condition holds for a live version of a key, or for a missing key.
    pub(crate) fn holds(&self, version: Option<&Version>) -> bool {
        let ordering = match &self.operand {
            Operand::Version(than) => version.map_or(0, Version::version).cmp(than),
            Operand::CreateRevision(than) => {
                revision_of(version, Version::create_revision).cmp(than)
            }
            Operand::ModRevision(than) => revision_of(version, Version::mod_revision).cmp(than),
            Operand::Lease(than) => version.map_or(LeaseId::NONE, Version::lease).cmp(than),
            Operand::Value(than) => match version {
                // A missing value compares to nothing, not even as "not equal".
                None => return false,
                Some(version) => version.value().cmp(than),
            },
        };
        match self.relation {
            Relation::Equal => ordering == Ordering::Equal,
            Relation::NotEqual => ordering != Ordering::Equal,
            Relation::Greater => ordering == Ordering::Greater,
            Relation::Less => ordering == Ordering::Less,
        }
    }
}

fn revision_of(version: Option<&Version>, field: fn(&Version) -> Revision) -> Revision {
    version.map_or(Revision::ZERO, field)
}

/// A read of a range.
#[derive(Clone, Debug)]
pub struct RangeQuery {
    pub range: KeyRange,
    /// The revision to read at; `None` is the newest.
    pub at: Option<Revision>,
    /// The maximum number of entries to return; `None` is all.
    pub limit: Option<usize>,
    /// Return only the count and no entries.
    pub count_only: bool,
    pub filter: RevisionFilter,
}

impl RangeQuery {
    #[must_use]
    pub fn new(range: KeyRange) -> Self {
        Self {
            range,
            at: None,
            limit: None,
            count_only: false,
            filter: RevisionFilter::default(),
        }
    }
}

/// Inclusive bounds on the revisions of the entries to return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RevisionFilter {
    pub mod_min: Option<Revision>,
    pub mod_max: Option<Revision>,
    pub create_min: Option<Revision>,
    pub create_max: Option<Revision>,
}

impl RevisionFilter {
    pub(crate) fn admits(&self, version: &Version) -> bool {
        let within = |revision, min: Option<Revision>, max: Option<Revision>| {
            min.is_none_or(|min| revision >= min) && max.is_none_or(|max| revision <= max)
        };
        within(version.mod_revision, self.mod_min, self.mod_max)
            && within(version.create_revision, self.create_min, self.create_max)
    }
}

/// The answer to a [`RangeQuery`].
#[derive(Clone, Debug, Default)]
pub struct RangeResult {
    /// In key order.
    pub entries: Vec<Arc<Version>>,
    /// Whether the limit truncated the result.
    pub more: bool,
    /// The number of keys in the range, regardless of the limit and the filter.
    pub count: u64,
}

/// The answer to a [`Txn`].
#[derive(Clone, Debug)]
pub struct TxnResult {
    /// The revision of the store after the transaction: its own if it wrote.
    pub revision: Revision,
    pub succeeded: bool,
    /// One result for each operation of the executed branch.
    pub results: Vec<OpResult>,
}

#[derive(Clone, Debug)]
pub enum OpResult {
    Range(RangeResult),
    Put { prior: Option<Arc<Version>> },
    Delete { deleted: Vec<Arc<Version>> },
    Txn(TxnResult),
}

impl Txn {
    /// A transaction without conditions.
    #[must_use]
    pub fn from_ops(success: Vec<Op>) -> Self {
        Self {
            compares: Vec::new(),
            success,
            failure: Vec::new(),
        }
    }

    #[must_use]
    pub fn put(put: Put) -> Self {
        Self::from_ops(vec![Op::Put(put)])
    }

    #[must_use]
    pub fn delete(range: KeyRange) -> Self {
        Self::from_ops(vec![Op::Delete(range)])
    }

    /// A write that takes effect only if the mod revision of the key is `revision` (zero: does not
    /// exist). Otherwise the result contains the current version.
    #[must_use]
    pub fn put_if(revision: Revision, put: Put) -> Self {
        let current = RangeQuery::new(KeyRange::one(&put.key));
        Self {
            compares: vec![Compare::mod_revision_is(&put.key, revision)],
            success: vec![Op::Put(put)],
            failure: vec![Op::Range(current)],
        }
    }

    /// As [`Txn::put_if`], for a deletion.
    #[must_use]
    pub fn delete_if(revision: Revision, key: impl AsRef<[u8]>) -> Self {
        let range = KeyRange::one(key);
        Self {
            compares: vec![Compare::mod_revision_is(range.start(), revision)],
            success: vec![Op::Delete(range.clone())],
            failure: vec![Op::Range(RangeQuery::new(range))],
        }
    }

    /// The total size of keys and values in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        let compares = self
            .compares
            .iter()
            .map(|compare| compare.range.start().len());
        let ops = self.success.iter().chain(&self.failure).map(Op::size);
        compares.chain(ops).sum()
    }

    /// Whether some branch could write.
    #[must_use]
    pub fn may_write(&self) -> bool {
        self.success.iter().chain(&self.failure).any(Op::may_write)
    }
}

impl Op {
    fn size(&self) -> usize {
        match self {
            Self::Range(query) => query.range.start().len(),
            Self::Put(put) => put.key.len() + put.value.as_ref().map_or(0, Bytes::len),
            Self::Delete(range) => range.start().len(),
            Self::Txn(txn) => txn.size(),
        }
    }

    fn may_write(&self) -> bool {
        match self {
            Self::Range(_) => false,
            Self::Put(_) | Self::Delete(_) => true,
            Self::Txn(txn) => txn.may_write(),
        }
    }
}
