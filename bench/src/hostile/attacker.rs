//! A hostile user who sends requests over several connections.

use super::super::api::connection::BenchConnection;
use super::super::api::connector::BenchConnector;
use super::super::api::tally::{BenchFault, RequestTally};
use super::super::api::timer::Timer;
use super::attacks::Attack;
use super::world::HostileBenchUser;
use crate::error::BenchError;
use bytes::Bytes;
use http::{HeaderValue, Request};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Counters of the outcomes of the attacks.
#[derive(Default)]
pub(super) struct Attacker {
    pub(super) by_attack: BTreeMap<&'static str, AttackOutcome>,
}

#[derive(Default)]
pub(super) struct AttackOutcome {
    pub(super) tally: RequestTally,
    by_status: BTreeMap<u16, u64>,
}

impl AttackOutcome {
    /// `201: 4, 429: 1`
    pub(super) fn statuses(&self) -> String {
        let statuses = self.by_status.iter();
        let statuses: Vec<_> = statuses
            .map(|(status, n)| format!("{status}: {n}"))
            .collect();
        statuses.join(", ")
    }
}

/// Sends all attacks again and again, each connection beginning with another one.
pub(super) async fn run(
    user: &HostileBenchUser,
    attacks: Vec<Attack>,
    (connections, streams): (usize, usize),
    over: &AtomicBool,
) -> Result<Attacker, BenchError> {
    let mut lines = Vec::new();
    for (connector, count) in [(&user.connector, connections), (&user.streams, streams)] {
        let opened = connector.connections(count).await?;
        lines.extend(opened.into_iter().map(|connection| (connector, connection)));
    }
    let workers = lines.into_iter().enumerate();
    let workers = workers.map(|(at, line)| worker(line, &attacks, at, over));
    let all = futures::future::try_join_all(workers).await?;
    let mut sum = Attacker::default();
    for (name, outcome) in all.into_iter().flat_map(|one| one.by_attack) {
        let of = sum.by_attack.entry(name).or_default();
        of.tally.merge(outcome.tally);
        for (status, count) in outcome.by_status {
            *of.by_status.entry(status).or_default() += count;
        }
    }
    Ok(sum)
}

async fn worker(
    (connector, mut connection): (&BenchConnector, BenchConnection),
    attacks: &[Attack],
    first: usize,
    over: &AtomicBool,
) -> Result<Attacker, BenchError> {
    let (timer, mut attacker) = (Timer::default(), Attacker::default());
    for attack in attacks.iter().cycle().skip(first % attacks.len().max(1)) {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let began = timer.micros();
        let answered = connection.exchange(request(connector, attack)).await;
        let took = Duration::from_micros(timer.micros() - began);
        let outcome = attacker.by_attack.entry(attack.name).or_default();
        match answered {
            Ok(answer) => {
                outcome.tally.done(took, answer.bytes);
                *outcome.by_status.entry(answer.status.as_u16()).or_default() += 1;
            }
            Err(cause) => {
                outcome.tally.failed(&BenchFault::Broken(cause.to_string()));
                connection = connector.connection().await?;
            }
        }
    }
    Ok(attacker)
}

fn request(connector: &BenchConnector, attack: &Attack) -> Request<Bytes> {
    let media_type = HeaderValue::from_static(attack.media_type);
    let body = attack.body.clone();
    let method = attack.method.clone();
    let mut request = connector.request(method, attack.uri.clone(), Some(media_type), body);
    if let Some(accept) = attack.accept {
        let accept = HeaderValue::from_static(accept);
        request.headers_mut().insert(http::header::ACCEPT, accept);
    }
    request
}
