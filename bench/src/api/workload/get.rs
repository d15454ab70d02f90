//! Workload `get`: reads of single objects.

use super::super::connection::BenchConnection;
use super::super::load::{JobStep, WorkerJob, expect};
use super::super::measurement::Measurement;
use super::super::object::Dice;
use super::super::system::System;
use super::super::tally::BenchFault;
use super::WorkloadContext;
use super::create::filled;
use crate::error::BenchError;
use http::{StatusCode, Uri};
use std::sync::Arc;

pub(super) async fn measure(context: &WorkloadContext<'_>) -> Result<Measurement, BenchError> {
    let objects = context.options.get_objects;
    context.fill(objects).await?;
    let uri = |number| context.system.object(&filled(number), "");
    let uris: Arc<[Uri]> = (0..objects as u64).map(uri).collect();
    let work = |worker| Get {
        system: Arc::clone(&context.system),
        uris: Arc::clone(&uris),
        dice: Dice::new(worker as u64),
    };
    let works = (0..context.workers()).map(work).collect();
    let tally = context.run(works).await?;
    Ok(Measurement::of(context.title("get"), tally))
}

struct Get {
    system: Arc<System>,
    uris: Arc<[Uri]>,
    dice: Dice,
}

impl WorkerJob for Get {
    async fn once(&mut self, connection: &mut BenchConnection) -> Result<JobStep, BenchFault> {
        let uri = self.uris[self.dice.below(self.uris.len())].clone();
        let request = self.system.connector.get(uri);
        let answer = expect(connection, request, StatusCode::OK).await?;
        Ok(JobStep::Done {
            bytes: answer.bytes,
        })
    }
}
