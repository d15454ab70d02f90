//! Sustained loads, and disk usage under them.

use bytes::Bytes;
use optik_platform::{Clock, Monotonic, SystemClock};
use optik_store::{DiskStatus, KeyRange, Op, Origin, Put, Store, Txn};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// The operation that all writers repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SustainedLoad {
    /// A few objects are updated.
    Updates,
    /// Objects come and go beside many that stay.
    Churn,
    /// Nothing is ever removed.
    Growth,
    /// Few objects of a megabyte are updated.
    LargeValues,
    /// Any of many objects is updated.
    Scattered,
}

impl SustainedLoad {
    pub const ALL: [Self; 5] = [
        Self::Updates,
        Self::Churn,
        Self::Growth,
        Self::LargeValues,
        Self::Scattered,
    ];

    /// How many objects there are before it begins.
    fn initial_objects(self) -> u64 {
        match self {
            Self::Updates | Self::Growth | Self::LargeValues => 0,
            Self::Churn => 5_000,
            Self::Scattered => 20_000,
        }
    }

    /// Where segments are smaller than in use, large values are, too.
    fn value_bytes(self, segment_bytes: u64) -> usize {
        match self {
            Self::Updates | Self::Scattered => 1300,
            Self::Churn => 600,
            Self::Growth => 1000,
            Self::LargeValues => usize::try_from(segment_bytes / 4).unwrap_or(1 << 20),
        }
    }

    /// What grows must not outgrow the memory, however long it takes.
    fn bytes_per_second_max(self, time: Duration) -> f64 {
        match self {
            Self::Growth => f64::from(2u32 << 30) / time.as_secs_f64().max(60.0),
            _ => f64::MAX,
        }
    }

    /// The `number`th write of a writer.
    fn txn(self, writer: u64, number: u64, value: &Bytes) -> Txn {
        let put = |key: String| Txn::put(Put::new(key, value.clone()));
        match self {
            Self::Updates => put(format!("/updated/{:04}", (writer * 31 + number) % 1000)),
            Self::Churn if number.is_multiple_of(2) => put(format!("/comes/{writer}-{number}")),
            Self::Churn => {
                let gone = format!("/comes/{writer}-{}", number - 1);
                Txn::from_ops(vec![Op::Delete(KeyRange::one(gone))])
            }
            Self::Growth => put(format!("/grows/{writer}-{number}")),
            Self::LargeValues => put(format!("/large/{}", (writer + number) % 16)),
            Self::Scattered => put(initial_key(spread(writer, number) % self.initial_objects())),
        }
    }
}

fn initial_key(number: u64) -> String {
    format!("/stands/{number:08}")
}

/// Some number that does not look like the one before it.
fn spread(writer: u64, number: u64) -> u64 {
    let mixed = (writer << 32 | number)
        .wrapping_add(1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

/// The parameters of a load.
#[derive(Clone, Copy, Debug)]
pub struct LoadLimits {
    pub time: Duration,
    /// As the store has it.
    pub segment_bytes: u64,
    /// All writers together commit no more.
    pub bytes_per_second_max: Option<f64>,
}

/// The result of a load.
#[derive(Debug)]
pub struct LoadReport {
    pub writes: u64,
    pub seconds: f64,
    pub p50: Duration,
    pub p99: Duration,
    /// Keys and values of all writes.
    pub committed_bytes: u64,
    /// Bytes written to files, by commits and by the cleaner.
    pub written_bytes: u64,
    /// One for each look at the disk.
    pub samples: Vec<DiskSample>,
}

impl LoadReport {
    #[must_use]
    pub fn amplification(&self) -> f64 {
        self.written_bytes as f64 / self.committed_bytes.max(1) as f64
    }
}

/// The disk at one moment.
#[derive(Clone, Copy, Debug)]
pub struct DiskSample {
    pub seconds: f64,
    /// The size of all files of the directory, independent of the store's own figure.
    pub disk_bytes: u64,
    pub needed_bytes: u64,
}

/// Puts the keys that a load requires.
pub async fn prepare(store: &Store, load: SustainedLoad) {
    let value = Bytes::from(vec![b'v'; load.value_bytes(0)]);
    for number in 0..load.initial_objects() / 50 {
        let puts = (0..50).map(|part| {
            let key = initial_key(number * 50 + part);
            Op::Put(Put::new(key, value.clone()))
        });
        let done = store.commit(Txn::from_ops(puts.collect()), Origin::default());
        done.await.expect("commits");
    }
}

/// Lets so many writers write for so long, each its next when the last is answered, and looks
/// at the disk meanwhile.
pub async fn run(
    store: &Store,
    directory: &Path,
    load: SustainedLoad,
    writers: u64,
    pace: LoadLimits,
) -> LoadReport {
    let time = pace.time;
    let clock = Arc::new(SystemClock::default());
    let start = clock.monotonic();
    let before = status(store).await;
    let shared = Arc::new(LoadShared {
        store: store.clone(),
        stop: AtomicBool::new(false),
        committed: AtomicU64::new(0),
        took: LatencyHistogram::default(),
        clock: Arc::clone(&clock),
        start,
        bytes_per_second_max: pace
            .bytes_per_second_max
            .unwrap_or(f64::MAX)
            .min(load.bytes_per_second_max(time)),
        value: Bytes::from(vec![b'x'; load.value_bytes(pace.segment_bytes)]),
    });
    let mut tasks = JoinSet::new();
    for writer in 0..writers {
        tasks.spawn(write(Arc::clone(&shared), load, writer));
    }
    let mut samples = Vec::new();
    let mut looks = tokio::time::interval(Duration::from_millis(50).max(time / 2000));
    while clock.monotonic().since(start) < time {
        looks.tick().await;
        samples.push(sample_disk(store, directory, start, &*clock).await);
    }
    shared.stop.store(true, Ordering::Relaxed);
    while let Some(done) = tasks.join_next().await {
        done.expect("a writer goes on");
    }
    let after = status(store).await;
    LoadReport {
        writes: shared.took.count(),
        seconds: clock.monotonic().since(start).as_secs_f64(),
        p50: shared.took.quantile(0.5),
        p99: shared.took.quantile(0.99),
        committed_bytes: shared.committed.load(Ordering::Relaxed),
        written_bytes: written(&after) - written(&before),
        samples,
    }
}

pub async fn sample_disk(
    store: &Store,
    directory: &Path,
    start: Monotonic,
    clock: &dyn Clock,
) -> DiskSample {
    let status = status(store).await;
    DiskSample {
        seconds: clock.monotonic().since(start).as_secs_f64(),
        disk_bytes: bytes_below(directory),
        needed_bytes: status.live_bytes + status.history_bytes,
    }
}

async fn status(store: &Store) -> DiskStatus {
    let status = store.status().await.expect("answers");
    status.disk.expect("is on disk")
}

fn written(status: &DiskStatus) -> u64 {
    status.appended_bytes + status.cleaned_bytes
}

/// The size of the files below a directory. Files may be created and deleted meanwhile.
#[must_use]
pub fn bytes_below(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    let mut directories: Vec<PathBuf> = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(found) if found.is_dir() => directories.push(entry.path()),
                // Preallocated space is included.
                Ok(found) => bytes += found.blocks() * 512,
                Err(_) => {}
            }
        }
    }
    bytes
}

struct LoadShared {
    store: Store,
    stop: AtomicBool,
    committed: AtomicU64,
    took: LatencyHistogram,
    clock: Arc<SystemClock>,
    start: Monotonic,
    bytes_per_second_max: f64,
    value: Bytes,
}

impl LoadShared {
    /// Whether more was written than the load should write until now.
    fn is_ahead(&self) -> bool {
        let elapsed = self.clock.monotonic().since(self.start).as_secs_f64();
        let most = self.bytes_per_second_max * (elapsed + 0.01);
        self.committed.load(Ordering::Relaxed) as f64 > most
    }
}

async fn write(shared: Arc<LoadShared>, load: SustainedLoad, writer: u64) {
    let mut number = 0;
    let mut turns = tokio::time::interval(Duration::from_millis(1));
    while !shared.stop.load(Ordering::Relaxed) {
        if shared.is_ahead() {
            turns.tick().await;
            continue;
        }
        let txn = load.txn(writer, number, &shared.value);
        let bytes = txn.size() as u64;
        let before = shared.clock.monotonic();
        let done = shared.store.commit(txn, Origin::system("load")).await;
        done.expect("commits");
        shared.took.add(shared.clock.monotonic().since(before));
        shared.committed.fetch_add(bytes, Ordering::Relaxed);
        number += 1;
    }
}

/// Counts durations in steps of a sixteenth, without keeping each.
#[derive(Debug)]
struct LatencyHistogram([AtomicU64; 64 * 16]);

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl LatencyHistogram {
    fn add(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(16);
        let power = 63 - u64::from(micros.leading_zeros());
        let part = (micros >> (power - 4)) & 15;
        let bucket = usize::try_from(power * 16 + part).expect("small");
        self.0[bucket].fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.0
            .iter()
            .map(|bucket| bucket.load(Ordering::Relaxed))
            .sum()
    }

    fn quantile(&self, part: f64) -> Duration {
        let rank = (self.count() as f64 * part) as u64;
        let mut below = 0;
        for (number, bucket) in (0u64..).zip(&self.0) {
            below += bucket.load(Ordering::Relaxed);
            if below > rank {
                let (power, part) = (number / 16, number % 16);
                return Duration::from_micros((16 + part) << power.saturating_sub(4));
            }
        }
        Duration::ZERO
    }
}
