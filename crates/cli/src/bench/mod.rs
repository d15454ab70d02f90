//! `optik bench`: load, measured. Numbers and method are in BENCHMARKS.md.

mod api;
mod disk;
mod etcd;
mod hostile;
mod memory;
mod open;
mod range;
mod report;
mod store;
mod watch;

use crate::error::CliError;
use clap::{Args, Subcommand};
use report::StoreBenchReport;
use std::path::PathBuf;
use std::time::Duration;

const HELP: &str = "\
Examples:
  The embedded store, beside an etcd that runs on the same disk:
    optik bench store --etcd http://127.0.0.1:2379

  A server, beside a kube-apiserver on the same machine, in one run and in turn:
    optik bench api --name optik --kubeconfig optik.conf \\
      --against-name kube-apiserver --against-kubeconfig kind.conf create get watch

`optik bench api --help` tells what each workload does.";

#[derive(Debug, Subcommand)]
#[command(after_long_help = HELP, after_help = "--help shows how to compare two servers.")]
pub(crate) enum BenchSubcommand {
    /// Measures a server that speaks the Kubernetes API, or two of them side by side
    ///
    /// Any server will do: this one, a kube-apiserver, a cluster of several machines.
    #[command(after_long_help = api::HELP)]
    Api(Box<api::ApiBench>),
    /// Measures how others fare while one user sends the worst requests that are known
    #[command(after_help = hostile::HELP)]
    Hostile(Box<hostile::HostileBench>),
    /// Measures the embedded store: commits, ranges, watches, opening
    ///
    /// With --etcd the same puts go to a real etcd in the same run. Both write to
    /// their disks one after the other, never at the same time.
    Store(StoreBench),
    /// Opens a data directory and prints how long that took and what it costs
    #[command(hide = true)]
    Open {
        /// The directory
        directory: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct StoreBench {
    /// Where to write; a temporary directory below the current one if not given
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// How many clients write at the same time
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1, 64, 512])]
    writers: Vec<usize>,
    /// How long each measurement of writes takes
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    seconds: u64,
    /// How large each value is
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    value_bytes: usize,
    /// Endpoint of a real etcd to measure beside
    #[arg(long, value_name = "URL")]
    etcd: Option<String>,
    /// How many entries to open with
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [100_000, 1_000_000])]
    entries: Vec<usize>,
    /// Which parts to run
    #[arg(long, value_name = "PART,…", value_delimiter = ',',
          default_values = ["disk", "commit", "range", "watch", "open"])]
    only: Vec<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

impl StoreBench {
    fn runs(&self, part: &str) -> bool {
        self.only.iter().any(|only| only == part)
    }

    fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

pub(crate) async fn run(bench: BenchSubcommand) -> Result<(), CliError> {
    match bench {
        BenchSubcommand::Api(options) => api::run(*options).await,
        BenchSubcommand::Hostile(options) => hostile::run(*options).await,
        BenchSubcommand::Store(options) => store_bench(options).await,
        BenchSubcommand::Open { directory } => open::measure_here(&directory).await,
    }
}

async fn store_bench(options: StoreBench) -> Result<(), CliError> {
    let scratch = match &options.data {
        Some(directory) => tempfile::tempdir_in(directory),
        None => tempfile::tempdir_in("."),
    };
    let scratch = scratch.map_err(|cause| CliError::new("cannot make a directory", cause))?;
    let mut report = StoreBenchReport::new(options.json);
    if options.runs("disk") {
        disk::measure(&options, scratch.path(), &mut report)?;
    }
    if options.runs("commit") {
        store::measure(&options, scratch.path(), &mut report).await?;
        if let Some(url) = &options.etcd {
            etcd::measure(&options, url, &mut report).await?;
        }
    }
    if options.runs("range") {
        range::measure(&mut report).await?;
    }
    if options.runs("watch") {
        watch::measure(&mut report).await?;
    }
    if options.runs("open") {
        open::measure(&options, scratch.path(), &mut report).await?;
    }
    report.print();
    Ok(())
}
