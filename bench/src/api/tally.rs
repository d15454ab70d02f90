//! Counters and latency histogram of a worker.

use super::timer::micros;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Significant digits of each latency.
const DIGITS: u8 = 3;
const SAMPLE_BYTES_MAX: usize = 500;

/// A request that failed.
#[derive(Debug)]
pub(crate) enum BenchFault {
    /// The response has an unexpected status or body.
    Status { status: u16, body: String },
    /// There was no response, or one that cannot be parsed.
    Broken(String),
}

impl BenchFault {
    pub(crate) fn status(status: http::StatusCode, body: &[u8]) -> Self {
        let body = String::from_utf8_lossy(&body[..body.len().min(SAMPLE_BYTES_MAX)]);
        Self::Status {
            status: status.as_u16(),
            body: body.trim().to_owned(),
        }
    }

    fn kind(&self) -> String {
        match self {
            Self::Status { status, .. } => format!("status {status}"),
            Self::Broken(_) => "no answer".to_owned(),
        }
    }
}

impl std::fmt::Display for BenchFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status { status, body } => write!(f, "status {status}: {body}"),
            Self::Broken(text) => f.write_str(text),
        }
    }
}

/// How often each kind of fault occurred, with the first of each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct FaultCounts(pub(crate) BTreeMap<String, FaultCount>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FaultCount {
    pub(crate) count: u64,
    pub(crate) sample: String,
}

impl FaultCounts {
    fn add(&mut self, kind: String, count: u64, sample: impl FnOnce() -> String) {
        let of_kind = self.0.entry(kind).or_insert_with(|| FaultCount {
            count: 0,
            sample: sample(),
        });
        of_kind.count += count;
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (kind, of_kind) in other.0 {
            self.add(kind, of_kind.count, || of_kind.sample);
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.values().map(|kind| kind.count).sum()
    }
}

#[derive(Debug)]
pub(crate) struct RequestTally {
    latency: Histogram<u64>,
    pub(crate) bytes: u64,
    pub(crate) faults: FaultCounts,
    /// From the first request to the last response.
    pub(crate) elapsed: Duration,
    /// The number of scheduled requests, if a rate was given.
    pub(crate) offered: Option<u64>,
}

impl Default for RequestTally {
    fn default() -> Self {
        Self {
            // It grows as needed, so that no value is too large for it.
            latency: Histogram::new(DIGITS).expect("a valid number of digits"),
            bytes: 0,
            faults: FaultCounts::default(),
            elapsed: Duration::ZERO,
            offered: None,
        }
    }
}

impl RequestTally {
    /// Nothing yet, in this time.
    pub(crate) fn over(elapsed: Duration) -> Self {
        Self {
            elapsed,
            ..Self::default()
        }
    }

    pub(crate) fn done(&mut self, took: Duration, bytes: u64) {
        self.record_micros(micros(took));
        self.bytes += bytes;
    }

    pub(crate) fn record_micros(&mut self, micros: u64) {
        self.latency.record(micros).expect("a histogram that grows");
    }

    pub(crate) fn failed(&mut self, fault: &BenchFault) {
        self.faults.add(fault.kind(), 1, || fault.to_string());
    }

    pub(crate) fn merge(&mut self, other: Self) {
        // Both histograms have one precision and resize automatically.
        self.latency.add(other.latency).expect("of the same kind");
        self.bytes += other.bytes;
        self.faults.merge(other.faults);
    }

    /// How many requests ended well.
    pub(crate) fn count(&self) -> u64 {
        self.latency.len()
    }

    pub(crate) fn latency(&self) -> Option<LatencyPercentiles> {
        let at = |part| self.latency.value_at_quantile(part);
        (!self.latency.is_empty()).then(|| LatencyPercentiles {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: self.latency.max(),
        })
    }
}

/// In microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct LatencyPercentiles {
    pub(crate) p50: u64,
    pub(crate) p90: u64,
    pub(crate) p99: u64,
    pub(crate) p999: u64,
    pub(crate) max: u64,
}

impl LatencyPercentiles {
    pub(crate) fn columns(self) -> [u64; 5] {
        [self.p50, self.p90, self.p99, self.p999, self.max]
    }

    pub(crate) fn from_columns([p50, p90, p99, p999, max]: [u64; 5]) -> Self {
        Self {
            p50,
            p90,
            p99,
            p999,
            max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_all_workers() {
        let (mut low, mut high) = (RequestTally::default(), RequestTally::default());
        (1..=500).for_each(|n| low.done(Duration::from_micros(n), 10));
        (501..=1000).for_each(|n| high.done(Duration::from_micros(n), 10));
        low.merge(high);
        let latency = low.latency().expect("not empty");
        assert_eq!(latency.columns(), [500, 900, 990, 999, 1000]);
        assert_eq!((low.count(), low.bytes), (1000, 10_000));
        low.done(Duration::from_hours(2), 0);
        let hours = low.latency().expect("not empty").max;
        assert!(hours.abs_diff(7_200_000_000) < 7_200_000, "{hours}");
        assert_eq!(RequestTally::default().latency(), None);
    }

    #[test]
    fn faults_are_counted_by_kind_with_the_first_as_a_sample() {
        let refusal =
            |body: &str| BenchFault::status(http::StatusCode::TOO_MANY_REQUESTS, body.as_bytes());
        let (mut tally, mut other) = (RequestTally::default(), RequestTally::default());
        tally.failed(&refusal("slow down"));
        other.failed(&refusal("again"));
        other.failed(&BenchFault::Broken("reset".to_owned()));
        tally.merge(other);
        assert_eq!(tally.faults.count(), 3);
        let kind = &tally.faults.0["status 429"];
        assert_eq!(
            (kind.count, kind.sample.as_str()),
            (2, "status 429: slow down")
        );
        assert_eq!(tally.faults.0["no answer"].count, 1);
    }
}
