//! Validation of transactions, before any part is executed.

use crate::error::TxnError;
use crate::key::{Key, KeyRange};
use crate::txn::{Op, Txn};
use std::collections::BTreeSet;

/// Bounds on one transaction.
#[derive(Clone, Copy, Debug)]
pub struct TxnLimits {
    /// The maximum length of a list of compares or operations, counted as in etcd.
    pub operations_max: usize,
    /// The maximum total size of keys and values in bytes.
    pub bytes_max: usize,
    pub nesting_max: usize,
}

impl Default for TxnLimits {
    fn default() -> Self {
        Self {
            operations_max: 128,
            bytes_max: 1_572_864,
            nesting_max: 8,
        }
    }
}

/// Rejects the transactions that etcd rejects: no key, too many operations, too large, or one key
/// written twice.
pub(crate) fn validate_txn(txn: &Txn, limits: &TxnLimits) -> Result<(), TxnError> {
    validate_shape(txn, limits, 0)?;
    let bytes = txn.size();
    if bytes > limits.bytes_max {
        return Err(TxnError::TooLarge {
            bytes,
            bytes_max: limits.bytes_max,
        });
    }
    write_set(&txn.success)?;
    write_set(&txn.failure)?;
    Ok(())
}

fn validate_shape(txn: &Txn, limits: &TxnLimits, depth: usize) -> Result<(), TxnError> {
    let longest = txn
        .compares
        .len()
        .max(txn.success.len())
        .max(txn.failure.len());
    if longest > limits.operations_max || depth > limits.nesting_max {
        return Err(TxnError::TooManyOperations);
    }
    for compare in &txn.compares {
        validate_start(&compare.range)?;
    }
    // As in etcd, nested transactions share the limit of the outer one.
    let left = TxnLimits {
        operations_max: limits.operations_max - longest,
        ..*limits
    };
    for op in txn.success.iter().chain(&txn.failure) {
        match op {
            Op::Range(query) => validate_start(&query.range)?,
            Op::Delete(range) => validate_start(range)?,
            Op::Put(put) if put.key.is_empty() => return Err(TxnError::NoKey),
            Op::Put(_) => {}
            Op::Txn(inner) => validate_shape(inner, &left, depth + 1)?,
        }
    }
    Ok(())
}

fn validate_start(range: &KeyRange) -> Result<(), TxnError> {
    match range.as_one() {
        Some(key) if key.is_empty() => Err(TxnError::NoKey),
        _ => Ok(()),
    }
}

#[derive(Default)]
struct WriteSet {
    puts: BTreeSet<Key>,
    deletes: Vec<KeyRange>,
}

/// Returns the keys that a list of operations may write; an error if a key could be written twice.
///
/// The two branches of a nested transaction exclude each other, so they may write the same key;
/// neither may write a key that the enclosing list writes.
fn write_set(ops: &[Op]) -> Result<WriteSet, TxnError> {
    let mut all = WriteSet::default();
    for op in ops {
        let mut writes = WriteSet::default();
        match op {
            Op::Range(_) => {}
            Op::Put(put) => drop(writes.puts.insert(put.key.clone())),
            Op::Delete(range) => writes.deletes.push(range.clone()),
            Op::Txn(inner) => {
                writes.merge(write_set(&inner.success)?);
                writes.merge(write_set(&inner.failure)?);
            }
        }
        if all.conflicts_with(&writes) {
            return Err(TxnError::DuplicateKey);
        }
        all.merge(writes);
    }
    Ok(all)
}

impl WriteSet {
    fn conflicts_with(&self, other: &Self) -> bool {
        let both = |key: &Key| other.puts.contains(key) || other.deletes_key(key);
        other.puts.iter().any(|key| self.deletes_key(key)) || self.puts.iter().any(both)
    }

    fn deletes_key(&self, key: &Key) -> bool {
        self.deletes.iter().any(|range| range.contains(key))
    }

    fn merge(&mut self, mut other: Self) {
        self.puts.append(&mut other.puts);
        self.deletes.append(&mut other.deletes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::txn::{Put, RangeQuery};

    fn put(key: &str) -> Op {
        Op::Put(Put::new(key, "v"))
    }

    fn delete(prefix: &str) -> Op {
        Op::Delete(KeyRange::prefix(prefix))
    }

    fn nested(success: Vec<Op>, failure: Vec<Op>) -> Op {
        Op::Txn(Box::new(Txn {
            compares: Vec::new(),
            success,
            failure,
        }))
    }

    #[test]
    fn txn_writing_a_key_twice_is_rejected() {
        let cases = [
            (vec![put("a"), put("b")], true),
            (vec![put("a"), put("a")], false),
            (vec![put("ab"), delete("a")], false),
            (vec![delete("a"), put("ab")], false),
            (vec![delete("a"), delete("a")], true),
            (vec![put("a"), nested(vec![put("b")], vec![put("b")])], true),
            (vec![nested(vec![put("a")], vec![delete("a")])], true),
            (vec![put("a"), nested(vec![], vec![put("a")])], false),
            (vec![nested(vec![put("a")], vec![]), delete("a")], false),
        ];
        for (ops, allowed) in cases {
            let text = format!("{ops:?}");
            let verdict = validate_txn(&Txn::from_ops(ops), &TxnLimits::default());
            let expected = if allowed {
                Ok(())
            } else {
                Err(TxnError::DuplicateKey)
            };
            assert_eq!(verdict, expected, "{text}");
        }
    }

    #[test]
    fn txn_limits_are_enforced_at_their_boundaries() {
        let limits = TxnLimits {
            operations_max: 2,
            bytes_max: 4,
            nesting_max: 1,
        };
        let verdict = |ops| validate_txn(&Txn::from_ops(ops), &limits);
        assert_eq!(verdict(vec![put("a"), put("b")]), Ok(()));
        let three = vec![put("a"), put("b"), put("c")];
        assert_eq!(verdict(three), Err(TxnError::TooManyOperations));
        let large = TxnError::TooLarge {
            bytes: 5,
            bytes_max: 4,
        };
        assert_eq!(verdict(vec![put("abcd")]), Err(large));
        let crowded = vec![put("a"), nested(vec![put("b")], vec![])];
        assert_eq!(verdict(crowded), Err(TxnError::TooManyOperations));
        let deep = nested(vec![nested(vec![put("a")], vec![])], vec![]);
        assert_eq!(verdict(vec![deep]), Err(TxnError::TooManyOperations));
        assert_eq!(verdict(vec![put("")]), Err(TxnError::NoKey));
        let no_key = Op::Range(RangeQuery::new(KeyRange::one("")));
        assert_eq!(verdict(vec![no_key]), Err(TxnError::NoKey));
    }
}
