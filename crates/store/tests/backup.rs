//! Backup and restore: a restored store equals the exported one.

use optik_store::{
    KeyRange, LeaseId, Op, Options, Origin, Put, RangeQuery, RestoreError, Revision, Store, Txn,
    WatchFrom, WatchSpec, restore,
};
use std::time::Duration;

async fn filled(options: Options) -> Store {
    let store = Store::open(options).expect("opens");
    store
        .grant_lease(Some(LeaseId(7)), Duration::from_secs(600))
        .await
        .expect("grants");
    for round in 0..40 {
        let mut leased = Put::new(format!("k{:02}", round % 7), vec![b'x'; 9000]);
        leased.lease = Some(LeaseId(if round % 3 == 0 { 7 } else { 0 }));
        let both = Txn::from_ops(vec![
            Op::Put(leased),
            Op::Put(Put::new(format!("n{round}"), "v")),
        ]);
        store
            .commit(both, Origin::system("fill"))
            .await
            .expect("commits");
    }
    let doomed = Txn::delete(KeyRange::prefix("n1"));
    store
        .commit(doomed, Origin::default())
        .await
        .expect("deletes");
    store.compact(Revision::new(20)).await.expect("compacts");
    store.tick().await;
    store
}

fn everything(store: &Store) -> Vec<String> {
    let snapshot = store.snapshot();
    let revisions = snapshot.oldest().get()..=snapshot.revision().get();
    let states = revisions.map(|revision| {
        let at = RangeQuery {
            at: Some(Revision::new(revision)),
            ..RangeQuery::new(KeyRange::all())
        };
        let entries = snapshot.range(&at).expect("kept").entries;
        let entries: Vec<_> = entries
            .iter()
            .map(|v| format!("{:?} {} {:?}", v, v.lease(), v.origin()))
            .collect();
        format!("{revision}: {entries:?}")
    });
    states.collect()
}

#[tokio::test]
async fn restored_snapshot_equals_exported_store() {
    let scratch = tempfile::tempdir().expect("a directory");
    for (name, options) in [
        ("ephemeral", Options::ephemeral()),
        ("disk", Options::directory(scratch.path().join("first"))),
    ] {
        let store = filled(options).await;
        let export = store.export().await.expect("exports");
        let bytes = export.bytes();
        let pieces: Vec<_> = export.collect();
        assert_eq!(pieces.last().map(bytes::Bytes::len), Some(32), "{name}");
        let file = pieces.concat();
        assert_eq!(file.len() as u64, bytes, "{name}");
        assert_eq!((file.len() - 32) % 512, 0, "{name}");

        let target = scratch.path().join(format!("restored-{name}"));
        let restored = restore(&file[..], &target).expect("restores");
        assert_eq!(restored.revision, store.snapshot().revision());
        let again = Store::open(Options::directory(&target)).expect("opens");
        assert_eq!(everything(&again), everything(&store), "{name}");
        assert_eq!(again.id(), store.id());
        let keys = |info: optik_store::LeaseInfo| (info.granted, info.keys);
        assert_eq!(
            keys(again.lease(LeaseId(7)).await.expect("there")),
            keys(store.lease(LeaseId(7)).await.expect("there"))
        );
        let from_floor = WatchSpec {
            range: KeyRange::all(),
            from: WatchFrom::Revision(Revision::new(20)),
        };
        let mut watch = again.watch(from_floor).expect("kept");
        let first = watch.next().await.expect("goes on");
        assert_eq!(first.commits()[0].revision(), Revision::new(20));
        again.close().await;

        let refused = restore(&file[..], &target);
        assert!(
            matches!(refused, Err(RestoreError::NotEmpty { .. })),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn restore_rejects_damaged_snapshot_and_leaves_no_store() {
    let scratch = tempfile::tempdir().expect("a directory");
    let store = filled(Options::ephemeral()).await;
    let file: Vec<u8> = store
        .export()
        .await
        .expect("exports")
        .collect::<Vec<_>>()
        .concat();
    let mut flipped = file.clone();
    flipped[file.len() / 2] ^= 1;
    let cases: [(&str, &[u8]); 5] = [
        ("empty", b""),
        ("foreign", b"something else entirely"),
        ("cut", &file[..file.len() - 100]),
        ("cut in the hash", &file[..file.len() - 1]),
        ("flipped", &flipped),
    ];
    for (name, bytes) in cases {
        let target = scratch.path().join(name);
        assert!(restore(bytes, &target).is_err(), "{name}");
        let store = Store::open(Options::directory(&target)).expect("opens as new");
        assert_eq!(store.snapshot().revision(), Revision::FIRST, "{name}");
    }
}
