//! The judge is judged: histories that were true until somebody changed them.

use optik_store::{Options, Store};
use optik_store_testkit::client::{Client, start_of};
use optik_store_testkit::history::{
    Change, Ending, Expectation, History, Item, Note, Operation, Outcome, Recorder, Request, Seen,
    Session, Span, Wanted,
};
use optik_store_testkit::validate::{Guarantee, judge};
use std::sync::Arc;

fn put(key: &str, value: &str) -> Change {
    Change::Put {
        key: key.into(),
        value: value.into(),
    }
}

fn delete(key: &str) -> Change {
    Change::Delete { key: key.into() }
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
async fn truth() -> History {
    let store = Store::open(Options::ephemeral()).expect("opens");
    let recorder = Arc::new(Recorder::new(start_of(&store)));
    let client = |number| Client {
        store: store.clone(),
        recorder: Arc::clone(&recorder),
        number,
    };
    let (one, two) = (client(1), client(2));
    let mut watcher = one.watch("w", &Span::under("k/"), 2).expect("is kept");
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
        assert_eq!(outcome, Outcome::Written { revision });
        store.dispatched(revision.into()).await;
        if number != 1 {
            watcher.read().await.expect("goes on");
        }
        let all = Span::everything();
        two.read(all.clone(), Wanted::Latest).await.expect("reads");
        two.read(all, Wanted::Any).await.expect("reads");
    }
    let refused = two
        .write(vec![at("k/a", 4)], vec![put("k/a", "lost")])
        .await;
    assert!(matches!(refused, Ok(Outcome::Refused { .. })));
    let unchanged = two.write(vec![], vec![delete("k/nothing")]).await;
    assert_eq!(unchanged, Ok(Outcome::Unchanged { revision: 7 }));
    two.read(Span::under("k/"), Wanted::At(4))
        .await
        .expect("reads");
    watcher.leave();
    let mut resumed = one
        .watch("w again", &Span::everything(), 5)
        .expect("is kept");
    resumed.read().await.expect("goes on");
    resumed.leave();
    recorder.history()
}

fn session(history: &mut History) -> &mut Session {
    &mut history.sessions[0]
}

/// The notes of the first session that are batches.
fn batches(history: &mut History) -> Vec<&mut Vec<Seen>> {
    let notes = session(history).notes.iter_mut();
    let batches = notes.filter_map(|note| match note {
        Note::Batch(events) => Some(events),
        Note::Bookmark(_) => None,
    });
    batches.collect()
}

fn operation(history: &mut History, wanted: impl Fn(&Operation) -> bool) -> &mut Operation {
    let mut all = history.operations.iter_mut();
    all.find(|operation| wanted(operation)).expect("is there")
}

fn writing(history: &mut History, revision: u64) -> &mut Operation {
    let outcome = Outcome::Written { revision };
    operation(history, move |operation| operation.outcome == outcome)
}

fn reading(history: &mut History, wanted: Wanted, revision: u64) -> &mut Operation {
    operation(history, move |operation| {
        let read = matches!(&operation.request, Request::Read { state, .. } if *state == wanted);
        read && operation.outcome.revision() == Some(revision)
    })
}

fn found(operation: &mut Operation) -> (&mut u64, &mut Vec<Item>) {
    match &mut operation.outcome {
        Outcome::Found { revision, items } => (revision, items),
        other => panic!("not a read: {other:?}"),
    }
}

async fn broken(tamper: impl FnOnce(&mut History)) -> Vec<Guarantee> {
    let mut history = truth().await;
    tamper(&mut history);
    let violations = judge(&history).expect_err("it is not true any more");
    let mut guarantees: Vec<_> = violations
        .iter()
        .map(|violation| violation.guarantee)
        .collect();
    guarantees.sort_unstable();
    guarantees.dedup();
    guarantees
}

#[tokio::test]
async fn the_truth_is_accepted() {
    let history = truth().await;
    let log = judge(&history).expect("is true");
    assert_eq!(log.newest(), 7);
    assert_eq!(log.commits()[&4].len(), 3);
}

#[tokio::test]
async fn it_survives_being_written_down() {
    let history = truth().await;
    let mut lines = Vec::new();
    history.write_jsonl(&mut lines).expect("can be written");
    let read = History::read_jsonl(lines.as_slice()).expect("can be read");
    assert_eq!(read, history);
}

#[tokio::test]
async fn a_lost_update() {
    // The write that was refused claims to have gone through, over what it missed.
    let broken = broken(|history| {
        let refused = |o: &Operation| matches!(o.outcome, Outcome::Refused { .. });
        let at = history
            .operations
            .iter()
            .position(refused)
            .expect("is there");
        history.operations.truncate(at + 1);
        history.operations[at].outcome = Outcome::Written { revision: 8 };
    });
    assert_eq!(broken.await, [Guarantee::ConditionsHold]);
}

#[tokio::test]
async fn two_writes_of_one_revision() {
    let broken = broken(|history| {
        let refused = operation(history, |o| matches!(o.outcome, Outcome::Refused { .. }));
        refused.outcome = Outcome::Written { revision: 7 };
    })
    .await;
    assert!(
        broken.contains(&Guarantee::OneWritePerRevision),
        "{broken:?}"
    );
}

#[tokio::test]
async fn a_write_out_of_nothing() {
    let broken = broken(|history| {
        let at = history
            .operations
            .iter()
            .position(|o| o.outcome == Outcome::Written { revision: 5 });
        history.operations.remove(at.expect("is there"));
    });
    assert_eq!(broken.await, [Guarantee::OneWritePerRevision]);
}

#[tokio::test]
async fn a_refusal_without_reason() {
    let broken = broken(|history| {
        let refused = operation(history, |o| matches!(o.outcome, Outcome::Refused { .. }));
        if let Request::Write { expects, .. } = &mut refused.request {
            expects[0].mod_revision = 6;
        }
    });
    assert_eq!(broken.await, [Guarantee::RefusalsAreRight]);
}

#[tokio::test]
async fn a_refusal_that_lies_about_what_is_there() {
    let broken = broken(|history| {
        let refused = operation(history, |o| matches!(o.outcome, Outcome::Refused { .. }));
        if let Outcome::Refused {
            found: Some(found), ..
        } = &mut refused.outcome
        {
            found[0].value = "2".into();
        }
    });
    assert_eq!(broken.await, [Guarantee::RefusalsAreRight]);
}

#[tokio::test]
async fn a_read_of_something_else() {
    let broken = broken(|history| {
        let (_, items) = found(reading(history, Wanted::Latest, 5));
        items[0].value = "1".into();
    });
    assert_eq!(broken.await, [Guarantee::ReadsShowTheirRevision]);
}

#[tokio::test]
async fn a_read_that_leaves_a_key_out() {
    let broken = broken(|history| drop(found(reading(history, Wanted::Latest, 6)).1.pop()));
    assert_eq!(broken.await, [Guarantee::ReadsShowTheirRevision]);
}

#[tokio::test]
async fn a_read_of_a_revision_that_never_was() {
    let broken = broken(|history| *found(reading(history, Wanted::Latest, 7)).0 = 8).await;
    assert!(
        broken.contains(&Guarantee::ReadsShowTheirRevision),
        "{broken:?}"
    );
}

#[tokio::test]
async fn a_stale_read() {
    // True at its revision, but that had passed.
    let broken = broken(|history| {
        let old = found(reading(history, Wanted::Latest, 4)).1.clone();
        let (revision, items) = found(reading(history, Wanted::Latest, 5));
        (*revision, *items) = (4, old);
    });
    assert_eq!(broken.await, [Guarantee::ReadsAreFresh]);
}

#[tokio::test]
async fn a_client_that_goes_back() {
    let broken = broken(|history| {
        let old = found(reading(history, Wanted::Any, 4)).1.clone();
        let (revision, items) = found(reading(history, Wanted::Any, 5));
        (*revision, *items) = (4, old);
    });
    assert_eq!(broken.await, [Guarantee::ClientsNeverGoBack]);
}

#[tokio::test]
async fn writes_against_the_order_of_time() {
    // Two writes that do not depend on one another swap their revisions.
    let broken = broken(|history| {
        writing(history, 6).outcome = Outcome::Written { revision: 99 };
        writing(history, 7).outcome = Outcome::Written { revision: 6 };
        writing(history, 99).outcome = Outcome::Written { revision: 7 };
    })
    .await;
    assert!(broken.contains(&Guarantee::RealTimeOrder), "{broken:?}");
}

#[tokio::test]
async fn an_unknown_write_is_found_by_those_who_saw_it() {
    let mut history = truth().await;
    writing(&mut history, 5).outcome = Outcome::Unknown;
    let unheard = Operation {
        outcome: Outcome::Unknown,
        request: Request::Write {
            expects: Vec::new(),
            changes: vec![put("k/a", "never")],
        },
        begun: 1000,
        ended: 1001,
        client: 9,
    };
    history.operations.push(unheard);
    assert_eq!(judge(&history).expect("is true").newest(), 7);
}

/// Two asked for the same, and neither was answered: it was the one that asked in time.
#[tokio::test]
async fn of_two_unknown_writes_the_one_in_time_was_carried_out() {
    let mut history = truth().await;
    writing(&mut history, 5).outcome = Outcome::Unknown;
    let unheard = Operation {
        outcome: Outcome::Unknown,
        request: Request::Write {
            expects: vec![at("k/b", 4)],
            changes: vec![delete("k/b")],
        },
        begun: 1000,
        ended: 1001,
        client: 9,
    };
    // Whoever ends first is written down first.
    history.operations.insert(0, unheard);
    assert_eq!(judge(&history).expect("is true").newest(), 7);
}

#[tokio::test]
async fn an_unknown_write_cannot_come_before_it_was_asked_for() {
    let broken = broken(|history| {
        let write = writing(history, 5);
        write.outcome = Outcome::Unknown;
        (write.begun, write.ended) = (1000, 1001);
    });
    assert_eq!(broken.await, [Guarantee::RealTimeOrder]);
}

#[tokio::test]
async fn events_in_another_order() {
    let broken = broken(|history| {
        let notes = &mut session(history).notes;
        notes.retain(|note| matches!(note, Note::Batch(_)));
        notes.swap(2, 3);
    });
    assert_eq!(broken.await, [Guarantee::Ordered]);
}

#[tokio::test]
async fn an_event_twice() {
    let broken = broken(|history| {
        let batches = &mut batches(history);
        let again = batches[3][0].clone();
        batches[3].push(again);
    });
    assert_eq!(broken.await, [Guarantee::Unique]);
}

#[tokio::test]
async fn a_commit_in_two_parts() {
    let broken = broken(|history| {
        let rest = batches(history)[1].split_off(1);
        let notes = &mut session(history).notes;
        let of_four = |note: &Note| matches!(note, Note::Batch(e) if e[0].revision == 4);
        let at = notes.iter().position(of_four).expect("is there");
        notes.insert(at + 1, Note::Batch(rest));
    });
    assert_eq!(broken.await, [Guarantee::Atomic]);
}

#[tokio::test]
async fn a_commit_mixed_up_inside() {
    let broken = broken(|history| batches(history)[1].swap(0, 2));
    assert_eq!(broken.await, [Guarantee::Atomic]);
}

#[tokio::test]
async fn a_missing_event() {
    let broken = broken(|history| {
        session(history)
            .notes
            .retain(|note| matches!(note, Note::Batch(_)));
        let notes = &mut session(history).notes;
        notes.retain(|note| !matches!(note, Note::Batch(e) if e[0].revision == 5));
    });
    assert_eq!(broken.await, [Guarantee::Reliable]);
}

#[tokio::test]
async fn a_commit_of_which_a_part_is_missing() {
    let broken = broken(|history| {
        session(history)
            .notes
            .retain(|note| matches!(note, Note::Batch(_)));
        drop(batches(history)[1].pop());
    });
    assert_eq!(broken.await, [Guarantee::Reliable]);
}

#[tokio::test]
async fn an_invented_event() {
    let broken = broken(|history| {
        let events = &mut batches(history)[2];
        events[0].item = Some(Item {
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
async fn an_end_without_need() {
    let broken = broken(|history| session(history).ending = Ending::Compacted { oldest: 7 });
    assert_eq!(broken.await, [Guarantee::Reliable]);
}

#[tokio::test]
async fn a_late_start() {
    let broken = broken(|history| {
        let resumed = &mut history.sessions[1];
        resumed.notes.retain(|note| matches!(note, Note::Batch(_)));
        let Note::Batch(events) = &mut resumed.notes[0] else {
            panic!("begins with a batch");
        };
        drop(events.remove(0));
    });
    assert_eq!(broken.await, [Guarantee::Resumable]);
}

#[tokio::test]
async fn a_start_too_early() {
    let broken = broken(|history| history.sessions[1].from = 6);
    assert_eq!(broken.await, [Guarantee::Resumable]);
}

#[tokio::test]
async fn a_bookmark_too_early() {
    let broken = broken(|history| {
        let notes = &mut session(history).notes;
        let is_bookmark = |note: &Note| *note == Note::Bookmark(5);
        let at = notes.iter().position(is_bookmark).expect("is there");
        notes[at] = Note::Bookmark(6);
    });
    assert_eq!(broken.await, [Guarantee::Bookmarkable]);
}

#[tokio::test]
async fn a_bookmark_without_the_events() {
    let broken = broken(|history| {
        let notes = &mut session(history).notes;
        let last = notes
            .iter()
            .rposition(|note| matches!(note, Note::Batch(_)));
        notes.remove(last.expect("is there"));
    });
    assert_eq!(broken.await, [Guarantee::Bookmarkable]);
}

#[tokio::test]
async fn a_bookmark_that_goes_back() {
    let broken = broken(|history| session(history).notes.push(Note::Bookmark(3)));
    assert_eq!(broken.await, [Guarantee::Bookmarkable]);
}

#[tokio::test]
async fn a_foreign_event() {
    let broken = broken(|history| {
        session(history).span = Span::one("k/a");
    });
    assert_eq!(broken.await, [Guarantee::Filtered]);
}

#[tokio::test]
async fn a_wrong_previous_value() {
    let wrong = broken(|history| {
        let prior = &mut batches(history)[1][0].prior;
        prior.as_mut().expect("was there").value = "0".into();
    });
    assert_eq!(wrong.await, [Guarantee::PreviousValue]);
    let missing = broken(|history| batches(history)[2][0].prior = None);
    assert_eq!(missing.await, [Guarantee::PreviousValue]);
}

#[tokio::test]
async fn a_wrong_create_flag() {
    let broken = broken(|history| batches(history)[1][0].created = true);
    assert_eq!(broken.await, [Guarantee::CreateFlag]);
}
