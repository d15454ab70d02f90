//! Range reads: a hundred thousand keys of a snapshot.

use super::store_report::{StoreBenchLatency, StoreBenchReport, StoreBenchRow};
use crate::error::BenchError;
use optik_platform::{Clock, SystemClock};
use optik_store::{KeyRange, Op, Options, Origin, Put, RangeQuery, Revision, Store, Txn};

const KEYS: usize = 100_000;
const ROUNDS: usize = 50;

pub(crate) async fn measure(report: &mut StoreBenchReport) -> Result<(), BenchError> {
    let store = Store::open(Options::ephemeral()).map_err(|c| BenchError::new("cannot open", c))?;
    fill(&store, KEYS, 1024).await?;
    let middle = Revision::new(store.snapshot().revision().get() - 100);
    let all = RangeQuery::new(KeyRange::prefix("/registry/"));
    let past = RangeQuery {
        at: Some(middle),
        ..all.clone()
    };
    for (what, query) in [("newest", all), ("100 revisions ago", past)] {
        let clock = SystemClock::default();
        let mut micros = Vec::new();
        let start = clock.monotonic();
        for _ in 0..ROUNDS {
            let before = clock.monotonic();
            let result = store.snapshot().range(&query);
            let entries = result
                .map_err(|c| BenchError::new("cannot read", c))?
                .entries;
            std::hint::black_box(entries.iter().map(|v| v.value().len()).sum::<usize>());
            let took = clock.monotonic().since(before);
            micros.push(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        }
        let took = clock.monotonic().since(start);
        let what = format!("range of {KEYS} keys, {what}");
        let mut row = StoreBenchRow::rate(what, ROUNDS as u64, took);
        row.latency = StoreBenchLatency::of(micros);
        report.add(row);
    }
    store.close().await;
    Ok(())
}

/// Writes `keys` entries of `value_bytes`, a hundred to a commit.
pub(crate) async fn fill(store: &Store, keys: usize, value_bytes: usize) -> Result<(), BenchError> {
    let numbers: Vec<_> = (0..keys).collect();
    for chunk in numbers.chunks(100) {
        let puts = chunk.iter().map(|number| {
            let key = format!(
                "/registry/configmaps/namespace-{:03}/object-{number:08}",
                number % 100
            );
            let mut value = vec![b'x'; value_bytes];
            value[..8].copy_from_slice(&number.to_be_bytes());
            Op::Put(Put::new(key, value))
        });
        let done = store
            .commit(Txn::from_ops(puts.collect()), Origin::default())
            .await;
        done.map_err(|cause| BenchError::new("a put failed", cause))?;
    }
    Ok(())
}
