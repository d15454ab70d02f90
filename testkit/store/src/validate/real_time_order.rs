//! Revisions against the real-time order of operations.

use super::{Guarantee, Violation};
use crate::history::{
    OperationHistory, OperationOutcome, OperationRequest, ReadFreshness, RecordedOperation,
};
use std::collections::BTreeMap;

/// Goes through all beginnings and ends in the order of the clock.
pub(super) fn check(history: &OperationHistory) -> Vec<Violation> {
    let mut seen = KnownRevisions::default();
    let mut violations: BTreeMap<Guarantee, Violation> = BTreeMap::new();
    let mut before: BTreeMap<u64, u64> = BTreeMap::new();
    for (operation, moment) in operation_edges(history).into_values() {
        match moment {
            OperationEdge::Begins => drop(before.insert(operation.begun, seen.newest)),
            OperationEdge::Ends => {
                let acknowledged = before.get(&operation.begun).copied().unwrap_or(0);
                if let Err(violation) = seen.add(operation, acknowledged) {
                    violations.entry(violation.guarantee).or_insert(violation);
                }
            }
        }
    }
    violations.into_values().collect()
}

pub(super) enum OperationEdge {
    Begins,
    Ends,
}

/// All beginnings and ends, by the clock.
pub(super) fn operation_edges(
    history: &OperationHistory,
) -> BTreeMap<u64, (&RecordedOperation, OperationEdge)> {
    let mut moments = BTreeMap::new();
    for operation in &history.operations {
        moments.insert(operation.begun, (operation, OperationEdge::Begins));
        moments.insert(operation.ended, (operation, OperationEdge::Ends));
    }
    moments
}

/// The revisions known from responses so far.
#[derive(Default)]
struct KnownRevisions {
    newest: u64,
    by_client: BTreeMap<u32, u64>,
}

impl KnownRevisions {
    /// `acknowledged` is the newest revision that was known when it began.
    fn add(&mut self, operation: &RecordedOperation, acknowledged: u64) -> Result<(), Violation> {
        let Some(revision) = operation.outcome.revision() else {
            return Ok(());
        };
        let known = self.by_client.entry(operation.client).or_default();
        let known_before = *known;
        *known = known_before.max(revision);
        self.newest = self.newest.max(revision);
        let broken = broken_guarantee(operation, revision, acknowledged, known_before);
        broken.map_or(Ok(()), |guarantee| {
            let evidence = format!(
                "revision {acknowledged} was known, {known_before} to this client, before \
                 {operation:?}"
            );
            Err(Violation::new(guarantee, evidence))
        })
    }
}

/// The guarantee that a response with this revision violates.
pub(super) fn broken_guarantee(
    operation: &RecordedOperation,
    revision: u64,
    acknowledged: u64,
    known: u64,
) -> Option<Guarantee> {
    let wanted = match &operation.request {
        OperationRequest::Read { state, .. } => Some(*state),
        OperationRequest::Write { .. } => None,
    };
    match (wanted, &operation.outcome) {
        (Some(ReadFreshness::At(_)), _) => None,
        (Some(ReadFreshness::Any), _) => {
            (revision < known).then_some(Guarantee::ClientsNeverGoBack)
        }
        (Some(ReadFreshness::Latest), _) => {
            (revision < acknowledged).then_some(Guarantee::ReadsAreFresh)
        }
        (None, OperationOutcome::Written { .. } | OperationOutcome::Done) => {
            (revision <= acknowledged).then_some(Guarantee::RealTimeOrder)
        }
        (None, _) => (revision < acknowledged).then_some(Guarantee::RealTimeOrder),
    }
}
