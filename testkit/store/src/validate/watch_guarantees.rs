//! The nine properties of a watch, one function each.

use super::{CommitLog, Guarantee, ValidationResult, Violation};
use crate::history::{
    KeySpan, KeyState, SeenEvent, WatchObservation, WatchRecording, WatchRecordingEnd,
};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const PROPERTIES: [fn(&WatchRecording, &CommitLog) -> ValidationResult; 9] = [
    ordered,
    unique,
    atomic,
    reliable,
    resumable,
    bookmarkable,
    filtered,
    previous_value,
    create_flag,
];

fn violated(guarantee: Guarantee, session: &WatchRecording, evidence: &str) -> ValidationResult {
    let (watcher, from) = (&session.watcher, session.from);
    let evidence = format!("{watcher}, from {from}: {evidence}");
    Err(Violation::new(guarantee, evidence))
}

/// The events of a span at these revisions, as they should be shown.
fn expected<'log>(
    log: &'log CommitLog,
    span: &KeySpan,
    revisions: std::ops::RangeInclusive<u64>,
) -> impl Iterator<Item = &'log SeenEvent> {
    let commits = if revisions.is_empty() {
        log.commits().range(0..0)
    } else {
        log.commits().range(revisions)
    };
    let events = commits.flat_map(|(_, events)| events);
    events.filter(move |event| span.contains(&event.key))
}

pub(super) fn ordered(session: &WatchRecording, _: &CommitLog) -> ValidationResult {
    let mut last = 0;
    for event in session.events() {
        if event.revision < last {
            let evidence = format!("{last} came before {event:?}");
            return violated(Guarantee::Ordered, session, &evidence);
        }
        last = event.revision;
    }
    Ok(())
}

pub(super) fn unique(session: &WatchRecording, _: &CommitLog) -> ValidationResult {
    let mut shown = BTreeSet::new();
    for event in session.events() {
        if !shown.insert((event.revision, &event.key)) {
            let evidence = format!("twice {event:?}");
            return violated(Guarantee::Unique, session, &evidence);
        }
    }
    Ok(())
}

/// Together: in one batch, with no other between them, in the order of the commit.
pub(super) fn atomic(session: &WatchRecording, log: &CommitLog) -> ValidationResult {
    let mut shown_in: BTreeMap<u64, usize> = BTreeMap::new();
    for (number, note) in session.notes.iter().enumerate() {
        let WatchObservation::Batch(events) = note else {
            continue;
        };
        let mut last = None;
        for event in events {
            let begins = last != Some(event.revision);
            if begins && shown_in.insert(event.revision, number).is_some() {
                let evidence = format!("revision {} came in parts", event.revision);
                return violated(Guarantee::Atomic, session, &evidence);
            }
            last = Some(event.revision);
        }
        if let Some(revision) = first_out_of_order(events, log) {
            let evidence = format!("the events of {revision} came in another order");
            return violated(Guarantee::Atomic, session, &evidence);
        }
    }
    Ok(())
}

/// The first revision whose events are not shown in the order of the commit.
fn first_out_of_order(events: &[SeenEvent], log: &CommitLog) -> Option<u64> {
    let place = |event: &SeenEvent| {
        let commit = log.commits().get(&event.revision)?;
        commit.iter().position(|real| real.key == event.key)
    };
    let pairs = events.windows(2);
    let wrong = |pair: &&[SeenEvent]| {
        pair[0].revision == pair[1].revision && place(&pair[0]) > place(&pair[1])
    };
    pairs.into_iter().find(wrong).map(|pair| pair[0].revision)
}

fn is_real(event: &SeenEvent, log: &CommitLog) -> bool {
    let commit = log.commits().get(&event.revision);
    let real = commit.and_then(|commit| commit.iter().find(|real| real.key == event.key));
    real.is_some_and(|real| alike(real.item.as_ref(), event.item.as_ref()))
}

fn alike(real: Option<&KeyState>, seen: Option<&KeyState>) -> bool {
    match (real, seen) {
        (Some(real), Some(seen)) => real.is_consistent_with(seen),
        (None, None) => true,
        _ => false,
    }
}

/// No invented and no missing events; it ends early only for a valid reason.
pub(super) fn reliable(session: &WatchRecording, log: &CommitLog) -> ValidationResult {
    if let Some(invented) = session.events().find(|event| !is_real(event, log)) {
        let evidence = format!("there is no such event: {invented:?}");
        return violated(Guarantee::Reliable, session, &evidence);
    }
    let revisions = || session.events().map(|event| event.revision);
    if let (Some(first), Some(last)) = (revisions().min(), revisions().max()) {
        let shown: BTreeSet<_> = session.events().map(|e| (e.revision, &e.key)).collect();
        let mut all = expected(log, &session.span, first..=last);
        if let Some(missing) = all.find(|event| !shown.contains(&(event.revision, &event.key))) {
            let evidence = format!("it left out {missing:?}");
            return violated(Guarantee::Reliable, session, &evidence);
        }
    }
    match session.ending {
        WatchRecordingEnd::Compacted { oldest } if oldest <= covered(session) + 1 => {
            let evidence = format!("it ended at {oldest} although it had come further");
            violated(Guarantee::Reliable, session, &evidence)
        }
        _ => Ok(()),
    }
}

/// The revision up to which a session has shown everything, by its own word.
fn covered(session: &WatchRecording) -> u64 {
    let notes = session.notes.iter().filter_map(|note| match note {
        WatchObservation::Batch(events) => events.iter().map(|event| event.revision).max(),
        WatchObservation::Bookmark(through) => Some(*through),
    });
    notes.max().unwrap_or(0).max(session.from.saturating_sub(1))
}

pub(super) fn resumable(session: &WatchRecording, log: &CommitLog) -> ValidationResult {
    let Some(first) = session.events().map(|event| event.revision).min() else {
        return Ok(());
    };
    if first < session.from {
        let evidence = format!("it showed {first}");
        return violated(Guarantee::Resumable, session, &evidence);
    }
    let mut before = expected(log, &session.span, session.from..=first - 1);
    match before.next() {
        None => Ok(()),
        Some(missing) => {
            let evidence = format!("it began with {first} and left out {missing:?}");
            violated(Guarantee::Resumable, session, &evidence)
        }
    }
}

pub(super) fn bookmarkable(session: &WatchRecording, log: &CommitLog) -> ValidationResult {
    let mut shown = BTreeSet::new();
    let mut through = 0;
    let mut checked = session.from.saturating_sub(1);
    for note in &session.notes {
        match note {
            WatchObservation::Batch(events) => {
                if let Some(late) = events.iter().find(|event| event.revision <= through) {
                    let evidence = format!("after {through} came {late:?}");
                    return violated(Guarantee::Bookmarkable, session, &evidence);
                }
                shown.extend(events.iter().map(|event| (event.revision, &event.key)));
            }
            WatchObservation::Bookmark(at) => {
                if *at < through {
                    let evidence = format!("it went back from {through} to {at}");
                    return violated(Guarantee::Bookmarkable, session, &evidence);
                }
                through = *at;
                let mut due = expected(log, &session.span, checked + 1..=through);
                if let Some(missing) = due.find(|e| !shown.contains(&(e.revision, &e.key))) {
                    let evidence = format!("{through} was promised without {missing:?}");
                    return violated(Guarantee::Bookmarkable, session, &evidence);
                }
                checked = checked.max(through);
            }
        }
    }
    if through > log.newest() {
        let evidence = format!("it promised {through}, which never was");
        return violated(Guarantee::Bookmarkable, session, &evidence);
    }
    Ok(())
}

pub(super) fn filtered(session: &WatchRecording, _: &CommitLog) -> ValidationResult {
    match session.events().find(|e| !session.span.contains(&e.key)) {
        None => Ok(()),
        Some(foreign) => {
            let evidence = format!("it showed {foreign:?}");
            violated(Guarantee::Filtered, session, &evidence)
        }
    }
}

/// The commit's own account of an event that was shown.
fn real<'log>(event: &SeenEvent, log: &'log CommitLog) -> Option<&'log SeenEvent> {
    let commit = log.commits().get(&event.revision)?;
    commit.iter().find(|real| real.key == event.key)
}

pub(super) fn previous_value(session: &WatchRecording, log: &CommitLog) -> ValidationResult {
    for event in session.events() {
        let Some(real) = real(event, log) else {
            continue;
        };
        if !alike(real.prior.as_ref(), event.prior.as_ref()) {
            let evidence = format!("{:?} was there before {event:?}", real.prior);
            return violated(Guarantee::PreviousValue, session, &evidence);
        }
    }
    Ok(())
}

pub(super) fn create_flag(session: &WatchRecording, log: &CommitLog) -> ValidationResult {
    for event in session.events() {
        let Some(real) = real(event, log) else {
            continue;
        };
        if event.created != real.created {
            let evidence = format!("{:?} was there before {event:?}", real.prior);
            return violated(Guarantee::CreateFlag, session, &evidence);
        }
    }
    Ok(())
}
