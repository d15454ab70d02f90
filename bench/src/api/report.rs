//! The report of a run: all results.

use super::machine::Machine;
use super::measurement::{Figure, Measurement};
use super::options::Settings;
use super::system::System;
use super::tally::LatencyPercentiles;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, Serialize)]
pub(crate) struct ApiBenchReport {
    pub(crate) machine: Machine,
    optik_version: &'static str,
    settings: Settings,
    pub(crate) systems: Vec<MeasuredServer>,
    pub(crate) results: Vec<WorkloadResult>,
}

#[derive(Debug, Serialize)]
pub(crate) struct MeasuredServer {
    pub(crate) name: String,
    server: String,
    version: Value,
}

impl MeasuredServer {
    /// The version of the system as text.
    pub(crate) fn version(&self) -> String {
        let field = |name: &str| self.version[name].as_str().unwrap_or("?").to_owned();
        let exact = field("gitVersion");
        // The version of an unstamped build is a placeholder.
        if exact.contains('$') || exact == "?" {
            return format!("{}.{}", field("major"), field("minor"));
        }
        exact
    }
}

/// One workload on all systems.
#[derive(Debug, Serialize)]
pub(crate) struct WorkloadResult {
    pub(crate) what: String,
    pub(crate) systems: Vec<ServerRounds>,
    /// The first system's medians divided by the second's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ratio: Option<Ratio>,
}

/// One workload on one system.
#[derive(Debug, Serialize)]
pub(crate) struct ServerRounds {
    pub(crate) system: String,
    pub(crate) median: Measurement,
    rounds: Vec<Measurement>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Ratio {
    pub(crate) per_second: f64,
    /// Of p50, p90, p99, p99.9 and the maximum.
    pub(crate) latency: Option<[f64; 5]>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) figures: BTreeMap<Figure, f64>,
}

impl ApiBenchReport {
    pub(crate) fn new<'a>(settings: Settings, systems: impl Iterator<Item = &'a System>) -> Self {
        let server = |system: &System| MeasuredServer {
            name: system.name.clone(),
            server: system.server.clone(),
            version: system.version.clone(),
        };
        Self {
            machine: Machine::here(),
            optik_version: env!("CARGO_PKG_VERSION"),
            settings,
            systems: systems.map(server).collect(),
            results: Vec::new(),
        }
    }

    /// Adds one workload: for each system the rounds, each with the same list of measurements.
    pub(crate) fn add(&mut self, by_system: &[Vec<Vec<Measurement>>]) {
        let shortest = by_system.iter().flatten().map(Vec::len).min();
        for number in 0..shortest.unwrap_or(0) {
            let rounds = |(system, rounds): (&MeasuredServer, &Vec<Vec<Measurement>>)| {
                let rounds: Vec<_> = rounds.iter().map(|round| round[number].clone()).collect();
                ServerRounds {
                    system: system.name.clone(),
                    median: Measurement::of_rounds(&rounds),
                    rounds,
                }
            };
            let systems = self.systems.iter().zip(by_system).map(rounds);
            self.results.push(WorkloadResult::new(systems.collect()));
        }
    }

    /// The findings that make the run a failure.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let all = self.results.iter().flat_map(|series| {
            let bad = series.systems.iter().filter(|of| of.median.is_bad());
            bad.map(|of| format!("{} on {}", series.what, of.system))
        });
        all.collect()
    }
}

impl WorkloadResult {
    fn new(systems: Vec<ServerRounds>) -> Self {
        let first = systems.first().map(|of| of.median.what.clone());
        let ratio = match systems.as_slice() {
            [one, two] => Ratio::of(&one.median, &two.median),
            _ => None,
        };
        Self {
            what: first.unwrap_or_default(),
            systems,
            ratio,
        }
    }
}

impl Ratio {
    /// None if one of the two has no value to compare.
    fn of(one: &Measurement, two: &Measurement) -> Option<Self> {
        if one.count == 0 || two.count == 0 {
            return None;
        }
        let latency = match (one.latency, two.latency) {
            (Some(one), Some(two)) => Some(columns(one, two)),
            _ => None,
        };
        let figures = one.figures.iter().filter_map(|(figure, value)| {
            let other = two.figures.get(figure).filter(|other| **other > 0.0)?;
            Some((*figure, value / other))
        });
        Some(Self {
            per_second: one.per_second / two.per_second.max(1e-9),
            latency,
            figures: figures.collect(),
        })
    }
}

fn columns(one: LatencyPercentiles, two: LatencyPercentiles) -> [f64; 5] {
    let (one, two) = (one.columns(), two.columns());
    std::array::from_fn(|column| one[column] as f64 / two[column].max(1) as f64)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::tally::{BenchFault, RequestTally};
    use super::*;
    use std::time::Duration;

    fn measured(count: u64, micros: u64) -> Measurement {
        let mut tally = RequestTally::over(Duration::from_secs(1));
        (0..count).for_each(|_| tally.done(Duration::from_micros(micros), 0));
        if micros > 1000 {
            tally.failed(&BenchFault::Broken(
                "the connection failed: reset".to_owned(),
            ));
        }
        Measurement::of("create, 64 connections".to_owned(), tally)
    }

    /// Two systems and two workloads; the second system does not support the second workload.
    pub(crate) fn example() -> ApiBenchReport {
        let server = |name: &str, version| MeasuredServer {
            name: name.to_owned(),
            server: "https://127.0.0.1:6443/".to_owned(),
            version,
        };
        let mut report = ApiBenchReport {
            machine: Machine::here(),
            optik_version: "0",
            settings: crate::api::tests::settings(),
            systems: vec![
                server("optik", serde_json::json!({"gitVersion": "v1.36.0+optik"})),
                server(
                    "other",
                    serde_json::json!({"gitVersion": "v0.0.0-$Format:%H$", "major": "1", "minor": "36"}),
                ),
            ],
            results: Vec::new(),
        };
        report.add(&[
            vec![
                vec![measured(2000, 100)],
                vec![measured(1000, 300)],
                vec![measured(3000, 200)],
            ],
            vec![vec![measured(200, 2000)]],
        ]);
        let refused = Measurement::refused("apply".to_owned(), "status 415: no".to_owned());
        report.add(&[vec![vec![measured(10, 5)]], vec![vec![refused]]]);
        report
    }

    #[test]
    fn the_ratio_is_that_of_the_medians() {
        let report = example();
        assert_eq!(report.systems[0].version(), "v1.36.0+optik");
        assert_eq!(report.systems[1].version(), "1.36");
        let ratio = report.results[0].ratio.as_ref().expect("both measured");
        assert!((ratio.per_second - 10.0).abs() < 1e-9);
        assert!((ratio.latency.expect("both")[0] - 0.1).abs() < 0.001);
        assert!(report.results[1].ratio.is_none());
        assert!(report.complaints().is_empty());
        let json = serde_json::to_value(&report).expect("plain data");
        assert_eq!(json["results"][0]["systems"][0]["rounds"][1]["count"], 1000);
        assert_eq!(
            json["results"][0]["systems"][0]["median"]["latency_micros"]["p50"],
            200
        );
    }
}
