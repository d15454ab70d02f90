//! Real clients of a whole server, and checks of their observations.
//!
//! * [`tcp_proxy`] is a TCP proxy whose connections can be cut.
//! * [`fault_proxy`] is an HTTP proxy that refuses requests, drops responses, and counts.
//! * [`connection`] sends HTTP requests; [`client`] and [`watcher`] record their operations in
//!   the format of the store's histories, so that [`optik_store_testkit::validate`] can check
//!   whether one sequence of revisions explains all of them.
//!
//! The tests also use kube-rs.

pub mod client;
pub mod collection;
pub mod connection;
pub mod fault_proxy;
pub mod tcp_proxy;
pub mod watcher;
