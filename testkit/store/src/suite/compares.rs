//! Every target of a compare in every relation.

use crate::key_scope::KeyScope;
use bytes::Bytes;
use optik_store::{Compare, KeyRange, LeaseId, Operand, Put, Relation, Revision, Txn};
use std::cmp::Ordering;
use std::time::Duration;

const RELATIONS: [Relation; 4] = [
    Relation::Equal,
    Relation::NotEqual,
    Relation::Greater,
    Relation::Less,
];

fn admits(relation: Relation, ordering: Ordering) -> bool {
    match relation {
        Relation::Equal => ordering.is_eq(),
        Relation::NotEqual => ordering.is_ne(),
        Relation::Greater => ordering.is_gt(),
        Relation::Less => ordering.is_lt(),
    }
}

async fn holds(scope: &KeyScope, range: KeyRange, relation: Relation, operand: Operand) -> bool {
    let txn = Txn {
        compares: vec![Compare {
            range,
            relation,
            operand,
        }],
        ..Txn::default()
    };
    scope.commit(txn).await.succeeded
}

/// Tries every relation of `range` with `operand`, which what is there orders as `is`.
async fn check(scope: &KeyScope, range: KeyRange, operand: Operand, is: Ordering) {
    for relation in RELATIONS {
        let held = holds(scope, range.clone(), relation, operand.clone()).await;
        let text = format!("{range:?} {relation:?} {operand:?}");
        assert_eq!(held, admits(relation, is), "{text}");
    }
}

/// One number to compare with, and how what is there relates to it.
fn around(number: u64) -> [(u64, Ordering); 3] {
    [
        (number - 1, Ordering::Greater),
        (number, Ordering::Equal),
        (number + 1, Ordering::Less),
    ]
}

pub(super) async fn compare_revisions_and_version_in_every_relation(scope: KeyScope) {
    let lease = scope.store.grant_lease(None, Duration::from_secs(600));
    let lease = lease.await.expect("grants");
    for value in ["1", "2"] {
        let put = Put {
            lease: Some(lease),
            ..scope.put_of("a", value)
        };
        scope.put("other", value).await;
        scope.commit(Txn::put(put)).await;
    }
    let a = || scope.single_key("a");
    for (number, is) in around(2) {
        check(&scope, a(), Operand::Version(number), is).await;
    }
    for (number, is) in around(scope.revision_at(2).get()) {
        let revision = Revision::new(number);
        check(&scope, a(), Operand::CreateRevision(revision), is).await;
    }
    for (number, is) in around(scope.revision_at(4).get()) {
        let revision = Revision::new(number);
        check(&scope, a(), Operand::ModRevision(revision), is).await;
    }
    for (number, is) in [
        (lease.0 - 1, Ordering::Greater),
        (lease.0, Ordering::Equal),
        (lease.0.saturating_add(1), Ordering::Less),
    ] {
        check(&scope, a(), Operand::Lease(LeaseId(number)), is).await;
    }
    scope.store.revoke_lease(lease).await.expect("revokes");
}

pub(super) async fn compare_values_as_bytes(scope: KeyScope) {
    scope.put("a", "mm").await;
    let cases: [(&[u8], Ordering); 7] = [
        (b"", Ordering::Greater),
        (b"m", Ordering::Greater),
        (b"mlz", Ordering::Greater),
        (b"mm", Ordering::Equal),
        (b"mm\0", Ordering::Less),
        (b"n", Ordering::Less),
        (b"\xff", Ordering::Less),
    ];
    for (value, is) in cases {
        let operand = Operand::Value(Bytes::copy_from_slice(value));
        check(&scope, scope.single_key("a"), operand, is).await;
    }
}

/// The comparison with a missing key.
async fn check_missing(scope: &KeyScope, range: KeyRange) {
    let zeroes = [
        (Operand::Version(0), Operand::Version(1)),
        (
            Operand::CreateRevision(Revision::ZERO),
            Operand::CreateRevision(scope.base()),
        ),
        (
            Operand::ModRevision(Revision::ZERO),
            Operand::ModRevision(scope.base()),
        ),
        (Operand::Lease(LeaseId::NONE), Operand::Lease(LeaseId(7))),
    ];
    for (zero, more) in zeroes {
        check(scope, range.clone(), zero, Ordering::Equal).await;
        check(scope, range.clone(), more, Ordering::Less).await;
    }
    for relation in RELATIONS {
        for value in ["", "x"] {
            let operand = Operand::Value(Bytes::from(value));
            let held = holds(scope, range.clone(), relation, operand).await;
            assert!(!held, "no value {relation:?} {value:?} in {range:?}");
        }
    }
}

pub(super) async fn compare_missing_key_as_zero_and_no_value(scope: KeyScope) {
    check_missing(&scope, scope.single_key("never")).await;
    scope.put("gone", "1").await;
    scope.delete("gone").await;
    check_missing(&scope, scope.single_key("gone")).await;
}

pub(super) async fn compare_empty_range_as_missing_key(scope: KeyScope) {
    scope.put("d/gone", "1").await;
    scope.delete("d/gone").await;
    check_missing(&scope, scope.prefix("d/")).await;
    check_missing(&scope, scope.between("x", "y")).await;
}

pub(super) async fn compare_range_holds_if_all_keys_hold(scope: KeyScope) {
    for (name, puts) in [("d/a", 1), ("d/b", 2), ("d/c", 3), ("e", 9)] {
        for _ in 0..puts {
            scope.put(name, name).await;
        }
    }
    let cases = [
        (scope.prefix("d/"), Relation::Greater, 0, true),
        (scope.prefix("d/"), Relation::Greater, 1, false),
        (scope.prefix("d/"), Relation::Less, 4, true),
        (scope.prefix("d/"), Relation::Less, 3, false),
        (scope.prefix("d/"), Relation::Equal, 2, false),
        (scope.prefix("d/"), Relation::NotEqual, 2, false),
        (scope.prefix("d/"), Relation::NotEqual, 9, true),
        (scope.between("d/a", "d/c"), Relation::Less, 3, true),
        (scope.between("d/b", "d/b0"), Relation::Equal, 2, true),
    ];
    for (range, relation, number, expected) in cases {
        let text = format!("{range:?} {relation:?} {number}");
        let held = holds(&scope, range, relation, Operand::Version(number)).await;
        assert_eq!(held, expected, "{text}");
    }
    let value = Operand::Value(Bytes::from("d"));
    assert!(holds(&scope, scope.prefix("d/"), Relation::Greater, value).await);
}

pub(super) async fn transaction_succeeds_only_if_all_compares_hold(scope: KeyScope) {
    scope.put("a", "1").await;
    scope.put("b", "1").await;
    let is =
        |name: &str, offset| Compare::mod_revision_is(scope.key(name), scope.revision_at(offset));
    let cases = [
        (vec![], true),
        (vec![is("a", 1), is("b", 2)], true),
        (vec![is("a", 1), is("b", 1)], false),
        (vec![is("a", 2), is("b", 2)], false),
        (vec![is("a", 2), is("b", 1)], false),
    ];
    for (compares, expected) in cases {
        let text = format!("{compares:?}");
        let txn = Txn {
            compares,
            ..Txn::default()
        };
        assert_eq!(scope.commit(txn).await.succeeded, expected, "{text}");
    }
}
