//! Workers that send requests, each over a connection of its own.

use super::connection::{Answer, Connection};
use super::connector::Connector;
use super::pace::Pace;
use super::progress::Progress;
use super::tally::{Fault, Tally};
use super::timer::Timer;
use crate::failure::Failure;
use bytes::Bytes;
use http::{Request, StatusCode};
use std::sync::Arc;
use tokio::task::JoinSet;

/// A worker whose connection breaks this often in a row gives up.
const BREAKS_MAX: usize = 10;

/// What a worker does again and again.
pub(crate) trait Work: Send + 'static {
    fn once(
        &mut self,
        connection: &mut Connection,
    ) -> impl Future<Output = Result<Step, Fault>> + Send;
}

#[derive(Debug)]
pub(crate) enum Step {
    /// One operation was done; this many bytes came back.
    Done { bytes: u64 },
    /// There is nothing left to do.
    Finished,
}

/// Sends a request and checks that the answer is as it should be.
pub(crate) async fn expect(
    connection: &mut Connection,
    request: Request<Bytes>,
    wanted: StatusCode,
) -> Result<Answer, Fault> {
    let answer = send(connection, request).await?;
    if answer.status == wanted {
        Ok(answer)
    } else {
        Err(Fault::status(answer.status, connection.kept()))
    }
}

/// Sends a request, whatever the answer.
pub(crate) async fn send(
    connection: &mut Connection,
    request: Request<Bytes>,
) -> Result<Answer, Fault> {
    let answer = connection.exchange(request).await;
    answer.map_err(|error| Fault::Broken(format!("the connection failed: {error}")))
}

/// Opens connections, then lets all workers go at once; `pace` is asked for after that.
pub(crate) async fn run<W: Work>(
    connector: &Arc<Connector>,
    timer: &Timer,
    progress: &Progress,
    works: Vec<W>,
    pace: impl FnOnce() -> Pace,
) -> Result<Tally, Failure> {
    let connections = connector.connections(works.len()).await?;
    let pace = pace();
    let start = timer.now();
    let mut workers = JoinSet::new();
    for (work, connection) in works.into_iter().zip(connections) {
        let worker = Worker {
            connector: Arc::clone(connector),
            connection,
            timer: timer.clone(),
            progress: progress.clone(),
            pace: pace.clone(),
        };
        workers.spawn(worker.run(work));
    }
    let mut tally = Tally::default();
    while let Some(worker) = workers.join_next().await {
        tally.merge(worker.map_err(|cause| Failure::new("a worker failed", cause))?);
    }
    tally.elapsed = timer.now().since(start);
    tally.offered = pace.offered();
    Ok(tally)
}

struct Worker {
    connector: Arc<Connector>,
    connection: Connection,
    timer: Timer,
    progress: Progress,
    pace: Pace,
}

impl Worker {
    async fn run<W: Work>(mut self, mut work: W) -> Tally {
        let mut tally = Tally::default();
        let mut breaks = 0;
        while let Some(meant) = self.pace.next(&self.timer).await {
            match work.once(&mut self.connection).await {
                Ok(Step::Done { bytes }) => {
                    tally.done(self.timer.now().since(meant), bytes);
                    self.progress.add(1);
                    breaks = 0;
                }
                Ok(Step::Finished) => break,
                Err(fault) => {
                    tally.failed(&fault);
                    let broken = matches!(fault, Fault::Broken(_));
                    breaks = if broken { breaks + 1 } else { 0 };
                    if broken && (breaks > BREAKS_MAX || !self.reconnect().await) {
                        break;
                    }
                }
            }
        }
        tally
    }

    async fn reconnect(&mut self) -> bool {
        match self.connector.connection().await {
            Ok(connection) => {
                self.connection = connection;
                true
            }
            Err(_) => false,
        }
    }
}
