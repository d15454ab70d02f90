//! The one sequence of commits that a history claims.

use super::{Guarantee, Violation};
use crate::history::{Change, Expectation, History, Item, Operation, Outcome, Request, Seen};
use std::collections::BTreeMap;

/// Every commit with what it really did, and every state in between.
#[derive(Clone, Debug, Default)]
pub struct Log {
    commits: BTreeMap<u64, Vec<Seen>>,
    start: u64,
    initial: BTreeMap<String, Item>,
}

/// A write that takes effect, and who asked for it.
struct Effect<'history> {
    expects: &'history [Expectation],
    changes: &'history [Change],
}

impl Log {
    /// The events of every commit, as they should be shown.
    #[must_use]
    pub fn commits(&self) -> &BTreeMap<u64, Vec<Seen>> {
        &self.commits
    }

    #[must_use]
    pub fn newest(&self) -> u64 {
        let last = self.commits.last_key_value();
        last.map_or(self.start, |(revision, _)| *revision)
    }

    /// Walks through all states in order: `visit` gets each with its revision.
    pub(super) fn walk(&self, mut visit: impl FnMut(u64, &BTreeMap<String, Item>)) {
        let mut state = self.initial.clone();
        visit(self.start, &state);
        for (revision, events) in &self.commits {
            for event in events {
                match &event.item {
                    Some(item) => drop(state.insert(event.key.clone(), item.clone())),
                    None => drop(state.remove(&event.key)),
                }
            }
            visit(*revision, &state);
        }
    }

    pub(super) fn rebuild(history: &History) -> Result<Self, Violation> {
        let mut effects = acknowledged(history)?;
        add_unknown(history, &mut effects)?;
        let items = history.start.items.iter();
        let initial: BTreeMap<_, _> = items.map(|item| (item.key.clone(), item.clone())).collect();
        let mut state = initial.clone();
        let mut commits = BTreeMap::new();
        let mut last = history.start.revision;
        for (revision, effect) in &effects {
            if *revision != last + 1 {
                let evidence = format!("nobody asked for what revision {} is", last + 1);
                return Err(Violation::new(Guarantee::OneWritePerRevision, evidence));
            }
            last = *revision;
            let unmet = |expected: &&Expectation| !is_met(expected, &state);
            if let Some(unmet) = effect.expects.iter().find(unmet) {
                let found = state.get(&unmet.key);
                let evidence = format!("revision {revision} expected {unmet:?} and met {found:?}");
                return Err(Violation::new(Guarantee::ConditionsHold, evidence));
            }
            let events = apply(effect.changes, *revision, &mut state);
            if events.is_empty() {
                let evidence = format!("revision {revision} changed nothing");
                return Err(Violation::new(Guarantee::OneWritePerRevision, evidence));
            }
            commits.insert(*revision, events);
        }
        Ok(Self {
            commits,
            start: history.start.revision,
            initial,
        })
    }
}

pub(super) fn is_met(expected: &Expectation, state: &BTreeMap<String, Item>) -> bool {
    let found = state.get(&expected.key);
    found.map_or(0, |item| item.mod_revision) == expected.mod_revision
}

fn apply(changes: &[Change], revision: u64, state: &mut BTreeMap<String, Item>) -> Vec<Seen> {
    let mut events = Vec::new();
    for change in changes {
        let key = change.key().to_owned();
        let prior = state.get(&key).cloned();
        let item = match change {
            Change::Put { value, .. } => {
                let created = prior.as_ref().and_then(|prior| prior.create_revision);
                let version = prior.as_ref().and_then(|prior| prior.version);
                Some(Item {
                    key: key.clone(),
                    value: value.clone(),
                    mod_revision: revision,
                    create_revision: Some(created.unwrap_or(revision)),
                    version: Some(version.unwrap_or(0) + 1),
                })
            }
            Change::Delete { .. } if prior.is_none() => continue,
            Change::Delete { .. } => None,
        };
        match &item {
            Some(item) => drop(state.insert(key.clone(), item.clone())),
            None => drop(state.remove(&key)),
        }
        events.push(Seen {
            revision,
            key,
            created: prior.is_none(),
            item,
            prior,
        });
    }
    events
}

fn acknowledged(history: &History) -> Result<BTreeMap<u64, Effect<'_>>, Violation> {
    let mut effects = BTreeMap::new();
    for operation in &history.operations {
        let Outcome::Written { revision } = operation.outcome else {
            continue;
        };
        let Some(effect) = effect_of(operation) else {
            let evidence = format!("a read says that it made revision {revision}");
            return Err(Violation::new(Guarantee::OneWritePerRevision, evidence));
        };
        if revision <= history.start.revision || effects.insert(revision, effect).is_some() {
            let evidence = format!("more than one write made revision {revision}");
            return Err(Violation::new(Guarantee::OneWritePerRevision, evidence));
        }
    }
    Ok(effects)
}

fn effect_of(operation: &Operation) -> Option<Effect<'_>> {
    match &operation.request {
        Request::Write { expects, changes } => Some(Effect { expects, changes }),
        Request::Read { .. } => None,
    }
}

/// Writes whose outcome nobody was told took effect if a watch saw them.
fn add_unknown<'history>(
    history: &'history History,
    effects: &mut BTreeMap<u64, Effect<'history>>,
) -> Result<(), Violation> {
    let mut unknown: Vec<_> = history
        .operations
        .iter()
        .filter(|operation| operation.outcome == Outcome::Unknown)
        .filter_map(|operation| Some((operation.begun, effect_of(operation)?)))
        .collect();
    for (revision, witnessed) in unexplained(history, effects) {
        let caused = |(_, effect): &(u64, Effect<'_>)| explains(effect.changes, &witnessed);
        let Some(at) = unknown.iter().position(caused) else {
            let evidence = format!("nobody asked for revision {revision}: {witnessed:?}");
            return Err(Violation::new(Guarantee::OneWritePerRevision, evidence));
        };
        let (begun, effect) = unknown.swap_remove(at);
        if let Some(earlier) = answered_later(history, begun, revision) {
            let evidence = format!("{earlier:?} ended before revision {revision} was asked for");
            return Err(Violation::new(Guarantee::RealTimeOrder, evidence));
        }
        effects.insert(revision, effect);
    }
    Ok(())
}

/// What watches saw at revisions that no acknowledged write made.
fn unexplained(
    history: &History,
    effects: &BTreeMap<u64, Effect<'_>>,
) -> BTreeMap<u64, BTreeMap<String, Change>> {
    let mut witnessed: BTreeMap<u64, BTreeMap<String, Change>> = BTreeMap::new();
    for event in history.sessions.iter().flat_map(|session| session.events()) {
        if effects.contains_key(&event.revision) {
            continue;
        }
        let key = event.key.clone();
        let change = match &event.item {
            Some(item) => Change::Put {
                key: key.clone(),
                value: item.value.clone(),
            },
            None => Change::Delete { key: key.clone() },
        };
        let at = witnessed.entry(event.revision).or_default();
        at.insert(key, change);
    }
    witnessed
}

/// Whether a request can be what was seen: deletions may have met nothing.
fn explains(changes: &[Change], witnessed: &BTreeMap<String, Change>) -> bool {
    let mut puts = changes.iter().filter(|c| matches!(c, Change::Put { .. }));
    puts.all(|put| witnessed.get(put.key()) == Some(put))
        && witnessed.values().all(|seen| changes.contains(seen))
}

/// An answer before `begun` that knew of a revision not before `revision`.
fn answered_later(history: &History, begun: u64, revision: u64) -> Option<&Operation> {
    let mut answers = history.operations.iter();
    answers.find(|answer| {
        answer.ended < begun && answer.outcome.revision().is_some_and(|at| at >= revision)
    })
}
