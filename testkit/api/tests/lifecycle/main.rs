//! Server-side lifecycle without requests: garbage collection, namespace deletion, and the default
//! objects of namespaces.

mod bulk_deletion;
mod fixture;
mod garbage_collection;
mod namespace_controller;
mod pod_security_labels;
mod pod_subresources;
mod policy_type_checking;
