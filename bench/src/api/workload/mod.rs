//! The workloads, each in a module of its own.

mod apply;
mod conflict;
pub(crate) mod create;
mod delete;
mod get;
mod list;
mod update;
mod watch;
mod watcher;

use super::load::{self, WorkerJob};
use super::measurement::Measurement;
use super::object::Template;
use super::options::{ApiBench, Workload};
use super::pace::{RequestPace, RequestSchedule};
use super::progress::BenchProgress;
use super::system::System;
use super::tally::RequestTally;
use super::timer::Timer;
use crate::error::BenchError;
use std::sync::Arc;

/// The context of a workload: systems, options and pacing.
pub(crate) struct WorkloadContext<'a> {
    pub(crate) options: &'a ApiBench,
    pub(crate) system: Arc<System>,
    pub(crate) timer: Timer,
    pub(crate) progress: BenchProgress,
    pub(crate) workload: Workload,
}

/// One round of one workload on one server.
pub(crate) async fn measure(context: &WorkloadContext<'_>) -> Result<Vec<Measurement>, BenchError> {
    Ok(match context.workload {
        Workload::Create | Workload::CreateOne => vec![create::measure(context).await?],
        Workload::Get => vec![get::measure(context).await?],
        Workload::Update => vec![update::measure(context).await?],
        Workload::Conflict => vec![conflict::measure(context).await?],
        Workload::List => list::measure(context).await?,
        Workload::Watch => vec![watch::measure(context).await?],
        Workload::Apply => vec![apply::measure(context).await?],
        Workload::Delete => vec![delete::measure(context).await?],
    })
}

impl WorkloadContext<'_> {
    /// How many workers there are.
    fn workers(&self) -> usize {
        self.options.concurrency(self.workload)
    }

    fn template(&self) -> Arc<Template> {
        Arc::new(Template::new(self.options.object_bytes))
    }

    /// Makes objects of the usual size.
    async fn fill(&self, count: usize) -> Result<(), BenchError> {
        let bytes = self.options.object_bytes;
        self.system.fill(&self.timer, count, bytes).await
    }

    /// Runs the workers for the requested time at the requested rate.
    async fn run<W: WorkerJob>(&self, works: Vec<W>) -> Result<RequestTally, BenchError> {
        let workers = works.len();
        let pace = || match self.options.rate() {
            Some(rate) => {
                let schedule = RequestSchedule::new(rate, self.options.time());
                RequestPace::open(&self.timer, schedule, workers)
            }
            None => RequestPace::closed(&self.timer, self.options.time()),
        };
        let connector = &self.system.connector;
        load::run(connector, &self.timer, &self.progress, works, pace).await
    }

    /// Title of a measurement, such as `create, 64 connections, 500/s offered`.
    fn title(&self, name: &str) -> String {
        let (workers, streams) = (self.workers(), self.options.streams_per_connection());
        let mut title = match workers.div_ceil(streams) {
            1 => format!("{name}, 1 connection"),
            many => format!("{name}, {many} connections"),
        };
        if self.options.http2 {
            title += &format!(" × {streams} streams");
        }
        if let Some(rate) = self.options.rate() {
            title += &format!(", {rate}/s offered");
        }
        title
    }
}
