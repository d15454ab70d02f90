//! The results of one workload on one server in one round, and the median of several rounds.

use super::tally::{FaultCounts, LatencyPercentiles, RequestTally};
use serde::Serialize;
use std::collections::BTreeMap;

const FAULTS_PART_MAX: f64 = 0.01;

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Measurement {
    /// Such as `create, 64 connections`.
    pub(crate) what: String,
    /// How many operations ended well, or how many events arrived.
    pub(crate) count: u64,
    pub(crate) seconds: f64,
    pub(crate) per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none", rename = "latency_micros")]
    pub(crate) latency: Option<LatencyPercentiles>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) figures: BTreeMap<Figure, f64>,
    pub(crate) faults: FaultCounts,
    /// Violations of correctness by the server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) violations: Vec<String>,
    /// Why the server does not do this at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<String>,
}

/// A figure that only some workloads have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Figure {
    MegabytesEach,
    MegabytesPerSecond,
    MemoryGrowthMegabytes,
    Conflicts,
    Writes,
    Missing,
    Duplicates,
    NotSent,
}

impl Figure {
    pub(crate) fn text(self, value: f64) -> String {
        match self {
            Self::MegabytesEach => format!("{value:.1} MB each"),
            Self::MegabytesPerSecond => format!("{value:.0} MB/s"),
            Self::MemoryGrowthMegabytes => format!("memory +{value:.0} MB"),
            Self::Conflicts => format!("{value:.0} conflicts"),
            Self::Writes => format!("{value:.0} writes"),
            Self::Missing => format!("{value:.0} missing"),
            Self::Duplicates => format!("{value:.0} duplicates"),
            Self::NotSent => format!("{value:.0} not sent in time"),
        }
    }

    fn of_rounds(self, values: Vec<f64>) -> f64 {
        match self {
            // A heap that has grown in the first round has no need to grow again.
            Self::MemoryGrowthMegabytes => values.into_iter().fold(0.0, f64::max),
            Self::Missing | Self::Duplicates | Self::NotSent => values.into_iter().sum(),
            _ => median(values),
        }
    }
}

impl Measurement {
    pub(crate) fn of(what: String, tally: RequestTally) -> Self {
        let seconds = tally.elapsed.as_secs_f64();
        let mut figures = BTreeMap::new();
        let ended = tally.count() + tally.faults.count();
        match tally.offered {
            Some(offered) if offered > ended => {
                figures.insert(Figure::NotSent, (offered - ended) as f64);
            }
            _ => {}
        }
        Self {
            what,
            count: tally.count(),
            seconds,
            per_second: tally.count() as f64 / seconds.max(1e-9),
            latency: tally.latency(),
            figures,
            faults: tally.faults,
            ..Self::default()
        }
    }

    pub(crate) fn refused(what: String, why: String) -> Self {
        Self {
            what,
            refused: Some(why),
            ..Self::default()
        }
    }

    /// The median of several rounds of one measurement.
    pub(crate) fn of_rounds(rounds: &[Self]) -> Self {
        let middle = |value: fn(&Self) -> f64| median(rounds.iter().map(value).collect());
        let mut faults = FaultCounts::default();
        rounds
            .iter()
            .for_each(|round| faults.merge(round.faults.clone()));
        let mut figures: BTreeMap<Figure, Vec<f64>> = BTreeMap::new();
        for (figure, value) in rounds.iter().flat_map(|round| &round.figures) {
            figures.entry(*figure).or_default().push(*value);
        }
        Self {
            what: rounds.first().map(|r| r.what.clone()).unwrap_or_default(),
            count: rounds.iter().map(|round| round.count).sum(),
            seconds: middle(|round| round.seconds),
            per_second: middle(|round| round.per_second),
            latency: middle_latency(rounds),
            figures: figures
                .into_iter()
                .map(|(figure, values)| (figure, figure.of_rounds(values)))
                .collect(),
            faults,
            violations: rounds.iter().flat_map(|r| r.violations.clone()).collect(),
            refused: rounds.iter().find_map(|round| round.refused.clone()),
        }
    }

    /// Whether the numbers are invalid.
    pub(crate) fn is_bad(&self) -> bool {
        if self.refused.is_some() {
            return false;
        }
        let faults = self.faults.count();
        let part = faults as f64 / (self.count + faults).max(1) as f64;
        part > FAULTS_PART_MAX || self.count == 0 || !self.violations.is_empty()
    }
}

fn middle_latency(rounds: &[Measurement]) -> Option<LatencyPercentiles> {
    let all: Vec<_> = rounds
        .iter()
        .filter_map(|round| Some(round.latency?.columns()))
        .collect();
    let column = |number: usize| median(all.iter().map(|c| c[number] as f64).collect()) as u64;
    (!all.is_empty()).then(|| LatencyPercentiles::from_columns(std::array::from_fn(column)))
}

/// The median, or the mean of the two middle values; 0 for no values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        even if even.is_multiple_of(2) => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::super::tally::BenchFault;
    use super::*;
    use std::time::Duration;

    fn round(count: u64, faults: u64) -> Measurement {
        let mut tally = RequestTally::over(Duration::from_secs(2));
        tally.offered = Some(count + faults + 5);
        (0..count).for_each(|_| tally.done(Duration::from_micros(count), 0));
        (0..faults).for_each(|_| tally.failed(&BenchFault::Broken("x".to_owned())));
        Measurement::of("create".to_owned(), tally)
    }

    #[test]
    fn the_middle_is_taken_of_rates_and_latencies_and_faults_are_summed() {
        let all = Measurement::of_rounds(&[round(100, 1), round(900, 0), round(300, 1)]);
        assert_eq!((all.count, all.per_second), (1300, 150.0));
        assert_eq!(all.latency.map(|l| (l.p50, l.max)), Some((300, 300)));
        assert_eq!(all.faults.count(), 2);
        assert_eq!(all.figures[&Figure::NotSent], 15.0);
        assert_eq!(median(vec![4.0, 1.0]), 2.5);
        assert_eq!(median(Vec::new()), 0.0);
    }

    #[test]
    fn more_than_one_fault_in_a_hundred_is_bad() {
        assert!(!round(99, 1).is_bad());
        assert!(round(98, 2).is_bad());
        assert!(round(0, 0).is_bad());
        let refused = Measurement::refused("apply".to_owned(), "status 415".to_owned());
        assert!(!refused.is_bad());
        let lost = Measurement {
            violations: vec!["an update was lost".to_owned()],
            ..round(10, 0)
        };
        assert!(Measurement::of_rounds(&[round(10, 0), lost]).is_bad());
    }
}
