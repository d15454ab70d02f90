//! Workload `update`: read, change, write back. Each worker has its own objects, so there are no
//! conflicts.

use super::super::connection::BenchConnection;
use super::super::load::{JobStep, WorkerJob, expect};
use super::super::measurement::Measurement;
use super::super::object::Template;
use super::super::scan;
use super::super::system::System;
use super::super::tally::BenchFault;
use super::WorkloadContext;
use super::create::filled;
use crate::error::BenchError;
use http::{StatusCode, Uri};
use std::sync::Arc;

const OBJECTS_PER_WORKER: u64 = 8;

pub(super) async fn measure(context: &WorkloadContext<'_>) -> Result<Measurement, BenchError> {
    let workers = context.workers();
    context.fill(objects(workers)).await?;
    let template = context.template();
    let work = |worker| UpdateJob {
        system: Arc::clone(&context.system),
        template: Arc::clone(&template),
        own: WorkerObjects::new(&context.system, worker as u64, ""),
    };
    let works = (0..workers).map(work).collect();
    let tally = context.run(works).await?;
    Ok(Measurement::of(context.title("update"), tally))
}

/// How many objects must be there for this many workers, each with [`WorkerObjects`] ones.
pub(super) fn objects(workers: usize) -> usize {
    workers * OBJECTS_PER_WORKER as usize
}

/// The objects of one worker, in turn.
pub(super) struct WorkerObjects {
    objects: Vec<(String, Uri)>,
    turn: u64,
}

impl WorkerObjects {
    pub(super) fn new(system: &System, worker: u64, query: &str) -> Self {
        let numbers = worker * OBJECTS_PER_WORKER..(worker + 1) * OBJECTS_PER_WORKER;
        let object = |number| {
            let name = filled(number);
            let uri = system.object(&name, query);
            (name, uri)
        };
        Self {
            objects: numbers.map(object).collect(),
            turn: 0,
        }
    }

    /// A number never given before, and the next object.
    pub(super) fn next(&mut self) -> (u64, &str, Uri) {
        self.turn += 1;
        let (name, uri) = &self.objects[self.turn as usize % self.objects.len()];
        (self.turn, name, uri.clone())
    }
}

struct UpdateJob {
    system: Arc<System>,
    template: Arc<Template>,
    own: WorkerObjects,
}

impl WorkerJob for UpdateJob {
    async fn once(&mut self, connection: &mut BenchConnection) -> Result<JobStep, BenchFault> {
        let (number, name, uri) = self.own.next();
        let read = self.system.connector.get(uri.clone());
        let read = expect(connection, read, StatusCode::OK).await?;
        let version = scan::resource_version(connection.kept());
        let version = version.ok_or_else(|| no_version(connection.kept()))?;
        let object = self.template.versioned(name, Some(version), number);
        let write = self.system.put(uri, object);
        let written = expect(connection, write, StatusCode::OK).await?;
        Ok(JobStep::Done {
            bytes: read.bytes + written.bytes,
        })
    }
}

pub(super) fn no_version(body: &[u8]) -> BenchFault {
    let start = String::from_utf8_lossy(&body[..body.len().min(200)]);
    BenchFault::Broken(format!("no resourceVersion in {start:?}"))
}
