//! What the server counts, under the names that dashboards know (wire §4.2).
//!
//! A request finds its row by a hash of what it is about, and only the first of its kind
//! writes down what the row is called. What clients make up has no row: only what is
//! served, to somebody who may ask for it, is counted under its name.

mod page;

pub(crate) use page::page;

use crate::access::Asked;
use crate::query;
use optik_access::Resource;
use optik_platform::UnixMillis;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Requests of different kinds rarely wait for each other.
const SHARDS: usize = 16;
/// Definitions are the users' to make; beyond this many their kinds share a row.
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
    /// What is served there; `None` for everything that is no resource.
    of: Option<Served>,
    /// All labels but the code, as they are printed.
    labels: String,
    codes: BTreeMap<u16, u64>,
    buckets: [u64; BUCKETS_SECONDS.len()],
    count: u64,
    seconds: f64,
}

/// The name of something that is served.
#[derive(Clone, Debug)]
struct Served {
    group: String,
    version: String,
    resource: String,
    subresource: String,
}

impl Served {
    fn named(&self) -> Resource<'_> {
        Resource {
            group: &self.group,
            version: &self.version,
            resource: &self.resource,
            subresource: &self.subresource,
            ..Resource::default()
        }
    }
}

/// Who counts as having asked for what their path names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Passed {
    #[default]
    Nothing,
    /// Somebody who may.
    Authorizer,
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

    /// Notes an answer. How long a watch takes says nothing. `serves` is asked about what
    /// has no row yet.
    pub(crate) fn note(
        &self,
        asked: Asked<'_>,
        passed: Passed,
        answer: (u16, Option<Duration>),
        serves: impl FnOnce(&Resource<'_>) -> bool,
    ) {
        let about = About::of(asked);
        let counted = match passed {
            Passed::Authorizer => self.count(&about, answer, serves),
            Passed::Nothing => false,
        };
        if !counted {
            let nothing = About {
                verb: verb(asked.method.as_str(), ""),
                ..About::default()
            };
            self.count(&nothing, answer, |_| true);
        }
    }

    /// Whether there is a row for it.
    fn count(
        &self,
        about: &About<'_>,
        (code, took): (u16, Option<Duration>),
        serves: impl FnOnce(&Resource<'_>) -> bool,
    ) -> bool {
        let hash = about.hash();
        let mut rows = self.rows(hash);
        let new = !rows.contains_key(&hash);
        if new && about.is_named() && (rows.len() >= ROWS_PER_SHARD_MAX || !serves(&about.of)) {
            return false;
        }
        let row = rows.entry(hash).or_insert_with(|| Row::new(about));
        *row.codes.entry(code).or_default() += 1;
        if let Some(took) = took {
            row.note(took.as_secs_f64());
        }
        true
    }

    /// Forgets what is not served any more.
    pub(crate) fn forget(&self, serves: impl Fn(&Resource<'_>) -> bool) {
        for shard in 0..SHARDS as u64 {
            self.rows(shard).retain(|_, row| {
                let of = row.of.as_ref();
                of.is_none_or(|of| serves(&of.named()))
            });
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
    fn new(about: &About<'_>) -> Self {
        let of = about.of;
        Self {
            of: about.is_named().then(|| Served {
                group: of.group.into(),
                version: of.version.into(),
                resource: of.resource.into(),
                subresource: of.subresource.into(),
            }),
            labels: about.labels(),
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
    /// Nothing in it if it is no resource.
    of: Resource<'a>,
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
            of,
            scope: match (of.name, of.namespace) {
                ("", "") => "cluster",
                ("", _) => "namespace",
                _ => "resource",
            },
        }
    }

    fn is_named(&self) -> bool {
        self.of != Resource::default()
    }

    fn hash(&self) -> u64 {
        let words = [
            self.verb,
            self.of.group,
            self.of.version,
            self.of.resource,
            self.of.subresource,
            self.scope,
        ];
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ u64::from(self.dry_run);
        for word in words {
            for byte in word.bytes().chain([0xff]) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        hash
    }

    fn labels(&self) -> String {
        format!(
            "component=\"apiserver\",dry_run=\"{}\",group={},resource={},scope=\"{}\",\
             subresource={},verb=\"{}\",version={}",
            if self.dry_run { "All" } else { "" },
            optik_object::quote(self.of.group),
            optik_object::quote(self.of.resource),
            self.scope,
            optik_object::quote(self.of.subresource),
            self.verb,
            optik_object::quote(self.of.version),
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
            asked_for(&Method::GET, path, |asked| {
                metrics.note(asked, Passed::Authorizer, (code, took), |_| true);
            });
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

    /// However many paths clients think of, and whoever they are.
    #[test]
    fn what_is_not_served_has_no_row() {
        let metrics = Metrics::new(UnixMillis(0));
        let long = "x".repeat(8000);
        for number in 0..10_000 {
            for (path, passed) in [
                (format!("/api/v1/nosuch{number}/{long}"), Passed::Authorizer),
                (
                    format!("/api/v1/pods/{number}/nosuch{number}"),
                    Passed::Authorizer,
                ),
                (format!("/apis/g{number}/v1/pods"), Passed::Nothing),
                (format!("/{number}/{long}"), Passed::Authorizer),
                ("/api/v1/services".to_owned(), Passed::Nothing),
            ] {
                asked_for(&Method::GET, &path, |asked| {
                    let serves = |of: &Resource<'_>| {
                        of.subresource.is_empty() && matches!(of.resource, "pods" | "services")
                    };
                    metrics.note(asked, passed, (404, None), serves);
                });
            }
        }
        let rows = metrics.all_rows();
        assert_eq!(rows.len(), 1, "{:?}", rows.last());
        assert!(page(&metrics).len() < 20_000);
    }

    /// However many definitions come and go.
    #[test]
    fn what_was_served_once_is_forgotten() {
        let metrics = Metrics::new(UnixMillis(0));
        let ask = |path: &str| {
            asked_for(&Method::GET, path, |asked| {
                metrics.note(asked, Passed::Authorizer, (200, None), |_| true);
            });
        };
        for number in 0..100_000 {
            ask(&format!("/apis/g/v1/kind{number}"));
        }
        assert!(metrics.all_rows().len() <= SHARDS * (ROWS_PER_SHARD_MAX + 1));
        metrics.forget(|of| of.resource == "kind1");
        let left: Vec<_> = metrics
            .all_rows()
            .into_iter()
            .filter_map(|row| row.of)
            .collect();
        assert_eq!(left.len(), 1, "{left:?}");
        ask("/apis/g/v1/new");
        assert_eq!(
            metrics
                .all_rows()
                .iter()
                .filter(|row| row.of.is_some())
                .count(),
            2
        );
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
