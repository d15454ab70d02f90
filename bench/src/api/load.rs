//! Workers that send requests, each over a connection of its own.

use super::connection::{BenchConnection, BenchResponse};
use super::connector::BenchConnector;
use super::pace::RequestPace;
use super::progress::BenchProgress;
use super::tally::{BenchFault, RequestTally};
use super::timer::Timer;
use crate::error::BenchError;
use bytes::Bytes;
use http::{Request, StatusCode};
use std::sync::Arc;
use tokio::task::JoinSet;

/// A worker whose connection breaks this often in a row gives up.
const BREAKS_MAX: usize = 10;

/// The operation that a worker repeats.
pub(crate) trait WorkerJob: Send + 'static {
    fn once(
        &mut self,
        connection: &mut BenchConnection,
    ) -> impl Future<Output = Result<JobStep, BenchFault>> + Send;
}

#[derive(Debug)]
pub(crate) enum JobStep {
    /// One operation was done; this many bytes came back.
    Done { bytes: u64 },
    /// No operation is left.
    Finished,
}

/// Sends a request and checks its response.
pub(crate) async fn expect(
    connection: &mut BenchConnection,
    request: Request<Bytes>,
    wanted: StatusCode,
) -> Result<BenchResponse, BenchFault> {
    let answer = send(connection, request).await?;
    if answer.status == wanted {
        Ok(answer)
    } else {
        Err(BenchFault::status(answer.status, connection.kept()))
    }
}

/// Sends a request and accepts any response.
pub(crate) async fn send(
    connection: &mut BenchConnection,
    request: Request<Bytes>,
) -> Result<BenchResponse, BenchFault> {
    let answer = connection.exchange(request).await;
    answer.map_err(|error| BenchFault::Broken(format!("the connection failed: {error}")))
}

/// Opens the connections, then starts all workers at once; `pace` is consulted after that.
pub(crate) async fn run<W: WorkerJob>(
    connector: &Arc<BenchConnector>,
    timer: &Timer,
    progress: &BenchProgress,
    works: Vec<W>,
    pace: impl FnOnce() -> RequestPace,
) -> Result<RequestTally, BenchError> {
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
    let mut tally = RequestTally::default();
    while let Some(worker) = workers.join_next().await {
        tally.merge(worker.map_err(|cause| BenchError::new("a worker failed", cause))?);
    }
    tally.elapsed = timer.now().since(start);
    tally.offered = pace.offered();
    Ok(tally)
}

struct Worker {
    connector: Arc<BenchConnector>,
    connection: BenchConnection,
    timer: Timer,
    progress: BenchProgress,
    pace: RequestPace,
}

impl Worker {
    async fn run<W: WorkerJob>(mut self, mut work: W) -> RequestTally {
        let mut tally = RequestTally::default();
        let mut breaks = 0;
        while let Some(meant) = self.pace.next(&self.timer).await {
            match work.once(&mut self.connection).await {
                Ok(JobStep::Done { bytes }) => {
                    tally.done(self.timer.now().since(meant), bytes);
                    self.progress.add(1);
                    breaks = 0;
                }
                Ok(JobStep::Finished) => break,
                Err(fault) => {
                    tally.failed(&fault);
                    let broken = matches!(fault, BenchFault::Broken(_));
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
