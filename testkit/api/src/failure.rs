//! The failure of a check: expected and actual result.

use serde_json::Value;
use std::fmt;

/// A failure with the request and the response.
#[derive(Clone, Debug)]
pub struct Failure(String);

/// The result of a check, or of a step in one.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Says which of several similar steps it was.
    #[must_use]
    pub fn with_step(self, step: impl fmt::Display) -> Self {
        Self(format!("{step}: {}", self.0))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// Fails the check with a message unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::Failure::new(format!($($text)+)));
        }
    };
}
pub(crate) use ensure;

/// Fails unless both values are equal; `what` names them in the message.
pub(crate) fn same<T>(what: &str, expected: &T, got: &T) -> Outcome
where
    T: PartialEq + fmt::Debug + ?Sized,
{
    ensure!(
        expected == got,
        "{what}\n  expected {expected:?}\n  got      {got:?}"
    );
    Ok(())
}

/// As [`same`], written as JSON.
pub(crate) fn same_json(what: &str, expected: &Value, got: &Value) -> Outcome {
    ensure!(
        expected == got,
        "{what}\n  expected {expected}\n  got      {got}"
    );
    Ok(())
}

/// Collects the failures of independent rows of a table, so that one failure does not hide the
/// others.
#[derive(Debug, Default)]
pub(crate) struct RowFailures(Vec<Failure>);

impl RowFailures {
    pub(crate) fn record(&mut self, name: impl fmt::Display, outcome: Outcome) {
        if let Err(failure) = outcome {
            self.0.push(failure.with_step(format!("[{name}]")));
        }
    }

    pub(crate) fn outcome(self) -> Outcome {
        if self.0.is_empty() {
            return Ok(());
        }
        let texts: Vec<String> = self.0.iter().map(Failure::to_string).collect();
        Err(Failure::new(texts.join("\n")))
    }
}
