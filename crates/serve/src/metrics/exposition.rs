//! Rendering of metrics in the text format of Prometheus.

use super::{BUCKETS_SECONDS, RequestMetrics, RequestSeries};
use std::fmt::Write;
use std::sync::atomic::Ordering;

/// Renders all metrics of this crate.
pub(crate) fn render(metrics: &RequestMetrics) -> String {
    let mut out = String::with_capacity(64 * 1024);
    let rows = metrics.all_rows();
    requests(&rows, &mut out);
    for name in [
        "apiserver_request_duration_seconds",
        "apiserver_request_sli_duration_seconds",
    ] {
        durations(name, &rows, &mut out);
    }
    let flight = &metrics.in_flight;
    type_line("apiserver_current_inflight_requests", "gauge", &mut out);
    for (kind, gauge) in [
        ("mutating", &flight.mutating),
        ("readOnly", &flight.reading),
    ] {
        let now = gauge.load(Ordering::Relaxed);
        let name = "apiserver_current_inflight_requests";
        line(
            &mut out,
            format_args!("{name}{{request_kind=\"{kind}\"}} {now}"),
        );
    }
    type_line("apiserver_longrunning_requests", "gauge", &mut out);
    let now = flight.long_running.load(Ordering::Relaxed);
    line(
        &mut out,
        format_args!("apiserver_longrunning_requests {now}"),
    );
    type_line("kubernetes_build_info", "gauge", &mut out);
    let build = "git_version=\"v1.36.4\",major=\"1\",minor=\"36\",platform=\"linux/amd64\"";
    line(&mut out, format_args!("kubernetes_build_info{{{build}}} 1"));
    type_line("process_start_time_seconds", "gauge", &mut out);
    let started = metrics.started.0 as f64 / 1000.0;
    line(
        &mut out,
        format_args!("process_start_time_seconds {started}"),
    );
    process_metrics(&mut out);
    out
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{text}");
}

fn type_line(name: &str, kind: &str, out: &mut String) {
    line(out, format_args!("# TYPE {name} {kind}"));
}

fn requests(rows: &[RequestSeries], out: &mut String) {
    type_line("apiserver_request_total", "counter", out);
    for row in rows {
        for (code, count) in &row.codes {
            let labels = &row.labels;
            line(
                out,
                format_args!("apiserver_request_total{{code=\"{code}\",{labels}}} {count}"),
            );
        }
    }
}

fn durations(name: &str, rows: &[RequestSeries], out: &mut String) {
    type_line(name, "histogram", out);
    for row in rows.iter().filter(|row| row.count > 0) {
        let labels = &row.labels;
        let mut below = 0;
        for (bound, count) in BUCKETS_SECONDS.iter().zip(row.buckets) {
            below += count;
            line(
                out,
                format_args!("{name}_bucket{{{labels},le=\"{bound}\"}} {below}"),
            );
        }
        let (count, seconds) = (row.count, row.seconds);
        line(
            out,
            format_args!("{name}_bucket{{{labels},le=\"+Inf\"}} {count}"),
        );
        line(out, format_args!("{name}_sum{{{labels}}} {seconds}"));
        line(out, format_args!("{name}_count{{{labels}}} {count}"));
    }
}

/// Process metrics from `/proc`; nothing on systems without it.
fn process_metrics(out: &mut String) {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}"));
    if let Ok(text) = read("statm") {
        const PAGE_BYTES: u64 = 4096;
        let mut words = text.split(' ').filter_map(|word| word.parse::<u64>().ok());
        if let (Some(all), Some(resident)) = (words.next(), words.next()) {
            for (name, pages) in [
                ("process_virtual_memory_bytes", all),
                ("process_resident_memory_bytes", resident),
            ] {
                type_line(name, "gauge", out);
                line(out, format_args!("{name} {}", pages * PAGE_BYTES));
            }
        }
    }
    if let Ok(text) = read("stat") {
        const TICKS_PER_SECOND: f64 = 100.0;
        // The fields follow the process name, which may contain spaces.
        let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
        let ticks = rest.split_ascii_whitespace().skip(11).take(2);
        let ticks: f64 = ticks.filter_map(|word| word.parse::<f64>().ok()).sum();
        type_line("process_cpu_seconds_total", "counter", out);
        let seconds = ticks / TICKS_PER_SECOND;
        line(out, format_args!("process_cpu_seconds_total {seconds}"));
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        type_line("process_open_fds", "gauge", out);
        line(out, format_args!("process_open_fds {}", files.count()));
    }
}
