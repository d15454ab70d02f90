//! [`Store`] clients that record their operations in a history.

use crate::history::{
    Expectation, HistoryRecorder, InitialState, KeyChange, KeySpan, KeyState, OperationOutcome,
    OperationRequest, ReadFreshness, SeenEvent, WatchObservation, WatchRecording,
    WatchRecordingEnd,
};
use optik_store::{
    CommitError, Compare, Event, KeyRange, Op, OpResult, Origin, Put, RangeQuery, Revision,
    Snapshot, Store, Txn, TxnResult, Version, Watch, WatchBatch, WatchError, WatchFrom, WatchSpec,
};
use std::sync::Arc;

/// One client, with one operation at a time.
#[derive(Clone, Debug)]
pub struct RecordingClient {
    pub store: Store,
    pub recorder: Arc<HistoryRecorder>,
    pub number: u32,
}

/// That the store has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreStopped;

/// The current state, as the start of a history.
#[must_use]
pub fn initial_state(store: &Store) -> InitialState {
    let snapshot = store.snapshot();
    InitialState {
        revision: snapshot.revision().get(),
        items: items(&snapshot, &KeyRange::all(), None).unwrap_or_default(),
    }
}

impl RecordingClient {
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
        changes: Vec<KeyChange>,
    ) -> Result<OperationOutcome, StoreStopped> {
        let txn = txn_of(&expects, &changes);
        let begun = self.recorder.begin();
        let result = self.store.commit(txn, Origin::default()).await;
        let outcome = match &result {
            Ok(result) => written(result),
            Err(CommitError::Unknown(_) | CommitError::Stopped) => OperationOutcome::Unknown,
            Err(CommitError::Txn(error)) => panic!("the write makes sense: {error}"),
            Err(_) => OperationOutcome::Failed,
        };
        let request = OperationRequest::Write { expects, changes };
        self.recorder
            .end(self.number, begun, request, outcome.clone());
        match result {
            Err(CommitError::Stopped) => Err(StoreStopped),
            _ => Ok(outcome),
        }
    }

    /// Reads, and returns what it found, if the revision is kept.
    ///
    /// # Errors
    /// If the store has stopped.
    pub async fn read(
        &self,
        span: KeySpan,
        state: ReadFreshness,
    ) -> Result<Vec<KeyState>, StoreStopped> {
        let begun = self.recorder.begin();
        let snapshot = match state {
            ReadFreshness::Any => self.store.snapshot(),
            ReadFreshness::Latest | ReadFreshness::At(_) => {
                self.store.latest().await.map_err(|_| StoreStopped)?
            }
        };
        let at = match state {
            ReadFreshness::At(revision) => Some(Revision::new(revision)),
            ReadFreshness::Any | ReadFreshness::Latest => None,
        };
        let found = items(&snapshot, &range_of(&span), at);
        let outcome = match &found {
            Some(items) => OperationOutcome::Found {
                revision: at.unwrap_or(snapshot.revision()).get(),
                items: items.clone(),
            },
            None => OperationOutcome::Failed,
        };
        let request = OperationRequest::Read { span, state };
        self.recorder.end(self.number, begun, request, outcome);
        Ok(found.unwrap_or_default())
    }
}

fn txn_of(expects: &[Expectation], changes: &[KeyChange]) -> Txn {
    let compares = expects.iter().map(|expected| {
        Compare::mod_revision_is(&expected.key, Revision::new(expected.mod_revision))
    });
    let ops = changes.iter().map(|change| match change {
        KeyChange::Put { key, value } => Op::Put(Put::new(key, value.clone())),
        KeyChange::Delete { key } => Op::Delete(KeyRange::one(key)),
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

fn written(result: &TxnResult) -> OperationOutcome {
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
        return OperationOutcome::Refused { revision, found };
    }
    if result.results.iter().any(changed) {
        OperationOutcome::Written { revision }
    } else {
        OperationOutcome::Unchanged { revision }
    }
}

fn items(snapshot: &Snapshot, range: &KeyRange, at: Option<Revision>) -> Option<Vec<KeyState>> {
    let query = RangeQuery {
        at,
        ..RangeQuery::new(range.clone())
    };
    let found = snapshot.range(&query).ok()?;
    Some(found.entries.iter().map(|version| item(version)).collect())
}

fn item(version: &Version) -> KeyState {
    KeyState {
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

fn range_of(span: &KeySpan) -> KeyRange {
    match &span.end {
        None => KeyRange::from_key(&span.start),
        Some(end) if *end == format!("{}\0", span.start) => KeyRange::one(&span.start),
        Some(end) => KeyRange::between(&span.start, end),
    }
}

fn seen_event(event: &Event) -> SeenEvent {
    let version = event.version();
    SeenEvent {
        revision: version.mod_revision().get(),
        key: text(version.key()),
        item: (!version.is_deletion()).then(|| item(version)),
        prior: event.prior().map(|prior| item(prior)),
        created: event.is_creation(),
    }
}

/// A watch that records its events.
#[derive(Debug)]
pub struct RecordingWatcher {
    watch: Watch,
    session: WatchRecording,
    recorder: Arc<HistoryRecorder>,
    next: u64,
}

/// A watch cannot be started so far back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RevisionCompacted;

impl RecordingClient {
    /// # Errors
    /// If the revision is compacted.
    ///
    /// # Panics
    /// If the store refuses a watch for another reason.
    pub fn watch(
        &self,
        watcher: &str,
        span: &KeySpan,
        from: u64,
    ) -> Result<RecordingWatcher, RevisionCompacted> {
        let spec = WatchSpec {
            range: range_of(span),
            from: WatchFrom::Revision(Revision::new(from)),
        };
        let session = WatchRecording {
            watcher: watcher.to_owned(),
            span: span.clone(),
            from,
            notes: Vec::new(),
            ending: WatchRecordingEnd::Left,
        };
        match self.store.watch(spec) {
            Ok(watch) => Ok(RecordingWatcher {
                watch,
                session,
                recorder: Arc::clone(&self.recorder),
                next: from,
            }),
            Err(WatchError::Compacted { oldest }) => {
                let oldest = oldest.get();
                let ending = WatchRecordingEnd::Compacted { oldest };
                self.recorder
                    .add_watch(WatchRecording { ending, ..session });
                Err(RevisionCompacted)
            }
            Err(error) => panic!("a watch can be started: {error}"),
        }
    }
}

impl RecordingWatcher {
    /// The first revision that it has not covered.
    #[must_use]
    pub fn next_revision(&self) -> u64 {
        self.next
    }

    /// Reads the next batch, and notes how far the watch has come.
    ///
    /// # Errors
    /// When the watch is over.
    pub async fn read(&mut self) -> Result<(), WatchRecordingEnd> {
        match self.watch.next().await {
            Ok(batch) => self.record_batch(&batch),
            Err(error) => {
                self.session.ending = match error {
                    WatchError::Compacted { oldest } => WatchRecordingEnd::Compacted {
                        oldest: oldest.get(),
                    },
                    _ => WatchRecordingEnd::Stopped,
                };
                return Err(self.session.ending);
            }
        }
        self.bookmark();
        Ok(())
    }

    fn record_batch(&mut self, batch: &WatchBatch) {
        let events = batch.events().map(seen_event).collect();
        self.session.notes.push(WatchObservation::Batch(events));
        self.next = self.next.max(batch.last_revision().next().get());
    }

    /// Records the progress of the watch, and returns it.
    pub fn bookmark(&mut self) -> Option<u64> {
        let through = self.watch.progress_revision()?.get();
        if self.session.notes.last() != Some(&WatchObservation::Bookmark(through)) {
            self.session.notes.push(WatchObservation::Bookmark(through));
        }
        self.next = self.next.max(through + 1);
        Some(through)
    }

    /// Ends the watch, if it has not ended by itself.
    pub fn finish(self) {
        self.recorder.add_watch(self.session);
    }
}
