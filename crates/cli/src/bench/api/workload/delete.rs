//! Objects go, one request each.

use super::super::connection::Connection;
use super::super::load::{Step, Work, expect};
use super::super::measurement::Measurement;
use super::super::system::System;
use super::super::tally::Fault;
use super::Context;
use super::create::Names;
use crate::failure::Failure;
use http::StatusCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

pub(super) async fn measure(context: &Context<'_>) -> Result<Measurement, Failure> {
    let count = context.options.delete_objects;
    context.fill(count).await?;
    let next = Arc::new(AtomicU64::new(0));
    let work = |_| Delete {
        system: Arc::clone(&context.system),
        names: Names::shared(&next, count as u64),
    };
    let works = (0..context.workers()).map(work).collect();
    let mut tally = context.run(works).await?;
    // There are only so many objects, whatever the rate.
    tally.offered = tally.offered.map(|offered| offered.min(count as u64));
    Ok(Measurement::of(context.title("delete"), tally))
}

struct Delete {
    system: Arc<System>,
    names: Names,
}

impl Work for Delete {
    async fn once(&mut self, connection: &mut Connection) -> Result<Step, Fault> {
        let Some(name) = self.names.next() else {
            return Ok(Step::Finished);
        };
        let request = self.system.delete(self.system.object(&name, ""));
        let answer = expect(connection, request, StatusCode::OK).await?;
        Ok(Step::Done {
            bytes: answer.bytes,
        })
    }
}
