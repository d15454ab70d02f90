//! The audit log: events of the form `audit.k8s.io/v1`, one JSON line each.

mod event;
mod log_file;
mod offload;
mod record;

pub use log_file::{AuditFile, AuditFileError, Rotation};
pub(crate) use offload::Offload;
pub(crate) use record::{AuditContext, AuditRecord};

use optik_auth::audit_policy::AuditPolicy;
use std::fmt;

/// The audit policy and the log file.
pub struct Audit {
    pub policy: AuditPolicy,
    pub file: AuditFile,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").finish_non_exhaustive()
    }
}
