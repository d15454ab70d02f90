//! `optik-bench`: load generators and measurements. `bench/README.md` lists them; numbers and
//! method are in BENCHMARKS.md.

mod api;
mod error;
mod hostile;
mod lifecycle_rate;
mod many_kinds;
mod process_memory;
mod responder;
mod rules_rate;
mod server_program;
mod settle;
mod store;

use clap::{Parser, Subcommand};
use error::BenchError;
use std::io::IsTerminal;
use std::num::NonZero;
use std::process::ExitCode;

/// The allocator of the `optik` binary, with the same settings (`.cargo/config.toml`), so that the
/// store measured in this process allocates as in the server.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const HELP: &str = "\
Examples:
  The embedded store, beside an etcd that runs on the same disk:
    optik-bench store --etcd http://127.0.0.1:2379

  A server, beside a kube-apiserver on the same machine, in one run and in turn:
    optik-bench api --name optik --kubeconfig optik.conf \\
      --against-name kube-apiserver --against-kubeconfig kind.conf create get watch

`optik-bench api --help` tells what each workload does.";

/// Measures servers that speak the Kubernetes API, and the embedded store
#[derive(Debug, Parser)]
#[command(name = "optik-bench", version, arg_required_else_help = true)]
#[command(after_long_help = HELP, after_help = "--help shows how to compare two servers.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// What to log on stderr: error, warn, info, debug, trace, or a filter by module
    #[arg(long, global = true, env = "OPTIK_LOG", default_value = "warn")]
    log: String,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measures a server that speaks the Kubernetes API, or two of them side by side
    ///
    /// Any server will do: Optik, a kube-apiserver, a cluster of several machines.
    #[command(after_long_help = api::HELP)]
    Api(Box<api::ApiBench>),
    /// Measures how others fare while one user sends the worst requests that are known
    #[command(after_help = hostile::HELP)]
    Hostile(Box<hostile::HostileBench>),
    /// Measures the embedded store: commits, ranges, watches, opening
    ///
    /// With --etcd the same puts go to a real etcd in the same run. Both write to
    /// their disks one after the other, never at the same time.
    Store(store::StoreBench),
    /// Opens a data directory and prints how long that took and what it costs
    #[command(hide = true)]
    Open(store::OpenBench),
    /// Measures how long a server takes to collect dependents and to end a namespace
    LifecycleRate(lifecycle_rate::LifecycleRateBench),
    /// Measures what a thousand custom resource definitions cost: memory, start, discovery
    ManyKinds(many_kinds::ManyKindsBench),
    /// Measures creates of a custom resource whose schema has CEL rules
    RulesRate(rules_rate::RulesRateBench),
    /// Serves one fixed response over TLS, the bound that `api get` and `api list` run into
    Responder(responder::ResponderBench),
}

impl Command {
    /// How many threads to work with.
    fn threads(&self) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        match self {
            // As in the server: one thread is blocked on the disk during every write.
            Self::Store(_) => processors + 1,
            _ => processors,
        }
    }
}

/// The exit code of an invalid command line, according to sysexits(3).
const EXIT_USAGE: u8 = 64;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let usage = error.use_stderr();
            // A closed pipe while printing --help is not an error.
            let _ = error.print();
            return ExitCode::from(if usage { EXIT_USAGE } else { 0 });
        }
    };
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report_error(&failure),
    }
}

fn run(cli: Cli) -> Result<(), BenchError> {
    init_logging(&cli.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cli.command.threads())
        .enable_all()
        .build()
        .map_err(|cause| BenchError::new("cannot start", cause))?;
    runtime.block_on(async {
        match cli.command {
            Command::Api(options) => api::run(*options).await,
            Command::Hostile(options) => hostile::run(*options).await,
            Command::Store(options) => store::run(options).await,
            Command::Open(options) => store::run_open(options).await,
            Command::LifecycleRate(options) => lifecycle_rate::run(options).await,
            Command::ManyKinds(options) => many_kinds::run(options).await,
            Command::RulesRate(options) => rules_rate::run(options).await,
            Command::Responder(options) => responder::run(options).await,
        }
    })
}

fn init_logging(filter: &str) -> Result<(), BenchError> {
    let filter = tracing_subscriber::EnvFilter::try_new(filter)
        .map_err(|cause| BenchError::usage(format!("--log {filter}: {cause}")))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    Ok(())
}

#[expect(clippy::print_stderr, reason = "errors are for people")]
fn report_error(failure: &BenchError) -> ExitCode {
    eprintln!("optik-bench: {failure}");
    ExitCode::from(if failure.is_usage() { EXIT_USAGE } else { 1 })
}
