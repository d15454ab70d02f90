//! The judge can refuse: a history that was true until somebody changed it.

use crate::scene::{Plan, Wire, record};
use crate::servers::one;
use optik_server_testkit::Engine;
use optik_store_testkit::history::{
    Change, History, Note, Operation, Outcome, Request, Seen, Session,
};
use optik_store_testkit::validate::{Guarantee, judge};

const PLAN: Plan = Plan {
    name: "tampered",
    seed: 7,
    wire: Wire::Whole,
    incrementers: 4,
    changers: 4,
    successes: 15,
};

fn operation(history: &mut History, wanted: impl Fn(&Operation) -> bool) -> Option<&mut Operation> {
    // Not among the first: something should have happened before.
    history
        .operations
        .iter_mut()
        .skip(50)
        .find(|operation| wanted(operation))
}

fn batches(session: &mut Session) -> impl Iterator<Item = &mut Vec<Seen>> {
    session.notes.iter_mut().filter_map(|note| match note {
        Note::Batch(events) => Some(events),
        Note::Bookmark(_) => None,
    })
}

/// The session of a watch of everything.
fn eager(history: &mut History) -> &mut Session {
    let mut sessions = history.sessions.iter_mut();
    sessions
        .find(|session| session.watcher.starts_with("eager"))
        .expect("there is one")
}

/// An update that was acknowledged, although another came between: a lost update.
fn lost_update(history: &mut History) {
    let update = |operation: &Operation| match &operation.request {
        Request::Write { expects, .. } => {
            let written = matches!(operation.outcome, Outcome::Written { .. });
            written && expects[0].mod_revision > 0
        }
        Request::Read { .. } => false,
    };
    let operation = operation(history, update).expect("there are updates");
    if let Request::Write { expects, .. } = &mut operation.request {
        expects[0].mod_revision -= 1;
    }
}

/// Two writers were told the same revision.
fn shared_revision(history: &mut History) {
    let written = |operation: &Operation| matches!(operation.outcome, Outcome::Written { .. });
    let mut copied = operation(history, written).expect("is there").clone();
    let last = history.operations.iter().map(|operation| operation.ended);
    copied.begun = last.max().unwrap_or(0) + 1;
    copied.ended = copied.begun + 1;
    history.operations.push(copied);
}

/// A read that shows what had been overwritten before it began.
fn stale_read(history: &mut History) {
    let glimpse = |operation: &Operation| match &operation.outcome {
        Outcome::Glimpsed { items } => items.len() == 1,
        _ => false,
    };
    let early = operation(history, glimpse)
        .expect("there are reads")
        .clone();
    let same = |late: &Operation| glimpse(late) && late.request == early.request;
    let late = history.operations.iter_mut().rev().find(|late| same(late));
    late.expect("there are many").outcome = early.outcome;
}

/// A refusal although nobody had touched what was seen.
fn baseless_refusal(history: &mut History) {
    let deletion = |operation: &Operation| {
        matches!(&operation.request, Request::Write { changes, .. }
            if matches!(changes[0], Change::Delete { .. }))
    };
    let done = |op: &Operation| deletion(op) && op.outcome == Outcome::Done;
    let mut refused = operation(history, done).expect("is there").clone();
    refused.outcome = Outcome::Denied;
    // As the first of all, when the key had not been touched for the first time.
    if let Request::Write { expects, .. } = &mut refused.request {
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
fn undone_deletion(history: &mut History) {
    let deletion = |operation: &Operation| operation.outcome == Outcome::Done;
    let mut copied = operation(history, deletion).expect("is there").clone();
    let last = history.operations.iter().map(|operation| operation.ended);
    copied.begun = last.max().unwrap_or(0) + 1;
    copied.ended = copied.begun + 1;
    history.operations.push(copied);
}

fn missed_event(history: &mut History) {
    let batch = batches(eager(history)).nth(20).expect("saw more");
    batch.clear();
}

fn repeated_event(history: &mut History) {
    let batch = batches(eager(history)).nth(20).expect("saw more");
    batch.push(batch[0].clone());
}

fn late_beginning(history: &mut History) {
    batches(eager(history)).next().expect("saw more").clear();
}

fn early_bookmark(history: &mut History) {
    let session = eager(history);
    let newest = session.events().map(|event| event.revision).max();
    let bookmark = Note::Bookmark(newest.expect("saw something"));
    session.notes.insert(1, bookmark);
}

type Lie = fn(&mut History);

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_history_that_somebody_changed_is_refused() {
    let truth = record(PLAN, one(Engine::Memory).await).await;
    judge(&truth).expect("the truth is accepted");
    let lies: [(Lie, Guarantee); 9] = [
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
        let violations = judge(&history).expect_err("a lie is refused");
        let found = violations.iter().any(|found| found.guarantee == broken);
        assert!(found, "lie {number}, {broken}: {violations:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_wire_that_loses_a_line_is_noticed() {
    let plan = Plan {
        wire: Wire::Lossy,
        ..PLAN
    };
    let history = record(plan, one(Engine::Memory).await).await;
    let violations = judge(&history).expect_err("a change was not told");
    let of_watches = [
        Guarantee::Reliable,
        Guarantee::Resumable,
        Guarantee::PreviousValue,
    ];
    let expected = |guarantee| of_watches.contains(guarantee);
    let all = violations.iter().map(|violation| &violation.guarantee);
    assert!(all.clone().all(expected), "{violations:?}");
}
