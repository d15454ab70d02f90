//! The Backup operator of `examples/backup-operator`: on the runtime of kube-rs, and the
//! life of a Backup by which all operators are judged.

pub(crate) mod kube_rs;
pub(crate) mod lifecycle;
