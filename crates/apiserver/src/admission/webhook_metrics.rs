//! Metrics of webhook calls, under upstream's names.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const BUCKETS_SECONDS: [f64; 8] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];
/// The maximum number of series: webhook names come from configurations.
const SERIES_MAX: usize = 4096;

/// The outcome of a webhook call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WebhookOutcome {
    Allowed,
    /// The webhook denied the write, with this code.
    Denied(u16),
    /// The call failed.
    Failed(u16),
    /// The call failed, and `failurePolicy: Ignore` admitted the write.
    FailedOpen(u16),
    /// The response could not be applied.
    InvalidResponse,
}

/// A finished call.
pub(crate) struct FinishedCall<'a> {
    pub(crate) hook: &'a str,
    /// `admit` or `validating`
    pub(crate) kind: &'static str,
    pub(crate) operation: &'static str,
    pub(crate) duration: Duration,
    pub(crate) outcome: WebhookOutcome,
}

#[derive(Debug, Default)]
pub(crate) struct WebhookMetrics {
    counts: Mutex<WebhookCounts>,
}

#[derive(Debug, Default)]
struct WebhookCounts {
    durations: BTreeMap<String, WebhookLatencyHistogram>,
    requests: BTreeMap<String, u64>,
    rejections: BTreeMap<String, u64>,
    failed_open: BTreeMap<String, u64>,
}

#[derive(Debug, Default)]
struct WebhookLatencyHistogram {
    buckets: [u64; BUCKETS_SECONDS.len()],
    seconds: f64,
    count: u64,
}

fn add(rows: &mut BTreeMap<String, u64>, labels: String) {
    if rows.len() < SERIES_MAX || rows.contains_key(&labels) {
        *rows.entry(labels).or_default() += 1;
    }
}

impl WebhookMetrics {
    pub(crate) fn count(&self, call: &FinishedCall<'_>) {
        let FinishedCall {
            hook,
            kind,
            operation,
            duration: took,
            outcome,
        } = call;
        let name = hook.replace(['"', '\\', '\n'], "");
        let (rejected, code) = match outcome {
            WebhookOutcome::Allowed => (false, 200),
            WebhookOutcome::Denied(code) | WebhookOutcome::Failed(code) => (true, *code),
            WebhookOutcome::FailedOpen(code) => (false, *code),
            WebhookOutcome::InvalidResponse => (true, 0),
        };
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let about = format!("name=\"{name}\",operation=\"{operation}\"");
        let row = format!("{about},rejected=\"{rejected}\",type=\"{kind}\"");
        if counts.durations.len() < SERIES_MAX || counts.durations.contains_key(&row) {
            counts.durations.entry(row).or_default().observe(*took);
        }
        add(
            &mut counts.requests,
            format!("code=\"{code}\",{about},rejected=\"{rejected}\",type=\"{kind}\""),
        );
        let why = match outcome {
            WebhookOutcome::Allowed => return,
            WebhookOutcome::FailedOpen(_) => {
                let labels = format!("name=\"{name}\",type=\"{kind}\"");
                return add(&mut counts.failed_open, labels);
            }
            WebhookOutcome::Denied(_) => "no_error",
            WebhookOutcome::Failed(_) => "calling_webhook_error",
            WebhookOutcome::InvalidResponse => "apiserver_internal_error",
        };
        // Codes above 600 share one series, 600.
        let code = code.min(600);
        let labels =
            format!("error_type=\"{why}\",{about},rejection_code=\"{code}\",type=\"{kind}\"");
        add(&mut counts.rejections, labels);
    }

    /// Renders the metrics in the Prometheus text format.
    pub(crate) fn render(&self) -> String {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = String::new();
        let name = "apiserver_admission_webhook_admission_duration_seconds";
        line(&mut out, format_args!("# TYPE {name} histogram"));
        for (labels, histogram) in &counts.durations {
            histogram.write(name, labels, &mut out);
        }
        for (name, rows) in [
            (
                "apiserver_admission_webhook_request_total",
                &counts.requests,
            ),
            (
                "apiserver_admission_webhook_rejection_count",
                &counts.rejections,
            ),
            (
                "apiserver_admission_webhook_fail_open_count",
                &counts.failed_open,
            ),
        ] {
            line(&mut out, format_args!("# TYPE {name} counter"));
            for (labels, count) in rows {
                line(&mut out, format_args!("{name}{{{labels}}} {count}"));
            }
        }
        out
    }
}

impl WebhookLatencyHistogram {
    fn observe(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        self.count += 1;
        self.seconds += seconds;
        let bounds = BUCKETS_SECONDS.iter().zip(&mut self.buckets);
        for (_, count) in bounds.filter(|(bound, _)| seconds <= **bound) {
            *count += 1;
        }
    }

    fn write(&self, name: &str, labels: &str, out: &mut String) {
        for (bound, count) in BUCKETS_SECONDS.iter().zip(self.buckets) {
            line(
                out,
                format_args!("{name}_bucket{{{labels},le=\"{bound}\"}} {count}"),
            );
        }
        let count = self.count;
        line(
            out,
            format_args!("{name}_bucket{{{labels},le=\"+Inf\"}} {count}"),
        );
        line(out, format_args!("{name}_sum{{{labels}}} {}", self.seconds));
        line(out, format_args!("{name}_count{{{labels}}} {count}"));
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhook_metrics_count_calls_by_outcome() {
        let metrics = WebhookMetrics::default();
        for outcome in [
            WebhookOutcome::Allowed,
            WebhookOutcome::Denied(403),
            WebhookOutcome::FailedOpen(503),
        ] {
            metrics.count(&FinishedCall {
                hook: "a.b.c",
                kind: "admit",
                operation: "CREATE",
                duration: Duration::from_millis(20),
                outcome,
            });
        }
        let page = metrics.render();
        for expected in [
            "duration_seconds_bucket{name=\"a.b.c\",operation=\"CREATE\",rejected=\"false\",type=\"admit\",le=\"0.005\"} 0",
            "duration_seconds_bucket{name=\"a.b.c\",operation=\"CREATE\",rejected=\"false\",type=\"admit\",le=\"0.025\"} 2",
            "request_total{code=\"403\",name=\"a.b.c\",operation=\"CREATE\",rejected=\"true\",type=\"admit\"} 1",
            "rejection_count{error_type=\"no_error\",name=\"a.b.c\",operation=\"CREATE\",rejection_code=\"403\",type=\"admit\"} 1",
            "fail_open_count{name=\"a.b.c\",type=\"admit\"} 1",
        ] {
            assert!(page.contains(expected), "{expected}\n{page}");
        }
    }
}
