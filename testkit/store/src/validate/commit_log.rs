//! The sequence of commits that a history claims.

use super::unnumbered_writes::UnnumberedWrites;
use super::{Guarantee, Violation};
use crate::history::{
    Expectation, KeyChange, KeyState, OperationHistory, OperationOutcome, OperationRequest,
    RecordedOperation, SeenEvent,
};
use std::collections::BTreeMap;

/// Every commit with its actual changes, and every state in between.
#[derive(Clone, Debug, Default)]
pub struct CommitLog {
    commits: BTreeMap<u64, Vec<SeenEvent>>,
    start: u64,
    initial: BTreeMap<String, KeyState>,
    /// The request time of each commit.
    asked: BTreeMap<u64, u64>,
}

/// A write that takes effect, and its request time.
pub(super) struct WriteEffect<'history> {
    pub(super) expects: &'history [Expectation],
    pub(super) changes: &'history [KeyChange],
    pub(super) begun: u64,
}

impl CommitLog {
    /// The events of every commit, as they should be shown.
    #[must_use]
    pub fn commits(&self) -> &BTreeMap<u64, Vec<SeenEvent>> {
        &self.commits
    }

    #[must_use]
    pub fn newest(&self) -> u64 {
        let last = self.commits.last_key_value();
        last.map_or(self.start, |(revision, _)| *revision)
    }

    /// Walks through all states in order: `visit` gets each with its revision.
    pub(super) fn walk(&self, mut visit: impl FnMut(u64, &BTreeMap<String, KeyState>)) {
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

    /// The request time of each commit, by the clock of the history.
    pub(super) fn request_times(&self) -> &BTreeMap<u64, u64> {
        &self.asked
    }

    pub(super) fn start(&self) -> u64 {
        self.start
    }

    pub(super) fn initial(&self) -> &BTreeMap<String, KeyState> {
        &self.initial
    }

    pub(super) fn from_history(history: &OperationHistory) -> Result<Self, Violation> {
        let mut effects = acknowledged(history)?;
        let mut unnumbered = UnnumberedWrites::from_history(history, &effects);
        let items = history.start.items.iter();
        let initial: BTreeMap<_, _> = items.map(|item| (item.key.clone(), item.clone())).collect();
        let mut state = initial.clone();
        let mut commits = BTreeMap::new();
        let mut asked = BTreeMap::new();
        let mut last = history.start.revision;
        while let Some(revision) = unnumbered.next_revision(&effects) {
            if revision != last + 1 {
                let evidence = format!("nobody asked for what revision {} is", last + 1);
                return Err(Violation::new(Guarantee::OneWritePerRevision, evidence));
            }
            last = revision;
            let effect = match effects.remove(&revision) {
                Some(effect) => effect,
                None => unnumbered.claim(revision, &state)?,
            };
            conditions_hold(&effect, revision, &state)?;
            let events = apply(effect.changes, revision, &mut state);
            if events.is_empty() {
                let evidence = format!("revision {revision} changed nothing");
                return Err(Violation::new(Guarantee::OneWritePerRevision, evidence));
            }
            commits.insert(revision, events);
            asked.insert(revision, effect.begun);
        }
        unnumbered.nothing_is_left()?;
        Ok(Self {
            commits,
            start: history.start.revision,
            initial,
            asked,
        })
    }
}

fn conditions_hold(
    effect: &WriteEffect<'_>,
    revision: u64,
    state: &BTreeMap<String, KeyState>,
) -> Result<(), Violation> {
    let unmet = |expected: &&Expectation| !is_met(expected, state);
    let Some(unmet) = effect.expects.iter().find(unmet) else {
        return Ok(());
    };
    let found = state.get(&unmet.key);
    let evidence = format!("revision {revision} expected {unmet:?} and met {found:?}");
    Err(Violation::new(Guarantee::ConditionsHold, evidence))
}

pub(super) fn is_met(expected: &Expectation, state: &BTreeMap<String, KeyState>) -> bool {
    let found = state.get(&expected.key);
    found.map_or(0, |item| item.mod_revision) == expected.mod_revision
}

fn apply(
    changes: &[KeyChange],
    revision: u64,
    state: &mut BTreeMap<String, KeyState>,
) -> Vec<SeenEvent> {
    let mut events = Vec::new();
    for change in changes {
        let key = change.key().to_owned();
        let prior = state.get(&key).cloned();
        let item = match change {
            KeyChange::Put { value, .. } => {
                let created = prior.as_ref().and_then(|prior| prior.create_revision);
                let version = prior.as_ref().and_then(|prior| prior.version);
                Some(KeyState {
                    key: key.clone(),
                    value: value.clone(),
                    mod_revision: revision,
                    create_revision: Some(created.unwrap_or(revision)),
                    version: Some(version.unwrap_or(0) + 1),
                })
            }
            KeyChange::Delete { .. } if prior.is_none() => continue,
            KeyChange::Delete { .. } => None,
        };
        match &item {
            Some(item) => drop(state.insert(key.clone(), item.clone())),
            None => drop(state.remove(&key)),
        }
        events.push(SeenEvent {
            revision,
            key,
            created: prior.is_none(),
            item,
            prior,
        });
    }
    events
}

fn acknowledged(history: &OperationHistory) -> Result<BTreeMap<u64, WriteEffect<'_>>, Violation> {
    let mut effects = BTreeMap::new();
    for operation in &history.operations {
        let OperationOutcome::Written { revision } = operation.outcome else {
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

pub(super) fn effect_of(operation: &RecordedOperation) -> Option<WriteEffect<'_>> {
    match &operation.request {
        OperationRequest::Write { expects, changes } => Some(WriteEffect {
            expects,
            changes,
            begun: operation.begun,
        }),
        OperationRequest::Read { .. } => None,
    }
}
