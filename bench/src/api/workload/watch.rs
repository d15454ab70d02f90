//! Workload `watch`: fan-out of few writes to many watches of one collection.
//!
//! Each write carries a number. A table by number has the time each write was sent, so that each
//! watch can compute the latency of an event.

use super::super::connection::BenchConnection;
use super::super::load::{self, JobStep, WorkerJob, expect};
use super::super::measurement::{Figure, Measurement};
use super::super::object::Template;
use super::super::pace::{RequestPace, RequestSchedule};
use super::super::system::{System, cannot};
use super::super::tally::{BenchFault, RequestTally};
use super::super::timer::Timer;
use super::WorkloadContext;
use super::update::{WorkerObjects, objects};
use super::watcher::{Arrivals, Board, WatchClient};
use crate::error::BenchError;
use http::StatusCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Enough writers that slow writes do not delay later ones.
const WRITERS: usize = 8;
/// How long after the last write an event may arrive before it counts as missing.
const ARRIVAL_MAX: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(10);

pub(super) async fn measure(context: &WorkloadContext<'_>) -> Result<Measurement, BenchError> {
    context.fill(objects(WRITERS)).await?;
    let schedule = RequestSchedule::new(context.options.watch_rate(), context.options.time());
    let board = Arc::new(Board::new(schedule.count() as usize));
    let (stop, stopped) = watch::channel(());
    let mut watchers = open(context, &board, &stopped).await?;
    let start = context.timer.now();
    let written = write(context, &board, schedule).await?;
    wait(context, &board).await;
    let elapsed = context.timer.now().since(start);
    drop(stop);
    let mut all = Vec::new();
    while let Some(watcher) = watchers.join_next().await {
        let arrivals = watcher.map_err(|cause| BenchError::new("a watch failed", cause))?;
        all.push(arrivals);
    }
    let elapsed = elapsed.min(board.last_arrival().saturating_sub(board.first_send()));
    Ok(result(context, &board, &all, written, elapsed))
}

/// Opens the watches, all at one resourceVersion, and runs them.
async fn open(
    context: &WorkloadContext<'_>,
    board: &Arc<Board>,
    stopped: &watch::Receiver<()>,
) -> Result<JoinSet<Arrivals>, BenchError> {
    let system = &context.system;
    let complain = |fault: BenchFault| cannot("watch", &system.name, &fault);
    let mut connection = system.connector.connection().await?;
    let list = system.connector.get(system.collection("?limit=1"));
    expect(&mut connection, list, StatusCode::OK)
        .await
        .map_err(complain)?;
    let version = list_version(connection.kept());
    let version =
        version.ok_or_else(|| BenchError::from_message("a list has no resourceVersion"))?;
    let uri = system.collection(&format!("?watch=true&resourceVersion={version}"));
    let mut tasks = JoinSet::new();
    for connection in system
        .connector
        .connections(context.options.watchers)
        .await?
    {
        let request = system.connector.get(uri.clone());
        let watcher = WatchClient {
            connection,
            board: Arc::clone(board),
            timer: context.timer.clone(),
            progress: context.progress.clone(),
        };
        let body = watcher.open(request).await.map_err(complain)?;
        tasks.spawn(body.run(stopped.clone()));
    }
    Ok(tasks)
}

/// The resourceVersion of the list, at any position in the response.
fn list_version(json: &[u8]) -> Option<String> {
    let list: serde_json::Value = serde_json::from_slice(json).ok()?;
    Some(list["metadata"]["resourceVersion"].as_str()?.to_owned())
}

async fn write(
    context: &WorkloadContext<'_>,
    board: &Arc<Board>,
    schedule: RequestSchedule,
) -> Result<RequestTally, BenchError> {
    let template = context.template();
    let work = |writer| WatchWriter {
        system: Arc::clone(&context.system),
        template: Arc::clone(&template),
        own: WorkerObjects::new(&context.system, writer as u64, ""),
        board: Arc::clone(board),
        timer: context.timer.clone(),
    };
    let works = (0..WRITERS).map(work).collect();
    let pace = || RequestPace::open(&context.timer, schedule, WRITERS);
    // The line on the terminal counts events, not writes.
    let uncounted = Default::default();
    load::run(
        &context.system.connector,
        &context.timer,
        &uncounted,
        works,
        pace,
    )
    .await
}

/// Until all events have arrived, or no more can be hoped for.
async fn wait(context: &WorkloadContext<'_>, board: &Board) {
    let expected = board.written() * context.options.watchers as u64;
    let end = context.timer.now().plus(ARRIVAL_MAX);
    while board.arrived() < expected && context.timer.now() < end {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn result(
    context: &WorkloadContext<'_>,
    board: &Board,
    all: &[Arrivals],
    written: RequestTally,
    elapsed: Duration,
) -> Measurement {
    let mut tally = RequestTally::over(elapsed);
    let latencies = all.iter().flat_map(|arrivals| arrivals.latencies());
    latencies.for_each(|micros| tally.record_micros(micros));
    let missing: u64 = all.iter().map(|arrivals| board.missing(arrivals)).sum();
    let duplicates: u64 = all.iter().map(|arrivals| arrivals.duplicates).sum();
    let (watchers, rate) = (context.options.watchers, context.options.watch_rate());
    let title = format!("watch, {watchers} watches, {rate} writes/s (events)");
    let mut measurement = Measurement::of(title, tally);
    let writes = written.count();
    let unsent = written
        .offered
        .unwrap_or(0)
        .saturating_sub(writes + written.faults.count());
    for (figure, value) in [
        (Figure::Writes, writes),
        (Figure::Missing, missing),
        (Figure::Duplicates, duplicates),
        (Figure::NotSent, unsent),
    ] {
        if value > 0 || figure == Figure::Missing {
            measurement.figures.insert(figure, value as f64);
        }
    }
    if missing > 0 {
        measurement
            .violations
            .push(format!("{missing} events never arrived"));
    }
    if duplicates > 0 {
        measurement
            .violations
            .push(format!("{duplicates} events arrived twice"));
    }
    measurement.faults = written.faults;
    measurement
}

struct WatchWriter {
    system: Arc<System>,
    template: Arc<Template>,
    own: WorkerObjects,
    board: Arc<Board>,
    timer: Timer,
}

impl WorkerJob for WatchWriter {
    async fn once(&mut self, connection: &mut BenchConnection) -> Result<JobStep, BenchFault> {
        let Some(number) = self.board.take() else {
            return Ok(JobStep::Finished);
        };
        let (_, name, uri) = self.own.next();
        let object = self.template.object(name, number as u64);
        let request = self.system.put(uri, object);
        self.board.sent(number, self.timer.micros());
        let answer = expect(connection, request, StatusCode::OK).await?;
        self.board.confirmed(number);
        Ok(JobStep::Done {
            bytes: answer.bytes,
        })
    }
}
