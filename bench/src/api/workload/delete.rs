//! Workload `delete`: one request for each object.

use super::super::connection::BenchConnection;
use super::super::load::{JobStep, WorkerJob, expect};
use super::super::measurement::Measurement;
use super::super::system::System;
use super::super::tally::BenchFault;
use super::WorkloadContext;
use super::create::ObjectNames;
use crate::error::BenchError;
use http::StatusCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

pub(super) async fn measure(context: &WorkloadContext<'_>) -> Result<Measurement, BenchError> {
    let count = context.options.delete_objects;
    context.fill(count).await?;
    let next = Arc::new(AtomicU64::new(0));
    let work = |_| Delete {
        system: Arc::clone(&context.system),
        names: ObjectNames::shared(&next, count as u64),
    };
    let works = (0..context.workers()).map(work).collect();
    let mut tally = context.run(works).await?;
    // The number of objects limits the number of requests at any rate.
    tally.offered = tally.offered.map(|offered| offered.min(count as u64));
    Ok(Measurement::of(context.title("delete"), tally))
}

struct Delete {
    system: Arc<System>,
    names: ObjectNames,
}

impl WorkerJob for Delete {
    async fn once(&mut self, connection: &mut BenchConnection) -> Result<JobStep, BenchFault> {
        let Some(name) = self.names.next() else {
            return Ok(JobStep::Finished);
        };
        let request = self.system.delete(self.system.object(&name, ""));
        let answer = expect(connection, request, StatusCode::OK).await?;
        Ok(JobStep::Done {
            bytes: answer.bytes,
        })
    }
}
