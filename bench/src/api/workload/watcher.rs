//! One watch, and the table of send times that all watches share.

use super::super::connection::BenchConnection;
use super::super::progress::BenchProgress;
use super::super::scan;
use super::super::tally::BenchFault;
use super::super::timer::Timer;
use bytes::Bytes;
use http::{Request, StatusCode};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// The send time of each write, by number, in microseconds. Numbers begin with 1: objects are
/// created with 0, and an identical update would be no change and cause no event.
pub(super) struct Board {
    writes: Vec<SentWrite>,
    taken: AtomicUsize,
    arrived: AtomicU64,
    last_arrival: AtomicU64,
}

#[derive(Default)]
struct SentWrite {
    sent: AtomicU64,
    confirmed: AtomicBool,
}

impl Board {
    pub(super) fn new(writes: usize) -> Self {
        Self {
            writes: (0..writes).map(|_| SentWrite::default()).collect(),
            taken: AtomicUsize::new(0),
            arrived: AtomicU64::new(0),
            last_arrival: AtomicU64::new(0),
        }
    }

    /// The number of the next write.
    pub(super) fn take(&self) -> Option<usize> {
        let number = self.taken.fetch_add(1, Ordering::Relaxed) + 1;
        (number <= self.writes.len()).then_some(number)
    }

    pub(super) fn sent(&self, number: usize, now: u64) {
        self.writes[number - 1].sent.store(now, Ordering::Relaxed);
    }

    pub(super) fn confirmed(&self, number: usize) {
        let write = &self.writes[number - 1];
        write.confirmed.store(true, Ordering::Relaxed);
    }

    /// The places in the table of all writes the server has confirmed.
    fn confirmed_places(&self) -> impl Iterator<Item = usize> {
        let writes = self.writes.iter().enumerate();
        writes
            .filter(|(_, write)| write.confirmed.load(Ordering::Relaxed))
            .map(|(place, _)| place)
    }

    /// How many writes the server has confirmed.
    pub(super) fn written(&self) -> u64 {
        self.confirmed_places().count() as u64
    }

    pub(super) fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    pub(super) fn first_send(&self) -> Duration {
        let first = self.writes.first();
        Duration::from_micros(first.map_or(0, |write| write.sent.load(Ordering::Relaxed)))
    }

    pub(super) fn last_arrival(&self) -> Duration {
        Duration::from_micros(self.last_arrival.load(Ordering::Relaxed))
    }

    /// The number of confirmed writes without an event on this watch.
    pub(super) fn missing(&self, arrivals: &Arrivals) -> u64 {
        let unseen = |place: &usize| arrivals.micros[*place] == UNSEEN;
        self.confirmed_places().filter(unseen).count() as u64
    }
}

const UNSEEN: u32 = u32::MAX;

/// The events of one watch: latency by number of the write.
pub(super) struct Arrivals {
    micros: Vec<u32>,
    pub(super) duplicates: u64,
}

impl Arrivals {
    fn new(writes: usize) -> Self {
        Self {
            micros: vec![UNSEEN; writes],
            duplicates: 0,
        }
    }

    /// Notes all events in these lines; returns how many were new.
    fn note(&mut self, lines: &[u8], board: &Board, now: u64) -> u64 {
        let mut new = 0;
        for number in scan::numbers(lines) {
            let place = (number as usize).wrapping_sub(1);
            let Some(slot) = self.micros.get_mut(place) else {
                continue;
            };
            if *slot != UNSEEN {
                self.duplicates += 1;
                continue;
            }
            let sent = board.writes[place].sent.load(Ordering::Relaxed);
            let took = u32::try_from(now.saturating_sub(sent)).unwrap_or(UNSEEN);
            *slot = took.min(UNSEEN - 1);
            new += 1;
        }
        new
    }

    pub(super) fn latencies(&self) -> impl Iterator<Item = u64> {
        let seen = self.micros.iter().filter(|micros| **micros != UNSEEN);
        seen.map(|micros| u64::from(*micros))
    }
}

pub(super) struct WatchClient {
    pub(super) connection: BenchConnection,
    pub(super) board: Arc<Board>,
    pub(super) timer: Timer,
    pub(super) progress: BenchProgress,
}

impl WatchClient {
    pub(super) async fn open(mut self, request: Request<Bytes>) -> Result<OpenWatch, BenchFault> {
        let broken = |error: io::Error| BenchFault::Broken(error.to_string());
        let status = self.connection.open(request).await.map_err(broken)?;
        if status == StatusCode::OK {
            return Ok(OpenWatch { watcher: self });
        }
        let why = self.connection.more().await.map_err(broken)?;
        Err(BenchFault::status(status, why.unwrap_or_default()))
    }
}

pub(super) struct OpenWatch {
    watcher: WatchClient,
}

impl OpenWatch {
    /// Records events until stopped, or until the server ends the watch.
    pub(super) async fn run(mut self, mut stopped: watch::Receiver<()>) -> Arrivals {
        let board = Arc::clone(&self.watcher.board);
        let mut arrivals = Arrivals::new(board.writes.len());
        let mut lines = LineSplitter::default();
        // Created once for all events: a thousand watches wait for one signal.
        let mut stop = pin!(stopped.changed());
        loop {
            let part = tokio::select! {
                biased;
                part = self.watcher.connection.more() => part,
                _ = &mut stop => return arrivals,
            };
            let Ok(Some(part)) = part else {
                // Events that did not arrive are counted as missing.
                return arrivals;
            };
            let now = self.watcher.timer.micros();
            let new = lines.take(part, |lines| arrivals.note(lines, &board, now));
            board.arrived.fetch_add(new, Ordering::Relaxed);
            board.last_arrival.fetch_max(now, Ordering::Relaxed);
            self.watcher.progress.add(new);
        }
    }
}

/// Whole lines out of parts that end anywhere.
#[derive(Default)]
struct LineSplitter {
    rest: Vec<u8>,
}

impl LineSplitter {
    /// Hands the lines that `part` completes to `look`. Most parts are whole lines: these
    /// are not copied.
    fn take<T: Default>(&mut self, part: &[u8], look: impl FnOnce(&[u8]) -> T) -> T {
        let Some(end) = memchr::memrchr(b'\n', part) else {
            self.rest.extend_from_slice(part);
            return T::default();
        };
        let (whole, rest) = part.split_at(end + 1);
        let result = if self.rest.is_empty() {
            look(whole)
        } else {
            self.rest.extend_from_slice(whole);
            look(&self.rest)
        };
        self.rest.clear();
        self.rest.extend_from_slice(rest);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: u64) -> String {
        format!("{{\"object\":{{\"data\":{{\"optik-bench-number\":\"{number}\"}}}}}}\n")
    }

    #[test]
    fn lines_come_out_whole_however_they_are_cut() {
        let text = format!("{}{}{}", event(0), event(1), event(2));
        for cut in 0..text.len() {
            let (mut lines, mut seen) = (LineSplitter::default(), Vec::new());
            for part in [&text[..cut], &text[cut..]] {
                lines.take(part.as_bytes(), |whole| seen.extend(scan::numbers(whole)));
            }
            assert_eq!(seen, [0, 1, 2], "cut at {cut}");
        }
    }

    #[test]
    fn what_is_missing_or_comes_twice_is_counted() {
        let board = Board::new(4);
        for number in 1..=3 {
            assert_eq!(board.take(), Some(number));
            board.sent(number, 100);
            board.confirmed(number);
        }
        let mut arrivals = Arrivals::new(4);
        let lines = format!(
            "{}{}{}{}",
            event(1),
            event(1),
            event(3),
            event(0) + &event(99)
        );
        assert_eq!(arrivals.note(lines.as_bytes(), &board, 350), 2);
        assert_eq!(arrivals.latencies().collect::<Vec<_>>(), [250, 250]);
        assert_eq!((arrivals.duplicates, board.missing(&arrivals)), (1, 1));
        assert_eq!(board.written(), 3);
        assert_eq!((board.take(), board.take()), (Some(4), None));
    }
}
