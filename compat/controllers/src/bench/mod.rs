//! What a runtime costs, from a list of everything to a storm of changes.

pub(crate) mod driver;
pub(crate) mod kube_rs_bench;
mod load;
pub(crate) mod measure;
mod operators;
pub(crate) mod optik_bench;
mod report;
mod runner;

use std::time::Duration;

/// What a runtime is told.
#[derive(Clone, clap::Args)]
pub(crate) struct RuntimeArgs {
    /// The address of a server without TLS.
    server: String,
    namespace: String,
    /// How many objects there are.
    objects: usize,
    /// Lists in pages instead of a stream.
    #[arg(long)]
    pages: bool,
    /// Caches the ownership records of everybody, too.
    #[arg(long)]
    managed_fields: bool,
    /// How long each reconcile takes.
    #[arg(long, default_value_t = 0)]
    work_millis: u64,
    /// How many changes it has to catch up with.
    #[arg(long, default_value_t = 0)]
    catch_up: usize,
}

impl RuntimeArgs {
    /// What a reconcile does besides looking.
    async fn work(&self) {
        if self.work_millis > 0 {
            tokio::time::sleep(Duration::from_millis(self.work_millis)).await;
        }
    }
}
