//! The stream of one watcher.

use super::encoded::{EncodedEvents, EventType};
use super::schedule::{Due, Schedule};
use super::teller::{Teller, failure};
use super::{Begin, Surroundings, Watching};
use crate::calling::Outside;
use crate::conversion::{Portion, read_as};
use crate::kinds::{Kind, Shown};
use crate::selection::Selection;
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use optik_object::Status;
use optik_store::{Batch, Event, KeyRange, Revision, Snapshot, Version, Watch};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// How much is written at once when much is to be told.
const CHUNK_BYTES: usize = 64 * 1024;
/// How many objects are looked at before others may run.
const SCAN_OBJECTS_MAX: usize = 2048;
/// How often a stream looks for something to tell before others may run.
const LOOKS_MAX: usize = 4;

pub(super) struct Stream {
    kind: Arc<Kind>,
    selection: Selection,
    outside: Outside,
    encoded: Arc<EncodedEvents>,
    teller: Teller,
    watch: Watch,
    schedule: Schedule,
    phase: Phase,
    /// The revision it began at: a bookmark is worth sending only beyond it.
    start: Revision,
    /// The newest revision the client has been told.
    told: Revision,
    bookmarks: bool,
    announce: bool,
}

enum Phase {
    /// The state it begins with.
    Initial {
        state: Snapshot,
        rest: KeyRange,
    },
    /// All of that has been told.
    InitialEnd,
    Live,
    /// Commits that have come; those before `next` have been told.
    Telling {
        batch: Batch,
        next: usize,
    },
    /// What is told next is with somebody who converts it.
    Converting {
        converted: BoxFuture<'static, Result<Vec<Arc<Version>>, Status>>,
        news: News,
        /// What comes after.
        after: Box<Phase>,
    },
    Ended,
}

/// What is told once it is converted.
struct News {
    /// One for each version: what happened, and when.
    events: Vec<(EventType, Revision)>,
    /// Where that leaves the watch.
    through: Revision,
}

impl Stream {
    pub(super) fn new(
        around: &Surroundings,
        watching: Watching,
        begin: Begin,
        schedule: Schedule,
    ) -> Self {
        let plan = watching.plan;
        let rest = begin.watch.range().clone();
        Self {
            outside: around.outside.clone(),
            encoded: Arc::clone(&around.encoded),
            teller: Teller::new(watching.form, Arc::clone(&around.clock)),
            selection: watching.selection,
            watch: begin.watch,
            schedule,
            phase: match begin.initial {
                Some(state) => Phase::Initial { state, rest },
                None => Phase::Live,
            },
            start: begin.start,
            told: begin.start,
            bookmarks: plan.bookmarks && watching.kind.resource.behaviour.cached,
            announce: plan.announce,
            kind: watching.kind,
        }
    }

    /// The next lines, if there are any yet; none at all at the end.
    fn poll_lines(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let converts = self.converts();
        Poll::Ready(Some(match &mut self.phase {
            Phase::Initial { .. } if converts => self.convert_state(),
            Phase::Initial { .. } => self.tell_state(),
            Phase::InitialEnd => {
                self.phase = Phase::Live;
                if self.announce {
                    self.teller.bookmark(&self.kind, self.start, true)
                } else {
                    Bytes::new()
                }
            }
            Phase::Telling { .. } if converts => self.convert_batch(),
            Phase::Telling { .. } => self.tell_batch(),
            Phase::Converting { converted, .. } => {
                let converted = ready!(converted.poll_unpin(cx));
                self.tell_converted(converted)
            }
            Phase::Live => ready!(self.poll_news(cx)),
            Phase::Ended => return Poll::Ready(None),
        }))
    }

    /// Waits for commits, or for the clock.
    fn poll_news(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        // The clock first: a busy collection must not make a watch endless.
        if let Poll::Ready(due) = self.schedule.poll_due(cx) {
            return Poll::Ready(match due {
                Due::Bookmark => self.bookmark().unwrap_or_default(),
                Due::End => {
                    self.phase = Phase::Ended;
                    Bytes::new()
                }
            });
        }
        self.phase = match ready!(self.watch.poll_next(cx)) {
            Ok(batch) => Phase::Telling { batch, next: 0 },
            // Too far behind, or the store stops: the client resumes elsewhere.
            Err(_) => Phase::Ended,
        };
        Poll::Ready(Bytes::new())
    }

    fn bookmark(&mut self) -> Option<Bytes> {
        if !self.bookmarks {
            return None;
        }
        self.told = self.told.max(self.watch.through().unwrap_or(self.told));
        (self.told > self.start).then(|| self.teller.bookmark(&self.kind, self.told, false))
    }

    /// The next part of the initial state.
    fn tell_state(&mut self) -> Bytes {
        let Phase::Initial { state, rest } = &mut self.phase else {
            return Bytes::new();
        };
        let mut out = Vec::new();
        let mut stopped = None;
        for (scanned, version) in state.entries(rest).enumerate() {
            if self.selection.is_everything() || self.selection.matches(&self.kind, version) {
                let shown = Shown::whole(version);
                let kind = &self.kind;
                self.teller.write(kind, EventType::Added, shown, &mut out);
            }
            if out.len() >= CHUNK_BYTES || scanned >= SCAN_OBJECTS_MAX {
                stopped = Some(rest.after(version.key()));
                break;
            }
        }
        match stopped {
            Some(after) => *rest = after,
            None => self.phase = Phase::InitialEnd,
        }
        out.into()
    }

    /// The next part of a batch. One event goes out as it is, shared with all who
    /// watch; many go out together.
    fn tell_batch(&mut self) -> Bytes {
        let Phase::Telling { batch, next } = &mut self.phase else {
            return Bytes::new();
        };
        let mut lines: Vec<Bytes> = Vec::new();
        let mut bytes = 0;
        let mut told = self.told;
        let commits = batch.commits();
        while *next < commits.len() && bytes < CHUNK_BYTES {
            let commit = &commits[*next];
            for event in batch.events_of(commit) {
                let line = change(&self.kind, &self.selection, event);
                let line = line.and_then(|event_type| {
                    self.teller
                        .line(&self.encoded, &self.kind, event_type, event)
                });
                bytes += line.as_ref().map_or(0, Bytes::len);
                lines.extend(line);
            }
            told = commit.revision();
            *next += 1;
        }
        if *next >= commits.len() {
            self.phase = Phase::Live;
        }
        self.told = told;
        match &lines[..] {
            [one] => one.clone(),
            lines => lines.concat().into(),
        }
    }
}

/// Of kinds whose objects somebody else converts.
impl Stream {
    fn converts(&self) -> bool {
        self.kind.converter().is_some()
    }

    /// Has the next part of the initial state converted: as much as one question is about.
    fn convert_state(&mut self) -> Bytes {
        let Phase::Initial { state, rest } = &self.phase else {
            return Bytes::new();
        };
        let mut versions: Vec<Arc<Version>> = Vec::new();
        let mut portion = Portion::default();
        let mut last = None;
        let mut stopped = None;
        for (scanned, version) in state.entries(rest).enumerate() {
            let matches = self.selection.matches(&self.kind, version);
            if scanned >= SCAN_OBJECTS_MAX || matches && !portion.takes(version) {
                stopped = last;
                break;
            }
            versions.extend(matches.then(|| Arc::clone(version)));
            last = Some(version.key());
        }
        let after = match stopped {
            Some(last) => Phase::Initial {
                state: state.clone(),
                rest: rest.after(last),
            },
            None => Phase::InitialEnd,
        };
        let events = versions.iter();
        let events = events.map(|version| (EventType::Added, version.mod_revision()));
        let news = News {
            events: events.collect(),
            through: self.told,
        };
        self.convert(versions, news, after)
    }

    /// Has the next commits converted. A commit is told as a whole.
    fn convert_batch(&mut self) -> Bytes {
        let phase = std::mem::replace(&mut self.phase, Phase::Ended);
        let Phase::Telling { batch, mut next } = phase else {
            return Bytes::new();
        };
        let (mut versions, mut events) = (Vec::new(), Vec::new());
        let mut through = self.told;
        let mut portion = Portion::default();
        let mut has_room = true;
        let commits = batch.commits();
        while has_room && let Some(commit) = commits.get(next) {
            for event in batch.events_of(commit) {
                let Some(event_type) = change(&self.kind, &self.selection, event) else {
                    continue;
                };
                let shown = match event_type {
                    EventType::Added | EventType::Modified => Some(event.version()),
                    EventType::Deleted => event.prior(),
                };
                has_room &= shown.is_none_or(|version| portion.takes(version));
                versions.extend(shown.cloned());
                events.extend(shown.map(|_| (event_type, event.version().mod_revision())));
            }
            through = commit.revision();
            next += 1;
        }
        let after = match next < commits.len() {
            true => Phase::Telling { batch, next },
            false => Phase::Live,
        };
        self.convert(versions, News { events, through }, after)
    }

    fn convert(&mut self, versions: Vec<Arc<Version>>, news: News, after: Phase) -> Bytes {
        let (outside, kind) = (self.outside.clone(), Arc::clone(&self.kind));
        let converted = async move { read_as(&outside, &kind, versions).await };
        self.phase = Phase::Converting {
            converted: converted.boxed(),
            news,
            after: Box::new(after),
        };
        Bytes::new()
    }

    fn tell_converted(&mut self, converted: Result<Vec<Arc<Version>>, Status>) -> Bytes {
        let phase = std::mem::replace(&mut self.phase, Phase::Ended);
        let Phase::Converting { news, after, .. } = phase else {
            return Bytes::new();
        };
        let versions = match converted {
            Ok(versions) => versions,
            Err(status) => return failure(self.teller.form(), &status),
        };
        let mut out = Vec::new();
        for (version, (event_type, revision)) in versions.iter().zip(news.events) {
            let shown = Shown {
                revision: revision.get(),
                ..Shown::whole(version)
            };
            self.teller.write(&self.kind, event_type, shown, &mut out);
        }
        self.told = news.through;
        self.phase = *after;
        out.into()
    }
}

impl futures::Stream for Stream {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        for _ in 0..LOOKS_MAX {
            match ready!(self.poll_lines(cx)) {
                // What no selector let through is nothing to send.
                Some(lines) if lines.is_empty() => {}
                lines => return Poll::Ready(lines),
            }
        }
        // A watch that finds nothing for long must not hold the thread.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// What a watcher is told of a change; `None` if it is none of its business.
fn change(kind: &Kind, selection: &Selection, event: &Event) -> Option<EventType> {
    let matches = |version| selection.is_everything() || selection.matches(kind, version);
    let before = event.prior().is_some_and(|prior| matches(prior));
    let after = !event.version().is_deletion() && matches(event.version());
    match (before, after) {
        (false, true) => Some(EventType::Added),
        (true, true) => Some(EventType::Modified),
        (true, false) => Some(EventType::Deleted),
        (false, false) => None,
    }
}
