//! Arguments of a runtime process, and the work of a reconcile.

use std::time::Duration;

/// What a runtime is told.
#[derive(Clone, clap::Args)]
pub(crate) struct RuntimeArgs {
    /// The address of a server without TLS.
    pub(crate) server: String,
    pub(crate) namespace: String,
    /// How many objects there are.
    pub(crate) objects: usize,
    /// Lists in pages instead of a stream.
    #[arg(long)]
    pub(crate) pages: bool,
    /// Caches the ownership records of everybody, too.
    #[arg(long)]
    pub(crate) managed_fields: bool,
    /// How long each reconcile takes.
    #[arg(long, default_value_t = 0)]
    work_millis: u64,
    /// How many changes it has to catch up with.
    #[arg(long, default_value_t = 0)]
    pub(crate) catch_up: usize,
}

impl RuntimeArgs {
    /// What a reconcile does besides looking.
    pub(crate) async fn work(&self) {
        if self.work_millis > 0 {
            tokio::time::sleep(Duration::from_millis(self.work_millis)).await;
        }
    }
}
