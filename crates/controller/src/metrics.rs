//! Metrics for Prometheus, under the names that Go's controller-runtime uses.

use http::Method;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A number that only increases.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that increases and decreases.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicI64);

impl Gauge {
    pub(crate) fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, by: i64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The upper bounds of the buckets, in seconds.
const BUCKETS_SECONDS: [f64; 12] = [
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 60.0,
];

/// A histogram of durations.
#[derive(Debug, Default)]
pub(crate) struct DurationHistogram {
    /// The observations of each bucket alone; `write` makes them cumulative.
    buckets: [AtomicU64; BUCKETS_SECONDS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

impl DurationHistogram {
    pub(crate) fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let mut buckets = self.buckets.iter().zip(BUCKETS_SECONDS);
        if let Some((bucket, _)) = buckets.find(|(_, end)| seconds <= *end) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn write(&self, out: &mut String, name: &str, labels: &str) {
        let mut count = 0;
        for (bucket, end) in self.buckets.iter().zip(BUCKETS_SECONDS) {
            count += bucket.load(Ordering::Relaxed);
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{end}\"}} {count}");
        }
        let count = self.count.load(Ordering::Relaxed);
        let sum = self.micros.load(Ordering::Relaxed) as f64 / 1e6;
        let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
        let _ = writeln!(out, "{name}_sum{{{labels}}} {sum}");
        let _ = writeln!(out, "{name}_count{{{labels}}} {count}");
    }
}

/// The metrics of a manager.
#[derive(Debug, Default)]
pub(crate) struct ManagerMetrics {
    pub(crate) events: Counter,
    pub(crate) relists: Counter,
    pub(crate) older_lists: Counter,
    pub(crate) recorded_events_dropped: Counter,
    pub(crate) leading: Gauge,
    requests: Mutex<BTreeMap<(String, u16), u64>>,
    controllers: Mutex<Vec<(&'static str, Arc<ControllerMetrics>)>>,
}

/// The metrics of a controller.
#[derive(Debug, Default)]
pub(crate) struct ControllerMetrics {
    pub(crate) succeeded: Counter,
    pub(crate) requeued: Counter,
    pub(crate) failed: Counter,
    pub(crate) terminal: Counter,
    pub(crate) conflicts: Counter,
    pub(crate) lost_responses: Counter,
    pub(crate) panics: Counter,
    pub(crate) timeouts: Counter,
    pub(crate) adds: Counter,
    pub(crate) retries: Counter,
    pub(crate) writes: Counter,
    pub(crate) writes_saved: Counter,
    pub(crate) loops_broken: Counter,
    pub(crate) gate_timeouts: Counter,
    pub(crate) depth: Gauge,
    pub(crate) active: Gauge,
    pub(crate) parked: Gauge,
    pub(crate) workers_max: Gauge,
    pub(crate) reconcile_time: DurationHistogram,
    pub(crate) queue_duration: DurationHistogram,
}

impl ManagerMetrics {
    pub(crate) fn count_request(&self, method: &Method, code: u16) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((method.to_string(), code)).or_default() += 1;
    }

    pub(crate) fn controller(&self, name: &'static str) -> Arc<ControllerMetrics> {
        let metrics = Arc::<ControllerMetrics>::default();
        let mut controllers = self
            .controllers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        controllers.push((name, Arc::clone(&metrics)));
        metrics
    }

    /// Renders all metrics in the Prometheus text format.
    pub(crate) fn render(&self) -> String {
        let mut out = String::new();
        let controllers = self
            .controllers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        write_controllers(&mut out, &controllers);
        drop(controllers);
        let requests = self
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        write_type_line(&mut out, "rest_client_requests_total", "counter");
        for ((method, code), count) in requests {
            let code = if code == 0 {
                "<error>".to_owned()
            } else {
                code.to_string()
            };
            let _ = writeln!(
                out,
                "rest_client_requests_total{{code=\"{code}\",method=\"{method}\"}} {count}"
            );
        }
        for (name, value) in [
            ("controller_watch_events_total", self.events.get()),
            ("controller_watch_relists_total", self.relists.get()),
            ("controller_watch_older_lists_total", self.older_lists.get()),
            (
                "controller_recorded_events_dropped_total",
                self.recorded_events_dropped.get(),
            ),
        ] {
            write_type_line(&mut out, name, "counter");
            let _ = writeln!(out, "{name} {value}");
        }
        write_type_line(&mut out, "leader_election_master_status", "gauge");
        let _ = writeln!(out, "leader_election_master_status {}", self.leading.get());
        out
    }
}

fn write_type_line(out: &mut String, name: &str, kind: &str) {
    let _ = writeln!(out, "# TYPE {name} {kind}");
}

type NamedMetrics = (&'static str, Arc<ControllerMetrics>);
type MetricValue = fn(&ControllerMetrics) -> i64;

/// A counter never gets near `i64::MAX`.
fn signed(counter: &Counter) -> i64 {
    i64::try_from(counter.get()).unwrap_or(i64::MAX)
}

const SCALAR_METRICS: &[(&str, &str, &str, MetricValue)] = &[
    (
        "controller_runtime_reconcile_total",
        "counter",
        "result=\"success\"",
        |m| signed(&m.succeeded),
    ),
    (
        "controller_runtime_reconcile_total",
        "counter",
        "result=\"requeue_after\"",
        |m| signed(&m.requeued),
    ),
    (
        "controller_runtime_reconcile_total",
        "counter",
        "result=\"requeue\"",
        |m| signed(&m.conflicts),
    ),
    (
        "controller_runtime_reconcile_total",
        "counter",
        "result=\"error\"",
        |m| signed(&m.failed),
    ),
    (
        "controller_runtime_reconcile_errors_total",
        "counter",
        "",
        |m| signed(&m.failed),
    ),
    (
        "controller_runtime_terminal_reconcile_errors_total",
        "counter",
        "",
        |m| signed(&m.terminal),
    ),
    (
        "controller_runtime_reconcile_panics_total",
        "counter",
        "",
        |m| signed(&m.panics),
    ),
    (
        "controller_runtime_reconcile_timeouts_total",
        "counter",
        "",
        |m| signed(&m.timeouts),
    ),
    (
        "controller_runtime_max_concurrent_reconciles",
        "gauge",
        "",
        |m| m.workers_max.get(),
    ),
    ("controller_runtime_active_workers", "gauge", "", |m| {
        m.active.get()
    }),
    ("controller_conflicts_total", "counter", "", |m| {
        signed(&m.conflicts)
    }),
    ("controller_lost_answers_total", "counter", "", |m| {
        signed(&m.lost_responses)
    }),
    ("controller_writes_total", "counter", "", |m| {
        signed(&m.writes)
    }),
    ("controller_writes_saved_total", "counter", "", |m| {
        signed(&m.writes_saved)
    }),
    ("controller_loops_broken_total", "counter", "", |m| {
        signed(&m.loops_broken)
    }),
    ("controller_parked_keys", "gauge", "", |m| m.parked.get()),
    ("controller_gate_timeouts_total", "counter", "", |m| {
        signed(&m.gate_timeouts)
    }),
    ("workqueue_depth", "gauge", "", |m| m.depth.get()),
    ("workqueue_adds_total", "counter", "", |m| signed(&m.adds)),
    ("workqueue_retries_total", "counter", "", |m| {
        signed(&m.retries)
    }),
];

fn write_controllers(out: &mut String, controllers: &[NamedMetrics]) {
    let mut last = "";
    for (name, kind, label, value) in SCALAR_METRICS {
        if *name != last {
            write_type_line(out, name, kind);
        }
        last = name;
        for (controller, metrics) in controllers {
            let comma = if label.is_empty() { "" } else { "," };
            let value = value(metrics);
            let _ = writeln!(
                out,
                "{name}{{controller=\"{controller}\"{comma}{label}}} {value}"
            );
        }
    }
    write_type_line(
        out,
        "controller_runtime_reconcile_time_seconds",
        "histogram",
    );
    for (controller, metrics) in controllers {
        let labels = format!("controller=\"{controller}\"");
        metrics
            .reconcile_time
            .write(out, "controller_runtime_reconcile_time_seconds", &labels);
    }
    write_type_line(out, "workqueue_queue_duration_seconds", "histogram");
    for (controller, metrics) in controllers {
        let labels = format!("controller=\"{controller}\",name=\"{controller}\"");
        metrics
            .queue_duration
            .write(out, "workqueue_queue_duration_seconds", &labels);
    }
}
