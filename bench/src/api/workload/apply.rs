//! Workload `apply`: server-side apply of one field that the field manager owns.

use super::super::connection::BenchConnection;
use super::super::connector::APPLY;
use super::super::load::{JobStep, WorkerJob, expect, send};
use super::super::measurement::Measurement;
use super::super::object::Template;
use super::super::system::{System, cannot};
use super::super::tally::BenchFault;
use super::WorkloadContext;
use super::update::{WorkerObjects, objects};
use crate::error::BenchError;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use std::sync::Arc;

/// The objects were created by a POST, whose field manager owns the fields until a forced apply.
const QUERY: &str = "?fieldManager=optik-bench-apply&force=true";

pub(super) async fn measure(context: &WorkloadContext<'_>) -> Result<Measurement, BenchError> {
    let workers = context.workers();
    context.fill(objects(workers)).await?;
    let template = context.template();
    let work = |worker| ApplyJob {
        system: Arc::clone(&context.system),
        template: Arc::clone(&template),
        own: WorkerObjects::new(&context.system, worker as u64, QUERY),
    };
    let mut works: Vec<_> = (0..workers).map(work).collect();
    if let Some(why) = refusal(&context.system, &mut works[0]).await? {
        return Ok(Measurement::refused(context.title("apply"), why));
    }
    let tally = context.run(works).await?;
    Ok(Measurement::of(context.title("apply"), tally))
}

/// Why the server does not apply at all, if so.
async fn refusal(system: &System, work: &mut ApplyJob) -> Result<Option<String>, BenchError> {
    let mut connection = system.connector.connection().await?;
    let request = work.request();
    let answer = send(&mut connection, request).await;
    let answer = answer.map_err(|fault| cannot("apply", &system.name, &fault))?;
    let refused = answer.status.is_client_error() || answer.status == StatusCode::NOT_IMPLEMENTED;
    Ok(refused.then(|| BenchFault::status(answer.status, connection.kept()).to_string()))
}

struct ApplyJob {
    system: Arc<System>,
    template: Arc<Template>,
    own: WorkerObjects,
}

impl ApplyJob {
    fn request(&mut self) -> Request<Bytes> {
        let (number, name, uri) = self.own.next();
        let object = self.template.object(name, number);
        let connector = &self.system.connector;
        connector.request(Method::PATCH, uri, Some(APPLY), object)
    }
}

impl WorkerJob for ApplyJob {
    async fn once(&mut self, connection: &mut BenchConnection) -> Result<JobStep, BenchFault> {
        let request = self.request();
        let answer = expect(connection, request, StatusCode::OK).await?;
        Ok(JobStep::Done {
            bytes: answer.bytes,
        })
    }
}
