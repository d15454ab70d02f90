//! Workload `list`: one large collection, read whole.

use super::super::connection::BenchConnection;
use super::super::load::{JobStep, WorkerJob, expect};
use super::super::measurement::{Figure, Measurement};
use super::super::process::Baseline;
use super::super::scan;
use super::super::system::{System, cannot};
use super::super::tally::BenchFault;
use super::WorkloadContext;
use crate::error::BenchError;
use http::{StatusCode, Uri};
use std::sync::Arc;

/// The consistency of the list: any state the server has cached, or the newest.
const KINDS: [(&str, &str); 2] = [
    ("list, any state (resourceVersion=0)", "?resourceVersion=0"),
    ("list, newest state", ""),
];

pub(super) async fn measure(context: &WorkloadContext<'_>) -> Result<Vec<Measurement>, BenchError> {
    let (count, bytes) = (
        context.options.list_objects,
        context.options.list_object_bytes,
    );
    context.system.fill(&context.timer, count, bytes).await?;
    // From before the first list: a heap that has grown once need not grow again.
    let baseline = context.system.pid.and_then(Baseline::of);
    let mut measurements = Vec::new();
    for (title, query) in KINDS {
        measurements.push(measure_one(context, title, query, baseline).await?);
    }
    Ok(measurements)
}

async fn measure_one(
    context: &WorkloadContext<'_>,
    title: &str,
    query: &str,
    baseline: Option<Baseline>,
) -> Result<Measurement, BenchError> {
    let system = &context.system;
    let uri = system.collection(query);
    let memory = baseline.map(Baseline::watch);
    let (objects, bytes) = first(system, uri.clone()).await?;
    let work = ListJob {
        system: Arc::clone(system),
        uri,
        bytes,
    };
    let tally = context.run(vec![work]).await?;
    let megabytes = tally.bytes as f64 / 1e6;
    let each = megabytes / tally.count().max(1) as f64;
    let mut measurement = Measurement::of(format!("{title}, {objects} objects"), tally);
    let figures = &mut measurement.figures;
    figures.insert(Figure::MegabytesEach, each);
    figures.insert(Figure::MegabytesPerSecond, megabytes / measurement.seconds);
    if let Some(memory) = memory {
        let growth = memory.growth() as f64 / 1e6;
        figures.insert(Figure::MemoryGrowthMegabytes, growth);
    }
    if objects != context.options.list_objects {
        let wrong = format!(
            "a list has {objects} of {} objects",
            context.options.list_objects
        );
        measurement.violations.push(wrong);
    }
    Ok(measurement)
}

/// How many of our objects are in the first list, and how large it is.
async fn first(system: &System, uri: Uri) -> Result<(usize, u64), BenchError> {
    let complain = |fault: &BenchFault| cannot("list", &system.name, fault);
    let broken = |error: std::io::Error| complain(&BenchFault::Broken(error.to_string()));
    let mut connection = system.connector.connection().await?;
    let list = system.connector.get(uri);
    let status = connection.open(list).await.map_err(broken)?;
    let mut whole = Vec::new();
    while let Some(part) = connection.more().await.map_err(broken)? {
        whole.extend_from_slice(part);
    }
    if status != StatusCode::OK {
        return Err(complain(&BenchFault::status(status, &whole)));
    }
    Ok((scan::numbers(&whole).count(), whole.len() as u64))
}

struct ListJob {
    system: Arc<System>,
    uri: Uri,
    /// The size of the first list, which was looked at.
    bytes: u64,
}

impl WorkerJob for ListJob {
    async fn once(&mut self, connection: &mut BenchConnection) -> Result<JobStep, BenchFault> {
        let request = self.system.connector.get(self.uri.clone());
        let answer = expect(connection, request, StatusCode::OK).await?;
        // The objects are equal in all lists; only the length of the list's resourceVersion may
        // differ.
        if answer.bytes.abs_diff(self.bytes) > self.bytes / 1000 + 16 {
            let (is, was) = (answer.bytes, self.bytes);
            return Err(BenchFault::Broken(format!(
                "a list of {is} bytes instead of {was}"
            )));
        }
        Ok(JobStep::Done {
            bytes: answer.bytes,
        })
    }
}
