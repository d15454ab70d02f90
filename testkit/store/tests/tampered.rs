//! The validator rejects tampered histories: valid ones with one change.

use optik_store::{Options, Store};
use optik_store_testkit::client::{RecordingClient, initial_state};
use optik_store_testkit::history::{
    Expectation, HistoryRecorder, KeyChange, KeySpan, KeyState, OperationHistory, OperationOutcome,
    OperationRequest, ReadFreshness, RecordedOperation, SeenEvent, WatchObservation,
    WatchRecording, WatchRecordingEnd,
};
use optik_store_testkit::validate::{Guarantee, validate_history};
use std::sync::Arc;

fn put(key: &str, value: &str) -> KeyChange {
    KeyChange::Put {
        key: key.into(),
        value: value.into(),
    }
}

fn delete(key: &str) -> KeyChange {
    KeyChange::Delete { key: key.into() }
}

fn at(key: &str, mod_revision: u64) -> Expectation {
    Expectation {
        key: key.into(),
        mod_revision,
    }
}

/// A true history:
///
/// ```text
/// 2 k/a=1    3 other=1   4 k/a=2 k/b=1 k/c=1   5 k/b gone   6 k/a=3   7 k/b=2
/// ```
/// and a watch of `k/` from 2, with a bookmark at 4 and one at the end.
async fn valid_history() -> OperationHistory {
    let store = Store::open(Options::ephemeral()).expect("opens");
    let recorder = Arc::new(HistoryRecorder::new(initial_state(&store)));
    let client = |number| RecordingClient {
        store: store.clone(),
        recorder: Arc::clone(&recorder),
        number,
    };
    let (one, two) = (client(1), client(2));
    let mut watcher = one.watch("w", &KeySpan::prefix("k/"), 2).expect("is kept");
    let several = vec![put("k/a", "2"), put("k/b", "1"), put("k/c", "1")];
    let writes = [
        (vec![at("k/a", 0)], vec![put("k/a", "1")]),
        (vec![], vec![put("other", "1")]),
        (vec![at("k/a", 2)], several),
        (vec![at("k/b", 4)], vec![delete("k/b")]),
        (vec![at("k/a", 4)], vec![put("k/a", "3")]),
        (vec![at("k/b", 0)], vec![put("k/b", "2")]),
    ];
    for (number, (expects, changes)) in writes.into_iter().enumerate() {
        let outcome = one.write(expects, changes).await.expect("goes on");
        let revision = number as u64 + 2;
        assert_eq!(outcome, OperationOutcome::Written { revision });
        store.wait_dispatched(revision.into()).await;
        if number != 1 {
            watcher.read().await.expect("goes on");
        }
        let all = KeySpan::all();
        two.read(all.clone(), ReadFreshness::Latest)
            .await
            .expect("reads");
        two.read(all, ReadFreshness::Any).await.expect("reads");
    }
    let refused = two
        .write(vec![at("k/a", 4)], vec![put("k/a", "lost")])
        .await;
    assert!(matches!(refused, Ok(OperationOutcome::Refused { .. })));
    let unchanged = two.write(vec![], vec![delete("k/nothing")]).await;
    assert_eq!(unchanged, Ok(OperationOutcome::Unchanged { revision: 7 }));
    two.read(KeySpan::prefix("k/"), ReadFreshness::At(4))
        .await
        .expect("reads");
    watcher.finish();
    let mut resumed = one.watch("w again", &KeySpan::all(), 5).expect("is kept");
    resumed.read().await.expect("goes on");
    resumed.finish();
    recorder.history()
}

fn session(history: &mut OperationHistory) -> &mut WatchRecording {
    &mut history.sessions[0]
}

/// The notes of the first session that are batches.
fn batches(history: &mut OperationHistory) -> Vec<&mut Vec<SeenEvent>> {
    let notes = session(history).notes.iter_mut();
    let batches = notes.filter_map(|note| match note {
        WatchObservation::Batch(events) => Some(events),
        WatchObservation::Bookmark(_) => None,
    });
    batches.collect()
}

fn operation(
    history: &mut OperationHistory,
    wanted: impl Fn(&RecordedOperation) -> bool,
) -> &mut RecordedOperation {
    let mut all = history.operations.iter_mut();
    all.find(|operation| wanted(operation)).expect("is there")
}

fn writing(history: &mut OperationHistory, revision: u64) -> &mut RecordedOperation {
    let outcome = OperationOutcome::Written { revision };
    operation(history, move |operation| operation.outcome == outcome)
}

fn reading(
    history: &mut OperationHistory,
    wanted: ReadFreshness,
    revision: u64,
) -> &mut RecordedOperation {
    operation(history, move |operation| {
        let read =
            matches!(&operation.request, OperationRequest::Read { state, .. } if *state == wanted);
        read && operation.outcome.revision() == Some(revision)
    })
}

fn accepted(operation: &mut RecordedOperation) -> (&mut u64, &mut Vec<KeyState>) {
    match &mut operation.outcome {
        OperationOutcome::Found { revision, items } => (revision, items),
        other => panic!("not a read: {other:?}"),
    }
}

async fn violated_guarantees(tamper: impl FnOnce(&mut OperationHistory)) -> Vec<Guarantee> {
    let mut history = valid_history().await;
    tamper(&mut history);
    let violations = validate_history(&history).expect_err("it is not true any more");
    let mut guarantees: Vec<_> = violations
        .iter()
        .map(|violation| violation.guarantee)
        .collect();
    guarantees.sort_unstable();
    guarantees.dedup();
    guarantees
}

#[tokio::test]
async fn checker_accepts_valid_history() {
    let history = valid_history().await;
    let log = validate_history(&history).expect("is true");
    assert_eq!(log.newest(), 7);
    assert_eq!(log.commits()[&4].len(), 3);
}

#[tokio::test]
async fn history_round_trips_as_jsonl() {
    let history = valid_history().await;
    let mut lines = Vec::new();
    history.write_jsonl(&mut lines).expect("can be written");
    let read = OperationHistory::read_jsonl(lines.as_slice()).expect("can be read");
    assert_eq!(read, history);
}

#[tokio::test]
async fn checker_rejects_lost_update() {
    // The write that was refused claims to have gone through, over what it missed.
    let broken = violated_guarantees(|history| {
        let refused = |o: &RecordedOperation| matches!(o.outcome, OperationOutcome::Refused { .. });
        let at = history
            .operations
            .iter()
            .position(refused)
            .expect("is there");
        history.operations.truncate(at + 1);
        history.operations[at].outcome = OperationOutcome::Written { revision: 8 };
    });
    assert_eq!(broken.await, [Guarantee::ConditionsHold]);
}

#[tokio::test]
async fn checker_rejects_two_writes_of_one_revision() {
    let broken = violated_guarantees(|history| {
        let refused = operation(history, |o| {
            matches!(o.outcome, OperationOutcome::Refused { .. })
        });
        refused.outcome = OperationOutcome::Written { revision: 7 };
    })
    .await;
    assert!(
        broken.contains(&Guarantee::OneWritePerRevision),
        "{broken:?}"
    );
}

#[tokio::test]
async fn checker_rejects_event_without_write() {
    let broken = violated_guarantees(|history| {
        let at = history
            .operations
            .iter()
            .position(|o| o.outcome == OperationOutcome::Written { revision: 5 });
        history.operations.remove(at.expect("is there"));
    });
    assert_eq!(broken.await, [Guarantee::OneWritePerRevision]);
}

#[tokio::test]
async fn checker_rejects_conflict_without_cause() {
    let broken = violated_guarantees(|history| {
        let refused = operation(history, |o| {
            matches!(o.outcome, OperationOutcome::Refused { .. })
        });
        if let OperationRequest::Write { expects, .. } = &mut refused.request {
            expects[0].mod_revision = 6;
        }
    });
    assert_eq!(broken.await, [Guarantee::RefusalsAreRight]);
}

#[tokio::test]
async fn checker_rejects_conflict_with_wrong_state() {
    let broken = violated_guarantees(|history| {
        let refused = operation(history, |o| {
            matches!(o.outcome, OperationOutcome::Refused { .. })
        });
        if let OperationOutcome::Refused {
            found: Some(found), ..
        } = &mut refused.outcome
        {
            found[0].value = "2".into();
        }
    });
    assert_eq!(broken.await, [Guarantee::RefusalsAreRight]);
}

#[tokio::test]
async fn checker_rejects_read_of_wrong_value() {
    let broken = violated_guarantees(|history| {
        let (_, items) = accepted(reading(history, ReadFreshness::Latest, 5));
        items[0].value = "1".into();
    });
    assert_eq!(broken.await, [Guarantee::ReadsShowTheirRevision]);
}

#[tokio::test]
async fn checker_rejects_read_missing_a_key() {
    let broken = violated_guarantees(|history| {
        drop(accepted(reading(history, ReadFreshness::Latest, 6)).1.pop());
    });
    assert_eq!(broken.await, [Guarantee::ReadsShowTheirRevision]);
}

#[tokio::test]
async fn checker_rejects_read_of_unknown_revision() {
    let broken =
        violated_guarantees(|history| *accepted(reading(history, ReadFreshness::Latest, 7)).0 = 8)
            .await;
    assert!(
        broken.contains(&Guarantee::ReadsShowTheirRevision),
        "{broken:?}"
    );
}

#[tokio::test]
async fn checker_rejects_stale_read() {
    // True at its revision, but that had passed.
    let broken = violated_guarantees(|history| {
        let old = accepted(reading(history, ReadFreshness::Latest, 4))
            .1
            .clone();
        let (revision, items) = accepted(reading(history, ReadFreshness::Latest, 5));
        (*revision, *items) = (4, old);
    });
    assert_eq!(broken.await, [Guarantee::ReadsAreFresh]);
}

#[tokio::test]
async fn checker_rejects_non_monotonic_reads() {
    let broken = violated_guarantees(|history| {
        let old = accepted(reading(history, ReadFreshness::Any, 4)).1.clone();
        let (revision, items) = accepted(reading(history, ReadFreshness::Any, 5));
        (*revision, *items) = (4, old);
    });
    assert_eq!(broken.await, [Guarantee::ClientsNeverGoBack]);
}

#[tokio::test]
async fn checker_rejects_writes_against_real_time_order() {
    // Two writes that do not depend on one another swap their revisions.
    let broken = violated_guarantees(|history| {
        writing(history, 6).outcome = OperationOutcome::Written { revision: 99 };
        writing(history, 7).outcome = OperationOutcome::Written { revision: 6 };
        writing(history, 99).outcome = OperationOutcome::Written { revision: 7 };
    })
    .await;
    assert!(broken.contains(&Guarantee::RealTimeOrder), "{broken:?}");
}

#[tokio::test]
async fn checker_matches_unknown_write_by_its_events() {
    let mut history = valid_history().await;
    writing(&mut history, 5).outcome = OperationOutcome::Unknown;
    let unheard = RecordedOperation {
        outcome: OperationOutcome::Unknown,
        request: OperationRequest::Write {
            expects: Vec::new(),
            changes: vec![put("k/a", "never")],
        },
        begun: 1000,
        ended: 1001,
        client: 9,
    };
    history.operations.push(unheard);
    assert_eq!(validate_history(&history).expect("is true").newest(), 7);
}

/// Two asked for the same, and neither was answered: it was the one that asked in time.
#[tokio::test]
async fn checker_matches_unknown_write_that_began_in_time() {
    let mut history = valid_history().await;
    writing(&mut history, 5).outcome = OperationOutcome::Unknown;
    let unheard = RecordedOperation {
        outcome: OperationOutcome::Unknown,
        request: OperationRequest::Write {
            expects: vec![at("k/b", 4)],
            changes: vec![delete("k/b")],
        },
        begun: 1000,
        ended: 1001,
        client: 9,
    };
    // Whoever ends first is written down first.
    history.operations.insert(0, unheard);
    assert_eq!(validate_history(&history).expect("is true").newest(), 7);
}

#[tokio::test]
async fn checker_rejects_unknown_write_before_its_request() {
    let broken = violated_guarantees(|history| {
        let write = writing(history, 5);
        write.outcome = OperationOutcome::Unknown;
        (write.begun, write.ended) = (1000, 1001);
    });
    assert_eq!(broken.await, [Guarantee::RealTimeOrder]);
}

#[tokio::test]
async fn checker_rejects_reordered_events() {
    let broken = violated_guarantees(|history| {
        let notes = &mut session(history).notes;
        notes.retain(|note| matches!(note, WatchObservation::Batch(_)));
        notes.swap(2, 3);
    });
    assert_eq!(broken.await, [Guarantee::Ordered]);
}

#[tokio::test]
async fn checker_rejects_duplicate_event() {
    let broken = violated_guarantees(|history| {
        let batches = &mut batches(history);
        let again = batches[3][0].clone();
        batches[3].push(again);
    });
    assert_eq!(broken.await, [Guarantee::Unique]);
}

#[tokio::test]
async fn checker_rejects_split_commit() {
    let broken = violated_guarantees(|history| {
        let rest = batches(history)[1].split_off(1);
        let notes = &mut session(history).notes;
        let of_four = |note: &WatchObservation| matches!(note, WatchObservation::Batch(e) if e[0].revision == 4);
        let at = notes.iter().position(of_four).expect("is there");
        notes.insert(at + 1, WatchObservation::Batch(rest));
    });
    assert_eq!(broken.await, [Guarantee::Atomic]);
}

#[tokio::test]
async fn checker_accepts_any_order_within_a_commit() {
    let broken = violated_guarantees(|history| batches(history)[1].swap(0, 2));
    assert_eq!(broken.await, [Guarantee::Atomic]);
}

#[tokio::test]
async fn checker_rejects_missing_event() {
    let broken = violated_guarantees(|history| {
        session(history)
            .notes
            .retain(|note| matches!(note, WatchObservation::Batch(_)));
        let notes = &mut session(history).notes;
        notes.retain(|note| !matches!(note, WatchObservation::Batch(e) if e[0].revision == 5));
    });
    assert_eq!(broken.await, [Guarantee::Reliable]);
}

#[tokio::test]
async fn checker_rejects_partial_commit() {
    let broken = violated_guarantees(|history| {
        session(history)
            .notes
            .retain(|note| matches!(note, WatchObservation::Batch(_)));
        drop(batches(history)[1].pop());
    });
    assert_eq!(broken.await, [Guarantee::Reliable]);
}

#[tokio::test]
async fn checker_rejects_invented_event() {
    let broken = violated_guarantees(|history| {
        let events = &mut batches(history)[2];
        events[0].item = Some(KeyState {
            key: "k/b".into(),
            value: "invented".into(),
            mod_revision: 5,
            create_revision: None,
            version: None,
        });
    });
    assert_eq!(broken.await, [Guarantee::Reliable]);
}

#[tokio::test]
async fn checker_rejects_watch_end_without_compaction() {
    let broken = violated_guarantees(|history| {
        session(history).ending = WatchRecordingEnd::Compacted { oldest: 7 }
    });
    assert_eq!(broken.await, [Guarantee::Reliable]);
}

#[tokio::test]
async fn checker_rejects_late_watch_start() {
    let broken = violated_guarantees(|history| {
        let resumed = &mut history.sessions[1];
        resumed
            .notes
            .retain(|note| matches!(note, WatchObservation::Batch(_)));
        let WatchObservation::Batch(events) = &mut resumed.notes[0] else {
            panic!("begins with a batch");
        };
        drop(events.remove(0));
    });
    assert_eq!(broken.await, [Guarantee::Resumable]);
}

#[tokio::test]
async fn checker_rejects_early_watch_start() {
    let broken = violated_guarantees(|history| history.sessions[1].from = 6);
    assert_eq!(broken.await, [Guarantee::Resumable]);
}

#[tokio::test]
async fn checker_rejects_early_bookmark() {
    let broken = violated_guarantees(|history| {
        let notes = &mut session(history).notes;
        let is_bookmark = |note: &WatchObservation| *note == WatchObservation::Bookmark(5);
        let at = notes.iter().position(is_bookmark).expect("is there");
        notes[at] = WatchObservation::Bookmark(6);
    });
    assert_eq!(broken.await, [Guarantee::Bookmarkable]);
}

#[tokio::test]
async fn checker_rejects_bookmark_without_events() {
    let broken = violated_guarantees(|history| {
        let notes = &mut session(history).notes;
        let last = notes
            .iter()
            .rposition(|note| matches!(note, WatchObservation::Batch(_)));
        notes.remove(last.expect("is there"));
    });
    assert_eq!(broken.await, [Guarantee::Bookmarkable]);
}

#[tokio::test]
async fn checker_rejects_backward_bookmark() {
    let broken =
        violated_guarantees(|history| session(history).notes.push(WatchObservation::Bookmark(3)));
    assert_eq!(broken.await, [Guarantee::Bookmarkable]);
}

#[tokio::test]
async fn checker_rejects_event_outside_watched_range() {
    let broken = violated_guarantees(|history| {
        session(history).span = KeySpan::single("k/a");
    });
    assert_eq!(broken.await, [Guarantee::Filtered]);
}

#[tokio::test]
async fn checker_rejects_wrong_previous_value() {
    let wrong = violated_guarantees(|history| {
        let prior = &mut batches(history)[1][0].prior;
        prior.as_mut().expect("was there").value = "0".into();
    });
    assert_eq!(wrong.await, [Guarantee::PreviousValue]);
    let missing = violated_guarantees(|history| batches(history)[2][0].prior = None);
    assert_eq!(missing.await, [Guarantee::PreviousValue]);
}

#[tokio::test]
async fn checker_rejects_wrong_create_flag() {
    let broken = violated_guarantees(|history| batches(history)[1][0].created = true);
    assert_eq!(broken.await, [Guarantee::CreateFlag]);
}
