//! Validity of a transaction, decided by enumeration of all paths.

use optik_store::{KeyRange, Op, Put, Txn, TxnError, TxnLimits};

/// Every error of a transaction, independent of the state.
pub(super) fn faults(txn: &Txn, limits: &TxnLimits) -> Vec<TxnError> {
    let mut faults = Vec::new();
    shape_faults(txn, limits.operations_max, limits.nesting_max, &mut faults);
    let bytes = size(txn);
    let bytes_max = limits.bytes_max;
    if bytes > bytes_max {
        faults.push(TxnError::TooLarge { bytes, bytes_max });
    }
    let ways = ways_of(&txn.success)
        .into_iter()
        .chain(ways_of(&txn.failure));
    if ways.into_iter().any(|way| writes_twice(&way)) {
        faults.push(TxnError::DuplicateKey);
    }
    faults
}

/// What is nested may have what the longest list around it leaves.
fn shape_faults(txn: &Txn, operations: usize, levels: usize, faults: &mut Vec<TxnError>) {
    let lists = [txn.compares.len(), txn.success.len(), txn.failure.len()];
    let longest = lists.into_iter().max().unwrap_or_default();
    let left = operations.checked_sub(longest);
    if left.is_none() {
        faults.push(TxnError::TooManyOperations);
    }
    let nameless = |range: &KeyRange| range.as_one().is_some_and(|key| key.is_empty());
    let mut no_key = txn.compares.iter().any(|compare| nameless(&compare.range));
    for op in txn.success.iter().chain(&txn.failure) {
        match op {
            Op::Range(query) => no_key |= nameless(&query.range),
            Op::Delete(range) => no_key |= nameless(range),
            Op::Put(put) => no_key |= put.key.is_empty(),
            Op::Txn(_) if levels == 0 => faults.push(TxnError::TooManyOperations),
            Op::Txn(inner) => shape_faults(inner, left.unwrap_or(0), levels - 1, faults),
        }
    }
    if no_key {
        faults.push(TxnError::NoKey);
    }
}

fn size(txn: &Txn) -> usize {
    let compares = txn.compares.iter().map(|c| c.range.start().len());
    let ops = txn.success.iter().chain(&txn.failure).map(|op| match op {
        Op::Range(query) => query.range.start().len(),
        Op::Delete(range) => range.start().len(),
        Op::Put(put) => put.key.len() + put.value.as_ref().map_or(0, |value| value.len()),
        Op::Txn(inner) => size(inner),
    });
    compares.chain(ops).sum()
}

/// A write on one path through a transaction.
#[derive(Clone, Copy)]
enum PossibleWrite<'txn> {
    Put(&'txn Put),
    Delete(&'txn KeyRange),
}

/// Every path through a list of operations: each nested transaction takes either branch.
fn ways_of(ops: &[Op]) -> Vec<Vec<PossibleWrite<'_>>> {
    let mut ways = vec![Vec::new()];
    for op in ops {
        let steps = match op {
            Op::Range(_) => vec![Vec::new()],
            Op::Put(put) => vec![vec![PossibleWrite::Put(put)]],
            Op::Delete(range) => vec![vec![PossibleWrite::Delete(range)]],
            Op::Txn(inner) => [ways_of(&inner.success), ways_of(&inner.failure)].concat(),
        };
        let longer = ways.iter().flat_map(|way: &Vec<_>| {
            let extend = |step: &Vec<_>| [way.as_slice(), step.as_slice()].concat();
            steps.iter().map(extend).collect::<Vec<_>>()
        });
        ways = longer.collect();
    }
    ways
}

fn writes_twice(way: &[PossibleWrite<'_>]) -> bool {
    let clash = |first: &PossibleWrite<'_>, second: &PossibleWrite<'_>| match (first, second) {
        (PossibleWrite::Put(one), PossibleWrite::Put(other)) => one.key == other.key,
        (PossibleWrite::Put(put), PossibleWrite::Delete(range))
        | (PossibleWrite::Delete(range), PossibleWrite::Put(put)) => range.contains(&put.key),
        // What is gone already is not deleted again.
        (PossibleWrite::Delete(_), PossibleWrite::Delete(_)) => false,
    };
    let later = |at: usize| &way[at + 1..];
    (0..way.len()).any(|at| later(at).iter().any(|other| clash(&way[at], other)))
}
