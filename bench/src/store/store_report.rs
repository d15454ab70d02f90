//! The report of `optik-bench store`, printed during the run and again at the end.

use serde::Serialize;
use std::time::Duration;

#[derive(Debug, Default, Serialize)]
pub(crate) struct StoreBenchRow {
    pub(crate) what: String,
    pub(crate) count: u64,
    pub(crate) seconds: f64,
    pub(crate) per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latency: Option<StoreBenchLatency>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<u64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) note: String,
}

/// In microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct StoreBenchLatency {
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) max: u64,
}

impl StoreBenchLatency {
    pub(crate) fn of(mut micros: Vec<u64>) -> Option<Self> {
        micros.sort_unstable();
        let at = |part: f64| {
            let index = (micros.len() as f64 * part) as usize;
            micros.get(index.min(micros.len().checked_sub(1)?)).copied()
        };
        Some(Self {
            p50: at(0.5)?,
            p99: at(0.99)?,
            max: at(1.0)?,
        })
    }
}

impl StoreBenchRow {
    pub(crate) fn rate(what: impl Into<String>, count: u64, took: Duration) -> Self {
        let seconds = took.as_secs_f64();
        Self {
            what: what.into(),
            count,
            seconds,
            per_second: count as f64 / seconds.max(1e-9),
            ..Self::default()
        }
    }

    fn text(&self) -> String {
        let mut text = format!("{:<44} {:>12.0}/s", self.what, self.per_second);
        if let Some(latency) = self.latency {
            text += &format!(
                "   p50 {:>8}  p99 {:>8}  max {:>8}",
                micros(latency.p50),
                micros(latency.p99),
                micros(latency.max)
            );
        }
        if let Some(bytes) = self.bytes {
            text += &format!("   {:.1} MB", bytes as f64 / 1e6);
        }
        if !self.note.is_empty() {
            text += &format!("   {}", self.note);
        }
        text
    }
}

fn micros(of: u64) -> String {
    match of {
        0..10_000 => format!("{of} µs"),
        _ => format!("{:.1} ms", of as f64 / 1e3),
    }
}

#[derive(Debug)]
pub(crate) struct StoreBenchReport {
    json: bool,
    rows: Vec<StoreBenchRow>,
}

impl StoreBenchReport {
    pub(crate) fn new(json: bool) -> Self {
        Self {
            json,
            rows: Vec::new(),
        }
    }

    #[expect(clippy::print_stderr, reason = "progress is for people")]
    pub(crate) fn add(&mut self, row: StoreBenchRow) {
        eprintln!("{}", row.text());
        self.rows.push(row);
    }

    #[expect(clippy::print_stdout, reason = "the result is data")]
    pub(crate) fn print(&self) {
        if self.json {
            let text = serde_json::to_string_pretty(&self.rows);
            println!("{}", text.expect("rows are plain data"));
        } else {
            self.rows.iter().for_each(|row| println!("{}", row.text()));
        }
    }
}
