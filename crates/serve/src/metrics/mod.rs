//! What the server counts, under the names that dashboards know (wire §4.2).
//!
//! A request finds its row by a hash of what it is about, and only the first of its kind
//! writes down what the row is called.

mod page;

pub(crate) use page::page;

use crate::access::Asked;
use crate::query;
use optik_platform::UnixMillis;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Requests of different kinds rarely wait for each other.
const SHARDS: usize = 16;
/// Paths are the clients' to choose; beyond this many they share a row.
const ROWS_PER_SHARD_MAX: usize = 256;

/// The upper bounds of the buckets of durations.
pub(crate) const BUCKETS_SECONDS: [f64; 22] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0,
];

pub(crate) struct Metrics {
    shards: [Mutex<BTreeMap<u64, Row>>; SHARDS],
    in_flight: InFlight,
    pub(crate) started: UnixMillis,
}

/// Requests that are being answered, watches left out.
#[derive(Debug, Default)]
struct InFlight {
    reading: AtomicI64,
    mutating: AtomicI64,
    long_running: AtomicI64,
}

#[derive(Clone, Debug)]
struct Row {
    /// All labels but the code, as they are printed.
    labels: String,
    codes: BTreeMap<u16, u64>,
    buckets: [u64; BUCKETS_SECONDS.len()],
    count: u64,
    seconds: f64,
}

/// A request that is being answered.
pub(crate) struct Counted<'m> {
    gauge: &'m AtomicI64,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.gauge.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    pub(crate) fn new(started: UnixMillis) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            in_flight: InFlight::default(),
            started,
        }
    }

    /// Counts a request until the guard is dropped.
    pub(crate) fn begin(&self, asked: Asked<'_>, long_running: bool) -> Counted<'_> {
        let gauge = match asked.method.as_str() {
            _ if long_running => &self.in_flight.long_running,
            "GET" | "HEAD" | "OPTIONS" => &self.in_flight.reading,
            _ => &self.in_flight.mutating,
        };
        gauge.fetch_add(1, Ordering::Relaxed);
        Counted { gauge }
    }

    /// Notes an answer. How long a watch takes says nothing.
    pub(crate) fn note(&self, asked: Asked<'_>, code: u16, took: Option<Duration>) {
        let about = About::of(asked);
        let hash = about.hash();
        let mut rows = self.rows(hash);
        let hash = match rows.contains_key(&hash) || rows.len() < ROWS_PER_SHARD_MAX {
            true => hash,
            false => 0,
        };
        let row = rows.entry(hash).or_insert_with(|| Row::new(&about, hash));
        *row.codes.entry(code).or_default() += 1;
        if let Some(took) = took {
            row.note(took.as_secs_f64());
        }
    }

    fn rows(&self, hash: u64) -> MutexGuard<'_, BTreeMap<u64, Row>> {
        let shard = &self.shards[hash as usize % SHARDS];
        // A row is only ever counted up.
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all_rows(&self) -> Vec<Row> {
        let hashes = 0..SHARDS as u64;
        let mut rows: Vec<Row> = hashes
            .flat_map(|hash| self.rows(hash).values().cloned().collect::<Vec<_>>())
            .collect();
        rows.sort_by(|a, b| a.labels.cmp(&b.labels));
        rows
    }
}

impl Row {
    fn new(about: &About<'_>, hash: u64) -> Self {
        Self {
            labels: match hash {
                0 => About::default().labels(),
                _ => about.labels(),
            },
            codes: BTreeMap::new(),
            buckets: [0; BUCKETS_SECONDS.len()],
            count: 0,
            seconds: 0.0,
        }
    }

    fn note(&mut self, seconds: f64) {
        self.count += 1;
        self.seconds += seconds;
        let bucket = BUCKETS_SECONDS.iter().position(|bound| seconds <= *bound);
        if let Some(bucket) = bucket {
            self.buckets[bucket] += 1;
        }
    }
}

/// What a request is about.
#[derive(Default)]
struct About<'a> {
    verb: &'static str,
    dry_run: bool,
    group: &'a str,
    version: &'a str,
    resource: &'a str,
    subresource: &'a str,
    scope: &'static str,
}

impl<'a> About<'a> {
    fn of(asked: Asked<'a>) -> Self {
        let Some(of) = asked.info.resource() else {
            return Self {
                verb: verb(asked.method.as_str(), ""),
                ..Self::default()
            };
        };
        let own = asked.info.verb();
        let mutates = !matches!(own, "get" | "list" | "watch" | "");
        Self {
            verb: verb(asked.method.as_str(), own),
            dry_run: mutates && query::value(asked.query, "dryRun").is_some(),
            group: of.group,
            version: of.version,
            resource: of.resource,
            subresource: of.subresource,
            scope: match (of.name, of.namespace) {
                ("", "") => "cluster",
                ("", _) => "namespace",
                _ => "resource",
            },
        }
    }

    /// Never zero.
    fn hash(&self) -> u64 {
        let words = [
            self.verb,
            self.group,
            self.version,
            self.resource,
            self.subresource,
            self.scope,
        ];
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ u64::from(self.dry_run);
        for word in words {
            for byte in word.bytes().chain([0xff]) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        hash.max(1)
    }

    fn labels(&self) -> String {
        format!(
            "component=\"apiserver\",dry_run=\"{}\",group={},resource={},scope=\"{}\",\
             subresource={},verb=\"{}\",version={}",
            if self.dry_run { "All" } else { "" },
            optik_object::quote(self.group),
            optik_object::quote(self.resource),
            self.scope,
            optik_object::quote(self.subresource),
            self.verb,
            optik_object::quote(self.version),
        )
    }
}

/// What dashboards call it.
fn verb(method: &str, verb: &str) -> &'static str {
    match (verb, method) {
        ("get", _) => "GET",
        ("list", _) => "LIST",
        ("watch", _) => "WATCH",
        ("create", _) => "POST",
        ("update", _) => "PUT",
        ("patch", _) => "PATCH",
        ("delete", _) => "DELETE",
        ("deletecollection", _) => "DELETECOLLECTION",
        (_, "GET") => "GET",
        (_, "POST") => "POST",
        (_, "PUT") => "PUT",
        (_, "DELETE") => "DELETE",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::asked_for;
    use http::Method;

    /// Checklist 88: the nine labels.
    #[test]
    fn requests_are_counted_by_what_they_are_about_88() {
        let metrics = Metrics::new(UnixMillis(0));
        let path = "/apis/apps/v1/namespaces/a/deployments/b/status";
        for (code, millis) in [(200, 20), (404, 1)] {
            let took = Some(Duration::from_millis(millis));
            asked_for(&Method::GET, path, |asked| metrics.note(asked, code, took));
        }
        let text = page(&metrics);
        let labels = "component=\"apiserver\",dry_run=\"\",group=\"apps\",\
                      resource=\"deployments\",scope=\"resource\",subresource=\"status\",\
                      verb=\"GET\",version=\"v1\"";
        for line in [
            format!("apiserver_request_total{{code=\"200\",{labels}}} 1"),
            format!("apiserver_request_total{{code=\"404\",{labels}}} 1"),
            format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"0.005\"}} 1"),
            format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"0.025\"}} 2"),
            format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"+Inf\"}} 2"),
            format!("apiserver_request_duration_seconds_count{{{labels}}} 2"),
        ] {
            assert!(text.lines().any(|own| own == line), "no {line} in\n{text}");
        }
    }

    /// However many paths clients think of.
    #[test]
    fn rows_are_bounded() {
        let metrics = Metrics::new(UnixMillis(0));
        for number in 0..100_000 {
            let path = format!("/api/v1/nosuch{number}");
            asked_for(&Method::GET, &path, |asked| metrics.note(asked, 404, None));
        }
        assert!(metrics.all_rows().len() <= SHARDS * (ROWS_PER_SHARD_MAX + 1));
    }

    #[test]
    fn what_is_in_flight() {
        let metrics = Metrics::new(UnixMillis(0));
        let path = "/api/v1/pods";
        let first = asked_for(&Method::POST, path, |asked| metrics.begin(asked, false));
        let line = "apiserver_current_inflight_requests{request_kind=\"mutating\"}";
        assert!(page(&metrics).contains(&format!("{line} 1\n")));
        drop(first);
        assert!(page(&metrics).contains(&format!("{line} 0\n")));
    }
}
