//! The `optik` binary: command line, logging and the runtime.

mod envtest;
mod error;
#[cfg(test)]
mod flag_docs;
mod serve;
mod store;
mod units;

use clap::{Parser, Subcommand};
use envtest::CommandLine;
use error::CliError;
use rustix::fs::Mode;
use std::io::{IsTerminal, Write};
use std::num::NonZero;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A Kubernetes control plane in one small binary
///
/// Start it with `optik serve`. It keeps its data in a directory of its own and
/// listens on this machine only.
#[derive(Debug, Parser)]
#[command(name = "optik", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// What to log on stderr: error, warn, info, debug, trace, or a filter by module
    #[arg(long, global = true, env = "OPTIK_LOG", default_value = "warn")]
    log: String,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the server
    Serve(Box<serve::ServeArgs>),
    /// Looks after a data directory that no server is using
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// Prints a directory of programs for Go test suites: us, called kube-apiserver and etcd
    ///
    /// With `export KUBEBUILDER_ASSETS=$(optik envtest-assets)` suites that use envtest
    /// run on this server.
    EnvtestAssets(envtest::assets::EnvtestAssets),
}

impl Command {
    /// Whether the command creates files that contain objects or keys.
    fn keeps_secrets(&self) -> bool {
        matches!(self, Self::Serve(_) | Self::Store(_))
    }

    /// The number of worker threads.
    fn threads(&self) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        match self {
            // One thread is blocked on the disk during every write.
            Self::Serve(_) => processors + 1,
            _ => processors,
        }
    }
}

/// The exit code for an invalid command line (`EX_USAGE` of sysexits(3)).
const EXIT_USAGE: u8 = 64;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    match envtest::parse(&words) {
        None => run_cli(Cli::try_parse(), &[]),
        Some(CommandLine::Run { words, ignored }) => run_cli(Cli::try_parse_from(words), &ignored),
        Some(CommandLine::Print(text)) => {
            // A closed pipe is not a failure.
            let _ = writeln!(std::io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        Some(CommandLine::Reject { text, exit }) => {
            let _ = writeln!(std::io::stderr(), "Error: {text}");
            ExitCode::from(exit)
        }
    }
}

/// Runs a command line; `ignored` are flags of an emulated program that have no effect in Optik.
fn run_cli(cli: Result<Cli, clap::Error>, ignored: &[&str]) -> ExitCode {
    let cli = match cli {
        Ok(cli) => cli,
        Err(error) => {
            let usage = error.use_stderr();
            // A closed pipe is not a failure.
            let _ = error.print();
            return ExitCode::from(if usage { EXIT_USAGE } else { 0 });
        }
    };
    match run(cli, ignored) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report_error(&failure),
    }
}

fn run(cli: Cli, ignored: &[&str]) -> Result<(), CliError> {
    init_logging(&cli.log)?;
    if !ignored.is_empty() {
        tracing::warn!(
            flags = ignored.join(" "),
            "flags ignored: they have no effect in Optik"
        );
    }
    if cli.command.keeps_secrets() {
        // The storage engine creates files with the default mode of the process.
        rustix::process::umask(Mode::RWXG | Mode::RWXO);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cli.command.threads())
        .enable_all()
        .build()
        .map_err(|cause| CliError::new("cannot start", cause))?;
    runtime.block_on(async {
        match cli.command {
            Command::Serve(serve) => serve::run(*serve).await,
            Command::Store(command) => store::run(command).await,
            Command::EnvtestAssets(assets) => envtest::assets::run(&assets),
        }
    })
}

fn init_logging(filter: &str) -> Result<(), CliError> {
    let filter = tracing_subscriber::EnvFilter::try_new(filter)
        .map_err(|cause| CliError::usage(format!("--log {filter}: {cause}")))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    Ok(())
}

#[expect(clippy::print_stderr, reason = "errors are for people")]
fn report_error(failure: &CliError) -> ExitCode {
    eprintln!("optik: {failure}");
    ExitCode::from(if failure.is_usage() { EXIT_USAGE } else { 1 })
}
