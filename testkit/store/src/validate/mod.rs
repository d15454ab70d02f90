//! The validator: whether one sequence of revisions explains all observations.
//!
//! A successful write carries its revision, which *is* the claimed order. So there is no search:
//! sort the writes, replay them, and compare. Linear, but for sorting.

mod commit_log;
mod operation_results;
mod real_time_order;
mod unnumbered_answers;
mod unnumbered_writes;
mod watch_guarantees;

pub use commit_log::CommitLog;

use crate::history::OperationHistory;
use std::fmt;

/// A guarantee of the store, with the text that a violation reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guarantee {
    OneWritePerRevision,
    ConditionsHold,
    RefusalsAreRight,
    ReadsShowTheirRevision,
    RealTimeOrder,
    ReadsAreFresh,
    ClientsNeverGoBack,
    Ordered,
    Unique,
    Atomic,
    Reliable,
    Resumable,
    Bookmarkable,
    Filtered,
    PreviousValue,
    CreateFlag,
}

impl Guarantee {
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::OneWritePerRevision => "every revision is made by exactly one write",
            Self::ConditionsHold => {
                "a write takes effect only if its conditions hold in the state it changes"
            }
            Self::RefusalsAreRight => {
                "a write is refused only if a condition does not hold, and told what is there"
            }
            Self::ReadsShowTheirRevision => {
                "a read returns exactly the state at the revision it names"
            }
            Self::RealTimeOrder => "a write that begins after another answer has a later revision",
            Self::ReadsAreFresh => {
                "a read of the latest state has every write acknowledged before it began"
            }
            Self::ClientsNeverGoBack => "a client is never shown an older state than before",
            Self::Ordered => "a watch shows events in the order of their revisions",
            Self::Unique => "a watch shows no event twice",
            Self::Atomic => "a watch shows all events of one revision together",
            Self::Reliable => "a watch shows every event between the first and the last it shows",
            Self::Resumable => "a watch begins with the first event at or after its start",
            Self::Bookmarkable => "a bookmark promises that all events up to it have been shown",
            Self::Filtered => "a watch shows only events of the keys it asks for",
            Self::PreviousValue => "an event carries what was there before it",
            Self::CreateFlag => "an event is marked as a creation exactly if nothing was there",
        }
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.description())
    }
}

/// The violated guarantee, and the operation that violates it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub guarantee: Guarantee,
    pub evidence: String,
}

impl Violation {
    fn new(guarantee: Guarantee, evidence: impl Into<String>) -> Self {
        Self {
            guarantee,
            evidence: evidence.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; but {}", self.guarantee, self.evidence)
    }
}

impl std::error::Error for Violation {}

type ValidationResult = Result<(), Violation>;

/// Judges a whole history, and returns the log that explains it.
///
/// # Errors
/// With the first violation of each guarantee by each watch or kind of operation.
pub fn validate_history(history: &OperationHistory) -> Result<CommitLog, Vec<Violation>> {
    let mut violations = real_time_order::check(history);
    let log = match CommitLog::from_history(history) {
        Ok(log) => log,
        // Without a commit log there is nothing to compare with.
        Err(violation) => {
            violations.push(violation);
            return Err(violations);
        }
    };
    violations.extend(operation_results::check(history, &log).err());
    // Violations of the order by revisions alone have been reported.
    let is_new = |new: &Violation| violations.iter().all(|old| old.guarantee != new.guarantee);
    let untimely = unnumbered_answers::check(history, &log)
        .err()
        .filter(is_new);
    violations.extend(untimely);
    for session in &history.sessions {
        let verdicts = watch_guarantees::PROPERTIES.map(|property| property(session, &log));
        violations.extend(verdicts.into_iter().filter_map(Result::err));
    }
    if violations.is_empty() {
        Ok(log)
    } else {
        Err(violations)
    }
}
