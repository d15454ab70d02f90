//! How a check says what it saw instead of what it expected.

use serde_json::Value;
use std::fmt;

/// What went wrong, with what was asked and what was answered.
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

/// Fails the check with a text unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::Failure::new(format!($($text)+)));
        }
    };
}
pub(crate) use ensure;

/// Fails unless both values are the same; `what` names them.
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

/// Collects what several independent rows of a table have to say, so that one bad row
/// does not hide the others.
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
