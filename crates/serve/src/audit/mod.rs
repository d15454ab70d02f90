//! Who did what, written to a file line by line, in the form that Kubernetes has for it.

mod beside;
mod entry;
mod log;
mod record;

pub(crate) use beside::Beside;
pub use log::{AuditFile, AuditFileError, Rotation};
pub(crate) use record::{Heard, Record};

use optik_access::audit::AuditPolicy;
use std::fmt;

/// What is recorded, and where to.
pub struct Audit {
    pub policy: AuditPolicy,
    pub file: AuditFile,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").finish_non_exhaustive()
    }
}
