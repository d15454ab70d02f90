//! `optik-bench api`: load generator for any server that speaks the Kubernetes API.
//!
//! The client shares its machine with the server under test, so it is kept cheap: a connection and
//! a task for each worker, requests from templates, responses scanned for single values instead of
//! parsed.

pub(super) mod access;
pub(super) mod connection;
pub(super) mod connector;
mod kubeconfig;
mod line;
mod load;
mod machine;
mod measurement;
mod object;
mod options;
mod pace;
pub(super) mod process;
mod progress;
mod report;
mod scan;
mod system;
mod table;
pub(super) mod tally;
pub(super) mod timer;
mod tls;
mod workload;

use crate::error::BenchError;
use crate::settle::settle;
use connector::Protocol;
use measurement::Measurement;
use options::Workload;
pub(crate) use options::{ApiBench, HELP};
use progress::BenchProgress;
use report::ApiBenchReport;
use std::path::Path;
use std::sync::Arc;
use system::System;
use timer::Timer;
use workload::WorkloadContext;

pub(crate) async fn run(options: ApiBench) -> Result<(), BenchError> {
    let timer = Timer::default();
    let systems = prepare(&options, &timer).await?;
    let mut report = ApiBenchReport::new(options.settings(), systems.iter().map(|s| &**s));
    let measured = tokio::select! {
        measured = measure(&options, &systems, &timer, &mut report) => measured,
        _ = tokio::signal::ctrl_c() => Err(stopped()),
    };
    let removed = tokio::select! {
        removed = remove(&systems) => removed,
        _ = tokio::signal::ctrl_c() => Err(BenchError::from_message("objects were left behind")),
    };
    // Results from before the error are published, too.
    publish(&options, &report)?;
    measured.and(removed)?;
    match report.complaints().as_slice() {
        [] => Ok(()),
        bad => Err(BenchError::from_message(format!(
            "too much went wrong: {}",
            bad.join("; ")
        ))),
    }
}

#[expect(
    clippy::print_stderr,
    reason = "whoever stops us wants to know what is going on"
)]
fn stopped() -> BenchError {
    eprintln!("deleting what was made; again to stop at once");
    BenchError::from_message("stopped half way")
}

async fn prepare(options: &ApiBench, timer: &Timer) -> Result<Vec<Arc<System>>, BenchError> {
    let streams = options.streams_per_connection();
    let protocol = if options.http2 {
        Protocol::Http2 { streams }
    } else {
        Protocol::Http1
    };
    let suffix = timer.suffix();
    let mut systems = Vec::new();
    for named in options.servers()? {
        match System::prepare(&named, protocol, &suffix).await {
            Ok(system) => systems.push(Arc::new(system)),
            Err(failure) => {
                remove(&systems).await?;
                return Err(failure);
            }
        }
    }
    Ok(systems)
}

async fn remove(systems: &[Arc<System>]) -> Result<(), BenchError> {
    let mut outcome = Ok(());
    for system in systems {
        outcome = outcome.and(system.remove().await);
    }
    outcome
}

/// Runs each workload on all systems in turn, again in each round, so that a temporary disturbance
/// of the machine affects all systems.
async fn measure(
    options: &ApiBench,
    systems: &[Arc<System>],
    timer: &Timer,
    report: &mut ApiBenchReport,
) -> Result<(), BenchError> {
    for workload in &options.workloads {
        let mut by_system = vec![Vec::new(); systems.len()];
        for round in 1..=options.rounds() {
            for (system, rounds) in systems.iter().zip(&mut by_system) {
                let context = WorkloadContext {
                    options,
                    system: Arc::clone(system),
                    timer: timer.clone(),
                    progress: BenchProgress::default(),
                    workload: *workload,
                };
                rounds.push(one(&context, round).await?);
            }
        }
        report.add(&by_system);
    }
    Ok(())
}

async fn one(context: &WorkloadContext<'_>, round: usize) -> Result<Vec<Measurement>, BenchError> {
    settle();
    let name = workload_name(context.workload);
    let rounds = context.options.rounds();
    let what = format!(
        "{name} on {}, round {round} of {rounds}",
        context.system.name
    );
    let measured = context
        .progress
        .show(&what, workload::measure(context))
        .await;
    context.system.clear().await?;
    measured
}

fn workload_name(workload: Workload) -> String {
    use clap::ValueEnum;
    let value = workload.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

#[expect(clippy::print_stdout, reason = "the result is data")]
fn publish(options: &ApiBench, report: &ApiBenchReport) -> Result<(), BenchError> {
    let json = || serde_json::to_string_pretty(report).expect("a report is plain data");
    match options.json.as_deref() {
        Some(file) if file == Path::new("-") => println!("{}", json()),
        Some(file) => {
            print!("{}", table::table(report));
            std::fs::write(file, json()).map_err(|cause| {
                BenchError::new(format!("cannot write {}", file.display()), cause)
            })?;
        }
        None => print!("{}", table::table(report)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct ParsedBench {
        #[command(flatten)]
        bench: ApiBench,
    }

    fn parse(words: &str) -> Result<ApiBench, clap::Error> {
        let words = std::iter::once("bench").chain(words.split_whitespace());
        ParsedBench::try_parse_from(words).map(|command| command.bench)
    }

    pub(crate) fn settings() -> options::Settings {
        parse("--server http://a create").expect("valid").settings()
    }

    #[test]
    fn one_server_is_measured_once_and_two_in_three_rounds() {
        let one = parse("--kubeconfig a create create-1 apply").expect("valid");
        assert_eq!(one.rounds(), 1);
        assert_eq!(one.servers().expect("valid").len(), 1);
        let concurrency: Vec<_> = one.workloads.iter().map(|w| one.concurrency(*w)).collect();
        assert_eq!(concurrency, [64, 1, 32]);
        let two = "--server https://a --token t --against-kubeconfig b --connections 8 --http2";
        let two = parse(&format!("{two} --streams 4 get apply")).expect("valid");
        assert_eq!(two.rounds(), 3);
        assert_eq!(two.servers().expect("valid").len(), 2);
        assert_eq!(two.concurrency(Workload::Apply), 32);
    }

    #[test]
    fn a_command_line_without_sense_is_refused() {
        for wrong in [
            "--server http://a",
            "create",
            "--server http://a dance",
            "--server http://a --kubeconfig b create",
            "--server http://a --rate 0 create",
            "--server http://a --connections 0 create",
            "--kubeconfig a --token t create",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let same =
            parse("--server http://a --name x --against-server http://b --against-name x get");
        assert!(same.expect("parses").servers().is_err());
    }
}
