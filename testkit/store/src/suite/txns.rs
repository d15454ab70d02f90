//! Transactions: branches, nesting, and invalid ones.

use crate::key_scope::KeyScope;
use bytes::Bytes;
use futures::future::join_all;
use optik_store::{
    Compare, KeyRange, Op, OpResult, Operand, Put, RangeQuery, Relation, Revision, Txn, TxnError,
    TxnLimits, TxnResult,
};

fn nested(txn: Txn) -> Op {
    Op::Txn(Box::new(txn))
}

fn either(success: Vec<Op>, failure: Vec<Op>) -> Op {
    nested(Txn {
        compares: Vec::new(),
        success,
        failure,
    })
}

/// The results of the operations of a transaction, as text.
fn answers(scope: &KeyScope, result: &TxnResult) -> Vec<String> {
    let shown = |result: &OpResult| match result {
        OpResult::Range(found) => format!("found {:?}", scope.describe_all(&found.entries)),
        OpResult::Put { prior: Some(prior) } => format!("put over {}", scope.describe(prior)),
        OpResult::Put { prior: None } => "put".to_owned(),
        OpResult::Delete { deleted } => format!("deleted {:?}", scope.describe_all(deleted)),
        OpResult::Txn(inner) => format!(
            "{} {:?}",
            if inner.succeeded { "yes" } else { "no" },
            answers(scope, inner)
        ),
    };
    result.results.iter().map(shown).collect()
}

pub(super) async fn transaction_branch_follows_compares(scope: KeyScope) {
    let txn = |revision| Txn {
        compares: vec![Compare::mod_revision_is(scope.key("a"), revision)],
        success: vec![scope.put_op("yes", "1")],
        failure: vec![scope.put_op("no", "1"), scope.delete_op("yes")],
    };
    let first = scope.commit(txn(Revision::ZERO)).await;
    assert!(first.succeeded);
    assert!(scope.get("yes").await.is_some() && scope.get("no").await.is_none());
    let second = scope.commit(txn(scope.revision_at(1))).await;
    assert!(!second.succeeded);
    assert_eq!(second.revision, scope.revision_at(2));
    assert!(scope.get("yes").await.is_none() && scope.get("no").await.is_some());
}

pub(super) async fn transaction_results_match_operations(scope: KeyScope) {
    scope.put("a", "1").await;
    scope.put("b", "1").await;
    let ops = vec![
        scope.put_op("a", "2"),
        scope.put_op("c", "1"),
        Op::Delete(scope.between("b", "c")),
        Op::Delete(scope.single_key("missing")),
        Op::Range(RangeQuery::new(scope.single_key("missing"))),
        either(vec![scope.put_op("d", "1")], vec![]),
    ];
    let result = scope.commit(Txn::from_ops(ops)).await;
    let expected = [
        "put over a=1 @+1 (created +1, version 1)",
        "put",
        "deleted [\"b=1 @+2 (created +2, version 1)\"]",
        "deleted []",
        "found []",
        "yes [\"put\"]",
    ];
    assert_eq!(answers(&scope, &result), expected);
    // A rejected write without a failure branch returns no result.
    let refused = Txn {
        compares: vec![Compare::mod_revision_is(scope.key("a"), Revision::ZERO)],
        success: vec![scope.put_op("a", "3")],
        failure: Vec::new(),
    };
    let refused = scope.commit(refused).await;
    assert!(!refused.succeeded && refused.results.is_empty());
    // With a failure branch it returns the current state.
    let refused = Txn::put_if(scope.revision_at(1), scope.put_of("a", "3"));
    let refused = scope.commit(refused).await;
    let there = "found [\"a=2 @+3 (created +1, version 2)\"]";
    assert_eq!(answers(&scope, &refused), [there]);
}

pub(super) async fn operations_see_earlier_operations_of_the_transaction(scope: KeyScope) {
    scope.put("a", "1").await;
    scope.put("b", "1").await;
    let look = || Op::Range(RangeQuery::new(scope.all_keys()));
    let ops = vec![
        look(),
        scope.put_op("c", "1"),
        look(),
        Op::Delete(scope.between("a", "c")),
        look(),
        Op::Delete(scope.single_key("a")),
        either(vec![look(), scope.put_op("d", "1")], vec![]),
        look(),
    ];
    let result = scope.commit(Txn::from_ops(ops)).await;
    let (a, b) = (
        "a=1 @+1 (created +1, version 1)",
        "b=1 @+2 (created +2, version 1)",
    );
    let (c, d) = (
        "c=1 @+3 (created +3, version 1)",
        "d=1 @+3 (created +3, version 1)",
    );
    let expected = [
        format!("found {:?}", [a, b]),
        "put".to_owned(),
        format!("found {:?}", [a, b, c]),
        format!("deleted {:?}", [a, b]),
        format!("found {:?}", [c]),
        "deleted []".to_owned(),
        format!("yes {:?}", [format!("found {:?}", [c]), "put".to_owned()]),
        format!("found {:?}", [c, d]),
    ];
    assert_eq!(answers(&scope, &result), expected);
}

pub(super) async fn read_at_past_revision_does_not_see_own_transaction(scope: KeyScope) {
    scope.put("a", "1").await;
    scope.put("b", "1").await;
    let look = |at| {
        Op::Range(RangeQuery {
            at: Some(at),
            ..RangeQuery::new(scope.all_keys())
        })
    };
    let ops = vec![
        scope.put_op("a", "2"),
        scope.delete_op("b"),
        look(scope.revision_at(1)),
        look(scope.revision_at(2)),
    ];
    let result = scope.commit(Txn::from_ops(ops)).await;
    let (a, b) = (
        "a=1 @+1 (created +1, version 1)",
        "b=1 @+2 (created +2, version 1)",
    );
    let found = &answers(&scope, &result)[2..];
    assert_eq!(
        found,
        [format!("found {:?}", [a]), format!("found {:?}", [a, b])]
    );
}

pub(super) async fn nested_transactions_share_the_revision(scope: KeyScope) {
    let deep = Txn::from_ops(vec![
        scope.put_op("a", "1"),
        either(
            vec![
                scope.put_op("b", "1"),
                either(vec![scope.put_op("c", "1")], vec![]),
            ],
            vec![],
        ),
        nested(Txn::put_if(scope.revision_at(1), scope.put_of("d", "1"))),
    ]);
    let result = scope.commit(deep).await;
    assert_eq!(result.revision, scope.revision_at(1));
    let shown = answers(&scope, &result);
    assert_eq!(shown[1], r#"yes ["put", "yes [\"put\"]"]"#);
    assert_eq!(shown[2], r#"no ["found []"]"#);
    let OpResult::Txn(inner) = &result.results[1] else {
        panic!("not the answer of a nested transaction: {shown:?}");
    };
    assert_eq!(inner.revision, scope.revision_at(1));
    let everything = scope.range(&RangeQuery::new(scope.all_keys())).await;
    let modified = everything.entries.iter().map(|entry| entry.mod_revision());
    assert_eq!(modified.collect::<Vec<_>>(), [scope.revision_at(1); 3]);
}

pub(super) async fn nested_compares_see_state_before_the_transaction(scope: KeyScope) {
    let missing = || Compare::mod_revision_is(scope.key("a"), Revision::ZERO);
    let txn = Txn::from_ops(vec![
        scope.put_op("a", "1"),
        nested(Txn {
            compares: vec![missing()],
            success: vec![scope.put_op("before", "1")],
            failure: vec![scope.put_op("after", "1")],
        }),
    ]);
    scope.commit(txn).await;
    assert!(scope.get("before").await.is_some());
    assert!(scope.get("after").await.is_none());
}

pub(super) async fn transaction_writing_a_key_twice_is_rejected(scope: KeyScope) {
    let put = |name: &str| scope.put_op(name, "1");
    let delete = |name: &str| Op::Delete(scope.prefix(name));
    let twice = [
        vec![put("a"), put("a")],
        vec![put("a"), put("b"), put("a")],
        vec![put("ab"), delete("a")],
        vec![delete("a"), put("ab")],
        vec![put("b"), Op::Delete(scope.between("a", "c"))],
        vec![put("a"), either(vec![put("a")], vec![])],
        vec![put("a"), either(vec![], vec![put("a")])],
        vec![either(vec![put("a")], vec![]), delete("a")],
        vec![delete("a"), either(vec![put("a")], vec![])],
        vec![either(vec![delete("a")], vec![]), put("a")],
        vec![put("a"), either(vec![], vec![delete("a")])],
        vec![either(vec![put("a"), put("a")], vec![])],
        vec![
            either(vec![put("a")], vec![]),
            either(vec![put("a")], vec![]),
        ],
    ];
    for ops in twice {
        let text = format!("{ops:?}");
        for txn in [
            Txn::from_ops(ops.clone()),
            Txn {
                failure: ops,
                ..Txn::default()
            },
        ] {
            let refusal = scope.commit_error(txn).await;
            assert_eq!(refusal, TxnError::DuplicateKey, "{text}");
        }
    }
    assert_eq!(scope.revision().await, scope.base());
    let once = [
        vec![
            put("a"),
            put("b"),
            Op::Range(RangeQuery::new(scope.single_key("a"))),
        ],
        vec![delete("a"), delete("a"), delete("ab")],
        vec![put("b"), Op::Delete(scope.between("a", "b"))],
    ];
    for ops in once {
        scope.commit(Txn::from_ops(ops)).await;
    }
}

pub(super) async fn exclusive_branches_may_write_the_same_key(scope: KeyScope) {
    let put = |value: &str| scope.put_op("a", value);
    let delete = || scope.delete_op("a");
    let exists = || Compare {
        range: scope.single_key("a"),
        relation: Relation::Greater,
        operand: Operand::Version(0),
    };
    let outer = Txn {
        compares: vec![exists()],
        success: vec![delete()],
        failure: vec![put("1")],
    };
    assert!(!scope.commit(outer.clone()).await.succeeded);
    assert!(scope.commit(outer).await.succeeded);
    assert!(scope.get("a").await.is_none());
    let toggle = |success, failure| {
        Txn::from_ops(vec![nested(Txn {
            compares: vec![exists()],
            success,
            failure,
        })])
    };
    scope.commit(toggle(vec![put("2")], vec![put("3")])).await;
    assert_eq!(scope.get("a").await.expect("was put").value(), "3");
    scope.commit(toggle(vec![delete()], vec![put("4")])).await;
    assert!(scope.get("a").await.is_none());
    scope.commit(toggle(vec![put("5")], vec![delete()])).await;
    assert!(scope.get("a").await.is_none());
}

pub(super) async fn rejected_transaction_changes_nothing(scope: KeyScope) {
    scope.put("a", "1").await;
    let keep_missing = Put {
        value: None,
        ..scope.put_of("missing", "")
    };
    let future = RangeQuery {
        at: Some(scope.revision_at(9)),
        ..RangeQuery::new(scope.single_key("a"))
    };
    for bad in [Op::Put(keep_missing), Op::Range(future)] {
        let text = format!("{bad:?}");
        let ops = vec![scope.put_op("a", "2"), scope.delete_op("a0"), bad.clone()];
        scope.commit_error(Txn::from_ops(ops)).await;
        let inner = vec![scope.put_op("b", "2"), either(vec![bad.clone()], vec![])];
        scope.commit_error(Txn::from_ops(inner)).await;
        assert_eq!(scope.revision().await, scope.revision_at(1), "{text}");
        // On the way that is not taken it does no harm.
        let unused = Txn {
            failure: vec![bad],
            ..Txn::default()
        };
        assert!(scope.commit(unused).await.succeeded, "{text}");
    }
    let a = scope.get("a").await.expect("was put");
    assert_eq!(scope.describe(&a), "a=1 @+1 (created +1, version 1)");
}

pub(super) async fn transaction_limits_are_exact(scope: KeyScope) {
    let limits = TxnLimits::default();
    let puts = |count: usize| (0..count).map(|n| scope.put_op(&n.to_string(), "1"));
    let most = Txn::from_ops(puts(limits.operations_max).collect());
    scope.commit(most).await;
    let over = limits.operations_max + 1;
    let compare = || Compare::mod_revision_is(scope.key("a"), Revision::ZERO);
    let too_many = [
        Txn::from_ops(puts(over).collect()),
        Txn {
            failure: puts(over).collect(),
            ..Txn::default()
        },
        Txn {
            compares: (0..over).map(|_| compare()).collect(),
            ..Txn::default()
        },
        Txn::from_ops(vec![either(puts(over).collect(), vec![])]),
        // What is nested has what the list around it leaves.
        Txn::from_ops(vec![either(puts(limits.operations_max).collect(), vec![])]),
    ];
    for txn in too_many {
        let refusal = scope.commit_error(txn).await;
        assert_eq!(refusal, TxnError::TooManyOperations);
    }
    let room = limits.bytes_max - scope.key("large").len();
    let of_size = |bytes| Txn::put(Put::new(scope.key("large"), Bytes::from(vec![b'x'; bytes])));
    let refusal = scope.commit_error(of_size(room + 1)).await;
    assert!(matches!(refusal, TxnError::TooLarge { .. }), "{refusal:?}");
    let large = scope.get("large").await;
    assert!(large.is_none(), "a refused write is not there");
}

pub(super) async fn empty_key_is_rejected(scope: KeyScope) {
    let nameless = [
        Op::Put(Put::new("", "1")),
        Op::Delete(KeyRange::one("")),
        Op::Range(RangeQuery::new(KeyRange::one(""))),
    ];
    for op in nameless {
        let text = format!("{op:?}");
        let inner = Txn::from_ops(vec![either(vec![], vec![op.clone()])]);
        assert_eq!(scope.commit_error(inner).await, TxnError::NoKey, "{text}");
        let plain = scope.commit_error(Txn::from_ops(vec![op])).await;
        assert_eq!(plain, TxnError::NoKey, "{text}");
    }
    let compare = Txn {
        compares: vec![Compare::mod_revision_is("", Revision::ZERO)],
        ..Txn::default()
    };
    assert_eq!(scope.commit_error(compare).await, TxnError::NoKey);
}

/// A read, increment and conditional write, repeated until it succeeds.
async fn increment(scope: &KeyScope) {
    loop {
        let latest = scope.latest().await;
        let found = latest.get(&scope.key("counter"));
        let (count, revision) = found.map_or((0, Revision::ZERO), |found| {
            let text = String::from_utf8_lossy(found.value()).into_owned();
            (text.parse().expect("a number"), found.mod_revision())
        });
        let next: u64 = count + 1;
        let put = scope.put_of("counter", &next.to_string());
        if scope.commit(Txn::put_if(revision, put)).await.succeeded {
            return;
        }
    }
}

/// Shows G3.
pub(super) async fn concurrent_increments_lose_no_update(scope: KeyScope) {
    let tasks = (0..8).map(|_| {
        let scope = scope.clone();
        tokio::spawn(async move {
            for _ in 0..10 {
                increment(&scope).await;
            }
        })
    });
    for done in join_all(tasks).await {
        done.expect("increments");
    }
    let counter = scope.get("counter").await.expect("was put");
    let expected = "counter=80 @+80 (created +1, version 80)";
    assert_eq!(scope.describe(&counter), expected);
}
