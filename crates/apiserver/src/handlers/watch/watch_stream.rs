//! The event stream of one watcher.

use crate::handlers::watch::encoded_events::{EncodedEvents, EventType};
use crate::handlers::watch::event_encoder::{EventEncoder, encode_error};
use crate::handlers::watch::watch_timer::{TimerEvent, WatchTimer};
use crate::handlers::watch::{WatchDeps, WatchRequest, WatchStart};
use crate::registry::crd::webhook_conversion::{ConversionBatch, read_stored_as};
use crate::registry::served_resource::{ObjectView, ServedResource};
use crate::request::selection_predicate::SelectionPredicate;
use crate::server::webhook_client::WebhookClient;
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use optik_object::Status;
use optik_store::{Event, KeyRange, Revision, Snapshot, Version, Watch, WatchBatch};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Bytes per chunk if many events are pending.
const CHUNK_BYTES: usize = 64 * 1024;
/// How many objects are scanned before the task yields.
const SCAN_OBJECTS_MAX: usize = 2048;
/// How many phases a stream goes through without output before the task yields.
const POLLS_MAX: usize = 4;

pub(super) struct WatcherStream {
    kind: Arc<ServedResource>,
    selection: SelectionPredicate,
    webhook_client: WebhookClient,
    encoded: Arc<EncodedEvents>,
    encoder: EventEncoder,
    watch: Watch,
    timer: WatchTimer,
    phase: WatchPhase,
    /// The start revision: a bookmark is sent only for later ones.
    start: Revision,
    /// The newest revision that was sent to the client.
    sent_revision: Revision,
    bookmarks: bool,
    mark_initial_end: bool,
}

enum WatchPhase {
    /// Sending the initial state.
    Initial {
        state: Snapshot,
        rest: KeyRange,
    },
    /// The initial state was sent.
    InitialEnd,
    Live,
    /// Sending received commits; those before `next` were sent.
    Sending {
        batch: WatchBatch,
        next: usize,
    },
    /// Waiting for the conversion webhook to convert the next objects.
    Converting {
        converted: BoxFuture<'static, Result<Vec<Arc<Version>>, Status>>,
        pending: PendingConversion,
        /// The phase after the conversion.
        after: Box<WatchPhase>,
    },
    Ended,
}

/// The events to send when their objects are converted.
struct PendingConversion {
    /// Event type and revision of each version.
    events: Vec<(EventType, Revision)>,
    /// The revision that the watch has reached with these events.
    through_revision: Revision,
}

impl WatcherStream {
    pub(super) fn new(
        around: &WatchDeps,
        watching: WatchRequest,
        begin: WatchStart,
        schedule: WatchTimer,
    ) -> Self {
        let plan = watching.plan;
        let rest = begin.watch.range().clone();
        Self {
            webhook_client: around.webhook_client.clone(),
            encoded: Arc::clone(&around.encoded),
            encoder: EventEncoder::new(watching.representation, Arc::clone(&around.clock)),
            selection: watching.selection,
            watch: begin.watch,
            timer: schedule,
            phase: match begin.initial {
                Some(state) => WatchPhase::Initial { state, rest },
                None => WatchPhase::Live,
            },
            start: begin.start,
            sent_revision: begin.start,
            bookmarks: plan.bookmarks && watching.kind.resource.strategy_options.cached,
            mark_initial_end: plan.mark_initial_end,
            kind: watching.kind,
        }
    }

    /// The next encoded events, when there are any; `None` at the end.
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let converts = self.converts();
        Poll::Ready(Some(match &mut self.phase {
            WatchPhase::Initial { .. } if converts => self.convert_state(),
            WatchPhase::Initial { .. } => self.encode_initial(),
            WatchPhase::InitialEnd => {
                self.phase = WatchPhase::Live;
                if self.mark_initial_end {
                    self.encoder.bookmark(&self.kind, self.start, true)
                } else {
                    Bytes::new()
                }
            }
            WatchPhase::Sending { .. } if converts => self.convert_batch(),
            WatchPhase::Sending { .. } => self.encode_batch(),
            WatchPhase::Converting { converted, .. } => {
                let converted = ready!(converted.poll_unpin(cx));
                self.encode_converted(converted)
            }
            WatchPhase::Live => ready!(self.poll_events(cx)),
            WatchPhase::Ended => return Poll::Ready(None),
        }))
    }

    /// Waits for commits or for the timer.
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        // The timer first: a busy collection must not keep a watch open for ever.
        if let Poll::Ready(due) = self.timer.poll_due(cx) {
            return Poll::Ready(match due {
                TimerEvent::Bookmark => self.bookmark().unwrap_or_default(),
                TimerEvent::End => {
                    self.phase = WatchPhase::Ended;
                    Bytes::new()
                }
            });
        }
        self.phase = match ready!(self.watch.poll_next(cx)) {
            Ok(batch) => WatchPhase::Sending { batch, next: 0 },
            // The watcher is too far behind, or the store shuts down: the client resumes with a new
            // watch.
            Err(_) => WatchPhase::Ended,
        };
        Poll::Ready(Bytes::new())
    }

    fn bookmark(&mut self) -> Option<Bytes> {
        if !self.bookmarks {
            return None;
        }
        self.sent_revision = self
            .sent_revision
            .max(self.watch.progress_revision().unwrap_or(self.sent_revision));
        (self.sent_revision > self.start)
            .then(|| self.encoder.bookmark(&self.kind, self.sent_revision, false))
    }

    /// Encodes the next part of the initial state.
    fn encode_initial(&mut self) -> Bytes {
        let WatchPhase::Initial { state, rest } = &mut self.phase else {
            return Bytes::new();
        };
        let mut out = Vec::new();
        let mut stopped = None;
        for (scanned, version) in state.entries(rest).enumerate() {
            if self.selection.matches_everything() || self.selection.matches(&self.kind, version) {
                let shown = ObjectView::from_version(version);
                let kind = &self.kind;
                self.encoder.write(kind, EventType::Added, shown, &mut out);
            }
            if out.len() >= CHUNK_BYTES || scanned >= SCAN_OBJECTS_MAX {
                stopped = Some(rest.after(version.key()));
                break;
            }
        }
        match stopped {
            Some(after) => *rest = after,
            None => self.phase = WatchPhase::InitialEnd,
        }
        out.into()
    }

    /// Encodes the next part of a batch. A single event is sent from the cache that watchers share;
    /// many events are sent together in one chunk.
    fn encode_batch(&mut self) -> Bytes {
        let WatchPhase::Sending { batch, next } = &mut self.phase else {
            return Bytes::new();
        };
        let mut lines: Vec<Bytes> = Vec::new();
        let mut bytes = 0;
        let mut told = self.sent_revision;
        let commits = batch.commits();
        while *next < commits.len() && bytes < CHUNK_BYTES {
            let commit = &commits[*next];
            for event in batch.events_of(commit) {
                let line = event_type_for(&self.kind, &self.selection, event);
                let line = line.and_then(|event_type| {
                    self.encoder
                        .line(&self.encoded, &self.kind, event_type, event)
                });
                bytes += line.as_ref().map_or(0, Bytes::len);
                lines.extend(line);
            }
            told = commit.revision();
            *next += 1;
        }
        if *next >= commits.len() {
            self.phase = WatchPhase::Live;
        }
        self.sent_revision = told;
        match &lines[..] {
            [one] => one.clone(),
            lines => lines.concat().into(),
        }
    }
}

/// Kinds with a conversion webhook.
impl WatcherStream {
    fn converts(&self) -> bool {
        self.kind.converter().is_some()
    }

    /// Starts the conversion of the next part of the initial state: as many objects as one
    /// ConversionReview takes.
    fn convert_state(&mut self) -> Bytes {
        let WatchPhase::Initial { state, rest } = &self.phase else {
            return Bytes::new();
        };
        let mut versions: Vec<Arc<Version>> = Vec::new();
        let mut portion = ConversionBatch::default();
        let mut last = None;
        let mut stopped = None;
        for (scanned, version) in state.entries(rest).enumerate() {
            let matches = self.selection.matches(&self.kind, version);
            if scanned >= SCAN_OBJECTS_MAX || matches && !portion.try_add(version) {
                stopped = last;
                break;
            }
            versions.extend(matches.then(|| Arc::clone(version)));
            last = Some(version.key());
        }
        let after = match stopped {
            Some(last) => WatchPhase::Initial {
                state: state.clone(),
                rest: rest.after(last),
            },
            None => WatchPhase::InitialEnd,
        };
        let events = versions.iter();
        let events = events.map(|version| (EventType::Added, version.mod_revision()));
        let news = PendingConversion {
            events: events.collect(),
            through_revision: self.sent_revision,
        };
        self.convert(versions, news, after)
    }

    /// Starts the conversion of the next commits. The events of a commit are sent together.
    fn convert_batch(&mut self) -> Bytes {
        let phase = std::mem::replace(&mut self.phase, WatchPhase::Ended);
        let WatchPhase::Sending { batch, mut next } = phase else {
            return Bytes::new();
        };
        let (mut versions, mut events) = (Vec::new(), Vec::new());
        let mut through = self.sent_revision;
        let mut portion = ConversionBatch::default();
        let mut has_room = true;
        let commits = batch.commits();
        while has_room && let Some(commit) = commits.get(next) {
            for event in batch.events_of(commit) {
                let Some(event_type) = event_type_for(&self.kind, &self.selection, event) else {
                    continue;
                };
                let shown = match event_type {
                    EventType::Added | EventType::Modified => Some(event.version()),
                    EventType::Deleted => event.prior(),
                };
                has_room &= shown.is_none_or(|version| portion.try_add(version));
                versions.extend(shown.cloned());
                events.extend(shown.map(|_| (event_type, event.version().mod_revision())));
            }
            through = commit.revision();
            next += 1;
        }
        let after = match next < commits.len() {
            true => WatchPhase::Sending { batch, next },
            false => WatchPhase::Live,
        };
        self.convert(
            versions,
            PendingConversion {
                events,
                through_revision: through,
            },
            after,
        )
    }

    fn convert(
        &mut self,
        versions: Vec<Arc<Version>>,
        news: PendingConversion,
        after: WatchPhase,
    ) -> Bytes {
        let (outside, kind) = (self.webhook_client.clone(), Arc::clone(&self.kind));
        let converted = async move { read_stored_as(&outside, &kind, versions).await };
        self.phase = WatchPhase::Converting {
            converted: converted.boxed(),
            pending: news,
            after: Box::new(after),
        };
        Bytes::new()
    }

    fn encode_converted(&mut self, converted: Result<Vec<Arc<Version>>, Status>) -> Bytes {
        let phase = std::mem::replace(&mut self.phase, WatchPhase::Ended);
        let WatchPhase::Converting {
            pending: news,
            after,
            ..
        } = phase
        else {
            return Bytes::new();
        };
        let versions = match converted {
            Ok(versions) => versions,
            Err(status) => return encode_error(self.encoder.representation(), &status),
        };
        let mut out = Vec::new();
        for (version, (event_type, revision)) in versions.iter().zip(news.events) {
            let shown = ObjectView {
                revision: revision.get(),
                ..ObjectView::from_version(version)
            };
            self.encoder.write(&self.kind, event_type, shown, &mut out);
        }
        self.sent_revision = news.through_revision;
        self.phase = *after;
        out.into()
    }
}

impl futures::Stream for WatcherStream {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        for _ in 0..POLLS_MAX {
            match ready!(self.poll_bytes(cx)) {
                // If the selector filtered out every event, there is nothing to send.
                Some(lines) if lines.is_empty() => {}
                lines => return Poll::Ready(lines),
            }
        }
        // A watch that matches nothing for long must not occupy the thread.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The event type of a change for a watcher; `None` if its selector does not match the change.
fn event_type_for(
    kind: &ServedResource,
    selection: &SelectionPredicate,
    event: &Event,
) -> Option<EventType> {
    let matches = |version| selection.matches_everything() || selection.matches(kind, version);
    let before = event.prior().is_some_and(|prior| matches(prior));
    let after = !event.version().is_deletion() && matches(event.version());
    match (before, after) {
        (false, true) => Some(EventType::Added),
        (true, true) => Some(EventType::Modified),
        (true, false) => Some(EventType::Deleted),
        (false, false) => None,
    }
}
