//! Errors for the user of the command line.

use std::error::Error;
use std::fmt;

/// An error message, its causes, and a hint.
#[derive(Debug)]
pub(crate) struct CliError {
    message: String,
    cause: Option<Box<dyn Error + Send + Sync>>,
    hint: Option<String>,
    usage: bool,
}

impl CliError {
    pub(crate) fn new(
        text: impl Into<String>,
        cause: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self {
            cause: Some(cause.into()),
            ..Self::from_message(text)
        }
    }

    /// An error whose message and causes are those of `error`.
    pub(crate) fn from_error(error: impl Error + Send + Sync + 'static) -> Self {
        let text = error.to_string();
        match error.source() {
            None => Self::from_message(text),
            Some(_) => Self {
                cause: Some(Box::new(Sources(Box::new(error)))),
                ..Self::from_message(text)
            },
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

/// The sources of an error, without the error itself.
#[derive(Debug)]
struct Sources(Box<dyn Error + Send + Sync>);

impl fmt::Display for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.source() {
            Some(source) => fmt::Display::fmt(source, f),
            None => Ok(()),
        }
    }
}

impl Error for Sources {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()?.source()
    }
}

impl fmt::Display for CliError {
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
