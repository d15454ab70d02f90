//! Workload `conflict`: many writers and few objects. Each writer increments a counter with
//! optimistic concurrency until it succeeds. At the end the counters must equal the number of
//! successful increments.

use super::super::connection::BenchConnection;
use super::super::load::{JobStep, WorkerJob, expect, send};
use super::super::measurement::{Figure, Measurement};
use super::super::object::{Dice, Template};
use super::super::scan;
use super::super::system::{System, cannot};
use super::super::tally::BenchFault;
use super::WorkloadContext;
use super::create::filled;
use super::update::no_version;
use crate::error::BenchError;
use http::{StatusCode, Uri};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const ATTEMPTS_MAX: usize = 10_000;

pub(super) async fn measure(context: &WorkloadContext<'_>) -> Result<Measurement, BenchError> {
    let count = context.options.conflict_objects as u64;
    context.fill(count as usize).await?;
    let counter = |number| CounterObject::new(&context.system, filled(number));
    let arena = Arc::new(Arena {
        counters: (0..count).map(counter).collect(),
        conflicts: AtomicU64::new(0),
    });
    let template = context.template();
    let work = |worker| Contender {
        system: Arc::clone(&context.system),
        template: Arc::clone(&template),
        arena: Arc::clone(&arena),
        dice: Dice::new(worker as u64),
    };
    let works = (0..context.workers()).map(work).collect();
    let tally = context.run(works).await?;
    let title = context.title(&format!("conflict, {count} objects"));
    let mut measurement = Measurement::of(title, tally);
    let conflicts = arena.conflicts.load(Ordering::Relaxed);
    measurement
        .figures
        .insert(Figure::Conflicts, conflicts as f64);
    for counter in &arena.counters {
        measurement
            .violations
            .extend(counter.judge(&context.system).await?);
    }
    Ok(measurement)
}

struct Arena {
    counters: Vec<CounterObject>,
    conflicts: AtomicU64,
}

struct CounterObject {
    name: String,
    uri: Uri,
    /// Writes the server has confirmed.
    wins: AtomicU64,
    /// Writes without a response: they may have been applied.
    unknown: AtomicU64,
}

impl CounterObject {
    fn new(system: &System, name: String) -> Self {
        Self {
            uri: system.object(&name, ""),
            name,
            wins: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
        }
    }

    /// The deviation of the counter from the number of increments, if any.
    async fn judge(&self, system: &System) -> Result<Option<String>, BenchError> {
        let mut connection = system.connector.connection().await?;
        let request = system.connector.get(self.uri.clone());
        expect(&mut connection, request, StatusCode::OK)
            .await
            .map_err(|fault| cannot("read a counter", &system.name, &fault))?;
        let wins = self.wins.load(Ordering::Relaxed);
        let unknown = self.unknown.load(Ordering::Relaxed);
        Ok(verdict(scan::number(connection.kept()), wins, unknown)
            .map(|verdict| format!("{}: {verdict}", self.name)))
    }
}

fn verdict(counter: Option<u64>, wins: u64, unknown: u64) -> Option<String> {
    match counter {
        None => Some("the counter is gone".to_owned()),
        Some(value) if value < wins => Some(format!("{} updates were lost", wins - value)),
        Some(value) if value > wins + unknown => {
            Some(format!("{} refused updates were stored", value - wins))
        }
        Some(_) => None,
    }
}

struct Contender {
    system: Arc<System>,
    template: Arc<Template>,
    arena: Arc<Arena>,
    dice: Dice,
}

impl WorkerJob for Contender {
    async fn once(&mut self, connection: &mut BenchConnection) -> Result<JobStep, BenchFault> {
        let arena = Arc::clone(&self.arena);
        let counter = &arena.counters[self.dice.below(arena.counters.len())];
        let mut bytes = 0;
        for _ in 0..ATTEMPTS_MAX {
            let read = self.system.connector.get(counter.uri.clone());
            bytes += expect(connection, read, StatusCode::OK).await?.bytes;
            let write = self.increment(counter, connection.kept())?;
            let answer = send(connection, write).await.inspect_err(|_| {
                counter.unknown.fetch_add(1, Ordering::Relaxed);
            })?;
            bytes += answer.bytes;
            match answer.status {
                StatusCode::OK => {
                    counter.wins.fetch_add(1, Ordering::Relaxed);
                    return Ok(JobStep::Done { bytes });
                }
                StatusCode::CONFLICT => arena.conflicts.fetch_add(1, Ordering::Relaxed),
                other => return Err(BenchFault::status(other, connection.kept())),
            };
        }
        Err(BenchFault::Broken(format!(
            "{ATTEMPTS_MAX} conflicts in a row"
        )))
    }
}

impl Contender {
    fn increment(
        &self,
        counter: &CounterObject,
        read: &[u8],
    ) -> Result<http::Request<bytes::Bytes>, BenchFault> {
        let version = scan::resource_version(read).ok_or_else(|| no_version(read))?;
        let number = scan::number(read).ok_or_else(|| no_version(read))?;
        let object = self
            .template
            .versioned(&counter.name, Some(version), number + 1);
        Ok(self.system.put(counter.uri.clone(), object))
    }
}

#[cfg(test)]
mod tests {
    use super::verdict;

    #[test]
    fn a_counter_must_say_what_was_confirmed() {
        assert_eq!(verdict(Some(10), 10, 0), None);
        assert_eq!(verdict(Some(11), 10, 1), None);
        assert!(
            verdict(Some(9), 10, 1)
                .expect("a loss")
                .contains("1 updates were lost")
        );
        assert!(verdict(Some(12), 10, 1).is_some());
        assert!(verdict(None, 0, 0).is_some());
    }
}
