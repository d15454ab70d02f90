//! The measurements that a runtime process records and prints.

use super::runtime_args::RuntimeArgs;
use k8s_openapi::api::core::v1::ConfigMap;
use optik_controller::{QueuePriority, RequeueDecision, WorkQueue, WorkQueueOptions};
use optik_platform::{Clock, SystemClock};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// The annotation with the time a change was sent, as `load:microseconds`.
pub(crate) const SENT: &str = "sent";
pub(crate) const STOP: &str = "zz-stop";
/// The load whose events are counted, because the driver waits for its end.
pub(crate) const CATCH_UP: &str = "catch-up";

/// Counts reconciles, and how late they were.
pub(crate) struct Meter {
    pub(crate) task: RuntimeArgs,
    clock: SystemClock,
    /// Changes sent before this time belong to an earlier measurement.
    began: u64,
    seen: Mutex<MeterState>,
    pub(crate) over: Notify,
}

#[derive(Default)]
struct MeterState {
    /// The objects seen, by number; its memory is small beside the measured memory.
    there: Vec<bool>,
    missing: usize,
    reconciles: usize,
    /// By load: microseconds from sending to reconciling.
    late: BTreeMap<String, Vec<u64>>,
}

/// The name of the object of a number.
pub(crate) fn object_name(number: usize) -> String {
    format!("map-{number:06}")
}

impl Meter {
    pub(crate) fn new(task: RuntimeArgs) -> Self {
        let seen = MeterState {
            there: vec![false; task.objects],
            missing: task.objects,
            ..MeterState::default()
        };
        Self {
            task,
            clock: SystemClock::default(),
            began: micros(),
            seen: Mutex::new(seen),
            over: Notify::new(),
        }
    }

    /// A reconcile begins.
    pub(crate) fn record_reconcile(&self, map: &ConfigMap) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.reconciles += 1;
        if seen.reconciles == 1 {
            self.print_line("begun", json!({}));
        }
        self.record_lateness(&mut seen, map);
        let name = map.metadata.name.as_deref().unwrap_or_default();
        if name == STOP {
            self.print_end(&mut seen);
            self.over.notify_one();
            return;
        }
        let number = name.strip_prefix("map-").and_then(|text| text.parse().ok());
        let there = number.and_then(|number: usize| seen.there.get_mut(number));
        if there.is_none_or(|there| std::mem::replace(there, true)) {
            return;
        }
        seen.missing -= 1;
        if seen.missing == 0 {
            let took = self.clock.monotonic().since(Default::default());
            self.print_line("synced", json!({"ms": millis(took)}));
        }
    }

    fn record_lateness(&self, seen: &mut MeterState, map: &ConfigMap) {
        let annotations = map.metadata.annotations.as_ref();
        let sent = annotations.and_then(|all| all.get(SENT));
        let Some((load, at)) = sent.and_then(|sent| sent.split_once(':')) else {
            return;
        };
        let Some(at) = at.parse().ok().filter(|at: &u64| *at > self.began) else {
            return;
        };
        let now = micros();
        if !seen.late.contains_key(load) {
            seen.late.insert(load.to_owned(), Vec::new());
        }
        let Some(late) = seen.late.get_mut(load) else {
            return;
        };
        late.push(now.saturating_sub(at));
        if load == CATCH_UP && late.len() == self.task.catch_up {
            self.print_line("caught up", json!({"at_us": now}));
        }
    }

    fn print_end(&self, seen: &mut MeterState) {
        let mut late = serde_json::Map::new();
        for (load, values) in &mut seen.late {
            values.sort_unstable();
            let at = |part: usize| values.get(values.len() * part / 100).copied();
            let last = json!({"p50_us": at(50), "p99_us": at(99), "count": values.len()});
            late.insert(load.clone(), last);
        }
        self.print_line("done", json!({"reconciles": seen.reconciles, "late": late}));
    }

    fn print_line(&self, phase: &str, mut line: serde_json::Value) {
        line["phase"] = json!(phase);
        line["cpu_ms"] = json!(cpu_millis());
        line["rss_kb"] = json!(status_kb("VmRSS:"));
        line["peak_kb"] = json!(status_kb("VmHWM:"));
        println!("{line}");
    }
}

/// Microseconds of the wall clock, which all processes of the machine share.
pub(crate) fn micros() -> u64 {
    let now = k8s_openapi::jiff::Timestamp::now();
    u64::try_from(now.as_microsecond()).unwrap_or(0)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn status_kb(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// User and system time of this process. Linux counts in hundredths of a second.
fn cpu_millis() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let field = |number: usize| fields.split_whitespace().nth(number)?.parse::<u64>().ok();
    Some((field(11)? + field(12)?) * 10)
}

/// The queue with a million keys in it.
pub(crate) fn queue() {
    const KEYS: u64 = 1_000_000;
    let clock = SystemClock::default();
    let mut queue = WorkQueue::new(WorkQueueOptions::default());
    let mut lap = clock.monotonic();
    let mut say = |what: &str| {
        let now = clock.monotonic();
        let each = now.since(lap).as_nanos() / u128::from(KEYS);
        lap = now;
        println!("queue: {what} {each} ns");
    };
    for key in 0..KEYS {
        queue.add(key, QueuePriority::Normal, None, Duration::ZERO);
    }
    say("add");
    for key in 0..KEYS {
        queue.add(key, QueuePriority::Normal, None, Duration::ZERO);
    }
    say("add again");
    for _ in 0..KEYS {
        if let Some(key) = queue.take(Duration::ZERO) {
            queue.finish(&key, RequeueDecision::Done, &[], Duration::ZERO, 0.0);
            queue.add(key, QueuePriority::Normal, None, Duration::ZERO);
        }
    }
    say("take, finish and add with a million waiting");
}
