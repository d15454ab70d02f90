//! Request metrics, under upstream's names (WIRE §4.2).
//!
//! A request finds its series by a hash of its labels; the label text is rendered only for the
//! first request of a series. Labels are bounded: a path is counted under its resource only if that
//! resource is served and the user is authorized for it.

mod exposition;

pub(crate) use exposition::render;

use crate::access::RequestMeta;
use crate::query;
use optik_auth::ResourceAttributes;
use optik_platform::UnixMillis;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Sharding keeps requests of different kinds from contending for one lock.
const SHARDS: usize = 16;
/// Users can create any number of CRDs; beyond this number of series their resources share one.
const SERIES_PER_SHARD_MAX: usize = 256;

/// The upper bounds of the duration buckets.
pub(crate) const BUCKETS_SECONDS: [f64; 22] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0,
];

pub(crate) struct RequestMetrics {
    shards: [Mutex<BTreeMap<u64, RequestSeries>>; SHARDS],
    in_flight: InflightGauges,
    pub(crate) started: UnixMillis,
}

/// Requests in flight, watches excluded.
#[derive(Debug, Default)]
struct InflightGauges {
    reading: AtomicI64,
    mutating: AtomicI64,
    long_running: AtomicI64,
}

#[derive(Clone, Debug)]
struct RequestSeries {
    /// The resource; `None` for non-resource requests.
    resource: Option<ResourceLabels>,
    /// All labels except the code, rendered.
    labels: String,
    codes: BTreeMap<u16, u64>,
    buckets: [u64; BUCKETS_SECONDS.len()],
    count: u64,
    seconds: f64,
}

/// The name of a served resource.
#[derive(Clone, Debug)]
struct ResourceLabels {
    group: String,
    version: String,
    resource: String,
    subresource: String,
}

impl ResourceLabels {
    fn as_resource(&self) -> ResourceAttributes<'_> {
        ResourceAttributes {
            group: &self.group,
            version: &self.version,
            resource: &self.resource,
            subresource: &self.subresource,
            ..ResourceAttributes::default()
        }
    }
}

/// How far a request got, which decides whether it is counted under its resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RequestPhase {
    #[default]
    Unauthorized,
    /// The request was authorized.
    Authorized,
}

/// A request in flight.
pub(crate) struct InflightGuard<'m> {
    gauge: &'m AtomicI64,
}

impl Drop for InflightGuard<'_> {
    fn drop(&mut self) {
        self.gauge.fetch_sub(1, Ordering::Relaxed);
    }
}

impl RequestMetrics {
    pub(crate) fn new(started: UnixMillis) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            in_flight: InflightGauges::default(),
            started,
        }
    }

    /// Counts a request as in flight until the guard is dropped.
    pub(crate) fn begin_request(
        &self,
        asked: RequestMeta<'_>,
        long_running: bool,
    ) -> InflightGuard<'_> {
        let gauge = match asked.method.as_str() {
            _ if long_running => &self.in_flight.long_running,
            "GET" | "HEAD" | "OPTIONS" => &self.in_flight.reading,
            _ => &self.in_flight.mutating,
        };
        gauge.fetch_add(1, Ordering::Relaxed);
        InflightGuard { gauge }
    }

    /// Counts a response. The duration of a watch is not recorded. `serves` is called for resources
    /// without a series only.
    pub(crate) fn record(
        &self,
        asked: RequestMeta<'_>,
        passed: RequestPhase,
        answer: (u16, Option<Duration>),
        serves: impl FnOnce(&ResourceAttributes<'_>) -> bool,
    ) {
        let about = RequestLabels::from_meta(asked);
        let counted = match passed {
            RequestPhase::Authorized => self.count(&about, answer, serves),
            RequestPhase::Unauthorized => false,
        };
        if !counted {
            let nothing = RequestLabels {
                verb: verb_label(asked.method.as_str(), ""),
                ..RequestLabels::default()
            };
            self.count(&nothing, answer, |_| true);
        }
    }

    /// Counts a response; returns false if it has no series and must not create one.
    fn count(
        &self,
        about: &RequestLabels<'_>,
        (code, took): (u16, Option<Duration>),
        serves: impl FnOnce(&ResourceAttributes<'_>) -> bool,
    ) -> bool {
        let hash = about.hash();
        let mut rows = self.shard_rows(hash);
        let new = !rows.contains_key(&hash);
        if new
            && about.is_resource()
            && (rows.len() >= SERIES_PER_SHARD_MAX || !serves(&about.resource))
        {
            return false;
        }
        let row = rows
            .entry(hash)
            .or_insert_with(|| RequestSeries::new(about));
        *row.codes.entry(code).or_default() += 1;
        if let Some(took) = took {
            row.observe(took.as_secs_f64());
        }
        true
    }

    /// Removes the series of resources that are not served any more.
    pub(crate) fn retain_served(&self, serves: impl Fn(&ResourceAttributes<'_>) -> bool) {
        for shard in 0..SHARDS as u64 {
            self.shard_rows(shard).retain(|_, row| {
                let of = row.resource.as_ref();
                of.is_none_or(|of| serves(&of.as_resource()))
            });
        }
    }

    fn shard_rows(&self, hash: u64) -> MutexGuard<'_, BTreeMap<u64, RequestSeries>> {
        let shard = &self.shards[hash as usize % SHARDS];
        // A panic cannot leave a series inconsistent: its counters only increase.
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all_rows(&self) -> Vec<RequestSeries> {
        let hashes = 0..SHARDS as u64;
        let mut rows: Vec<RequestSeries> = hashes
            .flat_map(|hash| self.shard_rows(hash).values().cloned().collect::<Vec<_>>())
            .collect();
        rows.sort_by(|a, b| a.labels.cmp(&b.labels));
        rows
    }
}

impl RequestSeries {
    fn new(about: &RequestLabels<'_>) -> Self {
        let of = about.resource;
        Self {
            resource: about.is_resource().then(|| ResourceLabels {
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

    fn observe(&mut self, seconds: f64) {
        self.count += 1;
        self.seconds += seconds;
        let bucket = BUCKETS_SECONDS.iter().position(|bound| seconds <= *bound);
        if let Some(bucket) = bucket {
            self.buckets[bucket] += 1;
        }
    }
}

/// The labels of a request.
#[derive(Default)]
struct RequestLabels<'a> {
    verb: &'static str,
    dry_run: bool,
    /// Empty for non-resource requests.
    resource: ResourceAttributes<'a>,
    scope: &'static str,
}

impl<'a> RequestLabels<'a> {
    fn from_meta(asked: RequestMeta<'a>) -> Self {
        let Some(of) = asked.info.resource() else {
            return Self {
                verb: verb_label(asked.method.as_str(), ""),
                ..Self::default()
            };
        };
        let own = asked.info.verb();
        let mutates = !matches!(own, "get" | "list" | "watch" | "");
        Self {
            verb: verb_label(asked.method.as_str(), own),
            dry_run: mutates && query::value(asked.query, "dryRun").is_some(),
            resource: of,
            scope: match (of.name, of.namespace) {
                ("", "") => "cluster",
                ("", _) => "namespace",
                _ => "resource",
            },
        }
    }

    fn is_resource(&self) -> bool {
        self.resource != ResourceAttributes::default()
    }

    fn hash(&self) -> u64 {
        let words = [
            self.verb,
            self.resource.group,
            self.resource.version,
            self.resource.resource,
            self.resource.subresource,
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
            optik_object::quote(self.resource.group),
            optik_object::quote(self.resource.resource),
            self.scope,
            optik_object::quote(self.resource.subresource),
            self.verb,
            optik_object::quote(self.resource.version),
        )
    }
}

/// The value of the label `verb`.
fn verb_label(method: &str, verb: &str) -> &'static str {
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
    use crate::access::with_request_meta;
    use http::Method;

    /// WIRE-88: the nine labels.
    #[test]
    fn request_metrics_have_the_nine_upstream_labels() {
        let metrics = RequestMetrics::new(UnixMillis(0));
        let path = "/apis/apps/v1/namespaces/a/deployments/b/status";
        for (code, millis) in [(200, 20), (404, 1)] {
            let took = Some(Duration::from_millis(millis));
            with_request_meta(&Method::GET, path, |asked| {
                metrics.record(asked, RequestPhase::Authorized, (code, took), |_| true);
            });
        }
        let text = render(&metrics);
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

    /// The number of series does not grow with paths or users.
    #[test]
    fn request_metrics_have_no_series_for_unserved_paths() {
        let metrics = RequestMetrics::new(UnixMillis(0));
        let long = "x".repeat(8000);
        for number in 0..10_000 {
            for (path, passed) in [
                (
                    format!("/api/v1/nosuch{number}/{long}"),
                    RequestPhase::Authorized,
                ),
                (
                    format!("/api/v1/pods/{number}/nosuch{number}"),
                    RequestPhase::Authorized,
                ),
                (
                    format!("/apis/g{number}/v1/pods"),
                    RequestPhase::Unauthorized,
                ),
                (format!("/{number}/{long}"), RequestPhase::Authorized),
                ("/api/v1/services".to_owned(), RequestPhase::Unauthorized),
            ] {
                with_request_meta(&Method::GET, &path, |asked| {
                    let serves = |of: &ResourceAttributes<'_>| {
                        of.subresource.is_empty() && matches!(of.resource, "pods" | "services")
                    };
                    metrics.record(asked, passed, (404, None), serves);
                });
            }
        }
        let rows = metrics.all_rows();
        assert_eq!(rows.len(), 1, "{:?}", rows.last());
        assert!(render(&metrics).len() < 20_000);
    }

    /// The number of series does not grow as CRDs come and go.
    #[test]
    fn request_metrics_drop_series_of_removed_resources() {
        let metrics = RequestMetrics::new(UnixMillis(0));
        let ask = |path: &str| {
            with_request_meta(&Method::GET, path, |asked| {
                metrics.record(asked, RequestPhase::Authorized, (200, None), |_| true);
            });
        };
        for number in 0..100_000 {
            ask(&format!("/apis/g/v1/kind{number}"));
        }
        assert!(metrics.all_rows().len() <= SHARDS * (SERIES_PER_SHARD_MAX + 1));
        metrics.retain_served(|of| of.resource == "kind1");
        let left: Vec<_> = metrics
            .all_rows()
            .into_iter()
            .filter_map(|row| row.resource)
            .collect();
        assert_eq!(left.len(), 1, "{left:?}");
        ask("/apis/g/v1/new");
        assert_eq!(
            metrics
                .all_rows()
                .iter()
                .filter(|row| row.resource.is_some())
                .count(),
            2
        );
    }

    #[test]
    fn inflight_gauge_counts_running_requests() {
        let metrics = RequestMetrics::new(UnixMillis(0));
        let path = "/api/v1/pods";
        let first = with_request_meta(&Method::POST, path, |asked| {
            metrics.begin_request(asked, false)
        });
        let line = "apiserver_current_inflight_requests{request_kind=\"mutating\"}";
        assert!(render(&metrics).contains(&format!("{line} 1\n")));
        drop(first);
        assert!(render(&metrics).contains(&format!("{line} 0\n")));
    }
}
