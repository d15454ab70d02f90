//! Open time of a store and memory after opening.
//!
//! Measured in a fresh process, so that the memory of filling the store is not counted.

use super::StoreBench;
use super::range::fill;
use super::store_report::{StoreBenchReport, StoreBenchRow};
use crate::error::BenchError;
use crate::process_memory::status_bytes;
use optik_platform::{Clock, SystemClock};
use optik_store::{Options, Store};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

#[derive(Debug, Serialize, Deserialize)]
struct OpenMeasurement {
    micros: u64,
    resident_before: u64,
    resident_after: u64,
    keys: u64,
    stored_bytes: u64,
    history_bytes: u64,
}

pub(crate) async fn measure(
    options: &StoreBench,
    scratch: &Path,
    report: &mut StoreBenchReport,
) -> Result<(), BenchError> {
    for entries in &options.entries {
        let directory = scratch.join(format!("open-{entries}"));
        let open = Options::directory(&directory);
        let store = Store::open(open).map_err(|cause| BenchError::new("cannot open", cause))?;
        fill(&store, *entries, options.value_bytes).await?;
        // The state after five idle minutes: everything before the newest revision is compacted.
        let newest = store.snapshot().revision();
        let compacted = store.compact(newest).await;
        compacted.map_err(|cause| BenchError::new("cannot compact", cause))?;
        store.close().await;
        drop(store);
        let opened = in_a_fresh_process(&directory)?;
        let used = opened.resident_after.saturating_sub(opened.resident_before);
        let mut row = StoreBenchRow::rate(
            format!("open {entries} entries (entries/s)"),
            opened.keys,
            Duration::from_micros(opened.micros),
        );
        let over = used.saturating_sub(opened.stored_bytes) as f64 / opened.keys.max(1) as f64;
        row.bytes = Some(used);
        row.note = format!(
            "{:.0} ms; {:.2}× the {:.1} MB stored, {over:.0} bytes more an entry",
            opened.micros as f64 / 1e3,
            used as f64 / opened.stored_bytes.max(1) as f64,
            opened.stored_bytes as f64 / 1e6,
        );
        report.add(row);
        let _ = std::fs::remove_dir_all(&directory);
    }
    Ok(())
}

fn in_a_fresh_process(directory: &Path) -> Result<OpenMeasurement, BenchError> {
    let failed = |cause| BenchError::new("cannot measure in a fresh process", cause);
    let this = std::env::current_exe().map_err(failed)?;
    let mut command = std::process::Command::new(this);
    let output = command
        .arg("open")
        .arg(directory)
        .output()
        .map_err(failed)?;
    serde_json::from_slice(&output.stdout)
        .map_err(|cause| BenchError::new("the fresh process said something else", cause))
}

/// Resident memory of this process in bytes; zero where the system does not report it.
fn resident() -> u64 {
    status_bytes(std::process::id(), "VmRSS").unwrap_or(0)
}

#[expect(clippy::print_stdout, reason = "the result is data")]
pub(crate) async fn measure_here(directory: &Path) -> Result<(), BenchError> {
    let clock = SystemClock::default();
    let resident_before = resident();
    let start = clock.monotonic();
    let store = Store::open(Options::directory(directory))
        .map_err(|cause| BenchError::new("cannot open", cause))?;
    let took = clock.monotonic().since(start);
    let resident_after = resident();
    let status = store.status().await;
    let status = status.map_err(|cause| BenchError::new("cannot ask", cause))?;
    let opened = OpenMeasurement {
        micros: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        resident_before,
        resident_after,
        keys: status.live.keys,
        stored_bytes: status.live.bytes,
        history_bytes: status.history_bytes,
    };
    println!("{}", serde_json::to_string(&opened).expect("plain data"));
    store.close().await;
    Ok(())
}
