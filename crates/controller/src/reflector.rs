//! Keeps a shelf as the server has it.
//!
//! ```text
//! Begin ── streaming list, or pages ──► Watch(revision) ── ended, lost ──► Watch again
//!   ▲                                        │
//!   └──── 410, or a revision the server does not know ◄──┘
//! ```
//!
//! A list is always asked for fresh, never "whatever you have": so nothing goes back in
//! time, not even when the next server asked is one that lags behind.

use crate::api::{Api, Ask, Lines, Refusal, SendError, accept};
use crate::backoff::{Backoff, jittered};
use crate::entry::{Entry, numeric};
use crate::key::ObjectKey;
use crate::shelf::{Feed, Shelf};
use bytes::Bytes;
use optik_object::{Tape, View};
use optik_platform::Entropy;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracing::{debug, info, warn};

const BACKOFF_MIN: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// A server is asked to end a watch after this time, so that clients spread.
const WATCH_TIME: Duration = Duration::from_secs(480);
/// A server that has not ended it by then has gone away without a word.
const WATCH_GRACE: Duration = Duration::from_secs(30);
/// A server that does not know streaming lists never says that one is complete.
const STREAM_SILENCE_MAX: Duration = Duration::from_secs(10);
const PAGE: &str = "500";
/// A fresh list that is older than what was seen before: after so many, the server has
/// been set back, for example from a backup.
const OLDER_LISTS_MAX: u32 = 5;
/// Refused so often because of its revision, a watch begins anew.
const REFUSALS_MAX: u32 = 3;

/// How to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listing {
    Streaming,
    Pages,
}

#[derive(Clone)]
pub(crate) struct Reflector {
    pub(crate) shelf: Arc<Shelf>,
    /// Which feed of the shelf this is.
    pub(crate) feed: usize,
    pub(crate) api: Api,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) listing: Listing,
}

enum Step {
    Begin,
    Watch { from: String },
}

/// Why a step ended early.
enum Trouble {
    Send(SendError),
    /// What was listed is older than what is known.
    Older {
        listed: u64,
    },
    Nonsense,
    Silent,
}

impl From<SendError> for Trouble {
    fn from(cause: SendError) -> Self {
        Self::Send(cause)
    }
}

/// Where a stream is.
struct Flow {
    /// Objects of a list that is not complete yet.
    fresh: Option<BTreeMap<ObjectKey, Arc<Entry>>>,
    /// What to go on from.
    from: Option<String>,
}

impl Flow {
    /// A list that is not complete, or a watch that ended as soon as it was there.
    fn is_abrupt(&self, begun: Instant) -> bool {
        let instant = self.from.is_none() && begun.elapsed() < Duration::from_secs(1);
        self.fresh.is_some() || instant
    }
}

impl Reflector {
    /// Goes on until it is dropped.
    pub(crate) async fn run(mut self) {
        let mut step = Step::Begin;
        let mut backoff = Backoff::new(BACKOFF_MIN, BACKOFF_MAX);
        let (mut older, mut refusals) = (0, 0);
        loop {
            let begun = Instant::now();
            let ended = match &step {
                Step::Begin => self.begin(older >= OLDER_LISTS_MAX).await,
                Step::Watch { from } => self.watch(from).await,
            };
            let (flow, mut trouble) = ended;
            if trouble.is_none() && flow.is_abrupt(begun) {
                trouble = Some(SendError::Lost("the server ended it at once".into()).into());
            }
            if let Some(from) = flow.from {
                (older, refusals) = (0, 0);
                step = Step::Watch { from };
                // One that ends at once, again and again, is trouble too.
                if begun.elapsed() > Duration::from_secs(1) || trouble.is_none() {
                    backoff.reset();
                }
            }
            let Some(trouble) = trouble else {
                continue;
            };
            let mut wait = backoff.next(&*self.entropy);
            match trouble {
                Trouble::Send(SendError::Refused(refusal)) => {
                    refusals += 1;
                    self.refused(&refusal, &mut step, refusals);
                    wait = refusal.retry_after.unwrap_or(wait);
                }
                Trouble::Send(cause) if !self.feed().progress().synced => {
                    warn!(kind = self.shelf.kind.kind, %cause, "cannot list");
                }
                Trouble::Send(cause) => {
                    debug!(kind = self.shelf.kind.kind, %cause, "a watch broke off");
                }
                Trouble::Older { listed } => {
                    older += 1;
                    step = Step::Begin;
                    self.api.metrics.older_lists.add(1);
                    warn!(kind = self.shelf.kind.kind, listed, "a list from the past");
                }
                Trouble::Nonsense => {
                    warn!(
                        kind = self.shelf.kind.kind,
                        "a server said something strange"
                    );
                    step = Step::Begin;
                }
                Trouble::Silent => {
                    info!(
                        kind = self.shelf.kind.kind,
                        "no streaming lists here; listing pages"
                    );
                    self.listing = Listing::Pages;
                }
            }
            tokio::time::sleep(wait).await;
        }
    }

    fn refused(&mut self, refusal: &Refusal, step: &mut Step, refusals: u32) {
        let kind = &self.shelf.kind.kind;
        match (&*step, refusal.code) {
            (Step::Begin, 400 | 405 | 422) if self.listing == Listing::Streaming => {
                info!(kind, %refusal, "no streaming lists here; listing pages");
                self.listing = Listing::Pages;
            }
            (Step::Watch { .. }, _) if refusal.is_expired() => {
                debug!(kind, "the revision is gone; listing again");
                self.api.metrics.relists.add(1);
                *step = Step::Begin;
            }
            (Step::Watch { .. }, 400 | 404 | 422 | 504) if refusals >= REFUSALS_MAX => {
                *step = Step::Begin;
            }
            _ => warn!(kind, %refusal, "cannot watch"),
        }
    }

    fn feed(&self) -> &Feed {
        &self.shelf.feeds[self.feed]
    }

    fn path(&self) -> String {
        let namespace = self.feed().namespace.as_deref();
        self.shelf.kind.collection(namespace)
    }

    async fn begin(&self, may_go_back: bool) -> (Flow, Option<Trouble>) {
        match self.listing {
            Listing::Streaming => {
                let flow = Flow {
                    fresh: Some(BTreeMap::new()),
                    from: None,
                };
                let query = vec![
                    ("sendInitialEvents", "true".to_owned()),
                    ("resourceVersionMatch", "NotOlderThan".to_owned()),
                ];
                self.follow(query, flow, may_go_back).await
            }
            Listing::Pages => {
                let listed = self.pages(may_go_back).await;
                let (from, trouble) = match listed {
                    Ok(from) => (Some(from), None),
                    Err(trouble) => (None, Some(trouble)),
                };
                (Flow { fresh: None, from }, trouble)
            }
        }
    }

    async fn watch(&self, from: &str) -> (Flow, Option<Trouble>) {
        let flow = Flow {
            fresh: None,
            from: None,
        };
        let query = vec![("resourceVersion", from.to_owned())];
        self.follow(query, flow, false).await
    }

    /// Opens a watch and reads it to its end.
    async fn follow(
        &self,
        mut query: Vec<(&str, String)>,
        mut flow: Flow,
        may_go_back: bool,
    ) -> (Flow, Option<Trouble>) {
        let length = jittered(WATCH_TIME, 0.4, &*self.entropy);
        query.push(("watch", "true".to_owned()));
        query.push(("allowWatchBookmarks", "true".to_owned()));
        query.push(("timeoutSeconds", length.as_secs().to_string()));
        query.extend(self.shelf.selectors());
        let path = self.path();
        let ask = Ask {
            query,
            accept: accept(self.shelf.kind.metadata_only, false),
            ..Ask::get(&path)
        };
        let mut lines = match self.api.stream(ask).await {
            Ok(lines) => lines,
            Err(cause) => return (flow, Some(cause.into())),
        };
        let until = Instant::now() + length + WATCH_GRACE;
        let ended = self.read(&mut lines, &mut flow, until, may_go_back).await;
        (flow, ended.err())
    }

    async fn read(
        &self,
        lines: &mut Lines,
        flow: &mut Flow,
        until: Instant,
        may_go_back: bool,
    ) -> Result<(), Trouble> {
        let mut tape = Tape::default();
        loop {
            let silence = Instant::now() + STREAM_SILENCE_MAX;
            let deadline = if flow.fresh.is_some() { silence } else { until };
            let line = match tokio::time::timeout_at(deadline, lines.next()).await {
                Ok(Some(line)) => line?,
                Ok(None) => return Ok(()),
                Err(_) if flow.fresh.is_some() => return Err(Trouble::Silent),
                Err(_) => return Err(SendError::Lost("the server fell silent".into()).into()),
            };
            self.line(&line, &mut tape, flow, may_go_back)?;
        }
    }

    fn line(
        &self,
        line: &Bytes,
        tape: &mut Tape,
        flow: &mut Flow,
        may_go_back: bool,
    ) -> Result<(), Trouble> {
        let event = tape.read(line).map_err(|_| Trouble::Nonsense)?;
        let (mut what, mut object) = (None, None);
        for (field, value) in event.members() {
            match field.json() {
                b"\"type\"" => what = Some(value.json()),
                b"\"object\"" => object = Some(value),
                _ => {}
            }
        }
        let object = object.ok_or(Trouble::Nonsense)?;
        match what.ok_or(Trouble::Nonsense)? {
            b"\"BOOKMARK\"" => self.bookmark(object, flow, may_go_back),
            b"\"ERROR\"" => Err(SendError::Refused(in_stream(object)).into()),
            b"\"DELETED\"" => self.object(object, flow, true),
            b"\"ADDED\"" | b"\"MODIFIED\"" => self.object(object, flow, false),
            _ => Err(Trouble::Nonsense),
        }
    }

    fn object(&self, object: View<'_>, flow: &mut Flow, deleted: bool) -> Result<(), Trouble> {
        let entry = self.shelf.accept(object).ok_or(Trouble::Nonsense)?;
        if let Some(fresh) = &mut flow.fresh {
            if deleted {
                fresh.remove(&entry.key);
            } else {
                fresh.insert(entry.key.clone(), entry);
            }
            return Ok(());
        }
        let revision = entry.revision;
        if revision != 0 && self.is_known(&entry, deleted) {
            return Ok(());
        }
        flow.from = Some(revision_text(object).ok_or(Trouble::Nonsense)?);
        self.api.metrics.events.add(1);
        if deleted {
            self.shelf.remove(self.feed(), &entry.key, revision);
        } else {
            self.shelf.put(self.feed(), &entry);
        }
        Ok(())
    }

    /// Whether this was said before. Objects that were written together have one revision,
    /// so a feed that has reached it may not have seen them all.
    fn is_known(&self, entry: &Entry, deleted: bool) -> bool {
        let reached = self.feed().progress().revision;
        if entry.revision != reached {
            return entry.revision < reached;
        }
        match self.shelf.get(&entry.key) {
            Some(known) => known.revision >= entry.revision,
            None => deleted,
        }
    }

    fn bookmark(
        &self,
        object: View<'_>,
        flow: &mut Flow,
        may_go_back: bool,
    ) -> Result<(), Trouble> {
        let text = revision_text(object).ok_or(Trouble::Nonsense)?;
        let revision = numeric(&text);
        let end = object
            .at(&["metadata", "annotations", "k8s.io/initial-events-end"])
            .is_some_and(|end| end.is("true"));
        if end && let Some(fresh) = flow.fresh.take() {
            self.replace(&fresh, revision, may_go_back)?;
        } else if flow.fresh.is_none() {
            if revision < self.feed().progress().revision {
                // It was watched from a revision that this server does not have yet.
                return Err(Trouble::Older { listed: revision });
            }
            self.feed().reached(revision);
        } else {
            return Ok(());
        }
        flow.from = Some(text);
        Ok(())
    }

    fn replace(
        &self,
        fresh: &BTreeMap<ObjectKey, Arc<Entry>>,
        revision: u64,
        may_go_back: bool,
    ) -> Result<(), Trouble> {
        if revision < self.feed().progress().revision && !may_go_back {
            return Err(Trouble::Older { listed: revision });
        }
        self.shelf.replace(self.feed(), fresh, revision);
        Ok(())
    }

    /// Lists page by page, and says from where to watch.
    async fn pages(&self, may_go_back: bool) -> Result<String, Trouble> {
        let path = self.path();
        let mut fresh = BTreeMap::new();
        let mut next = String::new();
        let mut tape = Tape::default();
        loop {
            let mut query = self.shelf.selectors();
            query.push(("limit", PAGE.to_owned()));
            if !next.is_empty() {
                query.push(("continue", next));
            }
            let ask = Ask {
                query,
                accept: accept(self.shelf.kind.metadata_only, true),
                ..Ask::get(&path)
            };
            let page = self.api.send(ask).await?;
            let list = tape.read(&page).map_err(|_| Trouble::Nonsense)?;
            for item in list.get("items").into_iter().flat_map(View::items) {
                let entry = self.shelf.accept(item).ok_or(Trouble::Nonsense)?;
                fresh.insert(entry.key.clone(), entry);
            }
            let token = list.at(&["metadata", "continue"]).and_then(View::text);
            next = token.unwrap_or_default().into_owned();
            if next.is_empty() {
                let text = revision_text(list).ok_or(Trouble::Nonsense)?;
                self.replace(&fresh, numeric(&text), may_go_back)?;
                return Ok(text);
            }
        }
    }
}

fn revision_text(object: View<'_>) -> Option<String> {
    let text = object.at(&["metadata", "resourceVersion"])?.text()?;
    (!text.is_empty()).then(|| text.into_owned())
}

/// A refusal that came as an event.
fn in_stream(status: View<'_>) -> Refusal {
    let text = |field: &str| status.get(field).and_then(View::text).unwrap_or_default();
    let code = status.get("code").and_then(View::as_i64).unwrap_or(500);
    let seconds = status.at(&["details", "retryAfterSeconds"]);
    let seconds = seconds
        .and_then(View::as_i64)
        .and_then(|s| u64::try_from(s).ok());
    Refusal {
        code: u16::try_from(code).unwrap_or(500),
        reason: text("reason").into_owned(),
        message: text("message").into_owned(),
        retry_after: seconds.map(Duration::from_secs),
    }
}
