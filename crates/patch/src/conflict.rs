//! Conflicts of server-side apply, and their `Status`.

use crate::fieldset::FieldSet;
use crate::managed::FieldManager;
use optik_object::{Cause, Status};
use std::fmt;

/// The conflicting fields, by the manager that owns them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflicts(Vec<(FieldManager, FieldSet)>);

impl Conflicts {
    pub(crate) fn add(&mut self, manager: &FieldManager, fields: FieldSet) {
        self.0.push((manager.clone(), fields));
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of conflicting fields, counted per manager.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.iter().map(|(_, fields)| fields.len()).sum()
    }

    /// The conflicts without the fields in `allowed`.
    #[must_use]
    pub(crate) fn without(&self, allowed: &FieldSet) -> Self {
        let left = self.0.iter().map(|(manager, fields)| {
            let fields = fields.difference(allowed);
            (manager.clone(), fields)
        });
        Self(left.filter(|(_, fields)| !fields.is_empty()).collect())
    }

    fn sorted(&self) -> Vec<&(FieldManager, FieldSet)> {
        let mut sorted: Vec<_> = self.0.iter().collect();
        sorted.sort_by_cached_key(|(manager, _)| manager.identity());
        sorted
    }

    /// The `Status` for the client: 409 with one cause for each field.
    #[must_use]
    pub fn status(&self) -> Status {
        let causes = self.sorted().into_iter().flat_map(|(manager, fields)| {
            let paths = fields.paths().into_iter();
            paths.map(move |field| Cause {
                reason: "FieldManagerConflict".into(),
                message: format!("conflict with {manager}"),
                field,
            })
        });
        Status::apply_conflict(self.to_string(), causes.collect())
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sorted = self.sorted();
        if let ([(manager, fields)], 1) = (&sorted[..], self.count()) {
            let path = fields.paths().concat();
            return write!(
                f,
                "Apply failed with 1 conflict: conflict with {manager}: {path}"
            );
        }
        write!(f, "Apply failed with {} conflicts:", self.count())?;
        for (at, (manager, fields)) in sorted.into_iter().enumerate() {
            let before = if at == 0 { ' ' } else { '\n' };
            write!(f, "{before}conflicts with {manager}:")?;
            for path in fields.paths() {
                write!(f, "\n- {path}")?;
            }
        }
        Ok(())
    }
}
