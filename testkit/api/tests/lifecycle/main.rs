//! What happens without anybody asking: garbage is collected, namespaces go, and what
//! every namespace has is there.

mod bulk_deletion;
mod fixture;
mod garbage_collection;
mod namespace_controller;
mod pod_security_labels;
mod pod_subresources;
mod policy_type_checking;
