//! The disk is bounded by what lives, under every sustained load.
//!
//! In CI for some seconds with small segments, from which all bounds follow. The long form is
//! `OPTIK_TEST_SECONDS=3600 cargo test --release -p optik-store-testkit --test space --
//! --nocapture --test-threads 1`: each load takes so long, with segments and bounds as they
//! are in use. `OPTIK_TEST_MIB_PER_SECOND` bounds how much is committed, and
//! `OPTIK_TEST_WRITERS` is their number instead of 1, 32 and 512.
//! `OPTIK_TEST_CURVES=DIR` writes the bytes on disk over time into files there.

use optik_platform::{Clock, SystemClock};
use optik_store::{Executor, Options, Retention, Store};
use optik_store_testkit::load::{self, DiskSample, LoadLimits, LoadReport, SustainedLoad};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Handle;

/// How long nobody writes before the disk is looked at again.
const IDLE: Duration = Duration::from_secs(30);

/// How long, and with which bounds.
#[derive(Clone, Copy)]
struct RunBounds {
    /// Each number of writers.
    time: Duration,
    /// Until then the directory may be what it was before.
    settling: Duration,
    history: Duration,
    segment_bytes: u64,
}

impl RunBounds {
    fn from_environment() -> Self {
        match number_from("OPTIK_TEST_SECONDS") {
            Some(seconds) => Self {
                time: Duration::from_secs(seconds) / 3,
                settling: Duration::from_secs(60).min(Duration::from_secs(seconds) / 6),
                history: Duration::from_secs(10),
                segment_bytes: 4 << 20,
            },
            None => Self {
                time: Duration::from_secs(5),
                settling: Duration::from_secs(2),
                history: Duration::from_secs(1),
                segment_bytes: 256 << 10,
            },
        }
    }

    fn pace(self) -> LoadLimits {
        LoadLimits {
            time: self.time,
            segment_bytes: self.segment_bytes,
            bytes_per_second_max: number_from("OPTIK_TEST_MIB_PER_SECOND")
                .map(|mib| (mib << 20) as f64),
        }
    }

    fn scaled(self, bytes: u64) -> u64 {
        bytes * self.segment_bytes / (4 << 20)
    }

    fn busy_bound(self, sample: &DiskSample) -> u64 {
        2 * sample.needed_bytes + self.scaled(256 << 20)
    }

    fn idle_bound(self, sample: &DiskSample) -> u64 {
        sample.needed_bytes / 10 * 12 + self.scaled(64 << 20)
    }
}

fn number_from(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok();
    text.map(|text| text.parse().expect("a number"))
}

async fn check_load(load: SustainedLoad) {
    let form = RunBounds::from_environment();
    let directory = tempfile::tempdir_in(".").expect("a directory");
    let path = directory.path().join("data");
    let options = Options {
        segment_bytes: form.segment_bytes,
        retention: Retention {
            age: form.history,
            bytes_max: form.scaled(256 << 20).max(64 << 20),
        },
        executor: Executor::Runtime(Handle::current()),
        ..Options::directory(&path)
    };
    let store = Store::open(options.clone()).expect("opens");
    load::prepare(&store, load).await;
    let mut failures = Vec::new();
    let writers = match number_from("OPTIK_TEST_WRITERS") {
        Some(writers) => vec![writers],
        None => vec![1, 32, 512],
    };
    for writers in writers {
        let outcome = load::run(&store, &path, load, writers, form.pace()).await;
        report(load, writers, &outcome);
        write_curve(load, writers, &outcome);
        failures.extend(check_bounds(form, writers, &outcome));
        failures.extend(check_idle_bounds(form, &store, &path, writers).await);
    }
    let expected = store.snapshot().size();
    store.close().await;
    let store = Store::open(options).expect("opens again");
    assert_eq!(store.snapshot().size(), expected);
    store.close().await;
    assert!(failures.is_empty(), "{load:?}:\n{}", failures.join("\n"));
}

fn check_bounds(form: RunBounds, writers: u64, outcome: &LoadReport) -> Vec<String> {
    let mut failures = Vec::new();
    let settled = |sample: &&DiskSample| sample.seconds >= form.settling.as_secs_f64();
    let worst = outcome
        .samples
        .iter()
        .filter(settled)
        .find(|sample| sample.disk_bytes > form.busy_bound(sample));
    if let Some(sample) = worst {
        failures.push(format!("{writers} writers: {sample:?}"));
    }
    if outcome.amplification() > 4.0 {
        let amplification = outcome.amplification();
        failures.push(format!(
            "{writers} writers: {amplification:.2} times written"
        ));
    }
    failures
}

/// Waits until the disk is what it may be after a pause; it may be so before.
async fn check_idle_bounds(
    form: RunBounds,
    store: &Store,
    path: &Path,
    writers: u64,
) -> Option<String> {
    let clock = SystemClock::default();
    let start = clock.monotonic();
    let mut looks = tokio::time::interval(Duration::from_millis(100));
    loop {
        looks.tick().await;
        let sample = load::sample_disk(store, path, start, &clock).await;
        if sample.disk_bytes <= form.idle_bound(&sample) {
            return None;
        }
        if clock.monotonic().since(start) > IDLE {
            return Some(format!("after {writers} writers and a pause: {sample:?}"));
        }
    }
}

#[expect(clippy::print_stderr, reason = "numbers for those who measure")]
fn report(load: SustainedLoad, writers: u64, outcome: &LoadReport) {
    let most = outcome.samples.iter().map(|sample| sample.disk_bytes).max();
    let needed = outcome
        .samples
        .iter()
        .map(|sample| sample.needed_bytes)
        .max();
    let mib = |bytes: Option<u64>| bytes.unwrap_or(0) >> 20;
    eprintln!(
        "{load:?}, {writers} writers: {:.0} writes/s, p50 {:?}, p99 {:?}, at most {} MiB on disk \
         for at most {} MiB needed, {:.2} times written",
        outcome.writes as f64 / outcome.seconds,
        outcome.p50,
        outcome.p99,
        mib(most),
        mib(needed),
        outcome.amplification(),
    );
}

fn write_curve(load: SustainedLoad, writers: u64, outcome: &LoadReport) {
    let Some(directory) = std::env::var_os("OPTIK_TEST_CURVES") else {
        return;
    };
    let mut text = String::from("seconds,disk_bytes,needed_bytes\n");
    for sample in &outcome.samples {
        let DiskSample {
            seconds,
            disk_bytes,
            needed_bytes,
        } = sample;
        writeln!(text, "{seconds:.2},{disk_bytes},{needed_bytes}").expect("fits");
    }
    let file = Path::new(&directory).join(format!("{load:?}-{writers}.csv"));
    std::fs::write(file, text).expect("room");
}

/// Shows G46.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn disk_is_bounded_under_updates() {
    check_load(SustainedLoad::Updates).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn disk_is_bounded_under_churn() {
    check_load(SustainedLoad::Churn).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn disk_is_bounded_under_growth() {
    check_load(SustainedLoad::Growth).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn disk_is_bounded_under_large_values() {
    check_load(SustainedLoad::LargeValues).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn disk_is_bounded_under_scattered_updates() {
    check_load(SustainedLoad::Scattered).await;
}
