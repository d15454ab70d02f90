//! The measured users: one reads a small object, another polls the endpoint `/healthz`.

use super::super::api::connection::BenchConnection;
use super::super::api::tally::{BenchFault, RequestTally};
use super::super::api::timer::Timer;
use super::world::{HostileBenchTarget, HostileBenchUser};
use crate::error::BenchError;
use std::io;
use std::time::Duration;

const GET_EVERY: Duration = Duration::from_millis(5);
const HEALTH_EVERY: Duration = Duration::from_millis(20);
const FRESH_EVERY: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(super) struct Bystander {
    pub(super) get: RequestTally,
    pub(super) health: RequestTally,
    /// With a connection for each question, as a probe has.
    pub(super) fresh_health: RequestTally,
}

impl Bystander {
    pub(super) fn rows(&self) -> [(&'static str, &RequestTally); 3] {
        [
            ("get of another user", &self.get),
            ("healthz", &self.health),
            ("healthz on a new connection", &self.fresh_health),
        ]
    }

    pub(super) fn faults(&self) -> u64 {
        self.rows()
            .iter()
            .map(|(_, tally)| tally.faults.count())
            .sum()
    }
}

/// Looks on for so long.
pub(super) async fn watch(
    world: &HostileBenchTarget,
    time: Duration,
) -> Result<Bystander, BenchError> {
    let user = &world.bystander;
    let small = format!("/api/v1/namespaces/{}/configmaps/small", user.namespace);
    let (get, health, fresh) = futures::join!(
        ask(user, &small, GET_EVERY, time),
        ask(user, "/healthz", HEALTH_EVERY, time),
        ask_anew(user, FRESH_EVERY, time),
    );
    Ok(Bystander {
        get: get?,
        health: health?,
        fresh_health: fresh,
    })
}

async fn ask(
    user: &HostileBenchUser,
    path: &str,
    every: Duration,
    time: Duration,
) -> Result<RequestTally, BenchError> {
    let mut connection = user.connector.connection().await?;
    let (timer, mut tally) = (Timer::default(), RequestTally::default());
    let end = timer.micros() + micros(time);
    let mut due = timer.micros();
    while due < end {
        pause_until(&timer, due).await;
        // Latency counts from the scheduled time, so that waiting for a response does not hide a
        // delay.
        let answered = one(user, path, &mut connection).await;
        note(&mut tally, answered, timer.micros().saturating_sub(due));
        due = (due + micros(every)).max(timer.micros());
    }
    Ok(tally)
}

async fn ask_anew(user: &HostileBenchUser, every: Duration, time: Duration) -> RequestTally {
    let (timer, mut tally) = (Timer::default(), RequestTally::default());
    let end = timer.micros() + micros(time);
    let mut due = timer.micros();
    while due < end {
        pause_until(&timer, due).await;
        let answered = match user.connector.connection().await {
            Ok(mut connection) => one(user, "/healthz", &mut connection).await,
            Err(_) => Err(BenchFault::Broken("no connection".to_owned())),
        };
        note(&mut tally, answered, timer.micros().saturating_sub(due));
        due = (due + micros(every)).max(timer.micros());
    }
    tally
}

async fn one(
    user: &HostileBenchUser,
    path: &str,
    connection: &mut BenchConnection,
) -> Result<(), BenchFault> {
    let request = user.connector.get(user.connector.uri(path));
    let broken = |cause: io::Error| BenchFault::Broken(cause.to_string());
    let answer = connection.exchange(request).await.map_err(broken)?;
    match answer.status.is_success() {
        true => Ok(()),
        false => Err(BenchFault::status(answer.status, connection.kept())),
    }
}

fn note(tally: &mut RequestTally, answered: Result<(), BenchFault>, took_micros: u64) {
    match answered {
        Ok(()) => tally.done(Duration::from_micros(took_micros), 0),
        Err(fault) => tally.failed(&fault),
    }
}

async fn pause_until(timer: &Timer, due: u64) {
    let left = due.saturating_sub(timer.micros());
    tokio::time::sleep(Duration::from_micros(left)).await;
}

fn micros(of: Duration) -> u64 {
    u64::try_from(of.as_micros()).unwrap_or(u64::MAX)
}
