//! What is said about a write besides its answer.

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

    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.kept().warnings)
    }

    pub(crate) fn take_annotations(&self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.kept().annotations)
    }
}
