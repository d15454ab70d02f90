//! Real clients of a whole server, and what they must see.
//!
//! * [`tcp_proxy`] is a wire between client and server that can be cut.
//! * [`fault_proxy`] is a server before a server: it refuses, loses answers, and counts.
//! * [`connection`] speaks HTTP; [`loopback_client`] and [`watcher`] write down what they ask
//!   for and are told, in the words of the store's histories, so that
//!   [`judge`](optik_store_testkit::validate::judge) can say whether one sequence of
//!   revisions explains all of it.
//!
//! The tests also use clients that others wrote.

pub mod client;
pub mod collection;
pub mod connection;
pub mod fault_proxy;
pub mod tcp_proxy;
pub mod watcher;
