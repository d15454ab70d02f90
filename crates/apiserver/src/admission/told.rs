//! What is said about a write besides its answer.

use crate::complaints::bounded;
use crate::exchange::{Request, Response};
use http::HeaderValue;
use http::header::WARNING;
use optik_object::Status;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// No more warnings are kept.
const WARNINGS_MAX: usize = 4096;
/// No more audit annotations are kept.
const ANNOTATIONS_MAX: usize = 4096;

/// What the client, and who audits it, are told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    warnings: Vec<String>,
    annotations: BTreeMap<String, String>,
}

impl Told {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Warns the client, once of each thing.
    pub(crate) fn warn(&self, texts: impl IntoIterator<Item = String>) {
        for text in texts {
            let mut kept = self.kept();
            let known = kept.warnings.contains(&text);
            if !text.is_empty() && !known && kept.warnings.len() < WARNINGS_MAX {
                kept.warnings.push(text);
            }
        }
    }

    /// Notes something for the audit; the first one to say it has the say.
    pub(crate) fn annotate(&self, key: String, value: String) {
        let mut kept = self.kept();
        if kept.annotations.len() < ANNOTATIONS_MAX {
            kept.annotations.entry(key).or_insert(value);
        }
    }

    /// An answer, or a refusal, with everything that is told besides.
    pub(crate) fn with(
        &self,
        answered: Result<Response, Status>,
        request: &Request,
    ) -> Result<Response, Status> {
        let Kept {
            warnings,
            annotations,
        } = std::mem::take(&mut *self.kept());
        if warnings.is_empty() && annotations.is_empty() {
            return answered;
        }
        let refused = |status| Response::refused(&status, &request.headers);
        let mut response = answered.unwrap_or_else(refused);
        for warning in bounded(&warnings) {
            let quoted = optik_object::quote(&warning);
            if let Ok(value) = HeaderValue::from_str(&format!("299 - {quoted}")) {
                response.headers.append(WARNING, value);
            }
        }
        response.annotations = annotations;
        Ok(response)
    }
}
