//! The reflector: lists and watches a kind and keeps its cache up to date. Counterpart of
//! client-go's `Reflector`.
//!
//! ```text
//! List  ── streaming list, or pages ──► Watch(revision) ── ended, lost ──► Watch again
//!   ▲                                        │
//!   └──── 410, or a revision the server does not know ◄──┘
//! ```
//!
//! A list always requests the most recent data, never any version that the server happens to have.
//! So the cache does not go back in time, not even if the next request reaches a server that lags
//! behind.

use crate::api_client::{ApiClient, ClientRequest, SendError, StatusError, WatchLines, accept};
use crate::backoff::{Backoff, jittered};
use crate::cache_entry::{CacheEntry, parse_revision};
use crate::key::ObjectKey;
use crate::kind_cache::{Informer, KindCache};
use bytes::Bytes;
use optik_object::{JsonView, Tape};
use optik_platform::Entropy;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracing::{debug, info, warn};

const BACKOFF_MIN: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// The duration that is requested for a watch, before jitter. Watches end so that clients spread
/// over the servers.
const WATCH_TIMEOUT: Duration = Duration::from_secs(480);
/// A watch that is still open this long after its requested end is taken for dead.
const WATCH_GRACE: Duration = Duration::from_secs(30);
/// The longest pause within a streaming list. A server without streaming lists never marks a list
/// as complete.
const STREAM_SILENCE_MAX: Duration = Duration::from_secs(10);
const PAGE_LIMIT: &str = "500";
/// After this many lists older than the cache, the server must have been reset, for example from a
/// backup, and the older list is accepted.
const OLDER_LISTS_MAX: u32 = 5;
/// After this many rejections because of its revision, a watch is replaced by a new list.
const REFUSALS_MAX: u32 = 3;

/// How the first list is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InitialListStrategy {
    StreamingList,
    PagedList,
}

#[derive(Clone)]
pub(crate) struct Reflector {
    pub(crate) cache: Arc<KindCache>,
    /// The index of the informer in the cache.
    pub(crate) informer: usize,
    pub(crate) api: ApiClient,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) list_strategy: InitialListStrategy,
}

enum ReflectorState {
    List,
    Watch { from: String },
}

/// Why a list or a watch ended early.
enum ReflectorError {
    Send(SendError),
    /// The list is older than the cache.
    StaleList {
        listed: u64,
    },
    Malformed,
    StreamTimeout,
}

impl From<SendError> for ReflectorError {
    fn from(cause: SendError) -> Self {
        Self::Send(cause)
    }
}

/// The state of a list or watch stream.
struct StreamState {
    /// The objects of a streaming list that is not complete yet.
    pending_list: Option<BTreeMap<ObjectKey, Arc<CacheEntry>>>,
    /// The resourceVersion to resume from.
    resume_from: Option<String>,
}

impl StreamState {
    /// Whether a list is incomplete, or a watch ended immediately without an event.
    fn is_abrupt(&self, begun: Instant) -> bool {
        let instant = self.resume_from.is_none() && begun.elapsed() < Duration::from_secs(1);
        self.pending_list.is_some() || instant
    }
}

impl Reflector {
    /// Runs until it is dropped.
    pub(crate) async fn run(mut self) {
        let mut state = ReflectorState::List;
        let mut backoff = Backoff::new(BACKOFF_MIN, BACKOFF_MAX);
        let (mut older, mut refusals) = (0, 0);
        loop {
            let begun = Instant::now();
            let ended = match &state {
                ReflectorState::List => self.list(older >= OLDER_LISTS_MAX).await,
                ReflectorState::Watch { from } => self.watch_from(from).await,
            };
            let (stream_state, mut error) = ended;
            if error.is_none() && stream_state.is_abrupt(begun) {
                error =
                    Some(SendError::Lost("the server closed the watch immediately".into()).into());
            }
            if let Some(from) = stream_state.resume_from {
                (older, refusals) = (0, 0);
                state = ReflectorState::Watch { from };
                // A watch that ends immediately, again and again, must not reset the backoff.
                if begun.elapsed() > Duration::from_secs(1) || error.is_none() {
                    backoff.reset();
                }
            }
            let Some(error) = error else {
                continue;
            };
            let mut wait = backoff.next(&*self.entropy);
            match error {
                ReflectorError::Send(SendError::Refused(refusal)) => {
                    refusals += 1;
                    self.handle_status_error(&refusal, &mut state, refusals);
                    wait = refusal.retry_after.unwrap_or(wait);
                }
                ReflectorError::Send(cause) if !self.informer().progress().synced => {
                    warn!(kind = self.cache.kind.kind, %cause, "cannot list");
                }
                ReflectorError::Send(cause) => {
                    debug!(kind = self.cache.kind.kind, %cause, "watch closed with an error");
                }
                ReflectorError::StaleList { listed } => {
                    older += 1;
                    state = ReflectorState::List;
                    self.api.metrics.older_lists.add(1);
                    warn!(
                        kind = self.cache.kind.kind,
                        listed, "list is older than the cache (stale resourceVersion)"
                    );
                }
                ReflectorError::Malformed => {
                    warn!(kind = self.cache.kind.kind, "malformed watch event or list");
                    state = ReflectorState::List;
                }
                ReflectorError::StreamTimeout => {
                    info!(
                        kind = self.cache.kind.kind,
                        "streaming lists are not supported by the server; falling back to paged lists"
                    );
                    self.list_strategy = InitialListStrategy::PagedList;
                }
            }
            tokio::time::sleep(wait).await;
        }
    }

    fn handle_status_error(
        &mut self,
        status_error: &StatusError,
        state: &mut ReflectorState,
        refusals: u32,
    ) {
        let kind = &self.cache.kind.kind;
        match (&*state, status_error.code) {
            (ReflectorState::List, 400 | 405 | 422)
                if self.list_strategy == InitialListStrategy::StreamingList =>
            {
                info!(kind, %status_error, "streaming lists are not supported by the server; falling back to paged lists");
                self.list_strategy = InitialListStrategy::PagedList;
            }
            (ReflectorState::Watch { .. }, _) if status_error.is_expired() => {
                debug!(kind, "resourceVersion expired; relisting");
                self.api.metrics.relists.add(1);
                *state = ReflectorState::List;
            }
            (ReflectorState::Watch { .. }, 400 | 404 | 422 | 504) if refusals >= REFUSALS_MAX => {
                *state = ReflectorState::List;
            }
            _ => warn!(kind, %status_error, "cannot watch"),
        }
    }

    fn informer(&self) -> &Informer {
        &self.cache.informers[self.informer]
    }

    fn collection_path(&self) -> String {
        let namespace = self.informer().namespace.as_deref();
        self.cache.kind.collection_path(namespace)
    }

    async fn list(&self, may_go_back: bool) -> (StreamState, Option<ReflectorError>) {
        match self.list_strategy {
            InitialListStrategy::StreamingList => {
                let stream_state = StreamState {
                    pending_list: Some(BTreeMap::new()),
                    resume_from: None,
                };
                let query = vec![
                    ("sendInitialEvents", "true".to_owned()),
                    ("resourceVersionMatch", "NotOlderThan".to_owned()),
                ];
                self.stream(query, stream_state, may_go_back).await
            }
            InitialListStrategy::PagedList => {
                let listed = self.list_pages(may_go_back).await;
                let (from, trouble) = match listed {
                    Ok(from) => (Some(from), None),
                    Err(trouble) => (None, Some(trouble)),
                };
                (
                    StreamState {
                        pending_list: None,
                        resume_from: from,
                    },
                    trouble,
                )
            }
        }
    }

    async fn watch_from(&self, from: &str) -> (StreamState, Option<ReflectorError>) {
        let stream_state = StreamState {
            pending_list: None,
            resume_from: None,
        };
        let query = vec![("resourceVersion", from.to_owned())];
        self.stream(query, stream_state, false).await
    }

    /// Opens a watch and reads it to its end.
    async fn stream(
        &self,
        mut query: Vec<(&str, String)>,
        mut stream_state: StreamState,
        may_go_back: bool,
    ) -> (StreamState, Option<ReflectorError>) {
        let length = jittered(WATCH_TIMEOUT, 0.4, &*self.entropy);
        query.push(("watch", "true".to_owned()));
        query.push(("allowWatchBookmarks", "true".to_owned()));
        query.push(("timeoutSeconds", length.as_secs().to_string()));
        query.extend(self.cache.selectors());
        let path = self.collection_path();
        let request = ClientRequest {
            query,
            accept: accept(self.cache.kind.metadata_only, false),
            ..ClientRequest::get(&path)
        };
        let mut lines = match self.api.stream(request).await {
            Ok(lines) => lines,
            Err(cause) => return (stream_state, Some(cause.into())),
        };
        let until = Instant::now() + length + WATCH_GRACE;
        let ended = self
            .read_stream(&mut lines, &mut stream_state, until, may_go_back)
            .await;
        (stream_state, ended.err())
    }

    async fn read_stream(
        &self,
        lines: &mut WatchLines,
        stream_state: &mut StreamState,
        until: Instant,
        may_go_back: bool,
    ) -> Result<(), ReflectorError> {
        let mut tape = Tape::default();
        loop {
            let silence = Instant::now() + STREAM_SILENCE_MAX;
            let deadline = if stream_state.pending_list.is_some() {
                silence
            } else {
                until
            };
            let line = match tokio::time::timeout_at(deadline, lines.next()).await {
                Ok(Some(line)) => line?,
                Ok(None) => return Ok(()),
                Err(_) if stream_state.pending_list.is_some() => {
                    return Err(ReflectorError::StreamTimeout);
                }
                Err(_) => return Err(SendError::Lost("watch timed out without data".into()).into()),
            };
            self.handle_line(&line, &mut tape, stream_state, may_go_back)?;
        }
    }

    fn handle_line(
        &self,
        line: &Bytes,
        tape: &mut Tape,
        stream_state: &mut StreamState,
        may_go_back: bool,
    ) -> Result<(), ReflectorError> {
        let event = tape.read(line).map_err(|_| ReflectorError::Malformed)?;
        let (mut what, mut object) = (None, None);
        for (field, value) in event.members() {
            match field.raw_json() {
                b"\"type\"" => what = Some(value.raw_json()),
                b"\"object\"" => object = Some(value),
                _ => {}
            }
        }
        let object = object.ok_or(ReflectorError::Malformed)?;
        match what.ok_or(ReflectorError::Malformed)? {
            b"\"BOOKMARK\"" => self.handle_bookmark(object, stream_state, may_go_back),
            b"\"ERROR\"" => Err(SendError::Refused(status_error_from_event(object)).into()),
            b"\"DELETED\"" => self.handle_object(object, stream_state, true),
            b"\"ADDED\"" | b"\"MODIFIED\"" => self.handle_object(object, stream_state, false),
            _ => Err(ReflectorError::Malformed),
        }
    }

    fn handle_object(
        &self,
        object: JsonView<'_>,
        stream_state: &mut StreamState,
        deleted: bool,
    ) -> Result<(), ReflectorError> {
        let entry = self.cache.intern(object).ok_or(ReflectorError::Malformed)?;
        if let Some(fresh) = &mut stream_state.pending_list {
            if deleted {
                fresh.remove(&entry.key);
            } else {
                fresh.insert(entry.key.clone(), entry);
            }
            return Ok(());
        }
        let revision = entry.revision;
        if revision != 0 && self.is_duplicate(&entry, deleted) {
            return Ok(());
        }
        stream_state.resume_from = Some(resource_version(object).ok_or(ReflectorError::Malformed)?);
        self.api.metrics.events.add(1);
        if deleted {
            self.cache.remove(self.informer(), &entry.key, revision);
        } else {
            self.cache.put(self.informer(), &entry);
        }
        Ok(())
    }

    /// Whether this change is in the cache already. Objects that were written together have one
    /// revision, so an informer that has reached the revision may not have seen all of them.
    fn is_duplicate(&self, entry: &CacheEntry, deleted: bool) -> bool {
        let reached = self.informer().progress().revision;
        if entry.revision != reached {
            return entry.revision < reached;
        }
        match self.cache.get(&entry.key) {
            Some(known) => known.revision >= entry.revision,
            None => deleted,
        }
    }

    fn handle_bookmark(
        &self,
        object: JsonView<'_>,
        stream_state: &mut StreamState,
        may_go_back: bool,
    ) -> Result<(), ReflectorError> {
        let text = resource_version(object).ok_or(ReflectorError::Malformed)?;
        let revision = parse_revision(&text);
        let end = object
            .get_path(&["metadata", "annotations", "k8s.io/initial-events-end"])
            .is_some_and(|end| end.equals_str("true"));
        if end && let Some(fresh) = stream_state.pending_list.take() {
            self.replace(&fresh, revision, may_go_back)?;
        } else if stream_state.pending_list.is_none() {
            if revision < self.informer().progress().revision {
                // The watch started from a revision that this server does not have yet.
                return Err(ReflectorError::StaleList { listed: revision });
            }
            self.informer().advance_to(revision);
        } else {
            return Ok(());
        }
        stream_state.resume_from = Some(text);
        Ok(())
    }

    fn replace(
        &self,
        fresh: &BTreeMap<ObjectKey, Arc<CacheEntry>>,
        revision: u64,
        may_go_back: bool,
    ) -> Result<(), ReflectorError> {
        if revision < self.informer().progress().revision && !may_go_back {
            return Err(ReflectorError::StaleList { listed: revision });
        }
        self.cache.replace(self.informer(), fresh, revision);
        Ok(())
    }

    /// Lists all pages, and returns the resourceVersion to watch from.
    async fn list_pages(&self, may_go_back: bool) -> Result<String, ReflectorError> {
        let path = self.collection_path();
        let mut fresh = BTreeMap::new();
        let mut next = String::new();
        let mut tape = Tape::default();
        loop {
            let mut query = self.cache.selectors();
            query.push(("limit", PAGE_LIMIT.to_owned()));
            if !next.is_empty() {
                query.push(("continue", next));
            }
            let request = ClientRequest {
                query,
                accept: accept(self.cache.kind.metadata_only, true),
                ..ClientRequest::get(&path)
            };
            let page = self.api.send(request).await?;
            let list = tape.read(&page).map_err(|_| ReflectorError::Malformed)?;
            for item in list.get("items").into_iter().flat_map(JsonView::items) {
                let entry = self.cache.intern(item).ok_or(ReflectorError::Malformed)?;
                fresh.insert(entry.key.clone(), entry);
            }
            let token = list
                .get_path(&["metadata", "continue"])
                .and_then(JsonView::as_str);
            next = token.unwrap_or_default().into_owned();
            if next.is_empty() {
                let text = resource_version(list).ok_or(ReflectorError::Malformed)?;
                self.replace(&fresh, parse_revision(&text), may_go_back)?;
                return Ok(text);
            }
        }
    }
}

fn resource_version(object: JsonView<'_>) -> Option<String> {
    let text = object
        .get_path(&["metadata", "resourceVersion"])?
        .as_str()?;
    (!text.is_empty()).then(|| text.into_owned())
}

/// Reads the status of an `ERROR` event of a watch.
fn status_error_from_event(status: JsonView<'_>) -> StatusError {
    let text = |field: &str| {
        status
            .get(field)
            .and_then(JsonView::as_str)
            .unwrap_or_default()
    };
    let code = status.get("code").and_then(JsonView::as_i64).unwrap_or(500);
    let seconds = status.get_path(&["details", "retryAfterSeconds"]);
    let seconds = seconds
        .and_then(JsonView::as_i64)
        .and_then(|s| u64::try_from(s).ok());
    StatusError {
        code: u16::try_from(code).unwrap_or(500),
        reason: text("reason").into_owned(),
        message: text("message").into_owned(),
        retry_after: seconds.map(Duration::from_secs),
    }
}
