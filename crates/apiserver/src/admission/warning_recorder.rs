//! Collects the warnings and audit annotations of a write.

use crate::request::field_validation::truncate_warnings;
use crate::request::http_types::{ApiRequest, ApiResponse};
use http::HeaderValue;
use http::header::WARNING;
use optik_object::Status;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Further warnings are dropped.
const RECORDED_WARNINGS_MAX: usize = 4096;
/// Further audit annotations are dropped.
const RECORDED_ANNOTATIONS_MAX: usize = 4096;

/// Warnings for the client and annotations for the audit log.
#[derive(Debug, Default)]
pub(crate) struct WarningRecorder {
    recorded: Mutex<RecordedWarnings>,
}

#[derive(Debug, Default)]
struct RecordedWarnings {
    warnings: Vec<String>,
    annotations: BTreeMap<String, String>,
}

impl WarningRecorder {
    fn lock(&self) -> MutexGuard<'_, RecordedWarnings> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds warnings for the client; duplicates are dropped.
    pub(crate) fn warn(&self, texts: impl IntoIterator<Item = String>) {
        for text in texts {
            let mut kept = self.lock();
            let known = kept.warnings.contains(&text);
            if !text.is_empty() && !known && kept.warnings.len() < RECORDED_WARNINGS_MAX {
                kept.warnings.push(text);
            }
        }
    }

    /// Adds an audit annotation; the first value of a key is kept.
    pub(crate) fn annotate(&self, key: String, value: String) {
        let mut kept = self.lock();
        if kept.annotations.len() < RECORDED_ANNOTATIONS_MAX {
            kept.annotations.entry(key).or_insert(value);
        }
    }

    /// Adds the warnings and annotations to a response or an error.
    pub(crate) fn attach_to(
        &self,
        answered: Result<ApiResponse, Status>,
        request: &ApiRequest,
    ) -> Result<ApiResponse, Status> {
        let RecordedWarnings {
            warnings,
            annotations,
        } = std::mem::take(&mut *self.lock());
        if warnings.is_empty() && annotations.is_empty() {
            return answered;
        }
        let refused = |status| ApiResponse::from_status(&status, &request.headers);
        let mut response = answered.unwrap_or_else(refused);
        for warning in truncate_warnings(&warnings) {
            let quoted = optik_object::quote(&warning);
            if let Ok(value) = HeaderValue::from_str(&format!("299 - {quoted}")) {
                response.headers.append(WARNING, value);
            }
        }
        response.audit_annotations = annotations;
        Ok(response)
    }
}
