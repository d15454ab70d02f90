//! The store on a running etcd cluster:
//! `OPTIK_TEST_ETCD=http://127.0.0.1:2379 cargo test -p optik-store --test etcd_engine`.
//!
//! Each scenario uses its own prefix, so the cluster may hold other keys. Without the variable
//! nothing is tested, and a notice says so.

mod by_hand;

use optik_platform::{Entropy, SystemEntropy};
use optik_store::EtcdOptions;

/// Scenarios of the etcd engine, for any cluster.
pub mod scenarios {
    use optik_platform::{ManualClock, UnixMillis};
    use optik_store::{
        CommitError, CompactError, Compare, EtcdOptions, KeyRange, LeaseError, LeaseId, Op,
        OpResult, Operand, Origin, Put, RangeError, RangeQuery, Relation, Revision, Store, Txn,
        TxnError, WatchError, WatchFrom, WatchSpec,
    };
    use std::sync::Arc;
    use std::time::Duration;

    fn put(key: &str, value: &str) -> Txn {
        Txn::put(Put::new(key, value.to_owned()))
    }

    async fn connect(options: &EtcdOptions) -> Store {
        Store::connect(options.clone()).await.expect("connects")
    }

    async fn commit(store: &Store, txn: Txn) -> optik_store::TxnResult {
        let origin = Origin::system("test");
        store.commit(txn, origin).await.expect("commits")
    }

    fn text(store: &Store, key: &str) -> Option<String> {
        let snapshot = store.snapshot();
        let version = snapshot.get(key.as_bytes())?;
        Some(String::from_utf8_lossy(version.value()).into_owned())
    }

    fn watch(store: &Store, range: &KeyRange, from: WatchFrom) -> optik_store::Watch {
        let range = range.clone();
        store
            .watch(WatchSpec { range, from })
            .expect("can be watched")
    }

    /// A write appears in the next snapshot, in the history, and in every watch; with its origin.
    pub async fn writes_are_read_and_watched(options: &EtcdOptions, prefix: &str) {
        let store = connect(options).await;
        let range = KeyRange::prefix(prefix);
        let mut watched = watch(&store, &range, WatchFrom::Now);
        let key = format!("{prefix}a");
        let first = commit(&store, put(&key, "1")).await;
        assert_eq!(text(&store, &key).as_deref(), Some("1"));
        let second = commit(&store, Txn::put_if(first.revision, Put::new(&key, "2"))).await;
        assert!(second.succeeded);
        let [
            OpResult::Put {
                prior: Some(prior), ..
            },
        ] = &second.results[..]
        else {
            panic!("{:?}", second.results);
        };
        assert_eq!(&prior.value()[..], b"1");

        let stale = commit(&store, Txn::put_if(first.revision, Put::new(&key, "3"))).await;
        assert!(!stale.succeeded);
        let [OpResult::Range(current)] = &stale.results[..] else {
            panic!("{:?}", stale.results);
        };
        assert_eq!(current.entries[0].mod_revision(), second.revision);
        let origin = current.entries[0].origin();
        assert_eq!(origin, Some(&Arc::new(Origin::system("test"))));

        let gone = commit(&store, Txn::delete(range.clone())).await;
        let [OpResult::Delete { deleted }] = &gone.results[..] else {
            panic!("{:?}", gone.results);
        };
        assert_eq!(deleted.len(), 1);
        assert_eq!(text(&store, &key), None);

        let mut seen = Vec::new();
        while seen.len() < 3 {
            let batch = watched.next().await.expect("goes on");
            for commit in batch.commits() {
                assert_eq!(
                    commit.origin().map(|origin| &*origin.verb),
                    Some("test"),
                    "{commit:?}"
                );
                seen.extend(batch.events_of(commit).map(|event| {
                    let value = String::from_utf8_lossy(event.version().value()).into_owned();
                    (commit.revision(), value, event.prior().is_some())
                }));
            }
        }
        let expected = [
            (first.revision, "1".to_owned(), false),
            (second.revision, "2".to_owned(), true),
            (gone.revision, String::new(), true),
        ];
        assert_eq!(seen, expected);

        let old = RangeQuery {
            at: Some(first.revision),
            ..RangeQuery::new(range)
        };
        let old = store.snapshot().range(&old).expect("kept");
        assert_eq!(&old.entries[0].value()[..], b"1");
        store.close().await;
        let refused = store.commit(put(&key, "4"), Origin::default()).await;
        assert_eq!(refused.err(), Some(CommitError::Stopped));
        assert_eq!(watched.next().await.err(), Some(WatchError::Stopped));
    }

    /// Two stores on one cluster: `latest` of one store includes every write that the other
    /// acknowledged.
    pub async fn latest_is_linearizable_across_stores(options: &EtcdOptions, prefix: &str) {
        let writer = connect(options).await;
        // There are no writes in its own range: only progress notifications can prove that it is
        // current.
        let quiet = EtcdOptions {
            range: KeyRange::prefix(format!("{prefix}quiet/")),
            ..options.clone()
        };
        let quiet = connect(&quiet).await;
        let reader = connect(options).await;
        let key = format!("{prefix}k");
        for number in 0..50 {
            let value = number.to_string();
            let done = commit(&writer, put(&key, &value)).await;
            let (fresh, none) = tokio::join!(reader.latest(), quiet.latest());
            let fresh = fresh.expect("fresh");
            assert!(fresh.revision() >= done.revision);
            let version = fresh.get(key.as_bytes()).expect("there");
            assert_eq!(&version.value()[..], value.as_bytes());
            let none = none.expect("fresh");
            assert!(none.revision() >= done.revision);
            assert_eq!(none.size().keys, 0);
        }
        let outside = quiet.commit(put(&key, "x"), Origin::default()).await;
        assert_eq!(
            outside.err(),
            Some(CommitError::Txn(TxnError::KeyOutOfRange)),
            "a store writes only what it mirrors"
        );
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..200 {
            let reader = reader.clone();
            tasks.spawn(async move { reader.latest().await.map(drop) });
        }
        while let Some(done) = tasks.join_next().await {
            done.expect("no panic").expect("fresh");
        }
        for store in [writer, quiet, reader] {
            store.close().await;
        }
    }

    /// Every kind of compare and operation returns the same as with the embedded engine.
    pub async fn etcd_txn_results_equal_embedded_store(options: &EtcdOptions, prefix: &str) {
        let etcd = connect(options).await;
        let own = Store::open(optik_store::Options::ephemeral()).expect("opens");
        let key = |name: &str| format!("{prefix}{name}");
        let all = KeyRange::prefix(prefix);
        let compare = |range: &KeyRange, relation, operand| Compare {
            range: range.clone(),
            relation,
            operand,
        };
        let query = |change: fn(&mut RangeQuery)| {
            let mut query = RangeQuery::new(all.clone());
            change(&mut query);
            Op::Range(query)
        };
        let empty = KeyRange::between(key("z"), key("a"));
        let txns = vec![
            Txn::default(),
            Txn::from_ops(vec![
                Op::Put(Put::new(key("a"), "1")),
                Op::Put(Put::new(key("b"), "2")),
            ]),
            Txn::from_ops(vec![query(|_| ())]),
            Txn::from_ops(vec![query(|q| q.limit = Some(1))]),
            Txn::from_ops(vec![query(|q| q.limit = Some(0))]),
            Txn::from_ops(vec![query(|q| q.count_only = true)]),
            Txn::from_ops(vec![query(|q| {
                q.filter.mod_max = Some(Revision::new(1));
            })]),
            Txn::from_ops(vec![Op::Put(Put {
                value: None,
                ..Put::new(key("a"), "")
            })]),
            Txn::from_ops(vec![Op::Put(Put {
                lease: None,
                ..Put::new(key("none"), "")
            })]),
            Txn::from_ops(vec![Op::Put(Put {
                lease: Some(LeaseId(12_345_678)),
                ..Put::new(key("a"), "")
            })]),
            Txn {
                compares: vec![compare(&all, Relation::Greater, Operand::Version(0))],
                success: vec![Op::Txn(Box::new(Txn {
                    compares: vec![compare(
                        &KeyRange::one(key("a")),
                        Relation::Equal,
                        Operand::Value("9".into()),
                    )],
                    success: vec![Op::Put(Put::new(key("c"), "wrong"))],
                    failure: vec![Op::Put(Put::new(key("c"), "right")), query(|_| ())],
                }))],
                failure: vec![],
            },
            Txn {
                compares: vec![compare(&empty, Relation::Equal, Operand::Version(0))],
                success: vec![Op::Delete(KeyRange::prefix(key("a"))), query(|_| ())],
                failure: vec![],
            },
            Txn {
                compares: vec![compare(
                    &empty,
                    Relation::NotEqual,
                    Operand::Value("".into()),
                )],
                success: vec![],
                failure: vec![],
            },
            Txn::from_ops(vec![Op::Delete(empty.clone())]),
            Txn::from_ops(vec![
                Op::Put(Put::new(key("d"), "1")),
                Op::Put(Put::new(key("d"), "2")),
            ]),
            Txn::delete(all.clone()),
        ];
        for txn in txns {
            let origin = Origin::default;
            let ours = own.commit(txn.clone(), origin()).await;
            let theirs = etcd.commit(txn.clone(), origin()).await;
            assert_eq!(shape(&ours), shape(&theirs), "{txn:?}");
        }
        let later = Txn::from_ops(vec![Op::Range(RangeQuery {
            at: Some(Revision::new(u64::MAX >> 1)),
            ..RangeQuery::new(all)
        })]);
        let refused = etcd.commit(later, Origin::default()).await;
        let Err(CommitError::Txn(TxnError::Range(RangeError::Future { .. }))) = refused else {
            panic!("{refused:?}");
        };
        etcd.close().await;
    }

    /// A result without its revisions, which differ between stores.
    fn shape(result: &Result<optik_store::TxnResult, CommitError>) -> String {
        fn describe(result: &optik_store::TxnResult) -> String {
            let version = |v: &Arc<optik_store::Version>| {
                format!("{:?}={:?}v{}", v.key(), v.value(), v.version())
            };
            let versions = |all: &[Arc<optik_store::Version>]| {
                all.iter().map(version).collect::<Vec<_>>().join(",")
            };
            let results = result.results.iter().map(|result| match result {
                OpResult::Range(range) => format!(
                    "range {} more {} of {}",
                    versions(&range.entries),
                    range.more,
                    range.count
                ),
                OpResult::Put { prior } => format!("put {:?}", prior.as_ref().map(version)),
                OpResult::Delete { deleted } => format!("delete {}", versions(deleted)),
                OpResult::Txn(inner) => describe(inner),
            });
            let results: Vec<_> = results.collect();
            format!("{} [{}]", result.succeeded, results.join("; "))
        }
        match result {
            Ok(result) => describe(result),
            Err(error) => error.to_string(),
        }
    }

    pub async fn leases_are_passed_through_to_cluster(options: &EtcdOptions, prefix: &str) {
        let store = connect(options).await;
        let id = store.grant_lease(None, Duration::from_secs(60)).await;
        let id = id.expect("granted");
        let taken = store.grant_lease(Some(id), Duration::from_secs(60)).await;
        assert_eq!(taken, Err(LeaseError::Exists));
        let long = store.grant_lease(None, Duration::from_secs(u64::MAX)).await;
        assert_eq!(long, Err(LeaseError::TtlTooLarge));
        let key = format!("{prefix}leased");
        let leased = Put {
            lease: Some(id),
            ..Put::new(&key, "1")
        };
        commit(&store, Txn::put(leased)).await;
        let info = store.lease(id).await.expect("there");
        assert_eq!(info.granted, Duration::from_secs(60));
        assert_eq!(info.keys.len(), 1);
        let ttl = store.keep_lease_alive(id).await;
        assert_eq!(ttl, Ok(Duration::from_secs(60)));
        assert!(store.leases().await.expect("answers").contains(&id));
        let revision = store.revoke_lease(id).await.expect("revoked");
        assert!(store.snapshot().revision() >= revision);
        assert_eq!(text(&store, &key), None);
        assert_eq!(store.revoke_lease(id).await, Err(LeaseError::NotFound));
        assert_eq!(store.keep_lease_alive(id).await, Err(LeaseError::NotFound));
        assert_eq!(store.lease(id).await, Err(LeaseError::NotFound));
        let status = store.status().await.expect("answers");
        assert!(status.disk_bytes > 0);
        assert_eq!(status.id, store.id());
        store.close().await;
    }

    /// Also compacts the history that other clients of the cluster can read.
    pub async fn compaction_is_passed_through_to_cluster(options: &EtcdOptions, prefix: &str) {
        let store = connect(options).await;
        let key = format!("{prefix}k");
        let first = commit(&store, put(&key, "1")).await.revision;
        let second = commit(&store, put(&key, "2")).await.revision;
        store.compact(second).await.expect("compacts");
        let again = store.compact(second).await;
        assert_eq!(again, Err(CompactError::Compacted { oldest: second }));
        let future = store.compact(Revision::new(u64::MAX >> 1)).await;
        assert!(matches!(future, Err(CompactError::Future { .. })));
        let old = RangeQuery {
            at: Some(first),
            ..RangeQuery::new(KeyRange::one(&key))
        };
        let old = store.snapshot().range(&old).err();
        assert_eq!(old, Some(RangeError::Compacted { oldest: second }));
        let range = KeyRange::one(&key);
        let from = WatchFrom::Revision(first);
        let ended = store.watch(WatchSpec { range, from }).err();
        assert_eq!(ended, Some(WatchError::Compacted { oldest: second }));
        store.close().await;
    }

    /// With many concurrent writers, every commit is delivered once, in order, with its own value.
    pub async fn watch_delivers_every_commit_once(options: &EtcdOptions, prefix: &str) {
        let store = connect(options).await;
        let range = KeyRange::prefix(prefix);
        let mut watched = watch(&store, &range, WatchFrom::Now);
        let mut tasks = tokio::task::JoinSet::new();
        for writer in 0..16 {
            let store = store.clone();
            let key = format!("{prefix}{writer}");
            tasks.spawn(async move {
                for number in 0..50 {
                    commit(&store, put(&key, &number.to_string())).await;
                    assert_eq!(text(&store, &key), Some(number.to_string()));
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.expect("no panic");
        }
        let mut last = Revision::ZERO;
        let mut seen = 0;
        while seen < 16 * 50 {
            let batch = watched.next().await.expect("goes on");
            for commit in batch.commits() {
                assert!(commit.revision() > last);
                last = commit.revision();
                assert!(commit.origin().is_some(), "{commit:?}");
                seen += 1;
            }
        }
        assert_eq!(
            watched.progress_revision(),
            Some(store.snapshot().revision())
        );
        store.close().await;
    }

    /// The history of the mirror is bounded by age, independent of the history of the cluster.
    pub async fn mirror_history_is_compacted_after_retention(options: &EtcdOptions, prefix: &str) {
        let clock = Arc::new(ManualClock::new(UnixMillis(1_000_000)));
        let options = EtcdOptions {
            range: KeyRange::prefix(prefix),
            clock: Arc::clone(&clock) as Arc<dyn optik_platform::Clock>,
            ..options.clone()
        };
        let store = connect(&options).await;
        let key = format!("{prefix}k");
        let first = commit(&store, put(&key, "1")).await.revision;
        commit(&store, put(&key, "2")).await;
        commit(&store, Txn::delete(KeyRange::one(&key))).await;
        clock.advance(Duration::from_secs(200));
        let kept = commit(&store, put(&key, "3")).await.revision;
        let at = |at| {
            let query = RangeQuery {
                at: Some(at),
                ..RangeQuery::new(KeyRange::one(&key))
            };
            store.snapshot().range(&query).map(|range| range.count)
        };
        store.tick().await;
        assert_eq!(at(first), Ok(1));
        clock.advance(Duration::from_secs(200));
        store.tick().await;
        assert!(matches!(at(first), Err(RangeError::Compacted { .. })));
        assert_eq!(at(kept), Ok(1));
        let status = store.status().await.expect("answers");
        // The floor is the newest compacted revision, and its commit stays.
        assert_eq!(status.history_commits, 2);
        let still = Txn::from_ops(vec![Op::Range(RangeQuery {
            at: Some(first),
            ..RangeQuery::new(KeyRange::one(&key))
        })]);
        // Another scenario may compact the cluster at the same time.
        let still = store.commit(still, Origin::default()).await;
        let compacted = matches!(
            still,
            Err(CommitError::Txn(TxnError::Range(
                RangeError::Compacted { .. }
            )))
        );
        assert!(compacted || still.is_ok(), "{still:?}");
        store.close().await;
    }

    /// The existing state is loaded completely, page by page.
    pub async fn initial_load_reads_all_pages(options: &EtcdOptions, prefix: &str) {
        let range = KeyRange::prefix(prefix);
        let options = EtcdOptions {
            range: range.clone(),
            ..options.clone()
        };
        let store = connect(&options).await;
        for page in 0..20 {
            let puts = (0..100).map(|n| {
                let size = 10 + (n % 7) * 900;
                Op::Put(Put::new(
                    format!("{prefix}{page:02}-{n:03}"),
                    vec![b'x'; size],
                ))
            });
            commit(&store, Txn::from_ops(puts.collect())).await;
        }
        let again = connect(&options).await;
        let (ours, theirs) = (store.snapshot(), again.snapshot());
        assert_eq!(ours.size(), theirs.size());
        assert_eq!(ours.size().keys, 2000);
        let pairs = ours.entries(&range).zip(theirs.entries(&range));
        for (one, other) in pairs {
            assert_eq!(one, other);
        }
        assert_eq!(theirs.oldest(), theirs.revision());
        let from = WatchFrom::Revision(theirs.revision());
        let spec = WatchSpec {
            range: range.clone(),
            from,
        };
        assert!(again.watch(spec).is_err(), "events from before are unknown");
        drop(store);
        commit(&again, Txn::delete(range)).await;
        assert_eq!(again.snapshot().size().keys, 0);
    }
}

fn main() {
    let Some(endpoints) = by_hand::variable("OPTIK_TEST_ETCD") else {
        return;
    };
    let endpoints = endpoints.split(',').map(str::to_owned).collect();
    let options = EtcdOptions::new(endpoints);
    let run = format!("/optik-test/{:x}", SystemEntropy.next_u64());
    macro_rules! scenarios {
        ($($scenario:ident)*) => {
            vec![$((stringify!($scenario), Box::pin(async {
                let prefix = format!("{run}/{}/", stringify!($scenario));
                scenarios::$scenario(&options, &prefix).await;
            }))),*]
        };
    }
    by_hand::run(scenarios! {
        writes_are_read_and_watched
        latest_is_linearizable_across_stores
        etcd_txn_results_equal_embedded_store
        leases_are_passed_through_to_cluster
        compaction_is_passed_through_to_cluster
        watch_delivers_every_commit_once
        mirror_history_is_compacted_after_retention
        initial_load_reads_all_pages
    });
}
