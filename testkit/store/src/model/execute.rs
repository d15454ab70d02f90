//! Transactions and reads of the model, step by step.

use super::txn_validity::faults;
use super::{ModelEntry, ModelResult, ModelTxn, State, StoreModel};
use optik_store::{
    Compare, Op, Operand, Put, RangeError, RangeQuery, Relation, Revision, Txn, TxnError, TxnLimits,
};
use std::cmp::Ordering;

impl StoreModel {
    /// What the store must answer, or every reason it may give for a refusal.
    ///
    /// # Errors
    /// If the transaction makes no sense.
    pub fn commit(&mut self, txn: &Txn, limits: &TxnLimits) -> Result<ModelResult, Vec<TxnError>> {
        let mut reasons = faults(txn, limits);
        // An invalid transaction is rejected before its evaluation.
        if reasons.is_empty() {
            self.path_faults(txn, &mut reasons);
        }
        if !reasons.is_empty() {
            return Err(reasons);
        }
        let mut writing = self.begin_txn();
        let answer = self.run(txn, &mut writing);
        self.commit_txn(writing);
        Ok(number(answer, self.revision().get()))
    }

    /// # Errors
    /// If the revision is not there.
    pub fn range(&self, query: &RangeQuery) -> Result<ModelResult, RangeError> {
        self.check_revision(query)?;
        let state = self.state_at(query.at.unwrap_or(self.revision()));
        Ok(select(state, query))
    }

    fn check_revision(&self, query: &RangeQuery) -> Result<(), RangeError> {
        match query.at {
            Some(at) if at > self.revision() => Err(RangeError::Future {
                newest: self.revision(),
            }),
            Some(at) if at < self.floor() => Err(RangeError::Compacted {
                oldest: self.floor(),
            }),
            _ => Ok(()),
        }
    }

    fn succeeds(&self, txn: &Txn) -> bool {
        let mut compares = txn.compares.iter();
        compares.all(|compare| holds(compare, self.state()))
    }

    fn branch<'txn>(&self, txn: &'txn Txn) -> &'txn [Op] {
        if self.succeeds(txn) {
            &txn.success
        } else {
            &txn.failure
        }
    }

    /// The errors of the branch that would be executed in the current state.
    fn path_faults(&self, txn: &Txn, faults: &mut Vec<TxnError>) {
        for op in self.branch(txn) {
            match op {
                Op::Range(query) => {
                    faults.extend(self.check_revision(query).err().map(TxnError::from));
                }
                Op::Put(put) => self.put_faults(put, faults),
                Op::Delete(_) => {}
                Op::Txn(inner) => self.path_faults(inner, faults),
            }
        }
    }

    fn put_faults(&self, put: &Put, faults: &mut Vec<TxnError>) {
        let exists = self.state().contains_key(&put.key[..]);
        if !exists && (put.value.is_none() || put.lease.is_none()) {
            faults.push(TxnError::KeyNotFound);
        }
        let lease = put.lease.map_or(0, |lease| lease.0);
        if lease != 0 && !self.leases.contains(&lease) {
            faults.push(TxnError::LeaseNotFound);
        }
    }

    /// Compares read the state before the transaction, reads the state so far.
    fn run(&self, txn: &Txn, writing: &mut ModelTxn) -> ModelResult {
        let succeeded = self.succeeds(txn);
        let answers = self.branch(txn).iter().map(|op| match op {
            Op::Range(query) => match query.at {
                Some(at) => select(self.state_at(at), query),
                None => select(&writing.state, query),
            },
            Op::Put(put) => {
                let old = writing.state.get(&put.key[..]).cloned();
                let value = put.value.as_ref().map(|value| value.to_vec());
                let value = value.or_else(|| old.as_ref().map(|old| old.value.clone()));
                let lease = put.lease.map(|lease| lease.0);
                let lease = lease.or_else(|| old.as_ref().map(|old| old.lease));
                ModelResult::Put {
                    prior: writing.put(
                        &put.key,
                        value.expect("was checked"),
                        lease.expect("was checked"),
                    ),
                }
            }
            Op::Delete(range) => {
                let keys: Vec<_> = writing.state.keys().cloned().collect();
                let doomed = keys.into_iter().filter(|key| range.contains(key));
                ModelResult::Delete {
                    deleted: doomed.filter_map(|key| writing.delete(&key)).collect(),
                }
            }
            Op::Txn(inner) => self.run(inner, writing),
        });
        ModelResult::Txn {
            revision: 0,
            succeeded,
            answers: answers.collect(),
        }
    }
}

/// All parts of a result carry the revision of the transaction.
fn number(answer: ModelResult, revision: u64) -> ModelResult {
    match answer {
        ModelResult::Txn {
            succeeded, answers, ..
        } => ModelResult::Txn {
            revision,
            succeeded,
            answers: answers.into_iter().map(|a| number(a, revision)).collect(),
        },
        other => other,
    }
}

fn select(state: &State, query: &RangeQuery) -> ModelResult {
    let entries = || {
        let all = state.values();
        all.filter(|entry| query.range.contains(&entry.key))
    };
    let admitted: Vec<_> = entries()
        .filter(|entry| !query.count_only && admits(query, entry))
        .cloned()
        .collect();
    let limit = query.limit.unwrap_or(usize::MAX);
    ModelResult::Range {
        more: admitted.len() > limit,
        entries: admitted.into_iter().take(limit).collect(),
        count: entries().count() as u64,
    }
}

fn admits(query: &RangeQuery, entry: &ModelEntry) -> bool {
    let filter = &query.filter;
    let min = |at: u64, min: Option<Revision>| min.is_none_or(|min| at >= min.get());
    let max = |at: u64, max: Option<Revision>| max.is_none_or(|max| at <= max.get());
    min(entry.mod_revision, filter.mod_min)
        && max(entry.mod_revision, filter.mod_max)
        && min(entry.create_revision, filter.create_min)
        && max(entry.create_revision, filter.create_max)
}

fn holds(compare: &Compare, state: &State) -> bool {
    let mut found = state
        .values()
        .filter(|entry| compare.range.contains(&entry.key))
        .peekable();
    if found.peek().is_none() {
        let zeroes = ModelEntry {
            key: Vec::new(),
            value: Vec::new(),
            create_revision: 0,
            mod_revision: 0,
            version: 0,
            lease: 0,
        };
        return !matches!(compare.operand, Operand::Value(_)) && relates(compare, &zeroes);
    }
    found.all(|entry| relates(compare, entry))
}

fn relates(compare: &Compare, entry: &ModelEntry) -> bool {
    let ordering = match &compare.operand {
        Operand::Version(than) => entry.version.cmp(than),
        Operand::CreateRevision(than) => entry.create_revision.cmp(&than.get()),
        Operand::ModRevision(than) => entry.mod_revision.cmp(&than.get()),
        Operand::Value(than) => entry.value[..].cmp(than),
        Operand::Lease(than) => entry.lease.cmp(&than.0),
    };
    match compare.relation {
        Relation::Equal => ordering == Ordering::Equal,
        Relation::NotEqual => ordering != Ordering::Equal,
        Relation::Greater => ordering == Ordering::Greater,
        Relation::Less => ordering == Ordering::Less,
    }
}
