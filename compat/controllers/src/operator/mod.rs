//! The Backup operator of `examples/backup-operator` on the kube-rs runtime, and the lifecycle test
//! for all Backup operators.

pub(crate) mod kube_rs;
pub(crate) mod lifecycle;
