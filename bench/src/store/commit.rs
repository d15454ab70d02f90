//! Put throughput of the embedded store.

use super::StoreBench;
use super::store_report::{StoreBenchLatency, StoreBenchReport, StoreBenchRow};
use crate::error::BenchError;
use crate::settle::settle;
use bytes::Bytes;
use optik_platform::{Clock, SystemClock};
use optik_store::{Executor, Options, Origin, Put, Store, Txn};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

pub(crate) async fn measure(
    options: &StoreBench,
    scratch: &Path,
    report: &mut StoreBenchReport,
) -> Result<(), BenchError> {
    for writers in &options.writers {
        let directory = scratch.join(format!("commit-{writers}"));
        for (kind, open) in [
            ("disk", Options::directory(&directory)),
            ("memory", Options::ephemeral()),
        ] {
            settle();
            let open = Options {
                // As the server does.
                executor: Executor::Runtime(Handle::current()),
                ..open
            };
            let store = Store::open(open).map_err(|cause| BenchError::new("cannot open", cause))?;
            let put = {
                let store = store.clone();
                move |key: String, value: Bytes| {
                    let store = store.clone();
                    async move {
                        let done = store.commit(Txn::put(Put::new(key, value)), Origin::default());
                        done.await.is_ok()
                    }
                }
            };
            let what = format!("optik put, {kind}, {writers} writers");
            report.add(closed_loop(what, options, *writers, put).await?);
            store.close().await;
        }
        let _ = std::fs::remove_dir_all(&directory);
    }
    Ok(())
}

/// Every writer sends its next put when the last was answered.
pub(crate) async fn closed_loop<F, A>(
    what: String,
    options: &StoreBench,
    writers: usize,
    put: F,
) -> Result<StoreBenchRow, BenchError>
where
    F: Fn(String, Bytes) -> A + Clone + Send + 'static,
    A: Future<Output = bool> + Send,
{
    let clock = Arc::new(SystemClock::default());
    let value = Bytes::from(vec![b'x'; options.value_bytes]);
    let time = options.time();
    let start = clock.monotonic();
    let tasks = (0..writers).map(|writer| {
        let (clock, value, put) = (Arc::clone(&clock), value.clone(), put.clone());
        tokio::spawn(async move {
            let mut micros = Vec::new();
            let mut number = 0u64;
            while clock.monotonic().since(start) < time {
                let key = format!("/registry/configmaps/default/w{writer:04}-{number:08}");
                let before = clock.monotonic();
                if !put(key, value.clone()).await {
                    return None;
                }
                let took: Duration = clock.monotonic().since(before);
                micros.push(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
                number += 1;
            }
            Some(micros)
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let mut micros = Vec::new();
    for task in tasks {
        let done = task.await.ok().flatten();
        micros.extend(done.ok_or_else(|| BenchError::from_message("a put failed"))?);
    }
    let mut row = StoreBenchRow::rate(what, micros.len() as u64, clock.monotonic().since(start));
    row.latency = StoreBenchLatency::of(micros);
    Ok(row)
}
