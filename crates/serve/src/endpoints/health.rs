//! The health endpoints `/healthz`, `/livez` and `/readyz`.

use crate::options::{StoreCheck, StoreHealth};
use crate::query;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use http::header::X_CONTENT_TYPE_OPTIONS;
use http::{HeaderValue, StatusCode};
use optik_apiserver::ApiResponse;
use optik_object::quote;
use optik_platform::{Clock, Monotonic};
use optik_supervisor::{Impact, Supervisor};
use std::fmt::Write;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// A store that does not answer within this time is unhealthy.
const STORE_ANSWER_MAX: Duration = Duration::from_secs(2);
/// How long a result is cached: the endpoints need no authorization, and the store may be remote.
const STORE_ANSWER_AGE_MAX: Duration = Duration::from_secs(1);

/// A health check, named as upstream names it, or after its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HealthCheck {
    Ping,
    Log,
    Store,
    StoreWritable,
    Informers,
    Extensions,
    Task(&'static str, Impact),
    Shutdown,
}

impl HealthCheck {
    /// The checks of every server. The checks of tasks come before the last of these.
    const ALL: [Self; 7] = [
        Self::Ping,
        Self::Log,
        Self::Store,
        Self::StoreWritable,
        Self::Informers,
        Self::Extensions,
        Self::Shutdown,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Log => "log",
            Self::Store => "etcd",
            Self::StoreWritable => "etcd-readiness",
            Self::Informers => "informer-sync",
            Self::Extensions => "poststarthook/start-apiextensions-controllers",
            Self::Task(name, _) => name,
            Self::Shutdown => "shutdown",
        }
    }

    /// Whether the check is part of `/readyz` only.
    fn is_readiness_only(self) -> bool {
        matches!(
            self,
            Self::StoreWritable | Self::Informers | Self::Task(..) | Self::Shutdown
        )
    }

    /// Whether requests can be served while the check fails.
    fn is_optional(self) -> bool {
        matches!(self, Self::Task(_, Impact::Upkeep))
    }
}

/// The health of the server.
pub(crate) struct Health {
    store: StoreProbe,
    supervisor: Supervisor,
    ready: AtomicBool,
    stopping: AtomicBool,
}

impl Health {
    pub(crate) fn new(check: StoreCheck, clock: Arc<dyn Clock>, supervisor: Supervisor) -> Self {
        Self {
            store: StoreProbe {
                check,
                clock,
                state: Arc::default(),
            },
            supervisor,
            ready: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        }
    }

    pub(crate) fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    pub(crate) fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// The response for `path`; `None` if it is not a health endpoint.
    pub(crate) async fn respond(&self, path: &str, query: &str) -> Option<ApiResponse> {
        let (page, part) = match path.strip_prefix('/')?.split_once('/') {
            None => (&path[1..], None),
            Some((page, part)) => (page, Some(part)),
        };
        let parts = self.checks().into_iter();
        let parts: Vec<_> = match page {
            "healthz" | "livez" => parts.filter(|part| !part.is_readiness_only()).collect(),
            "readyz" => parts.collect(),
            _ => return None,
        };
        let Some(part) = part else {
            return Some(self.aggregate(page, &parts, query).await);
        };
        Some(match parts.iter().find(|known| known.name() == part) {
            None => plain_text(StatusCode::NOT_FOUND, "404 page not found\n"),
            Some(known) if self.passes(*known).await => ApiResponse::text(StatusCode::OK, "ok"),
            Some(_) => {
                let text = "internal server error: not ready\n";
                plain_text(StatusCode::INTERNAL_SERVER_ERROR, text)
            }
        })
    }

    fn checks(&self) -> Vec<HealthCheck> {
        let mut parts = HealthCheck::ALL.to_vec();
        let tasks = self.supervisor.tasks().into_iter();
        let tasks = tasks.map(|task| HealthCheck::Task(task.name, task.impact));
        parts.splice(parts.len() - 1..parts.len() - 1, tasks);
        parts
    }

    async fn aggregate(&self, page: &str, parts: &[HealthCheck], query: &str) -> ApiResponse {
        let mut excluded: Vec<_> = query::values(query, "exclude").collect();
        excluded.sort_unstable();
        excluded.dedup();
        let (mut text, mut well) = (String::new(), true);
        for part in parts {
            let name = part.name();
            let before = excluded.len();
            excluded.retain(|other| other != name);
            let line = if excluded.len() < before {
                format!("[+]{name} excluded: ok\n")
            } else if self.passes(*part).await {
                format!("[+]{name} ok\n")
            } else {
                well &= part.is_optional();
                // Every client may read this page; the reason is in the log.
                tracing::info!(check = name, page, "a health check failed");
                format!("[-]{name} failed: reason withheld\n")
            };
            text.push_str(&line);
        }
        if !excluded.is_empty() {
            let names: Vec<_> = excluded.iter().map(|name| quote(name)).collect();
            let warning = "warn: some health checks cannot be excluded: no matches for";
            writeln!(text, "{warning} {}", names.join(","))
                .expect("writing to a String cannot fail");
        }
        if !well {
            text.push_str(&format!("{page} check failed\n"));
            return plain_text(StatusCode::INTERNAL_SERVER_ERROR, text);
        }
        if query::value(query, "verbose").is_none() {
            return plain_text(StatusCode::OK, "ok");
        }
        if parts.contains(&HealthCheck::StoreWritable)
            && self.store.health().await == StoreHealth::NearlyFull
        {
            text.push_str("warn: the disk of the store is nearly full\n");
        }
        text.push_str(&format!("{page} check passed\n"));
        plain_text(StatusCode::OK, text)
    }

    async fn passes(&self, part: HealthCheck) -> bool {
        match part {
            HealthCheck::Ping | HealthCheck::Log | HealthCheck::Extensions => true,
            HealthCheck::Store => self.store.health().await != StoreHealth::Unreadable,
            HealthCheck::StoreWritable => matches!(
                self.store.health().await,
                StoreHealth::Healthy | StoreHealth::NearlyFull
            ),
            HealthCheck::Task(name, _) => self.supervisor.is_up(name),
            HealthCheck::Informers => self.ready.load(Ordering::Acquire),
            HealthCheck::Shutdown => !self.stopping.load(Ordering::Acquire),
        }
    }
}

/// The health of the store; concurrent requests share one probe.
struct StoreProbe {
    check: StoreCheck,
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<StoreProbeState>>,
}

#[derive(Default)]
struct StoreProbeState {
    /// The last result, and its time.
    result: Option<(Monotonic, StoreHealth)>,
    /// The probe in flight.
    pending: Option<PendingProbe>,
}

type PendingProbe = Shared<BoxFuture<'static, StoreHealth>>;

impl StoreProbe {
    async fn health(&self) -> StoreHealth {
        let question = {
            let mut known = lock(&self.state);
            if let Some((at, health)) = known.result
                && self.clock.monotonic().since(at) < STORE_ANSWER_AGE_MAX
            {
                return health;
            }
            known.pending.get_or_insert_with(|| self.probe()).clone()
        };
        question.await
    }

    /// Starts a probe and caches its result even if its caller is dropped: clients that disconnect
    /// do not cause more probes than clients that wait.
    fn probe(&self) -> PendingProbe {
        let check = Arc::clone(&self.check);
        let answer = timeout(STORE_ANSWER_MAX, async move { check().await });
        let (clock, known) = (Arc::clone(&self.clock), Arc::clone(&self.state));
        // Spawned here: one probe, which ends in time. A panic counts as unreadable.
        let asked = tokio::spawn(async move {
            let health = match AssertUnwindSafe(answer).catch_unwind().await {
                Ok(Ok(health)) => health,
                Ok(Err(_)) | Err(_) => StoreHealth::Unreadable,
            };
            let found = Some((clock.monotonic(), health));
            *lock(&known) = StoreProbeState {
                result: found,
                pending: None,
            };
            health
        });
        let answered = asked.map(|health| health.unwrap_or(StoreHealth::Unreadable));
        answered.boxed().shared()
    }
}

fn lock(known: &Mutex<StoreProbeState>) -> MutexGuard<'_, StoreProbeState> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

fn plain_text(status: StatusCode, text: impl Into<String>) -> ApiResponse {
    let nosniff = HeaderValue::from_static("nosniff");
    ApiResponse::text(status, text.into()).with_header(X_CONTENT_TYPE_OPTIONS, nosniff)
}
