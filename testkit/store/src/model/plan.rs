//! Generation of random histories. Keys are few and short, so that operations interact.
//!
//! Steps name revisions relative to the revision of the store at that time: a plan stays valid
//! wherever it is cut while a failure is shrunk.

use super::StoreModel;
use bytes::Bytes;
use optik_store::{
    Compare, KeyRange, LeaseId, Op, Operand, Put, RangeQuery, Relation, Revision, RevisionFilter,
    Txn,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// One step of a random history.
#[derive(Clone, Debug)]
pub enum PlanStep {
    Commit(Txn),
    Compact(RelativeRevision),
    /// Close the store and open it again, if it is on disk.
    Reopen,
    Read(RangeQuery),
    /// Keep the newest state, to be read later.
    Hold,
    ReadHeld {
        which: usize,
        query: RangeQuery,
    },
    Watch {
        range: KeyRange,
        from: RelativeRevision,
    },
    /// Read what a watch has.
    Drain {
        which: usize,
    },
    /// Drop a watch and go on from where it was.
    Resume {
        which: usize,
    },
    Grant(i64),
    Revoke(i64),
    KeepAlive(i64),
    Shrink,
}

/// A revision: so many before the newest, or after it if negative.
pub type RelativeRevision = i64;

/// Resolves a revision of a plan. Plans write it as a [`Revision`] where the store's
/// own types want one: 0 stays 0, and `n` is the newest plus two minus `n`.
fn resolve(planned: Revision, newest: Revision) -> Revision {
    match planned.get() {
        0 => Revision::ZERO,
        back => Revision::new((newest.get() + 2).saturating_sub(back).max(1)),
    }
}

#[must_use]
pub fn revision_at(when: RelativeRevision, newest: Revision) -> Revision {
    Revision::new(newest.get().saturating_add_signed(-when).max(1))
}

/// Puts real revisions into a planned transaction.
#[must_use]
pub fn resolve_txn(txn: &Txn, model: &StoreModel) -> Txn {
    let ops = |ops: &[Op]| ops.iter().map(|op| resolve_op(op, model)).collect();
    Txn {
        compares: txn
            .compares
            .iter()
            .map(|c| resolve_compare(c, model))
            .collect(),
        success: ops(&txn.success),
        failure: ops(&txn.failure),
    }
}

fn resolve_op(op: &Op, model: &StoreModel) -> Op {
    match op {
        Op::Range(query) => Op::Range(resolve_query(query, model.revision())),
        Op::Txn(inner) => Op::Txn(Box::new(resolve_txn(inner, model))),
        Op::Put(_) | Op::Delete(_) => op.clone(),
    }
}

#[must_use]
pub fn resolve_query(query: &RangeQuery, newest: Revision) -> RangeQuery {
    let real = |planned: Option<Revision>| planned.map(|planned| resolve(planned, newest));
    RangeQuery {
        at: real(query.at).map(|at| at.max(Revision::FIRST)),
        filter: RevisionFilter {
            mod_min: real(query.filter.mod_min),
            mod_max: real(query.filter.mod_max),
            create_min: real(query.filter.create_min),
            create_max: real(query.filter.create_max),
        },
        ..query.clone()
    }
}

/// Compares that hold are what brings a history on: a planned revision of 1 becomes
/// the true one of the first key in question.
fn resolve_compare(compare: &Compare, model: &StoreModel) -> Compare {
    let first = model.state().values();
    let first = first
        .clone()
        .find(|entry| compare.range.contains(&entry.key));
    let real = |planned: Revision, of: Option<u64>| match (planned.get(), of) {
        (1, Some(true_one)) => Revision::new(true_one),
        _ => resolve(planned, model.revision()),
    };
    let operand = match &compare.operand {
        Operand::CreateRevision(planned) => {
            Operand::CreateRevision(real(*planned, first.map(|entry| entry.create_revision)))
        }
        Operand::ModRevision(planned) => {
            Operand::ModRevision(real(*planned, first.map(|entry| entry.mod_revision)))
        }
        other => other.clone(),
    };
    Compare {
        operand,
        ..compare.clone()
    }
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    let letter = prop_oneof![4 => Just(b'a'), 3 => Just(b'b'), 1 => Just(0xff), 1 => Just(0)];
    vec(letter, 1..3)
}

fn range() -> impl Strategy<Value = KeyRange> {
    prop_oneof![
        4 => key().prop_map(KeyRange::one),
        2 => key().prop_map(KeyRange::prefix),
        2 => (key(), key()).prop_map(|(start, end)| KeyRange::between(start, end)),
        1 => key().prop_map(KeyRange::from_key),
        1 => Just(KeyRange::all()),
    ]
}

fn value() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..3).prop_map(Bytes::from)
}

fn lease() -> impl Strategy<Value = i64> {
    1..4i64
}

fn planned_revision() -> impl Strategy<Value = Revision> {
    prop_oneof![1 => Just(0), 2 => Just(1), 5 => 1..12u64].prop_map(Revision::new)
}

fn put() -> impl Strategy<Value = Put> {
    let value = option::weighted(0.9, value());
    let lease = prop_oneof![
        6 => Just(Some(LeaseId::NONE)),
        1 => Just(None),
        3 => lease().prop_map(|id| Some(LeaseId(id))),
    ];
    (key(), value, lease).prop_map(|(key, value, lease)| Put {
        key: (&key).into(),
        value,
        lease,
    })
}

fn query() -> impl Strategy<Value = RangeQuery> {
    let filter = (
        option::weighted(0.1, planned_revision()),
        option::weighted(0.1, planned_revision()),
        option::weighted(0.1, planned_revision()),
        option::weighted(0.1, planned_revision()),
    );
    let at = option::weighted(0.4, (2..14u64).prop_map(Revision::new));
    let limit = option::weighted(0.3, 1..4usize);
    let count_only = prop::bool::weighted(0.1);
    (range(), at, limit, count_only, filter).prop_map(
        |(range, at, limit, count_only, (mod_min, mod_max, create_min, create_max))| RangeQuery {
            range,
            at,
            limit,
            count_only,
            filter: RevisionFilter {
                mod_min,
                mod_max,
                create_min,
                create_max,
            },
        },
    )
}

fn compare() -> impl Strategy<Value = Compare> {
    let relation = prop_oneof![
        3 => Just(Relation::Equal),
        1 => Just(Relation::NotEqual),
        1 => Just(Relation::Greater),
        1 => Just(Relation::Less),
    ];
    let operand = prop_oneof![
        (0..3u64).prop_map(Operand::Version),
        planned_revision().prop_map(Operand::CreateRevision),
        planned_revision().prop_map(Operand::ModRevision),
        value().prop_map(Operand::Value),
        (0..4i64).prop_map(|id| Operand::Lease(LeaseId(id))),
    ];
    (range(), relation, operand).prop_map(|(range, relation, operand)| Compare {
        range,
        relation,
        operand,
    })
}

fn leaf() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => put().prop_map(Op::Put),
        2 => range().prop_map(Op::Delete),
        2 => query().prop_map(Op::Range),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    leaf().prop_recursive(2, 12, 3, |inner| {
        txn_of(inner).prop_map(|txn| Op::Txn(Box::new(txn)))
    })
}

fn txn_of(op: impl Strategy<Value = Op> + Clone) -> impl Strategy<Value = Txn> {
    let compares = prop_oneof![2 => vec(compare(), 0..1), 1 => vec(compare(), 1..3)];
    let parts = (compares, vec(op.clone(), 0..3), vec(op, 0..2));
    parts.prop_map(|(compares, success, failure)| Txn {
        compares,
        success,
        failure,
    })
}

fn txn() -> impl Strategy<Value = Txn> {
    prop_oneof![
        5 => leaf().prop_map(|op| Txn::from_ops(vec![op])),
        3 => (planned_revision(), put())
            .prop_map(|(revision, put)| Txn::put_if(revision, put)),
        1 => (planned_revision(), key())
            .prop_map(|(revision, key)| Txn::delete_if(revision, key)),
        5 => txn_of(op().boxed()),
        // Now and then one that cannot be.
        1 => vec(leaf(), 4..7).prop_map(Txn::from_ops),
    ]
}

fn step() -> impl Strategy<Value = PlanStep> {
    let which = 0..8usize;
    prop_oneof![
        40 => txn().prop_map(PlanStep::Commit),
        3 => (-1..12i64).prop_map(PlanStep::Compact),
        2 => Just(PlanStep::Reopen),
        8 => query().prop_map(PlanStep::Read),
        3 => Just(PlanStep::Hold),
        4 => (which.clone(), query()).prop_map(|(which, query)| PlanStep::ReadHeld { which, query }),
        6 => (range(), -4..12i64).prop_map(|(range, from)| PlanStep::Watch { range, from }),
        6 => which.clone().prop_map(|which| PlanStep::Drain { which }),
        2 => which.prop_map(|which| PlanStep::Resume { which }),
        3 => lease().prop_map(PlanStep::Grant),
        2 => lease().prop_map(PlanStep::Revoke),
        1 => lease().prop_map(PlanStep::KeepAlive),
        1 => Just(PlanStep::Shrink),
    ]
}

/// Histories of up to `length` steps.
pub fn steps(length: usize) -> impl Strategy<Value = Vec<PlanStep>> {
    vec(step(), 1..length)
}
