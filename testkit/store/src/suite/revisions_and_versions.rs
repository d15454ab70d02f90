//! Revisions and versions of keys.

use crate::key_scope::KeyScope;
use crate::timeout::within;
use bytes::Bytes;
use optik_store::{
    Compare, KeyRange, Op, Origin, Put, RangeQuery, Revision, Txn, TxnError, WatchFrom,
};

/// Shows G1.
pub(super) async fn transaction_takes_one_revision(scope: KeyScope) {
    assert_eq!(scope.put("a", "1").await, scope.revision_at(1));
    let ops = ["b", "c", "d"].map(|name| scope.put_op(name, "2"));
    let several = scope.commit(Txn::from_ops(ops.to_vec())).await;
    assert_eq!(several.revision, scope.revision_at(2));
    let mixed = vec![
        scope.delete_op("a"),
        scope.put_op("b", "3"),
        Op::Delete(scope.between("c", "e")),
    ];
    assert_eq!(
        scope.commit(Txn::from_ops(mixed)).await.revision,
        scope.revision_at(3)
    );
    assert_eq!(scope.revision().await, scope.revision_at(3));
    let b = scope.get("b").await.expect("was put");
    assert_eq!(scope.describe(&b), "b=3 @+3 (created +2, version 2)");
}

pub(super) async fn transaction_without_writes_takes_no_revision(scope: KeyScope) {
    scope.put("a", "1").await;
    let query = RangeQuery::new(scope.all_keys());
    let idle = [
        ("nothing at all", Txn::default()),
        ("a read", Txn::from_ops(vec![Op::Range(query)])),
        ("deleting nothing", Txn::delete(scope.single_key("missing"))),
        ("deleting none", Txn::delete(scope.prefix("missing/"))),
        (
            "a refused write",
            Txn::put_if(Revision::ZERO, scope.put_of("a", "2")),
        ),
        (
            "a nested refusal",
            Txn::from_ops(vec![Op::Txn(Box::new(Txn::put_if(
                Revision::ZERO,
                scope.put_of("a", "2"),
            )))]),
        ),
    ];
    for (what, txn) in idle {
        assert_eq!(
            scope.commit(txn).await.revision,
            scope.revision_at(1),
            "{what}"
        );
        assert_eq!(scope.revision().await, scope.revision_at(1), "{what}");
    }
    assert_eq!(scope.put("a", "2").await, scope.revision_at(2));
}

pub(super) async fn key_version_counts_from_creation(scope: KeyScope) {
    for value in ["1", "2", "3"] {
        scope.put("a", value).await;
        scope.put("other", value).await;
    }
    let a = scope.get("a").await.expect("was put");
    assert_eq!(scope.describe(&a), "a=3 @+5 (created +1, version 3)");
}

pub(super) async fn deletion_resets_create_revision_and_version(scope: KeyScope) {
    scope.put("a", "1").await;
    scope.put("a", "2").await;
    assert_eq!(scope.delete("a").await, scope.revision_at(3));
    assert!(scope.get("a").await.is_none());
    assert_eq!(scope.delete("a").await, scope.revision_at(3));
    scope.put("a", "3").await;
    let a = scope.get("a").await.expect("was put again");
    assert_eq!(scope.describe(&a), "a=3 @+4 (created +4, version 1)");
}

pub(super) async fn put_with_ignore_value_or_ignore_lease_keeps_it(scope: KeyScope) {
    let keep_value = Put {
        value: None,
        ..scope.put_of("a", "")
    };
    let keep_lease = Put {
        lease: None,
        ..scope.put_of("a", "2")
    };
    for put in [&keep_value, &keep_lease] {
        let refusal = scope.commit_error(Txn::put(put.clone())).await;
        assert_eq!(refusal, TxnError::KeyNotFound);
    }
    scope.put("a", "1").await;
    scope.commit(Txn::put(keep_value)).await;
    let a = scope.get("a").await.expect("was put");
    assert_eq!(scope.describe(&a), "a=1 @+2 (created +1, version 2)");
    scope.commit(Txn::put(keep_lease)).await;
    let a = scope.get("a").await.expect("was put");
    assert_eq!(scope.describe(&a), "a=2 @+3 (created +1, version 3)");
}

/// Shows G5.
pub(super) async fn acknowledged_write_is_in_every_later_read(scope: KeyScope) {
    for number in 1..=50 {
        let written = scope.put("a", &number.to_string()).await;
        // Any clone will do, and the state that needs no asking too.
        let other = scope.store.clone();
        let latest = within("the latest", other.latest()).await.expect("reads");
        for snapshot in [latest, other.snapshot()] {
            assert!(snapshot.revision() >= written);
            let a = snapshot.get(&scope.key("a")).expect("was put");
            assert_eq!(a.value(), number.to_string().as_bytes());
        }
    }
}

pub(super) async fn commits_keep_their_origin(scope: KeyScope) {
    let mut watch = scope.watch(scope.all_keys(), WatchFrom::Now);
    let origins = [
        Origin {
            user: "kim".into(),
            agent: "kubectl/1.36".into(),
            manager: "kubectl-apply".into(),
            verb: "patch".into(),
        },
        Origin::default(),
        Origin::system("clean up"),
    ];
    for (number, origin) in origins.iter().enumerate() {
        let put = Txn::put(scope.put_of("a", &number.to_string()));
        let done = within("a commit", scope.store.commit(put, origin.clone())).await;
        done.expect("commits");
        let a = scope.get("a").await.expect("was put");
        let kept = a.origin().map(|kept| (**kept).clone()).unwrap_or_default();
        assert_eq!(&kept, origin);
    }
    for (commit, origin) in scope.commits(&mut watch, 3).await.iter().zip(&origins) {
        let kept = commit.origin().map(|kept| (**kept).clone());
        assert_eq!(&kept.unwrap_or_default(), origin);
    }
}

pub(super) async fn keys_and_values_are_arbitrary_bytes(scope: KeyScope) {
    let prefix = scope.key("");
    let tails: &[&[u8]] = &[
        b"\0",
        b"\0\0",
        b"/",
        b"a\0b",
        b"\xff",
        b"\xff\xff",
        b"\xc3\x28",
    ];
    for tail in tails {
        let key = [&prefix, *tail].concat();
        let put = Put::new(&key, Bytes::copy_from_slice(tail));
        scope.commit(Txn::put(put)).await;
    }
    let empty = scope.key("empty");
    scope.commit(Txn::put(Put::new(&empty, ""))).await;
    let latest = scope.latest().await;
    for tail in tails {
        let found = latest.get(&[&prefix, *tail].concat()).expect("was put");
        assert_eq!(found.value(), *tail);
    }
    assert!(latest.get(&empty).expect("was put").value().is_empty());
    let everything = scope.all_keys();
    let found = latest.entries(&everything);
    let keys: Vec<_> = found.map(|version| version.key().to_vec()).collect();
    assert!(keys.is_sorted(), "keys come in the order of their bytes");
    assert_eq!(keys.len(), tails.len() + 1);
}

pub(super) async fn large_values_round_trip(scope: KeyScope) {
    let large: Bytes = (0..1_000_000u32).map(|at| (at % 251) as u8).collect();
    let put = Put::new(scope.key("large"), large.clone());
    scope.commit(Txn::put(put)).await;
    scope.put("large", "small").await;
    let old = RangeQuery {
        at: Some(scope.revision_at(1)),
        ..RangeQuery::new(scope.single_key("large"))
    };
    let found = scope.range(&old).await.entries;
    assert!(found[0].value() == &large, "the value has changed");
    let mut watch = scope.watch(scope.all_keys(), WatchFrom::Revision(scope.revision_at(1)));
    let commits = scope.commits(&mut watch, 2).await;
    assert!(commits[0].events()[0].version().value() == &large);
    let same = Txn {
        compares: vec![Compare::mod_revision_is(
            scope.key("large"),
            scope.revision_at(2),
        )],
        success: vec![Op::Put(Put::new(scope.key("large"), large))],
        failure: Vec::new(),
    };
    assert!(scope.commit(same).await.succeeded);
}

pub(super) async fn many_keys_are_returned_in_order(scope: KeyScope) {
    const KEYS: usize = 2000;
    let name = |number: usize| format!("{:05}", (number * 7919) % KEYS);
    for chunk in (0..KEYS).collect::<Vec<_>>().chunks(100) {
        let puts = chunk.iter().map(|number| {
            let name = name(*number);
            scope.put_op(&name, &name)
        });
        scope.commit(Txn::from_ops(puts.collect())).await;
    }
    assert_eq!(scope.revision().await, scope.revision_at(KEYS as u64 / 100));
    let latest = scope.latest().await;
    for (number, version) in latest.entries(&scope.all_keys()).enumerate() {
        assert_eq!(version.value(), format!("{number:05}").as_bytes());
    }
    let middle = scope
        .range(&RangeQuery::new(scope.between("00500", "00510")))
        .await;
    assert_eq!((middle.entries.len(), middle.count), (10, 10));
    let rest = KeyRange::between(scope.key("01990"), scope.key("x"));
    let gone = scope.commit(Txn::delete(rest)).await;
    assert_eq!(gone.revision, scope.revision_at(KEYS as u64 / 100 + 1));
    let left = scope.range(&RangeQuery::new(scope.all_keys())).await;
    assert_eq!(left.count, 1990);
}
