//! What a kind does with its objects beyond defaults: what it makes of a new one, what it
//! keeps of an old one, and what it refuses.

use crate::certificates::Requester;
use crate::check::{self, CheckUpdate, Checks, Errors};
pub use crate::prepare::Resets;
use crate::prepare::{self, Preparation};
use optik_object::{FieldError, Object, Timestamp};

/// The rules of a kind. Kinds that have none cost nothing.
#[derive(Clone, Copy, Default)]
pub struct Rules {
    checks: Checks,
    prepare: Preparation,
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rules")
    }
}

impl Rules {
    #[must_use]
    pub fn of(group: &str, plural: &str) -> Self {
        Self {
            checks: check::of(group, plural),
            prepare: prepare::of(group, plural),
        }
    }

    /// Whether its objects are given addresses and ports.
    #[must_use]
    pub fn allocates(&self) -> bool {
        self.prepare.allocates
    }

    /// Makes a new object what it begins as. Its name, uid and time are there.
    pub fn begin(&self, object: &mut Object) {
        if let Some(create) = self.prepare.create {
            create(object);
        }
    }

    /// Writes into a new object who made it, where that is part of it.
    pub fn note_requester(&self, object: &mut Object, requester: &Requester<'_>) {
        if let Some(note) = self.prepare.requester {
            note(object, requester);
        }
    }

    /// What the endpoints of the kind take back, besides what all kinds do.
    #[must_use]
    pub fn resets(&self) -> Resets {
        self.prepare.resets
    }

    /// Keeps of an old object what its clients cannot change.
    pub fn keep(&self, object: &mut Object, old: &Object) {
        if let Some(update) = self.prepare.update {
            update(object, old);
        }
    }

    /// The same for a write of the status.
    pub fn keep_on_status(&self, object: &mut Object, old: &Object, now: Timestamp) {
        if let Some(status) = self.prepare.status {
            status(object, old, now);
        }
    }

    /// The same for a write of the approval.
    pub fn keep_on_approval(&self, object: &mut Object, old: &Object, now: Timestamp) {
        if let Some(approval) = self.prepare.approval {
            approval(object, old, now);
        }
    }

    /// What is wrong with a new object, or with a changed one.
    #[must_use]
    pub fn check(&self, object: &Object, old: Option<&Object>) -> Vec<FieldError> {
        let mut errors = Errors::default();
        let checks = &self.checks;
        match old {
            None => {
                if let Some(check) = checks.create {
                    check(object, &mut errors);
                }
            }
            Some(old) => {
                if let (Some(change), true) = (checks.change, checks.change_first) {
                    change(object, old, &mut errors);
                }
                if let Some(check) = checks.update {
                    check(object, &mut errors);
                }
                if let (Some(change), false) = (checks.change, checks.change_first) {
                    change(object, old, &mut errors);
                }
            }
        }
        errors.into_list()
    }

    /// What is wrong with a change of the status.
    #[must_use]
    pub fn check_status(&self, object: &Object, old: Option<&Object>) -> Vec<FieldError> {
        changed(self.checks.status, object, old)
    }

    /// What is wrong with a change of the approval.
    #[must_use]
    pub fn check_approval(&self, object: &Object, old: Option<&Object>) -> Vec<FieldError> {
        changed(self.checks.approval, object, old)
    }
}

fn changed(check: Option<CheckUpdate>, object: &Object, old: Option<&Object>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    if let (Some(check), Some(old)) = (check, old) {
        check(object, old, &mut errors);
    }
    errors.into_list()
}
