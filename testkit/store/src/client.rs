//! Clients of a [`Store`] that write down what they do.

use crate::history::{
    Change, Ending, Expectation, Item, Note, Outcome, Recorder, Request, Seen, Session, Span,
    Start, Wanted,
};
use optik_store::{
    Batch, CommitError, Compare, Event, KeyRange, Op, OpResult, Origin, Put, RangeQuery, Revision,
    Snapshot, Store, Txn, TxnResult, Version, Watch, WatchError, WatchFrom, WatchSpec,
};
use std::sync::Arc;

/// One client, which does one thing at a time.
#[derive(Clone, Debug)]
pub struct Client {
    pub store: Store,
    pub recorder: Arc<Recorder>,
    pub number: u32,
}

/// That the store has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// What is there now, as the start of a history.
#[must_use]
pub fn start_of(store: &Store) -> Start {
    let snapshot = store.snapshot();
    Start {
        revision: snapshot.revision().get(),
        items: items(&snapshot, &KeyRange::all(), None).unwrap_or_default(),
    }
}

impl Client {
    /// Writes if all expectations hold, and returns what it was told.
    ///
    /// # Errors
    /// If the store has stopped; whether it was written is not known then.
    ///
    /// # Panics
    /// If the store refuses for a reason that makes no sense here.
    pub async fn write(
        &self,
        expects: Vec<Expectation>,
        changes: Vec<Change>,
    ) -> Result<Outcome, Stopped> {
        let txn = txn_of(&expects, &changes);
        let begun = self.recorder.begin();
        let result = self.store.commit(txn, Origin::default()).await;
        let outcome = match &result {
            Ok(result) => written(result),
            Err(CommitError::Unknown(_) | CommitError::Stopped) => Outcome::Unknown,
            Err(CommitError::Txn(error)) => panic!("the write makes sense: {error}"),
            Err(_) => Outcome::Failed,
        };
        let request = Request::Write { expects, changes };
        self.recorder
            .end(self.number, begun, request, outcome.clone());
        match result {
            Err(CommitError::Stopped) => Err(Stopped),
            _ => Ok(outcome),
        }
    }

    /// Reads, and returns what it found, if the revision is kept.
    ///
    /// # Errors
    /// If the store has stopped.
    pub async fn read(&self, span: Span, state: Wanted) -> Result<Vec<Item>, Stopped> {
        let begun = self.recorder.begin();
        let snapshot = match state {
            Wanted::Any => self.store.snapshot(),
            Wanted::Latest | Wanted::At(_) => self.store.latest().await.map_err(|_| Stopped)?,
        };
        let at = match state {
            Wanted::At(revision) => Some(Revision::new(revision)),
            Wanted::Any | Wanted::Latest => None,
        };
        let found = items(&snapshot, &range_of(&span), at);
        let outcome = match &found {
            Some(items) => Outcome::Found {
                revision: at.unwrap_or(snapshot.revision()).get(),
                items: items.clone(),
            },
            None => Outcome::Failed,
        };
        let request = Request::Read { span, state };
        self.recorder.end(self.number, begun, request, outcome);
        Ok(found.unwrap_or_default())
    }
}

fn txn_of(expects: &[Expectation], changes: &[Change]) -> Txn {
    let compares = expects.iter().map(|expected| {
        Compare::mod_revision_is(&expected.key, Revision::new(expected.mod_revision))
    });
    let ops = changes.iter().map(|change| match change {
        Change::Put { key, value } => Op::Put(Put::new(key, value.clone())),
        Change::Delete { key } => Op::Delete(KeyRange::one(key)),
    });
    let look = |expected: &Expectation| {
        let query = RangeQuery::new(KeyRange::one(&expected.key));
        Op::Range(query)
    };
    Txn {
        compares: compares.collect(),
        success: ops.collect(),
        failure: expects.iter().map(look).collect(),
    }
}

fn written(result: &TxnResult) -> Outcome {
    let revision = result.revision.get();
    let changed = |result: &OpResult| match result {
        OpResult::Put { .. } => true,
        OpResult::Delete { deleted } => !deleted.is_empty(),
        OpResult::Range(_) | OpResult::Txn(_) => false,
    };
    if !result.succeeded {
        let found = result.results.iter().flat_map(|result| match result {
            OpResult::Range(found) => found.entries.as_slice(),
            _ => &[],
        });
        let found = Some(found.map(|version| item(version)).collect());
        return Outcome::Refused { revision, found };
    }
    if result.results.iter().any(changed) {
        Outcome::Written { revision }
    } else {
        Outcome::Unchanged { revision }
    }
}

fn items(snapshot: &Snapshot, range: &KeyRange, at: Option<Revision>) -> Option<Vec<Item>> {
    let query = RangeQuery {
        at,
        ..RangeQuery::new(range.clone())
    };
    let found = snapshot.range(&query).ok()?;
    Some(found.entries.iter().map(|version| item(version)).collect())
}

fn item(version: &Version) -> Item {
    Item {
        key: text(version.key()),
        value: text(version.value()),
        mod_revision: version.mod_revision().get(),
        create_revision: Some(version.create_revision().get()),
        version: Some(version.version()),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn range_of(span: &Span) -> KeyRange {
    match &span.end {
        None => KeyRange::from_key(&span.start),
        Some(end) if *end == format!("{}\0", span.start) => KeyRange::one(&span.start),
        Some(end) => KeyRange::between(&span.start, end),
    }
}

fn seen(event: &Event) -> Seen {
    let version = event.version();
    Seen {
        revision: version.mod_revision().get(),
        key: text(version.key()),
        item: (!version.is_deletion()).then(|| item(version)),
        prior: event.prior().map(|prior| item(prior)),
        created: event.is_creation(),
    }
}

/// A watch that writes down what it shows.
#[derive(Debug)]
pub struct Watcher {
    watch: Watch,
    session: Session,
    recorder: Arc<Recorder>,
    next: u64,
}

/// A watch cannot be started so far back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooOld;

impl Client {
    /// # Errors
    /// If the revision is compacted.
    ///
    /// # Panics
    /// If the store refuses a watch for another reason.
    pub fn watch(&self, watcher: &str, span: &Span, from: u64) -> Result<Watcher, TooOld> {
        let spec = WatchSpec {
            range: range_of(span),
            from: WatchFrom::Revision(Revision::new(from)),
        };
        let session = Session {
            watcher: watcher.to_owned(),
            span: span.clone(),
            from,
            notes: Vec::new(),
            ending: Ending::Left,
        };
        match self.store.watch(spec) {
            Ok(watch) => Ok(Watcher {
                watch,
                session,
                recorder: Arc::clone(&self.recorder),
                next: from,
            }),
            Err(WatchError::Compacted { oldest }) => {
                let oldest = oldest.get();
                let ending = Ending::Compacted { oldest };
                self.recorder.watched(Session { ending, ..session });
                Err(TooOld)
            }
            Err(error) => panic!("a watch can be started: {error}"),
        }
    }
}

impl Watcher {
    /// The first revision that it has not covered.
    #[must_use]
    pub fn next_revision(&self) -> u64 {
        self.next
    }

    /// Reads the next batch, and notes how far the watch has come.
    ///
    /// # Errors
    /// When the watch is over.
    pub async fn read(&mut self) -> Result<(), Ending> {
        match self.watch.next().await {
            Ok(batch) => self.note(&batch),
            Err(error) => {
                self.session.ending = match error {
                    WatchError::Compacted { oldest } => Ending::Compacted {
                        oldest: oldest.get(),
                    },
                    _ => Ending::Stopped,
                };
                return Err(self.session.ending);
            }
        }
        self.bookmark();
        Ok(())
    }

    fn note(&mut self, batch: &Batch) {
        let events = batch.events().map(seen).collect();
        self.session.notes.push(Note::Batch(events));
        self.next = self.next.max(batch.last_revision().next().get());
    }

    /// Notes how far the watch says that it has come, and returns that.
    pub fn bookmark(&mut self) -> Option<u64> {
        let through = self.watch.through()?.get();
        if self.session.notes.last() != Some(&Note::Bookmark(through)) {
            self.session.notes.push(Note::Bookmark(through));
        }
        self.next = self.next.max(through + 1);
        Some(through)
    }

    /// Ends the watch, if it has not ended by itself.
    pub fn leave(self) {
        self.recorder.watched(self.session);
    }
}
