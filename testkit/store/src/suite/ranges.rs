//! Range reads at the current and at past revisions.

use crate::key_scope::KeyScope;
use optik_store::{
    Compare, KeyRange, Op, Operand, RangeError, RangeQuery, Relation, Revision, RevisionFilter,
    Txn, TxnError, WatchFrom,
};

/// The keys that a query finds, whether there are more, and the count.
async fn found(scope: &KeyScope, query: RangeQuery) -> (Vec<String>, bool, u64) {
    let from_snapshot = scope.range(&query).await;
    let in_txn = scope.commit(Txn::from_ops(vec![Op::Range(query)])).await;
    let optik_store::OpResult::Range(from_txn) = &in_txn.results[0] else {
        panic!("not the answer of a range: {in_txn:?}");
    };
    assert_eq!(from_snapshot.entries, from_txn.entries);
    assert_eq!(from_snapshot.more, from_txn.more);
    assert_eq!(from_snapshot.count, from_txn.count);
    let names = from_snapshot.entries.iter().map(|entry| {
        let shown = scope.describe(entry);
        shown.split('=').next().unwrap_or_default().to_owned()
    });
    (names.collect(), from_snapshot.more, from_snapshot.count)
}

pub(super) async fn range_returns_exactly_its_keys(scope: KeyScope) {
    for name in ["a", "a/1", "a/2", "a0", "b", "c"] {
        scope.put(name, "1").await;
    }
    let cases: [(KeyRange, &[&str]); 8] = [
        (scope.single_key("a"), &["a"]),
        (scope.single_key("a/"), &[]),
        (scope.prefix("a/"), &["a/1", "a/2"]),
        (scope.prefix("a"), &["a", "a/1", "a/2", "a0"]),
        (scope.between("a", "b"), &["a", "a/1", "a/2", "a0"]),
        (scope.between("a\0", "b\0"), &["a/1", "a/2", "a0", "b"]),
        (scope.all_keys(), &["a", "a/1", "a/2", "a0", "b", "c"]),
        (scope.all_keys().after(&scope.key("a0")), &["b", "c"]),
    ];
    for (range, expected) in cases {
        let text = format!("{range:?}");
        let (names, more, count) = found(&scope, RangeQuery::new(range.clone())).await;
        assert_eq!(names, expected, "{text}");
        assert_eq!((more, count), (false, expected.len() as u64), "{text}");
        let latest = scope.latest().await;
        assert_eq!(latest.entries(&range).count(), expected.len(), "{text}");
    }
    let from_key = RangeQuery::new(KeyRange::from_key(scope.key("c")));
    let first = &scope.range(&from_key).await.entries[0];
    assert_eq!(**first.key(), *scope.key("c"));
}

pub(super) async fn range_with_end_before_start_is_empty(scope: KeyScope) {
    for name in ["a", "b", "c"] {
        scope.put(name, "1").await;
    }
    let revision = scope.revision().await;
    for range in [
        scope.between("c", "a"),
        scope.between("b", "b"),
        scope.between("a", "c").after(&scope.key("x")),
    ] {
        let text = format!("{range:?}");
        let nothing = found(&scope, RangeQuery::new(range.clone())).await;
        assert_eq!(nothing, (vec![], false, 0), "{text}");
        assert_eq!(scope.latest().await.entries(&range).count(), 0, "{text}");
        let compare = Compare {
            range: range.clone(),
            relation: Relation::Equal,
            operand: Operand::Version(0),
        };
        let delete = Txn {
            compares: vec![compare],
            success: vec![Op::Delete(range.clone())],
            failure: Vec::new(),
        };
        let deleted = scope.commit(delete).await;
        assert!(deleted.succeeded, "{text}");
        assert_eq!(deleted.revision, revision, "{text}");
        drop(scope.watch(range, WatchFrom::Now));
    }
}

pub(super) async fn range_limit_truncates_and_sets_more(scope: KeyScope) {
    for name in ["a", "b", "c", "d"] {
        scope.put(name, "1").await;
    }
    let cases: [(usize, &[&str], bool); 4] = [
        (1, &["a"], true),
        (3, &["a", "b", "c"], true),
        (4, &["a", "b", "c", "d"], false),
        (9, &["a", "b", "c", "d"], false),
    ];
    for (limit, expected, more) in cases {
        let query = RangeQuery {
            limit: Some(limit),
            ..RangeQuery::new(scope.all_keys())
        };
        let (names, says_more, count) = found(&scope, query).await;
        assert_eq!(
            (names.as_slice(), says_more, count),
            (
                expected
                    .iter()
                    .map(|&name| name.to_owned())
                    .collect::<Vec<_>>()
                    .as_slice(),
                more,
                4
            )
        );
    }
}

pub(super) async fn range_pages_cover_all_keys(scope: KeyScope) {
    let names: Vec<_> = (0..25).map(|number| format!("{number:02}")).collect();
    for name in &names {
        scope.put(name, "1").await;
    }
    let at = Some(scope.revision().await);
    let mut range = scope.all_keys();
    let mut seen = Vec::new();
    loop {
        // Writes between two pages are not visible: all pages are of one revision.
        scope.put(&format!("{:02}x", seen.len()), "1").await;
        scope.delete(&names[seen.len()]).await;
        let page = RangeQuery {
            limit: Some(10),
            at,
            ..RangeQuery::new(range.clone())
        };
        let page = scope.range(&page).await;
        assert_eq!(page.count, 25 - seen.len() as u64);
        seen.extend(page.entries.iter().map(|entry| {
            let key = String::from_utf8_lossy(entry.key()).into_owned();
            key[key.len() - 2..].to_owned()
        }));
        if !page.more {
            break;
        }
        range = range.after(page.entries.last().expect("has more").key());
    }
    assert_eq!(seen, names);
}

pub(super) async fn count_only_range_returns_no_entries(scope: KeyScope) {
    for name in ["a", "b", "c"] {
        scope.put(name, "1").await;
    }
    scope.delete("b").await;
    for (at, expected) in [
        (None, 2),
        (Some(scope.revision_at(3)), 3),
        (Some(scope.revision_at(1)), 1),
    ] {
        let query = RangeQuery {
            at,
            count_only: true,
            ..RangeQuery::new(scope.all_keys())
        };
        assert_eq!(found(&scope, query).await, (vec![], false, expected));
    }
}

pub(super) async fn range_filters_by_min_and_max_revision(scope: KeyScope) {
    for name in ["a", "b", "c", "b"] {
        scope.put(name, "1").await; // a @1, b @4 (created 2), c @3
    }
    let (at, none) = (
        |offset| Some(scope.revision_at(offset)),
        RevisionFilter::default(),
    );
    let cases: [(RevisionFilter, &[&str]); 6] = [
        (
            RevisionFilter {
                mod_min: at(3),
                ..none
            },
            &["b", "c"],
        ),
        (
            RevisionFilter {
                mod_max: at(3),
                ..none
            },
            &["a", "c"],
        ),
        (
            RevisionFilter {
                create_min: at(2),
                ..none
            },
            &["b", "c"],
        ),
        (
            RevisionFilter {
                create_max: at(2),
                ..none
            },
            &["a", "b"],
        ),
        (
            RevisionFilter {
                mod_min: at(3),
                create_max: at(2),
                ..none
            },
            &["b"],
        ),
        (
            RevisionFilter {
                mod_min: at(5),
                ..none
            },
            &[],
        ),
    ];
    for (filter, expected) in cases {
        let query = RangeQuery {
            filter,
            ..RangeQuery::new(scope.all_keys())
        };
        let (names, more, count) = found(&scope, query).await;
        assert_eq!(names, expected, "{filter:?}");
        assert_eq!((more, count), (false, 3), "{filter:?}");
    }
    let limited = RangeQuery {
        limit: Some(1),
        filter: RevisionFilter {
            mod_min: at(3),
            ..none
        },
        ..RangeQuery::new(scope.all_keys())
    };
    let (names, more, count) = found(&scope, limited).await;
    assert_eq!((names, more, count), (vec!["b".to_owned()], true, 3));
}

/// Shows G7.
pub(super) async fn every_retained_revision_can_be_read(scope: KeyScope) {
    scope.put("a", "1").await;
    scope.put("b", "1").await;
    scope.put("a", "2").await;
    scope.delete("b").await;
    scope.delete("a").await;
    scope.put("a", "3").await;
    let states: [&[&str]; 7] = [
        &[],
        &["a=1 @+1 (created +1, version 1)"],
        &[
            "a=1 @+1 (created +1, version 1)",
            "b=1 @+2 (created +2, version 1)",
        ],
        &[
            "a=2 @+3 (created +1, version 2)",
            "b=1 @+2 (created +2, version 1)",
        ],
        &["a=2 @+3 (created +1, version 2)"],
        &[],
        &["a=3 @+6 (created +6, version 1)"],
    ];
    for (offset, expected) in states.iter().enumerate() {
        let query = RangeQuery {
            at: Some(scope.revision_at(offset as u64)),
            ..RangeQuery::new(scope.all_keys())
        };
        let entries = scope.range(&query).await.entries;
        assert_eq!(&scope.describe_all(&entries), expected, "at +{offset}");
    }
}

pub(super) async fn read_at_future_revision_is_rejected(scope: KeyScope) {
    scope.put("a", "1").await;
    let newest = scope.revision().await;
    for at in [newest.next(), Revision::new(u64::MAX >> 1)] {
        let query = RangeQuery {
            at: Some(at),
            ..RangeQuery::new(scope.single_key("a"))
        };
        let error = RangeError::Future { newest };
        let latest = scope.latest().await;
        assert_eq!(latest.range(&query).expect_err("lies ahead"), error);
        let refusal = scope
            .commit_error(Txn::from_ops(vec![Op::Range(query)]))
            .await;
        assert_eq!(refusal, TxnError::Range(error));
    }
}
