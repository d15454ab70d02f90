//! Latency of a commit to a thousand watches.

use super::store_report::{StoreBenchLatency, StoreBenchReport, StoreBenchRow};
use crate::error::BenchError;
use optik_platform::{Clock, SystemClock};
use optik_store::{KeyRange, Options, Origin, Put, Store, Txn, WatchFrom, WatchSpec};
use std::sync::Arc;

const WATCHERS: usize = 1000;
const COMMITS: usize = 500;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

pub(crate) async fn measure(report: &mut StoreBenchReport) -> Result<(), BenchError> {
    let store = Store::open(Options::ephemeral()).map_err(|c| BenchError::new("cannot open", c))?;
    let clock = Arc::new(SystemClock::default());
    let origin = clock.monotonic();
    let tasks: Vec<_> = (0..WATCHERS)
        .map(|_| tokio::spawn(watch(store.clone(), Arc::clone(&clock))))
        .collect();
    let mut ticks = tokio::time::interval(PAUSE);
    for _ in 0..COMMITS {
        ticks.tick().await;
        let zero = optik_platform::Monotonic::default();
        let sent = clock.monotonic().since(zero).as_micros().to_string();
        let put = Put::new("/registry/configmaps/default/a", sent);
        let done = store.commit(Txn::put(put), Origin::default()).await;
        done.map_err(|cause| BenchError::new("a put failed", cause))?;
    }
    let mut micros = Vec::new();
    for task in tasks {
        micros.extend(
            task.await
                .map_err(|c| BenchError::new("a watch failed", c))?,
        );
    }
    let took = clock.monotonic().since(origin);
    let what = format!("events to {WATCHERS} watches, 100 commits/s");
    let mut row = StoreBenchRow::rate(what, micros.len() as u64, took);
    row.latency = StoreBenchLatency::of(micros);
    report.add(row);
    store.close().await;
    Ok(())
}

/// Microseconds from the sending of each commit to its event on this watch.
async fn watch(store: Store, clock: Arc<SystemClock>) -> Vec<u64> {
    let spec = WatchSpec {
        range: KeyRange::prefix("/registry/configmaps/"),
        from: WatchFrom::Revision(optik_store::Revision::new(2)),
    };
    let Ok(mut watch) = store.watch(spec) else {
        return Vec::new();
    };
    let mut micros = Vec::new();
    while micros.len() < COMMITS {
        let Ok(batch) = watch.next().await else {
            break;
        };
        let now = clock
            .monotonic()
            .since(optik_platform::Monotonic::default());
        for event in batch.events() {
            let sent = std::str::from_utf8(event.version().value());
            let sent: u64 = sent.ok().and_then(|text| text.parse().ok()).unwrap_or(0);
            let seen = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
            micros.push(seen.saturating_sub(sent));
        }
    }
    micros
}
