//! A draft: the transactions of a batch, executed in memory against the newest state.
//!
//! Pure: no disk, no locks, no clock. The sequencer makes a draft durable and then publishes it, or
//! discards it.

use crate::error::{LeaseError, RangeError, TxnError};
use crate::history::{Commit, Event};
use crate::index::Index;
use crate::key::KeyRange;
use crate::lease::{LEASE_TTL_SECONDS_MAX, LEASES_MAX, LeaseId, Leases};
use crate::origin::Origin;
use crate::revision::Revision;
use crate::sync::{Arc, Mutex};
use crate::txn::{Compare, Op, OpResult, Put, RangeQuery, RangeResult, Txn, TxnResult};
use crate::txn_validation::{TxnLimits, validate_txn};
use crate::version::Version;
use bytes::Bytes;
use optik_platform::{Monotonic, UnixMillis};
use std::time::Duration;

/// The time and the origin of a transaction.
#[derive(Clone, Debug)]
pub(crate) struct CommitContext {
    pub(crate) time: UnixMillis,
    pub(crate) now: Monotonic,
    pub(crate) origin: Option<Arc<Origin>>,
}

#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) index: Index,
    pub(crate) leases: Leases,
    pub(crate) commits: Vec<Arc<Commit>>,
    /// In order; the last change of a lease counts.
    pub(crate) lease_changes: Vec<LeaseChange>,
    floor: Revision,
    limits: TxnLimits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseChange {
    Granted { id: LeaseId, ttl: Duration },
    Revoked { id: LeaseId },
}

/// The operations that will run, with the branches of nested transactions already chosen.
struct TxnPlan<'txn> {
    succeeded: bool,
    ops: Vec<PlannedOp<'txn>>,
}

enum PlannedOp<'txn> {
    Range(&'txn RangeQuery),
    Put(&'txn Put),
    Delete(&'txn KeyRange),
    Txn(TxnPlan<'txn>),
}

impl Draft {
    pub(crate) fn new(index: Index, leases: Leases, floor: Revision, limits: TxnLimits) -> Self {
        Self {
            index,
            leases,
            commits: Vec::new(),
            lease_changes: Vec::new(),
            floor,
            limits,
        }
    }

    pub(crate) fn has_changes(&self) -> bool {
        !self.commits.is_empty() || !self.lease_changes.is_empty()
    }

    /// Executes a transaction. An error leaves the draft unchanged.
    pub(crate) fn execute(
        &mut self,
        txn: &Txn,
        stamp: &CommitContext,
    ) -> Result<TxnResult, TxnError> {
        validate_txn(txn, &self.limits)?;
        let path = self.plan(txn);
        self.check_plan(&path)?;
        let mut changes = TxnChanges::new(self.index.revision().next());
        let results = self.run_plan(&path, &mut changes, stamp);
        self.push_commit(changes, stamp);
        Ok(self.set_revision(path.succeeded, results))
    }

    /// Results of nested transactions carry the revision of the outermost one.
    fn set_revision(&self, succeeded: bool, mut results: Vec<OpResult>) -> TxnResult {
        for result in &mut results {
            if let OpResult::Txn(inner) = result {
                let inner_results = std::mem::take(&mut inner.results);
                *inner = self.set_revision(inner.succeeded, inner_results);
            }
        }
        TxnResult {
            revision: self.index.revision(),
            succeeded,
            results,
        }
    }

    /// Evaluates all compares, including nested ones, on the state before the first write.
    fn plan<'txn>(&self, txn: &'txn Txn) -> TxnPlan<'txn> {
        let succeeded = txn.compares.iter().all(|compare| self.holds(compare));
        let branch = if succeeded {
            &txn.success
        } else {
            &txn.failure
        };
        let steps = branch.iter().map(|op| match op {
            Op::Range(query) => PlannedOp::Range(query),
            Op::Put(put) => PlannedOp::Put(put),
            Op::Delete(range) => PlannedOp::Delete(range),
            Op::Txn(inner) => PlannedOp::Txn(self.plan(inner)),
        });
        TxnPlan {
            succeeded,
            ops: steps.collect(),
        }
    }

    fn holds(&self, compare: &Compare) -> bool {
        if let Some(key) = compare.range.as_one() {
            return compare.holds(self.index.live_version(key).map(|v| &**v));
        }
        let mut entries = self.index.live_entries(&compare.range).peekable();
        if entries.peek().is_none() {
            return compare.holds(None);
        }
        entries.all(|version| compare.holds(Some(version)))
    }

    fn check_plan(&self, path: &TxnPlan<'_>) -> Result<(), TxnError> {
        path.ops.iter().try_for_each(|step| match step {
            PlannedOp::Range(query) => self.check_query(query),
            PlannedOp::Put(put) => self.check_put(put),
            PlannedOp::Delete(_) => Ok(()),
            PlannedOp::Txn(inner) => self.check_plan(inner),
        })
    }

    fn check_query(&self, query: &RangeQuery) -> Result<(), TxnError> {
        let Some(at) = query.at else { return Ok(()) };
        let newest = self.index.revision();
        if at > newest {
            return Err(RangeError::Future { newest }.into());
        }
        if at < self.floor {
            let oldest = self.floor;
            return Err(RangeError::Compacted { oldest }.into());
        }
        Ok(())
    }

    fn check_put(&self, put: &Put) -> Result<(), TxnError> {
        let keeps = put.value.is_none() || put.lease.is_none();
        if keeps && self.index.live_version(&put.key).is_none() {
            return Err(TxnError::KeyNotFound);
        }
        match put.lease {
            Some(id) if id != LeaseId::NONE && !self.leases.contains(id) => {
                Err(TxnError::LeaseNotFound)
            }
            _ => Ok(()),
        }
    }

    fn run_plan(
        &mut self,
        path: &TxnPlan<'_>,
        changes: &mut TxnChanges,
        stamp: &CommitContext,
    ) -> Vec<OpResult> {
        let steps = path.ops.iter();
        steps
            .map(|step| match step {
                PlannedOp::Range(query) => OpResult::Range(self.query(query)),
                PlannedOp::Put(put) => OpResult::Put {
                    prior: self.put(put, changes, stamp),
                },
                PlannedOp::Delete(range) => OpResult::Delete {
                    deleted: self.delete(range, changes, stamp),
                },
                PlannedOp::Txn(inner) => OpResult::Txn(TxnResult {
                    revision: Revision::ZERO,
                    succeeded: inner.succeeded,
                    results: self.run_plan(inner, changes, stamp),
                }),
            })
            .collect()
    }

    fn query(&self, query: &RangeQuery) -> RangeResult {
        match query.at {
            Some(at) => self.index.query(query, at),
            None => self.index.query_newest(query),
        }
    }

    fn put(
        &mut self,
        put: &Put,
        changes: &mut TxnChanges,
        stamp: &CommitContext,
    ) -> Option<Arc<Version>> {
        let newest = self.index.newest(&put.key).cloned();
        let prior = newest.clone().filter(|version| !version.is_deletion());
        let (create_revision, version, key) = match &prior {
            Some(prior) => (prior.create_revision, prior.version + 1, prior.key.clone()),
            None => (changes.revision, 1, put.key.clone()),
        };
        // Validated before: a version to keep the value or lease of exists.
        let kept = |of: fn(&Version) -> LeaseId| prior.as_deref().map_or(LeaseId::NONE, of);
        let value = put
            .value
            .clone()
            .or_else(|| prior.as_ref().map(|prior| prior.value.clone()));
        let version = Arc::new(Version {
            key,
            value: value.unwrap_or_default(),
            create_revision,
            mod_revision: changes.revision,
            sub: changes.next_sub(),
            version,
            lease: put.lease.unwrap_or_else(|| kept(Version::lease)),
            time: stamp.time,
            origin: stamp.origin.clone(),
            prior: Mutex::new(newest),
        });
        self.push_change(version, prior.clone(), changes);
        prior
    }

    fn delete(
        &mut self,
        range: &KeyRange,
        changes: &mut TxnChanges,
        stamp: &CommitContext,
    ) -> Vec<Arc<Version>> {
        let doomed: Vec<_> = match range.as_one() {
            Some(key) => self.index.live_version(key).cloned().into_iter().collect(),
            None => self.index.live_entries(range).cloned().collect(),
        };
        for prior in &doomed {
            let deletion = Arc::new(Version {
                key: prior.key.clone(),
                value: Bytes::new(),
                create_revision: Revision::ZERO,
                mod_revision: changes.revision,
                sub: changes.next_sub(),
                version: 0,
                lease: LeaseId::NONE,
                time: stamp.time,
                origin: stamp.origin.clone(),
                prior: Mutex::new(Some(Arc::clone(prior))),
            });
            self.push_change(deletion, Some(Arc::clone(prior)), changes);
        }
        doomed
    }

    fn push_change(
        &mut self,
        version: Arc<Version>,
        prior: Option<Arc<Version>>,
        to: &mut TxnChanges,
    ) {
        debug_assert!(
            !version.is_deletion() || prior.is_some(),
            "chains: only a live key is deleted, and {version:?} is not"
        );
        self.leases.follow(prior.as_deref(), &version);
        self.index.insert(Arc::clone(&version));
        to.events.push(Event { version, prior });
    }

    fn push_commit(&mut self, changes: TxnChanges, stamp: &CommitContext) {
        if changes.events.is_empty() {
            return;
        }
        assert_eq!(
            changes.revision,
            self.index.revision().next(),
            "contiguous revisions: a commit takes the one after the newest"
        );
        debug_assert!(
            (0..)
                .zip(&changes.events)
                .all(|(sub, event)| event.version.sub == sub),
            "a commit numbers its changes from 0"
        );
        self.index.advance_to(changes.revision);
        self.commits.push(Arc::new(Commit {
            revision: changes.revision,
            time: stamp.time,
            known_since: stamp.now,
            origin: stamp.origin.clone(),
            events: changes.events.into_boxed_slice(),
        }));
    }

    pub(crate) fn grant(
        &mut self,
        id: LeaseId,
        ttl: Duration,
        now: Monotonic,
    ) -> Result<(), LeaseError> {
        if ttl.as_secs() > LEASE_TTL_SECONDS_MAX {
            return Err(LeaseError::TtlTooLarge);
        }
        // TTLs are stored in whole seconds; rounding up grants at least the requested time.
        let ttl = Duration::from_secs(ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0));
        if self.leases.contains(id) {
            return Err(LeaseError::Exists);
        }
        if self.leases.len() >= LEASES_MAX {
            return Err(LeaseError::TooMany);
        }
        self.leases.grant(id, ttl, now);
        assert!(
            self.leases.len() <= LEASES_MAX,
            "bounds: there are at most {LEASES_MAX} leases"
        );
        self.lease_changes.push(LeaseChange::Granted { id, ttl });
        Ok(())
    }

    /// Ends a lease and deletes its keys in one new revision.
    pub(crate) fn revoke(&mut self, id: LeaseId, stamp: &CommitContext) -> Result<(), LeaseError> {
        let keys = self.leases.remove(id).ok_or(LeaseError::NotFound)?;
        self.lease_changes.push(LeaseChange::Revoked { id });
        let mut changes = TxnChanges::new(self.index.revision().next());
        for key in &keys {
            self.delete(&KeyRange::one(key), &mut changes, stamp);
        }
        self.push_commit(changes, stamp);
        Ok(())
    }
}

/// The changes of one transaction so far.
struct TxnChanges {
    revision: Revision,
    events: Vec<Event>,
}

impl TxnChanges {
    fn new(revision: Revision) -> Self {
        Self {
            revision,
            events: Vec::new(),
        }
    }

    fn next_sub(&self) -> u32 {
        u32::try_from(self.events.len()).expect("a transaction changes fewer than 2^32 keys")
    }
}
