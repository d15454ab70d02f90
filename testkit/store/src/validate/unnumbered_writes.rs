//! Writes whose responses contain no revision: watches supply it.

use super::commit_log::{WriteEffect, effect_of, is_met};
use super::{Guarantee, Violation};
use crate::history::{KeyChange, KeyState, OperationHistory, OperationOutcome, RecordedOperation};
use std::collections::BTreeMap;

type Changes = BTreeMap<String, KeyChange>;

/// Writes without a revision, and revisions without a write.
pub(super) struct UnnumberedWrites<'history> {
    history: &'history OperationHistory,
    writes: Vec<UnnumberedWrite<'history>>,
    witnessed: BTreeMap<u64, Changes>,
}

struct UnnumberedWrite<'history> {
    operation: &'history RecordedOperation,
    effect: WriteEffect<'history>,
}

impl<'history> UnnumberedWrites<'history> {
    pub(super) fn from_history(
        history: &'history OperationHistory,
        numbered: &BTreeMap<u64, WriteEffect<'history>>,
    ) -> Self {
        let open = |operation: &&RecordedOperation| {
            matches!(
                operation.outcome,
                OperationOutcome::Done | OperationOutcome::Unknown
            )
        };
        let write = |operation| {
            let effect = effect_of(operation)?;
            Some(UnnumberedWrite { operation, effect })
        };
        let writes = history.operations.iter().filter(open).filter_map(write);
        Self {
            history,
            writes: writes.collect(),
            witnessed: unexplained_revisions(history, numbered),
        }
    }

    /// The first revision that is left.
    pub(super) fn next_revision(&self, numbered: &BTreeMap<u64, WriteEffect<'_>>) -> Option<u64> {
        let first = numbered.first_key_value().map(|(revision, _)| *revision);
        let witnessed = self.witnessed.first_key_value();
        let witnessed = witnessed.map(|(revision, _)| *revision);
        first.into_iter().chain(witnessed).min()
    }

    /// The write that made a revision. One that could be carried out in this state comes
    /// first, then one that was asked for before anybody knew of the revision, and among
    /// those one that certainly was carried out. Of equal ones it is the first: whatever the
    /// others may have made came later.
    pub(super) fn claim(
        &mut self,
        revision: u64,
        state: &BTreeMap<String, KeyState>,
    ) -> Result<WriteEffect<'history>, Violation> {
        let witnessed = self.witnessed.remove(&revision).unwrap_or_default();
        let rank = |write: &UnnumberedWrite<'_>| {
            let possible = write.effect.expects.iter().all(|e| is_met(e, state));
            let begun = write.effect.begun;
            let too_late = answered_later(self.history, begun, revision).is_some();
            let uncertain = write.operation.outcome != OperationOutcome::Done;
            (!possible, too_late, uncertain, begun)
        };
        let writes = self.writes.iter().enumerate();
        let explaining = writes.filter(|(_, write)| explains(write.effect.changes, &witnessed));
        let Some((at, _)) = explaining.min_by_key(|(_, write)| rank(write)) else {
            let evidence = format!("nobody asked for revision {revision}: {witnessed:?}");
            return Err(Violation::new(Guarantee::OneWritePerRevision, evidence));
        };
        let effect = self.writes.remove(at).effect;
        if let Some(earlier) = answered_later(self.history, effect.begun, revision) {
            let evidence = format!("{earlier:?} ended before revision {revision} was asked for");
            return Err(Violation::new(Guarantee::RealTimeOrder, evidence));
        }
        Ok(effect)
    }

    /// What was certainly carried out, somebody must have seen.
    pub(super) fn nothing_is_left(&self) -> Result<(), Violation> {
        let mut writes = self.writes.iter();
        match writes.find(|write| write.operation.outcome == OperationOutcome::Done) {
            None => Ok(()),
            Some(write) => {
                let evidence = format!("no revision is left for {:?}", write.operation);
                Err(Violation::new(Guarantee::OneWritePerRevision, evidence))
            }
        }
    }
}

/// Events of watches at revisions that no acknowledged write made.
fn unexplained_revisions(
    history: &OperationHistory,
    effects: &BTreeMap<u64, WriteEffect<'_>>,
) -> BTreeMap<u64, BTreeMap<String, KeyChange>> {
    let mut witnessed: BTreeMap<u64, BTreeMap<String, KeyChange>> = BTreeMap::new();
    for event in history.sessions.iter().flat_map(|session| session.events()) {
        if effects.contains_key(&event.revision) {
            continue;
        }
        let key = event.key.clone();
        let change = match &event.item {
            Some(item) => KeyChange::Put {
                key: key.clone(),
                value: item.value.clone(),
            },
            None => KeyChange::Delete { key: key.clone() },
        };
        let at = witnessed.entry(event.revision).or_default();
        at.insert(key, change);
    }
    witnessed
}

/// Whether a request can be what was seen: deletions may have met nothing.
fn explains(changes: &[KeyChange], witnessed: &BTreeMap<String, KeyChange>) -> bool {
    let mut puts = changes
        .iter()
        .filter(|c| matches!(c, KeyChange::Put { .. }));
    puts.all(|put| witnessed.get(put.key()) == Some(put))
        && witnessed.values().all(|seen| changes.contains(seen))
}

/// An answer before `begun` that knew of a revision not before `revision`.
fn answered_later(
    history: &OperationHistory,
    begun: u64,
    revision: u64,
) -> Option<&RecordedOperation> {
    let mut answers = history.operations.iter();
    answers.find(|answer| {
        answer.ended < begun && answer.outcome.revision().is_some_and(|at| at >= revision)
    })
}
