//! Errors for the user of the command line.

use std::error::Error;
use std::fmt;

/// An error message, its causes, and a hint.
#[derive(Debug)]
pub(crate) struct BenchError {
    message: String,
    cause: Option<Box<dyn Error + Send + Sync>>,
    hint: Option<String>,
    usage: bool,
}

impl BenchError {
    pub(crate) fn new(
        text: impl Into<String>,
        cause: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self {
            cause: Some(cause.into()),
            ..Self::from_message(text)
        }
    }

    pub(crate) fn from_message(text: impl Into<String>) -> Self {
        Self {
            message: text.into(),
            cause: None,
            hint: None,
            usage: false,
        }
    }

    /// An error in the command line.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self {
            usage: true,
            ..Self::from_message(text)
        }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn is_usage(&self) -> bool {
        self.usage
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let mut cause = self.cause.as_deref().map(|cause| cause as &dyn Error);
        while let Some(inner) = cause {
            write!(f, ": {inner}")?;
            cause = inner.source();
        }
        match &self.hint {
            Some(hint) => write!(f, "\n  {hint}"),
            None => Ok(()),
        }
    }
}
