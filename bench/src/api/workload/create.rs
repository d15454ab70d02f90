//! Workload `create`: new objects.

use super::super::connection::BenchConnection;
use super::super::connector::JSON;
use super::super::load::{JobStep, WorkerJob, expect};
use super::super::measurement::Measurement;
use super::super::object::Template;
use super::super::system::System;
use super::super::tally::BenchFault;
use super::WorkloadContext;
use crate::error::BenchError;
use http::{Method, StatusCode, Uri};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) async fn measure(context: &WorkloadContext<'_>) -> Result<Measurement, BenchError> {
    let template = context.template();
    let work = |worker| {
        let names = ObjectNames::Own { worker, next: 0 };
        Create::new(&context.system, &template, names)
    };
    let works = (0..context.workers()).map(work).collect();
    let tally = context.run(works).await?;
    Ok(Measurement::of(context.title("create"), tally))
}

/// Which objects a worker deals with.
pub(crate) enum ObjectNames {
    /// Its own, without end.
    Own { worker: usize, next: u64 },
    /// A shared sequence of object numbers, up to a limit.
    Shared { next: Arc<AtomicU64>, end: u64 },
}

impl ObjectNames {
    pub(crate) fn shared(next: &Arc<AtomicU64>, end: u64) -> Self {
        Self::Shared {
            next: Arc::clone(next),
            end,
        }
    }

    pub(crate) fn next(&mut self) -> Option<String> {
        match self {
            Self::Own { worker, next } => {
                *next += 1;
                Some(format!("w{worker}-{next}"))
            }
            Self::Shared { next, end } => {
                let number = next.fetch_add(1, Ordering::Relaxed);
                (number < *end).then(|| filled(number))
            }
        }
    }
}

/// The name of an object that [`System::fill`] creates.
pub(crate) fn filled(number: u64) -> String {
    format!("o-{number}")
}

pub(crate) struct Create {
    system: Arc<System>,
    template: Arc<Template>,
    names: ObjectNames,
    uri: Uri,
}

impl Create {
    pub(crate) fn new(system: &Arc<System>, template: &Arc<Template>, names: ObjectNames) -> Self {
        Self {
            system: Arc::clone(system),
            template: Arc::clone(template),
            names,
            uri: system.collection(""),
        }
    }
}

impl WorkerJob for Create {
    async fn once(&mut self, connection: &mut BenchConnection) -> Result<JobStep, BenchFault> {
        let Some(name) = self.names.next() else {
            return Ok(JobStep::Finished);
        };
        let object = self.template.object(&name, 0);
        let uri = self.uri.clone();
        let connector = &self.system.connector;
        let request = connector.request(Method::POST, uri, Some(JSON), object);
        let answer = expect(connection, request, StatusCode::CREATED).await?;
        Ok(JobStep::Done {
            bytes: answer.bytes,
        })
    }
}
