//! The validator rejects tampered histories: valid ones with one change.

use crate::scenario::{ConnectionFaults, HttpScenarioPlan, record_history};
use crate::servers::one;
use optik_server_testkit::TestEngine;
use optik_store_testkit::history::{
    KeyChange, OperationHistory, OperationOutcome, OperationRequest, RecordedOperation, SeenEvent,
    WatchObservation, WatchRecording,
};
use optik_store_testkit::validate::{Guarantee, validate_history};

const PLAN: HttpScenarioPlan = HttpScenarioPlan {
    name: "tampered",
    seed: 7,
    wire: ConnectionFaults::Whole,
    incrementers: 4,
    changers: 4,
    successes: 15,
};

fn operation(
    history: &mut OperationHistory,
    wanted: impl Fn(&RecordedOperation) -> bool,
) -> Option<&mut RecordedOperation> {
    // Not among the first operations, so that the history has earlier ones.
    history
        .operations
        .iter_mut()
        .skip(50)
        .find(|operation| wanted(operation))
}

fn batches(session: &mut WatchRecording) -> impl Iterator<Item = &mut Vec<SeenEvent>> {
    session.notes.iter_mut().filter_map(|note| match note {
        WatchObservation::Batch(events) => Some(events),
        WatchObservation::Bookmark(_) => None,
    })
}

/// The session of a watch of everything.
fn eager(history: &mut OperationHistory) -> &mut WatchRecording {
    let mut sessions = history.sessions.iter_mut();
    sessions
        .find(|session| session.watcher.starts_with("eager"))
        .expect("there is one")
}

/// An update that was acknowledged, although another came between: a lost update.
fn lost_update(history: &mut OperationHistory) {
    let update = |operation: &RecordedOperation| match &operation.request {
        OperationRequest::Write { expects, .. } => {
            let written = matches!(operation.outcome, OperationOutcome::Written { .. });
            written && expects[0].mod_revision > 0
        }
        OperationRequest::Read { .. } => false,
    };
    let operation = operation(history, update).expect("there are updates");
    if let OperationRequest::Write { expects, .. } = &mut operation.request {
        expects[0].mod_revision -= 1;
    }
}

/// Two writers got one revision.
fn shared_revision(history: &mut OperationHistory) {
    let written = |operation: &RecordedOperation| {
        matches!(operation.outcome, OperationOutcome::Written { .. })
    };
    let mut copied = operation(history, written).expect("is there").clone();
    let last = history.operations.iter().map(|operation| operation.ended);
    copied.begun = last.max().unwrap_or(0) + 1;
    copied.ended = copied.begun + 1;
    history.operations.push(copied);
}

/// A read that returns a value overwritten before the read began.
fn stale_read(history: &mut OperationHistory) {
    let glimpse = |operation: &RecordedOperation| match &operation.outcome {
        OperationOutcome::Glimpsed { items } => items.len() == 1,
        _ => false,
    };
    let early = operation(history, glimpse)
        .expect("there are reads")
        .clone();
    let same = |late: &RecordedOperation| glimpse(late) && late.request == early.request;
    let late = history.operations.iter_mut().rev().find(|late| same(late));
    late.expect("there are many").outcome = early.outcome;
}

/// A conflict although the precondition held.
fn baseless_refusal(history: &mut OperationHistory) {
    let deletion = |operation: &RecordedOperation| {
        matches!(&operation.request, OperationRequest::Write { changes, .. }
            if matches!(changes[0], KeyChange::Delete { .. }))
    };
    let done = |op: &RecordedOperation| deletion(op) && op.outcome == OperationOutcome::Done;
    let mut refused = operation(history, done).expect("is there").clone();
    refused.outcome = OperationOutcome::Denied;
    // As the first of all, when the key had not been touched for the first time.
    if let OperationRequest::Write { expects, .. } = &mut refused.request {
        expects[0].mod_revision = 0;
    }
    let all = history.operations.iter_mut();
    for operation in all {
        operation.begun += 2;
        operation.ended += 2;
    }
    (refused.begun, refused.ended) = (0, 1);
    history.operations.insert(0, refused);
}

/// A deletion that was acknowledged and never happened.
fn undone_deletion(history: &mut OperationHistory) {
    let deletion = |operation: &RecordedOperation| operation.outcome == OperationOutcome::Done;
    let mut copied = operation(history, deletion).expect("is there").clone();
    let last = history.operations.iter().map(|operation| operation.ended);
    copied.begun = last.max().unwrap_or(0) + 1;
    copied.ended = copied.begun + 1;
    history.operations.push(copied);
}

fn missed_event(history: &mut OperationHistory) {
    let batch = batches(eager(history)).nth(20).expect("saw more");
    batch.clear();
}

fn repeated_event(history: &mut OperationHistory) {
    let batch = batches(eager(history)).nth(20).expect("saw more");
    batch.push(batch[0].clone());
}

fn late_beginning(history: &mut OperationHistory) {
    batches(eager(history)).next().expect("saw more").clear();
}

fn early_bookmark(history: &mut OperationHistory) {
    let session = eager(history);
    let newest = session.events().map(|event| event.revision).max();
    let bookmark = WatchObservation::Bookmark(newest.expect("saw something"));
    session.notes.insert(1, bookmark);
}

type Tampering = fn(&mut OperationHistory);

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn history_checker_rejects_tampered_histories() {
    let truth = record_history(PLAN, one(TestEngine::Memory).await).await;
    validate_history(&truth).expect("the truth is accepted");
    let lies: [(Tampering, Guarantee); 9] = [
        (lost_update, Guarantee::ConditionsHold),
        (shared_revision, Guarantee::OneWritePerRevision),
        (stale_read, Guarantee::ReadsAreFresh),
        (baseless_refusal, Guarantee::RefusalsAreRight),
        (undone_deletion, Guarantee::OneWritePerRevision),
        (missed_event, Guarantee::Reliable),
        (repeated_event, Guarantee::Unique),
        (late_beginning, Guarantee::Resumable),
        (early_bookmark, Guarantee::Bookmarkable),
    ];
    for (number, (lie, broken)) in lies.into_iter().enumerate() {
        let mut history = truth.clone();
        lie(&mut history);
        let violations = validate_history(&history).expect_err("a lie is refused");
        let found = violations.iter().any(|found| found.guarantee == broken);
        assert!(found, "lie {number}, {broken}: {violations:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn history_checker_detects_lost_watch_line() {
    let plan = HttpScenarioPlan {
        wire: ConnectionFaults::Lossy,
        ..PLAN
    };
    let history = record_history(plan, one(TestEngine::Memory).await).await;
    let violations = validate_history(&history).expect_err("a change was not told");
    let of_watches = [
        Guarantee::Reliable,
        Guarantee::Resumable,
        Guarantee::PreviousValue,
    ];
    let expected = |guarantee| of_watches.contains(guarantee);
    let all = violations.iter().map(|violation| &violation.guarantee);
    assert!(all.clone().all(expected), "{violations:?}");
}
