//! Small parts of the store, one at a time: `cargo bench -p optik-store`.
//!
//! `optik-bench store` measures the whole, beside the disk and a real etcd.

use divan::Bencher;
use divan::counter::ItemsCount;
use optik_store::{
    KeyRange, Op, Options, Origin, Put, RangeQuery, Revision, Store, Txn, Watch, WatchFrom,
    WatchSpec,
};
use std::task::{Context, Poll, Waker};

fn main() {
    divan::main();
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(future)
}

fn key(number: usize) -> String {
    format!(
        "/registry/configmaps/namespace-{:03}/object-{number:08}",
        number % 100
    )
}

fn filled(keys: usize) -> Store {
    let store = Store::open(Options::ephemeral()).expect("opens");
    let numbers: Vec<_> = (0..keys).collect();
    for chunk in numbers.chunks(100) {
        let puts = chunk
            .iter()
            .map(|n| Op::Put(Put::new(key(*n), vec![b'x'; 1024])));
        let done = block_on(store.commit(Txn::from_ops(puts.collect()), Origin::default()));
        done.expect("commits");
    }
    store
}

#[divan::bench(args = [1_000, 100_000])]
fn get(bencher: Bencher<'_, '_>, keys: usize) {
    let store = filled(keys);
    let wanted = key(keys / 2);
    bencher.bench(|| {
        let snapshot = store.snapshot();
        snapshot
            .get(wanted.as_bytes())
            .map(|version| version.value().clone())
    });
}

#[divan::bench(args = [1_000, 100_000])]
fn range_newest(bencher: Bencher<'_, '_>, keys: usize) {
    let store = filled(keys);
    let all = RangeQuery::new(KeyRange::prefix("/registry/"));
    bencher
        .counter(ItemsCount::new(keys))
        .bench(|| store.snapshot().range(&all).expect("kept").entries.len());
}

#[divan::bench(args = [1_000, 100_000])]
fn range_in_the_past(bencher: Bencher<'_, '_>, keys: usize) {
    let store = filled(keys);
    let past = RangeQuery {
        at: Some(Revision::new(store.snapshot().revision().get() - 5)),
        ..RangeQuery::new(KeyRange::prefix("/registry/"))
    };
    bencher
        .counter(ItemsCount::new(keys))
        .bench(|| store.snapshot().range(&past).expect("kept").entries.len());
}

#[divan::bench(args = [1_000, 100_000])]
fn commit_in_memory(bencher: Bencher<'_, '_>, keys: usize) {
    let store = filled(keys);
    let wanted = key(keys / 2);
    bencher.bench(|| {
        let put = Put::new(&wanted, vec![b'y'; 1024]);
        block_on(store.commit(Txn::put(put), Origin::default())).expect("commits")
    });
}

/// From a commit until every watch has it.
#[divan::bench(args = [1, 1_000, 10_000])]
fn dispatch(bencher: Bencher<'_, '_>, watchers: usize) {
    let store = filled(100);
    let spec = WatchSpec {
        range: KeyRange::prefix("/registry/configmaps/"),
        from: WatchFrom::Now,
    };
    let watch = |_| store.watch(spec.clone()).expect("nothing is compacted");
    let mut watches: Vec<Watch> = (0..watchers).map(watch).collect();
    bencher.counter(ItemsCount::new(watchers)).bench_local(|| {
        let put = Put::new(key(1), vec![b'z'; 1024]);
        let done = block_on(store.commit(Txn::put(put), Origin::default())).expect("commits");
        block_on(store.wait_dispatched(done.revision));
        let mut cx = Context::from_waker(Waker::noop());
        for watch in &mut watches {
            let next = watch.poll_next(&mut cx);
            assert!(matches!(next, Poll::Ready(Ok(_))), "everybody has it");
        }
    });
}

/// A commit that nobody watches, with many idle watches elsewhere.
#[divan::bench(args = [0, 10_000])]
fn commit_with_idle_watches(bencher: Bencher<'_, '_>, watchers: usize) {
    let store = filled(100);
    let watch = |number: usize| {
        let range = KeyRange::prefix(format!("/registry/pods/namespace-{number}/"));
        let from = WatchFrom::Now;
        store
            .watch(WatchSpec { range, from })
            .expect("nothing is compacted")
    };
    let _watches: Vec<Watch> = (0..watchers).map(watch).collect();
    bencher.bench(|| {
        let put = Put::new(key(1), vec![b'z'; 1024]);
        let done = block_on(store.commit(Txn::put(put), Origin::default())).expect("commits");
        block_on(store.wait_dispatched(done.revision));
    });
}
