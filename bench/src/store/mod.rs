//! `optik-bench store`: the embedded store, compared with the disk it writes to and a real etcd.

mod commit;
mod disk;
mod etcd;
mod open;
mod range;
mod store_report;
mod store_watch;

use crate::error::BenchError;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use store_report::StoreBenchReport;

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

#[derive(Debug, Args)]
pub(crate) struct OpenBench {
    /// The directory
    directory: PathBuf,
}

pub(crate) async fn run_open(options: OpenBench) -> Result<(), BenchError> {
    open::measure_here(&options.directory).await
}

pub(crate) async fn run(options: StoreBench) -> Result<(), BenchError> {
    let scratch = match &options.data {
        Some(directory) => tempfile::tempdir_in(directory),
        None => tempfile::tempdir_in("."),
    };
    let scratch = scratch.map_err(|cause| BenchError::new("cannot make a directory", cause))?;
    let mut report = StoreBenchReport::new(options.json);
    if options.runs("disk") {
        disk::measure(&options, scratch.path(), &mut report)?;
    }
    if options.runs("commit") {
        commit::measure(&options, scratch.path(), &mut report).await?;
        if let Some(url) = &options.etcd {
            etcd::measure(&options, url, &mut report).await?;
        }
    }
    if options.runs("range") {
        range::measure(&mut report).await?;
    }
    if options.runs("watch") {
        store_watch::measure(&mut report).await?;
    }
    if options.runs("open") {
        open::measure(&options, scratch.path(), &mut report).await?;
    }
    report.print();
    Ok(())
}
