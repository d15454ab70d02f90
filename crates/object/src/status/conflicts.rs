//! Conflict and NotFound errors, and the `Status` of successful deletes.

use super::{Cause, Details, Reason, Status};
use crate::go::quote;
use crate::resource::ResourceName;

impl Status {
    /// `CONC-A1`
    #[must_use]
    pub fn already_exists(resource: ResourceName<'_>, name: &str) -> Self {
        let message = format!("{} {} already exists", resource.qualified(), quote(name));
        Self::failure(Reason::AlreadyExists, message).with_details(details_of(resource, name))
    }

    /// `CONC-A1`, when the object in the way is terminating.
    #[must_use]
    pub fn already_exists_terminating(resource: ResourceName<'_>, name: &str) -> Self {
        let mut status = Self::already_exists(resource, name);
        status.0.message.insert_str(0, "object is being deleted: ");
        status
    }

    /// `CONC-A2`: turns `CONC-A1` into the error for a name generated from `generateName`.
    #[must_use]
    pub fn into_generate_name_conflict(self) -> Self {
        let mut status = self.with_retry_after(1);
        status
            .0
            .message
            .push_str(", the server was not able to generate a unique name for the object");
        status
    }

    /// `CONC-C1`
    #[must_use]
    pub fn object_modified(resource: ResourceName<'_>, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and \
             try again",
        )
    }

    /// `CONC-C2`: the body has another uid. `key` is the whole key as in etcd; `stored` is empty if
    /// there is no object.
    #[must_use]
    pub fn uid_mismatch(
        resource: ResourceName<'_>,
        name: &str,
        key: &str,
        uid: UidMismatch<'_>,
    ) -> Self {
        let UidMismatch { sent, stored } = uid;
        Self::conflict(
            resource,
            name,
            &format!(
                "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, \
                 AdditionalErrorMsg: Precondition failed: UID in precondition: {sent}, \
                 UID in object meta: {stored}"
            ),
        )
    }

    /// The body has another resourceVersion; otherwise as `CONC-C2`.
    #[must_use]
    pub fn resource_version_mismatch(
        resource: ResourceName<'_>,
        name: &str,
        key: &str,
        [sent, stored]: [&str; 2],
    ) -> Self {
        let text = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, \
             AdditionalErrorMsg: Precondition failed: ResourceVersion in precondition: {sent}, \
             ResourceVersion in object meta: {stored}"
        );
        Self::conflict(resource, name, &text)
    }

    /// `CONC-C3`: an apply that would create the object must not have a uid.
    #[must_use]
    pub fn uid_without_object(resource: ResourceName<'_>, name: &str, uid: &str) -> Self {
        let text = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        Self::conflict(resource, name, &text)
    }

    /// `CONC-C4`: the fields belong to other managers. The merge provides the message and
    /// the causes.
    #[must_use]
    pub fn apply_conflict(message: impl Into<String>, causes: Vec<Cause>) -> Self {
        Self::failure(Reason::Conflict, message).with_details(Details {
            causes,
            ..Details::default()
        })
    }

    /// `CONC-C5`: the uid precondition of a delete failed; names the kind.
    #[must_use]
    pub fn delete_uid_mismatch(
        resource: ResourceName<'_>,
        name: &str,
        uid: UidMismatch<'_>,
    ) -> Self {
        let UidMismatch { sent, stored } = uid;
        let text = format!(
            "the UID in the precondition ({sent}) does not match the UID in record ({stored}). \
             The object might have been deleted and then recreated"
        );
        Self::conflict(with_kind_as_resource(resource), name, &text)
    }

    /// `CONC-C6`: the resourceVersion precondition of a delete failed; names the kind.
    #[must_use]
    pub fn delete_resource_version_mismatch(
        resource: ResourceName<'_>,
        name: &str,
        sent: &str,
        stored: u64,
    ) -> Self {
        let text = format!(
            "the ResourceVersion in the precondition ({sent}) does not match the ResourceVersion \
             in record ({stored}). The object might have been modified"
        );
        Self::conflict(with_kind_as_resource(resource), name, &text)
    }

    /// Any other conflict; `CONC-C1` to `CONC-C6` are built on it.
    #[must_use]
    pub fn conflict(resource: ResourceName<'_>, name: &str, text: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {}: {text}",
            resource.qualified(),
            quote(name)
        );
        Self::failure(Reason::Conflict, message).with_details(details_of(resource, name))
    }

    /// `CONC-N1`
    #[must_use]
    pub fn not_found(resource: ResourceName<'_>, name: &str) -> Self {
        let message = format!("{} {} not found", resource.qualified(), quote(name));
        Self::failure(Reason::NotFound, message).with_details(details_of(resource, name))
    }

    /// A success without a message or details.
    #[must_use]
    pub fn success(code: u16) -> Self {
        let mut status = Self::failure(Reason::NotFound, "");
        status.0.status = "Success";
        status.0.reason = None;
        status.0.code = code;
        status
    }

    /// CONC §2.5: the object was deleted. A success without a code.
    #[must_use]
    pub fn deleted(resource: ResourceName<'_>, name: &str, uid: &str) -> Self {
        let mut status = Self::failure(Reason::NotFound, "").with_details(Details {
            uid: uid.into(),
            ..details_of(resource, name)
        });
        status.0.status = "Success";
        status.0.reason = None;
        status.0.code = 0;
        status
    }
}

/// The two uids of a mismatch.
#[derive(Clone, Copy, Debug)]
pub struct UidMismatch<'a> {
    pub sent: &'a str,
    pub stored: &'a str,
}

/// The usual details: name, group, plural.
pub(super) fn details_of(resource: ResourceName<'_>, name: &str) -> Details {
    Details {
        name: name.into(),
        group: resource.group.into(),
        kind: resource.plural.into(),
        ..Details::default()
    }
}

/// For errors where upstream uses the kind in place of the plural.
pub(super) fn with_kind_as_resource(resource: ResourceName<'_>) -> ResourceName<'_> {
    ResourceName {
        plural: resource.kind,
        ..resource
    }
}
