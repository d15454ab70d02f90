//! Responses without a revision: each must hold at a moment between request and response.
//!
//! Every response is assigned the first revision at which it can hold, bounded from below by the
//! revisions known when the request began. So there is no search here either: if a response fits no
//! moment, no order of events explains the history.

use super::commit_log::is_met;
use super::real_time_order::{self, OperationEdge};
use super::{CommitLog, Guarantee, ValidationResult, Violation};
use crate::history::{
    Expectation, KeySpan, KeyState, OperationHistory, OperationOutcome, OperationRequest,
    RecordedOperation,
};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn check(history: &OperationHistory, log: &CommitLog) -> ValidationResult {
    let past = KeyTimeline::from_log(log);
    let mut newest = log.start();
    let mut known_at: BTreeMap<u64, u64> = BTreeMap::new();
    for (operation, moment) in real_time_order::operation_edges(history).into_values() {
        match moment {
            OperationEdge::Begins => drop(known_at.insert(operation.begun, newest)),
            OperationEdge::Ends => {
                let known = known_at.remove(&operation.begun).unwrap_or(newest);
                newest = newest.max(past.earliest_revision_of(operation, known)?);
            }
        }
    }
    Ok(())
}

/// Every key at every revision.
struct KeyTimeline {
    keys: BTreeMap<String, BTreeMap<u64, Option<KeyState>>>,
    /// The request time of the last write up to each revision.
    asked: BTreeMap<u64, u64>,
    /// The revision of the write requested at a time.
    made: BTreeMap<u64, u64>,
}

impl KeyTimeline {
    fn from_log(log: &CommitLog) -> Self {
        let mut keys: BTreeMap<String, BTreeMap<u64, Option<KeyState>>> = BTreeMap::new();
        let initial = log.initial().iter();
        let initial = initial.map(|(key, item)| (key, log.start(), Some(item.clone())));
        let events = log.commits().values().flatten();
        let events = events.map(|event| (&event.key, event.revision, event.item.clone()));
        for (key, revision, item) in initial.chain(events) {
            keys.entry(key.clone()).or_default().insert(revision, item);
        }
        let mut last = 0;
        let asked = log.request_times().iter().map(|(revision, begun)| {
            last = last.max(*begun);
            (*revision, last)
        });
        let made = log
            .request_times()
            .iter()
            .map(|(revision, begun)| (*begun, *revision));
        Self {
            keys,
            asked: asked.collect(),
            made: made.collect(),
        }
    }

    fn item(&self, key: &str, at: u64) -> Option<&KeyState> {
        let (_, item) = self.keys.get(key)?.range(..=at).next_back()?;
        item.as_ref()
    }

    /// The first revision that an answer can be of; zero if it tells nothing.
    fn earliest_revision_of(
        &self,
        operation: &RecordedOperation,
        known: u64,
    ) -> Result<u64, Violation> {
        let named = match operation.outcome {
            OperationOutcome::Done => self.made.get(&operation.begun).copied(),
            _ => operation.outcome.revision(),
        };
        if let Some(revision) = named {
            return match real_time_order::broken_guarantee(operation, revision, known, 0) {
                None => Ok(revision),
                Some(guarantee) => {
                    let evidence = format!("{known} was known before {revision}: {operation:?}");
                    Err(Violation::new(guarantee, evidence))
                }
            };
        }
        match (&operation.request, &operation.outcome) {
            (OperationRequest::Write { expects, .. }, OperationOutcome::Denied) => {
                self.earliest_denied(operation, expects, known)
            }
            (OperationRequest::Read { span, .. }, OperationOutcome::Glimpsed { items }) => {
                self.earliest_matching_state(operation, span, items, known)
            }
            _ => Ok(0),
        }
    }

    fn earliest_denied(
        &self,
        operation: &RecordedOperation,
        expects: &[Expectation],
        known: u64,
    ) -> Result<u64, Violation> {
        let keys = expects.iter().map(|expected| expected.key.as_str());
        let unmet = |at| {
            let is_unmet = |expected: &Expectation| {
                let item = self.item(&expected.key, at);
                let state = item.map(|item| (expected.key.clone(), item.clone()));
                !is_met(expected, &state.into_iter().collect())
            };
            expects.iter().any(is_unmet)
        };
        let moment = self.earliest(operation, known, keys, unmet);
        moment.ok_or_else(|| {
            let evidence = format!("every condition held all the time: {operation:?}");
            Violation::new(Guarantee::RefusalsAreRight, evidence)
        })
    }

    fn earliest_matching_state(
        &self,
        operation: &RecordedOperation,
        span: &KeySpan,
        items: &[KeyState],
        known: u64,
    ) -> Result<u64, Violation> {
        let key = span.start.as_str();
        let shown = |at| match (self.item(key, at), items) {
            (Some(real), [seen]) => real.is_consistent_with(seen),
            (None, []) => true,
            _ => false,
        };
        if *span == KeySpan::single(key)
            && let Some(moment) = self.earliest(operation, known, std::iter::once(key), shown)
        {
            return Ok(moment);
        }
        let evidence = format!("{known} was known before {operation:?}");
        Err(Violation::new(Guarantee::ReadsAreFresh, evidence))
    }

    /// The first revision at which something holds, of those an answer can be of. Only
    /// changes of `keys` can make a difference.
    fn earliest<'key>(
        &self,
        operation: &RecordedOperation,
        known: u64,
        keys: impl Iterator<Item = &'key str>,
        holds: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        let has_begun = |at: &u64| {
            self.asked
                .get(at)
                .is_none_or(|asked| *asked < operation.ended)
        };
        let changes: BTreeSet<u64> = keys
            .filter_map(|key| self.keys.get(key))
            .flat_map(|changes| {
                let later = changes.range(known + 1..).map(|(at, _)| *at);
                later.take_while(has_begun)
            })
            .collect();
        std::iter::once(known).chain(changes).find(|at| holds(*at))
    }
}
