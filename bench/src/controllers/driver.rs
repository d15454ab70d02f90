//! Driver of the controller benchmark: creates the load, starts the runtimes, and compares their
//! results.

use super::controller_load::LoadGenerator;
use super::controller_report::{BenchReport, Numbers};
use super::measure::CATCH_UP;
use super::operators;
use super::runner::{RuntimeProcess, RuntimeProgram};
use http::Method;
use optik_clients_testkit::fault_proxy::{FaultAction, FaultProxy, PlannedFault};
use serde_json::Value;
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

/// The duration of each reconcile in the backlog load.
const WORK: &str = "--work-millis=1";
const BACKLOG_RATE: u32 = 100;
const RELIST_WAIT: Duration = Duration::from_secs(20);
/// client-go uses protobuf and rejects an event that is not protobuf.
const REFUSED: FaultAction = FaultAction::Refuse {
    code: 410,
    reason: "Expired",
    retry_after_seconds: None,
};

#[derive(clap::Args)]
pub(crate) struct DriverArgs {
    /// The address of a server without TLS.
    #[arg(long)]
    server: String,
    /// The program built from `compat/go/bench`.
    #[arg(long)]
    go: Option<PathBuf>,
    /// The Backup operators to compare: programs, with their words.
    #[arg(long = "operator")]
    operators: Vec<String>,
    /// Few objects, one round.
    #[arg(long)]
    short: bool,
    #[arg(long)]
    objects: Option<usize>,
    /// How often each is measured; the middle one counts.
    #[arg(long)]
    rounds: Option<usize>,
    /// Changes a second.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1000, 3000])]
    rates: Vec<u32>,
    /// Only the runtimes whose names begin so.
    #[arg(long)]
    only: Option<String>,
}

/// How much of everything.
struct BenchSize {
    objects: usize,
    rounds: usize,
    seconds: usize,
    storm: usize,
    catch_up: usize,
    backups: usize,
}

impl DriverArgs {
    fn size(&self) -> BenchSize {
        let objects = if self.short { 10_000 } else { 100_000 };
        let objects = self.objects.unwrap_or(objects).max(1);
        let (rounds, seconds) = if self.short { (1, 3) } else { (3, 4) };
        BenchSize {
            objects,
            rounds: self.rounds.unwrap_or(rounds),
            seconds,
            storm: objects / 5,
            catch_up: objects / 2,
            backups: if self.short { 50 } else { 200 },
        }
    }

    fn runtimes(&self) -> Result<Vec<RuntimeProgram>, Box<dyn Error>> {
        let own = std::env::current_exe()?;
        let program = |name, path: &PathBuf, words: &[&str]| RuntimeProgram {
            name,
            path: path.clone(),
            args: words.iter().map(|word| (*word).to_owned()).collect(),
            expires_by: FaultAction::Expire,
        };
        let mut all = vec![
            program("ours", &own, &["ours"]),
            program("kube-rs", &own, &["kube-rs"]),
        ];
        if let Some(go) = &self.go {
            all.push(RuntimeProgram {
                expires_by: REFUSED,
                ..program("controller-runtime", go, &[])
            });
        }
        if let Some(only) = &self.only {
            all.retain(|program| program.name.starts_with(only));
        }
        Ok(all)
    }

    pub(crate) async fn run(self) -> Result<(), Box<dyn Error>> {
        let size = self.size();
        let load = LoadGenerator::new(&self.server, size.objects)?;
        load.prepare().await?;
        let bench = BenchDriver {
            server: self.server.clone(),
            rates: self.rates.clone(),
            load,
            size,
        };
        let runtimes = self.runtimes()?;
        bench.run_loads(&runtimes).await?;
        bench.run_memory(&runtimes).await?;
        bench.run_backlog(&runtimes).await?;
        if !self.operators.is_empty() {
            let backups = bench.size.backups;
            operators::compare(&self.server, &self.operators, backups).await?;
        }
        Ok(())
    }
}

struct BenchDriver {
    server: String,
    rates: Vec<u32>,
    load: LoadGenerator,
    size: BenchSize,
}

const LISTED: &str = "objects/s listed";
const LISTED_CPU: &str = "CPU µs an object listed";
const EVENTS: &str = "events/s";
const EVENTS_CPU: &str = "CPU µs an event";
const BYTES: &str = "bytes an object";
const STEADY: &str = "MB steady";
const PEAK: &str = "MB at peak";

fn lateness_column(load: &str, part: &str) -> String {
    format!("late ms {load} {part}")
}

impl BenchDriver {
    /// Loads without a backlog: an initial list, changes at several rates, a burst, and catching up
    /// after a pause.
    async fn run_loads(&self, runtimes: &[RuntimeProgram]) -> Result<(), Box<dyn Error>> {
        let mut report = BenchReport::default();
        for _ in 0..self.size.rounds {
            for program in runtimes {
                let numbers = self.measure(program).await?;
                report.add(program.name, numbers);
            }
        }
        let mut loads: Vec<String> = self.rates.iter().map(|rate| format!("{rate}/s")).collect();
        loads.push("storm".to_owned());
        let mut columns: Vec<String> =
            [LISTED, LISTED_CPU, EVENTS, EVENTS_CPU, BYTES, STEADY, PEAK]
                .map(str::to_owned)
                .into();
        let parts = |load: &String| [lateness_column(load, "p50"), lateness_column(load, "p99")];
        columns.extend(loads.iter().flat_map(parts));
        println!(
            "\n{} objects of 1 KB; medians of {} rounds",
            self.size.objects, self.size.rounds
        );
        report.print(&columns);
        report.print_ratio("ours", LISTED, true);
        report.print_ratio("ours", EVENTS, true);
        report.print_ratio("ours", BYTES, false);
        for load in &loads {
            report.print_ratio("ours", &lateness_column(load, "p99"), false);
        }
        Ok(())
    }

    async fn start(
        &self,
        program: &RuntimeProgram,
        server: &str,
    ) -> Result<RuntimeProcess, Box<dyn Error>> {
        self.load.delete_stop_marker().await?;
        program.start(server, &self.load.namespace, self.size.objects)
    }

    async fn stop(&self, mut runner: RuntimeProcess) -> Result<Value, Box<dyn Error>> {
        self.load.create_stop_marker().await?;
        let done = runner.wait_for_phase("done").await?;
        runner.wait_for_exit().await?;
        Ok(done)
    }

    async fn measure(&self, program: &RuntimeProgram) -> Result<Numbers, Box<dyn Error>> {
        let size = &self.size;
        let program = program.with(&format!("--catch-up={}", size.catch_up));
        let mut runner = self.start(&program, &self.server).await?;
        let synced = runner.wait_for_phase("synced").await?;
        for rate in &self.rates {
            let changes = size.seconds * usize::try_from(*rate)?;
            let load = format!("{rate}/s");
            self.load.change_at_rate(&load, *rate, changes).await?;
        }
        self.load.change_at_full_speed("storm", size.storm).await?;
        let mut numbers = self.catch_up(&mut runner).await?;
        let done = self.stop(runner).await?;
        let rates = self.rates.iter().sum::<u32>();
        let changes = size.seconds * usize::try_from(rates)? + size.storm + size.catch_up;
        let spent = number(&done["cpu_ms"]) - number(&synced["cpu_ms"]);
        let objects = count(size.objects);
        let listed = objects * 1000.0 / number(&synced["ms"]).max(1.0);
        let mut set = |name: &str, value| numbers.insert(name.to_owned(), value);
        set(LISTED, listed);
        set(LISTED_CPU, number(&synced["cpu_ms"]) * 1000.0 / objects);
        set(EVENTS_CPU, spent * 1000.0 / count(changes));
        set(BYTES, number(&synced["rss_kb"]) * 1024.0 / objects);
        set(STEADY, number(&done["rss_kb"]) / 1024.0);
        set(PEAK, number(&done["peak_kb"]) / 1024.0);
        if let Value::Object(loads) = &done["late"] {
            for (load, values) in loads {
                set(
                    &lateness_column(load, "p50"),
                    number(&values["p50_us"]) / 1000.0,
                );
                set(
                    &lateness_column(load, "p99"),
                    number(&values["p99_us"]) / 1000.0,
                );
            }
        }
        println!("{}: {numbers:.1?}", program.name);
        Ok(numbers)
    }

    /// Changes accumulate while the process is stopped; after that it handles them at full speed.
    async fn catch_up(&self, runner: &mut RuntimeProcess) -> Result<Numbers, Box<dyn Error>> {
        runner.signal("-STOP").await?;
        self.load
            .change_at_full_speed(CATCH_UP, self.size.catch_up)
            .await?;
        let begun = super::measure::micros();
        runner.signal("-CONT").await?;
        let caught = runner.wait_for_phase("caught up").await?;
        let took = number(&caught["at_us"]) - count(usize::try_from(begun)?);
        let changes = count(self.size.catch_up);
        let events = changes * 1e6 / took.max(1.0);
        Ok([(EVENTS.to_owned(), events)].into())
    }

    /// Memory of lists by pages and by stream, with and without managedFields, and the peak memory
    /// of a relist.
    async fn run_memory(&self, runtimes: &[RuntimeProgram]) -> Result<(), Box<dyn Error>> {
        let mut report = BenchReport::default();
        for program in runtimes {
            for (suffix, word) in [
                ("", None),
                (", pages", Some("--pages")),
                (", managedFields", Some("--managed-fields")),
            ] {
                let name = format!("{}{suffix}", program.name);
                let program = word.map_or_else(|| program.clone(), |word| program.with(word));
                report.add(&name, self.relist(&program).await?);
            }
        }
        println!("\nListed twice; the second time because the server has forgotten a revision");
        let columns = [LISTED, LISTED_CPU, BYTES, STEADY, PEAK];
        report.print(&columns.map(str::to_owned));
        Ok(())
    }

    async fn relist(&self, program: &RuntimeProgram) -> Result<Numbers, Box<dyn Error>> {
        let between = FaultProxy::start(&self.server).await;
        let mut runner = self.start(program, &between.url).await?;
        let synced = runner.wait_for_phase("synced").await?;
        between.plan(PlannedFault {
            method: Method::GET,
            path_with: "resourceVersion=",
            times: 1,
            action: program.expires_by,
        });
        let before = between.requests().len();
        between.cut();
        let is_list = |path: &str| {
            let all = !path.contains("watch=true") || path.contains("sendInitialEvents");
            all && path.contains("/configmaps?")
        };
        let relisted = |asked: &[optik_clients_testkit::fault_proxy::RecordedRequest]| {
            let mut later = asked.iter().skip(before);
            later.any(|asked| asked.fault.is_none() && is_list(&asked.path))
        };
        let relisting = tokio::time::timeout(RELIST_WAIT, between.wait_for_requests(relisted));
        if relisting.await.is_err() {
            println!("{} does not list again", program.name);
        }
        let done = self.stop(runner).await?;
        let objects = count(self.size.objects);
        let numbers = [
            (LISTED, objects * 1000.0 / number(&synced["ms"]).max(1.0)),
            (LISTED_CPU, number(&synced["cpu_ms"]) * 1000.0 / objects),
            (BYTES, number(&synced["rss_kb"]) * 1024.0 / objects),
            (STEADY, number(&done["rss_kb"]) / 1024.0),
            (PEAK, number(&done["peak_kb"]) / 1024.0),
        ];
        Ok(numbers.map(|(name, value)| (name.to_owned(), value)).into())
    }

    /// Changes while all listed objects are still queued.
    async fn run_backlog(&self, runtimes: &[RuntimeProgram]) -> Result<(), Box<dyn Error>> {
        let mut report = BenchReport::default();
        for program in runtimes {
            let slow = program.with(WORK);
            let mut runner = self.start(&slow, &self.server).await?;
            runner.wait_for_phase("begun").await?;
            let changes = 3 * usize::try_from(BACKLOG_RATE)?;
            let paced = self.load.change_at_rate("backlog", BACKLOG_RATE, changes);
            paced.await?;
            let done = self.stop(runner).await?;
            let values = &done["late"]["backlog"];
            let milliseconds = |part: &str| number(&values[part]) / 1000.0;
            let numbers = [
                (lateness_column("backlog", "p50"), milliseconds("p50_us")),
                (lateness_column("backlog", "p99"), milliseconds("p99_us")),
                ("changes seen".to_owned(), number(&values["count"])),
            ];
            report.add(program.name, numbers.into());
        }
        println!("\nChanges at {BACKLOG_RATE}/s while everything waits; a reconcile takes 1 ms");
        let columns = [
            lateness_column("backlog", "p50"),
            lateness_column("backlog", "p99"),
            "changes seen".into(),
        ];
        report.print(&columns);
        report.print_ratio("ours", &lateness_column("backlog", "p99"), false);
        Ok(())
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

fn count(value: usize) -> f64 {
    value as f64
}
