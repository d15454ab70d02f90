//! The strategy of a built-in kind (upstream: `RESTCreateStrategy`, `RESTUpdateStrategy`):
//! preparation and validation of creates and updates.

use crate::csr::Requester;
pub use crate::prepare::ResetFields;
use crate::prepare::{self, PrepareFns};
use crate::validation::{self, Errors, ValidateUpdateFn, Validators};
use optik_object::{FieldError, Object, Timestamp};

/// The strategy of one kind. Kinds without special behaviour have an empty one.
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

    /// Whether objects of the kind need cluster IPs and node ports.
    #[must_use]
    pub fn allocates(&self) -> bool {
        self.prepare.allocates
    }

    /// Initializes a new object before validation. Its name, UID and creation time are already set.
    pub fn prepare_for_create(&self, object: &mut Object) {
        if let Some(create) = self.prepare.create {
            create(object);
        }
    }

    /// Stores the requesting user in a new object, for kinds that record it.
    pub fn set_requester(&self, object: &mut Object, requester: &Requester<'_>) {
        if let Some(note) = self.prepare.requester {
            note(object, requester);
        }
    }

    /// The kind's reset fields, in addition to those of all kinds.
    #[must_use]
    pub fn reset_fields(&self) -> ResetFields {
        self.prepare.resets
    }

    /// Restores fields of the old object that clients cannot change, before validation.
    pub fn prepare_for_update(&self, object: &mut Object, old: &Object) {
        if let Some(update) = self.prepare.update {
            update(object, old);
        }
    }

    /// `prepare_for_update` for the status subresource.
    pub fn prepare_for_status_update(&self, object: &mut Object, old: &Object, now: Timestamp) {
        if let Some(status) = self.prepare.status {
            status(object, old, now);
        }
    }

    /// `prepare_for_update` for the approval subresource.
    pub fn prepare_for_approval_update(&self, object: &mut Object, old: &Object, now: Timestamp) {
        if let Some(approval) = self.prepare.approval {
            approval(object, old, now);
        }
    }

    /// Validates a new object, or an update if `old` is given.
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

    /// Validates an update of the status subresource.
    #[must_use]
    pub fn validate_status_update(&self, object: &Object, old: Option<&Object>) -> Vec<FieldError> {
        validate_change(self.validators.status, object, old)
    }

    /// Validates an update of the approval subresource.
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
