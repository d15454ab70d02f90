//! Throughput of the disk itself: one write and one `fdatasync` for each batch, through a
//! preallocated file again and again, as a journal is written.

use super::StoreBench;
use super::store_report::{StoreBenchLatency, StoreBenchReport, StoreBenchRow};
use crate::error::BenchError;
use crate::settle::settle;
use optik_platform::{Clock, SystemClock};
use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;

/// The bytes that one put of the store adds to its journal, beside the value.
const RECORD_OVERHEAD_BYTES: usize = 160;
const JOURNAL_BYTES: u64 = 64 << 20;

pub(crate) fn measure(
    options: &StoreBench,
    scratch: &Path,
    report: &mut StoreBenchReport,
) -> Result<(), BenchError> {
    for writers in &options.writers {
        settle();
        let row = syncs(options, scratch, *writers)
            .map_err(|cause| BenchError::new("cannot write to the disk", cause))?;
        report.add(row);
    }
    Ok(())
}

fn syncs(options: &StoreBench, scratch: &Path, batch: usize) -> std::io::Result<StoreBenchRow> {
    let clock = SystemClock::default();
    let mut file = File::create(scratch.join("fdatasync"))?;
    file.set_len(JOURNAL_BYTES)?;
    file.sync_all()?;
    let block = vec![b'x'; batch * (options.value_bytes + RECORD_OVERHEAD_BYTES)];
    let mut micros = Vec::new();
    let start = clock.monotonic();
    while clock.monotonic().since(start) < options.time() {
        if file.stream_position()? + block.len() as u64 > JOURNAL_BYTES {
            file.rewind()?;
        }
        let before = clock.monotonic();
        file.write_all(&block)?;
        file.sync_data()?;
        let took = clock.monotonic().since(before);
        micros.push(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }
    let syncs = micros.len() as u64;
    let what = format!("fdatasync, {batch} puts each (puts/s)");
    let mut row = StoreBenchRow::rate(what, syncs * batch as u64, clock.monotonic().since(start));
    row.note = format!("{:.0} syncs/s", syncs as f64 / row.seconds);
    row.latency = StoreBenchLatency::of(micros);
    Ok(row)
}
