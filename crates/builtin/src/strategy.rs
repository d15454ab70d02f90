//! What a kind does with its objects beyond defaults: what it makes of a new one, what it
//! keeps of an old one, and what it refuses.

use crate::csr::Requester;
pub use crate::prepare::ResetFields;
use crate::prepare::{self, PrepareFns};
use crate::validation::{self, Errors, ValidateUpdateFn, Validators};
use optik_object::{FieldError, Object, Timestamp};

/// The rules of a kind. Kinds that have none cost nothing.
#[derive(Clone, Copy, Default)]
pub struct Strategy {
    validators: Validators,
    prepare: PrepareFns,
}

impl std::fmt::Debug for Strategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Strategy")
    }
}

impl Strategy {
    #[must_use]
    pub fn for_resource(group: &str, plural: &str) -> Self {
        Self {
            validators: validation::for_resource(group, plural),
            prepare: prepare::for_resource(group, plural),
        }
    }

    /// Whether its objects are given addresses and ports.
    #[must_use]
    pub fn allocates(&self) -> bool {
        self.prepare.allocates
    }

    /// Makes a new object what it begins as. Its name, uid and time are there.
    pub fn prepare_for_create(&self, object: &mut Object) {
        if let Some(create) = self.prepare.create {
            create(object);
        }
    }

    /// Writes into a new object who made it, where that is part of it.
    pub fn set_requester(&self, object: &mut Object, requester: &Requester<'_>) {
        if let Some(note) = self.prepare.requester {
            note(object, requester);
        }
    }

    /// What the endpoints of the kind take back, besides what all kinds do.
    #[must_use]
    pub fn reset_fields(&self) -> ResetFields {
        self.prepare.resets
    }

    /// Keeps of an old object what its clients cannot change.
    pub fn prepare_for_update(&self, object: &mut Object, old: &Object) {
        if let Some(update) = self.prepare.update {
            update(object, old);
        }
    }

    /// The same for a write of the status.
    pub fn prepare_for_status_update(&self, object: &mut Object, old: &Object, now: Timestamp) {
        if let Some(status) = self.prepare.status {
            status(object, old, now);
        }
    }

    /// The same for a write of the approval.
    pub fn prepare_for_approval_update(&self, object: &mut Object, old: &Object, now: Timestamp) {
        if let Some(approval) = self.prepare.approval {
            approval(object, old, now);
        }
    }

    /// What is wrong with a new object, or with a changed one.
    #[must_use]
    pub fn validate(&self, object: &Object, old: Option<&Object>) -> Vec<FieldError> {
        let mut errors = Errors::default();
        let checks = &self.validators;
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
    pub fn validate_status_update(&self, object: &Object, old: Option<&Object>) -> Vec<FieldError> {
        validate_change(self.validators.status, object, old)
    }

    /// What is wrong with a change of the approval.
    #[must_use]
    pub fn validate_approval_update(
        &self,
        object: &Object,
        old: Option<&Object>,
    ) -> Vec<FieldError> {
        validate_change(self.validators.approval, object, old)
    }
}

fn validate_change(
    check: Option<ValidateUpdateFn>,
    object: &Object,
    old: Option<&Object>,
) -> Vec<FieldError> {
    let mut errors = Errors::default();
    if let (Some(check), Some(old)) = (check, old) {
        check(object, old, &mut errors);
    }
    errors.into_list()
}
