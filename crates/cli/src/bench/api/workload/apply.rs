//! Server-side apply: one manager changes a field of its own.

use super::super::connection::Connection;
use super::super::connector::APPLY;
use super::super::load::{Step, Work, expect, send};
use super::super::measurement::Measurement;
use super::super::object::Template;
use super::super::system::{System, cannot};
use super::super::tally::Fault;
use super::Context;
use super::update::{Own, objects};
use crate::failure::Failure;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use std::sync::Arc;

/// The objects were made by a POST, whose manager owns the fields until we force it.
const QUERY: &str = "?fieldManager=optik-bench-apply&force=true";

pub(super) async fn measure(context: &Context<'_>) -> Result<Measurement, Failure> {
    let workers = context.workers();
    context.fill(objects(workers)).await?;
    let template = context.template();
    let work = |worker| Apply {
        system: Arc::clone(&context.system),
        template: Arc::clone(&template),
        own: Own::new(&context.system, worker as u64, QUERY),
    };
    let mut works: Vec<_> = (0..workers).map(work).collect();
    if let Some(why) = refusal(&context.system, &mut works[0]).await? {
        return Ok(Measurement::refused(context.title("apply"), why));
    }
    let tally = context.run(works).await?;
    Ok(Measurement::of(context.title("apply"), tally))
}

/// Why the server does not apply at all, if so.
async fn refusal(system: &System, work: &mut Apply) -> Result<Option<String>, Failure> {
    let mut connection = system.connector.connection().await?;
    let request = work.request();
    let answer = send(&mut connection, request).await;
    let answer = answer.map_err(|fault| cannot("apply", &system.name, &fault))?;
    let refused = answer.status.is_client_error() || answer.status == StatusCode::NOT_IMPLEMENTED;
    Ok(refused.then(|| Fault::status(answer.status, connection.kept()).to_string()))
}

struct Apply {
    system: Arc<System>,
    template: Arc<Template>,
    own: Own,
}

impl Apply {
    fn request(&mut self) -> Request<Bytes> {
        let (number, name, uri) = self.own.next();
        let object = self.template.object(name, number);
        let connector = &self.system.connector;
        connector.request(Method::PATCH, uri, Some(APPLY), object)
    }
}

impl Work for Apply {
    async fn once(&mut self, connection: &mut Connection) -> Result<Step, Fault> {
        let request = self.request();
        let answer = expect(connection, request, StatusCode::OK).await?;
        Ok(Step::Done {
            bytes: answer.bytes,
        })
    }
}
