//! `optik-bench hostile`: one user sends the most expensive known requests while the latency of
//! other users is measured.

mod attacker;
mod attacks;
mod bystander;
mod child;
mod world;

use super::api::access::{AccessSource, ServerAccess};
use super::api::process::Baseline;
use super::api::tally::LatencyPercentiles;
use crate::error::BenchError;
use crate::server_program::ServerProgram;
use attacker::Attacker;
use bystander::Bystander;
use child::Child;
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use world::HostileBenchTarget;

/// Limits: the latency of other users, and the memory of the server beyond its idle memory.
const GET_P99_MAX: Duration = Duration::from_millis(100);
const HEALTH_P99_MAX: Duration = Duration::from_millis(50);
const MEMORY_BYTES_MAX: u64 = 128 << 20;

pub(crate) const HELP: &str = "\
Examples:
  A server of its own, for half a minute:
    optik-bench hostile --seconds 30 --check

  One that runs:
    optik-bench hostile --kubeconfig admin.conf --pid $(pidof optik)

The attacker is a service account that may get, create, patch and update four kinds in one
namespace, over connections of its own and many streams of one. Nothing that it sends is kept
but three objects, which are deleted at the end with the kind that was made for one of them.";

#[derive(Debug, Args)]
pub(crate) struct HostileBench {
    /// Kubeconfig of an administrator of the server [default: start a server]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    server: ServerProgram,
    /// The server's process, to see its memory
    #[arg(long, value_name = "PID", requires = "kubeconfig")]
    pid: Option<u32>,
    /// How long to attack
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    seconds: u64,
    /// How many connections the attacker has
    #[arg(long, value_name = "N", default_value_t = 8)]
    connections: usize,
    /// How many streams it has besides, over HTTP/2
    #[arg(long, value_name = "N", default_value_t = 100)]
    streams: usize,
    /// Send these requests only; their names are in the report
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Fail if others wait too long, or too much memory is held
    #[arg(long)]
    check: bool,
}

/// The latency of the other users, and the cost for the server.
struct HostileMeasurement {
    quiet: Bystander,
    attacked: Bystander,
    attacker: Attacker,
    memory_bytes: Option<u64>,
}

pub(crate) async fn run(options: HostileBench) -> Result<(), BenchError> {
    let own = match options.kubeconfig {
        Some(_) => None,
        None => Some(Child::start(&options.server.path()?).await?),
    };
    let source = AccessSource {
        kubeconfig: options.kubeconfig.clone(),
        context: None,
        server: None,
        token: None,
        ca: None,
        insecure: false,
    };
    let access = match &own {
        Some(child) => child.access()?,
        None => source.read()?,
    };
    let pid = own.as_ref().map(Child::pid).or(options.pid);
    let measured = measure(&options, access, pid).await?;
    report(&measured);
    let complaints = measured.complaints();
    match complaints.as_slice() {
        [] => Ok(()),
        bad if options.check => Err(BenchError::from_message(bad.join("; "))),
        _ => Ok(()),
    }
}

async fn measure(
    options: &HostileBench,
    access: ServerAccess,
    pid: Option<u32>,
) -> Result<HostileMeasurement, BenchError> {
    let world = HostileBenchTarget::make(&access).await?;
    let measured = attack(options, &world, pid).await;
    world.remove().await?;
    measured
}

async fn attack(
    options: &HostileBench,
    world: &HostileBenchTarget,
    pid: Option<u32>,
) -> Result<HostileMeasurement, BenchError> {
    let time = Duration::from_secs(options.seconds);
    let mut attacks = attacks::all(&world.attacker)?;
    if !options.only.is_empty() {
        attacks.retain(|attack| options.only.iter().any(|name| name == attack.name));
    }
    let quiet = bystander::watch(world, Duration::from_secs(3)).await?;
    let memory = pid.and_then(Baseline::of).map(Baseline::watch);
    let over = Arc::new(AtomicBool::new(false));
    let lines = (options.connections, options.streams);
    let attacker = attacker::run(&world.attacker, attacks, lines, &over);
    let watching = async {
        let watched = bystander::watch(world, time).await;
        over.store(true, Ordering::Relaxed);
        watched
    };
    let (attacker, attacked) = futures::join!(attacker, watching);
    Ok(HostileMeasurement {
        quiet,
        attacked: attacked?,
        attacker: attacker?,
        memory_bytes: memory.map(super::api::process::MemoryWatch::growth),
    })
}

impl HostileMeasurement {
    fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        let mut slow = |what: &str, latency: Option<LatencyPercentiles>, max: Duration| {
            let p99 = latency.map(|latency| Duration::from_micros(latency.p99));
            match p99 {
                Some(p99) if p99 < max => {}
                Some(p99) => complaints.push(format!("{what}: p99 {p99:?}, at most {max:?}")),
                None => complaints.push(format!("{what}: no answers")),
            }
        };
        slow("get", self.attacked.get.latency(), GET_P99_MAX);
        slow("healthz", self.attacked.health.latency(), HEALTH_P99_MAX);
        let fresh = self.attacked.fresh_health.latency();
        slow("healthz on a new connection", fresh, HEALTH_P99_MAX);
        let faults = self.attacked.faults();
        if faults > 0 {
            complaints.push(format!("{faults} requests of others failed"));
        }
        let memory = self.memory_bytes.filter(|bytes| *bytes >= MEMORY_BYTES_MAX);
        complaints.extend(memory.map(|bytes| format!("memory: {} MiB over idle", bytes >> 20)));
        complaints
    }
}

#[expect(clippy::print_stdout, reason = "the result is data")]
fn report(measured: &HostileMeasurement) {
    println!(
        "{:<44} {:>8} {:>9} {:>9} {:>9}",
        "", "count", "p50 ms", "p99 ms", "max ms"
    );
    let row = |what: &str, count: u64, latency: Option<LatencyPercentiles>, note: &str| {
        let [p50, p99, max] = latency.map_or([0; 3], |it| [it.p50, it.p99, it.max]);
        let ms = |micros: u64| micros as f64 / 1000.0;
        let (p50, p99, max) = (ms(p50), ms(p99), ms(max));
        println!("{what:<44} {count:>8} {p50:>9.2} {p99:>9.2} {max:>9.2} {note}");
    };
    for (when, others) in [("quiet", &measured.quiet), ("attacked", &measured.attacked)] {
        for (what, tally) in others.rows() {
            row(
                &format!("{when}: {what}"),
                tally.count(),
                tally.latency(),
                "",
            );
        }
    }
    for (name, of) in &measured.attacker.by_attack {
        row(name, of.tally.count(), of.tally.latency(), &of.statuses());
    }
    if let Some(bytes) = measured.memory_bytes {
        println!("memory over idle: {} MiB", bytes >> 20);
    }
}
