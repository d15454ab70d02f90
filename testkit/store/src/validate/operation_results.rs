//! Reads and rejections against the state at their revision.

use super::commit_log::is_met;
use super::{CommitLog, Guarantee, ValidationResult, Violation};
use crate::history::{
    Expectation, KeySpan, KeyState, OperationHistory, OperationOutcome, OperationRequest,
    RecordedOperation,
};
use std::collections::BTreeMap;

type State = BTreeMap<String, KeyState>;

pub(super) fn check(history: &OperationHistory, log: &CommitLog) -> ValidationResult {
    let mut claims: BTreeMap<u64, Vec<&RecordedOperation>> = BTreeMap::new();
    for operation in &history.operations {
        if let Some(revision) = operation.outcome.revision() {
            claims.entry(revision).or_default().push(operation);
        }
    }
    let mut verdict = Ok(());
    log.walk(|revision, state| {
        for operation in claims.remove(&revision).unwrap_or_default() {
            if verdict.is_ok() {
                verdict = check_claim(operation, state);
            }
        }
    });
    verdict?;
    match claims.pop_first() {
        None => Ok(()),
        Some((revision, claims)) => Err(Violation::new(
            Guarantee::ReadsShowTheirRevision,
            format!(
                "there is no revision {revision}, of which {:?} tells",
                claims[0]
            ),
        )),
    }
}

fn check_claim(operation: &RecordedOperation, state: &State) -> ValidationResult {
    let complain = |guarantee, why: &str| {
        let evidence = format!("{why}: {operation:?}");
        Err(Violation::new(guarantee, evidence))
    };
    match (&operation.request, &operation.outcome) {
        (OperationRequest::Read { span, .. }, OperationOutcome::Found { items, .. }) => {
            if !same_items(&content(state, span), items) {
                let why = format!("the state is {:?} in", content(state, span));
                return complain(Guarantee::ReadsShowTheirRevision, &why);
            }
        }
        (OperationRequest::Write { expects, .. }, OperationOutcome::Refused { found, .. }) => {
            if expects.iter().all(|expected| is_met(expected, state)) {
                return complain(Guarantee::RefusalsAreRight, "every condition holds");
            }
            let there = there(state, expects);
            if found
                .as_ref()
                .is_some_and(|found| !same_items(&there, found))
            {
                let why = format!("there is {there:?}");
                return complain(Guarantee::RefusalsAreRight, &why);
            }
        }
        (OperationRequest::Write { expects, changes }, OperationOutcome::Unchanged { .. }) => {
            if !expects.iter().all(|expected| is_met(expected, state)) {
                return complain(Guarantee::ConditionsHold, "a condition does not hold");
            }
            if changes
                .iter()
                .any(|change| state.contains_key(change.key()))
            {
                return complain(Guarantee::ConditionsHold, "there was something to change");
            }
        }
        // Judged when the log was rebuilt. Answers without a revision do not come here.
        (_, OperationOutcome::Written { .. }) => {}
        _ => return complain(Guarantee::ReadsShowTheirRevision, "no answer to that"),
    }
    Ok(())
}

fn content<'state>(state: &'state State, span: &KeySpan) -> Vec<&'state KeyState> {
    let all = state.range(span.start.clone()..);
    all.take_while(|(key, _)| span.contains(key))
        .map(|(_, item)| item)
        .collect()
}

fn there<'state>(state: &'state State, expects: &[Expectation]) -> Vec<&'state KeyState> {
    let keys = expects.iter();
    keys.filter_map(|expected| state.get(&expected.key))
        .collect()
}

fn same_items(real: &[&KeyState], seen: &[KeyState]) -> bool {
    real.len() == seen.len()
        && real
            .iter()
            .zip(seen)
            .all(|(real, seen)| real.is_consistent_with(seen))
}
