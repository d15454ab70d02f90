//! The API suite: the behaviour of every Kubernetes API server, checked over HTTP.
//!
//! * [`suite`] is a table of named checks. Each has the ids of the assertions (docs/spec) it
//!   covers and what a server needs for it; [`suite::run`] runs those that the server
//!   supports, and reports the skipped ones.
//! * [`Target`] is the address of the server, [`Client`] sends requests to it,
//!   [`ServerCapabilities`] are its features.
//! * [`samples`] has the smallest valid object of every kind.
//! * [`oracle`] checks that requests of unusual shape bypass no authorization.
//! * [`bulk_objects`] creates many objects that are deleted together.
//! * [`pod_security`] has recorded decisions about pods in labelled namespaces.
//!
//! The suite uses nothing of the server but its port: what passes here passes for any
//! client, and a suite that passes on another server proves its checks right.

pub mod bulk_objects;
mod capabilities;
mod check;
mod client;
mod connection;
mod crds;
mod failure;
mod kinds;
mod object;
pub mod oracle;
pub mod pod_security;
mod protobuf;
mod report;
mod response;
pub mod samples;
mod scope;
mod status;
pub mod suite;
mod target;
mod watch;
mod webhook;
mod websocket;

pub use capabilities::{Compact, ServerCapabilities};
pub use check::{Check, Need};
pub use client::{Client, Request};
pub use failure::{Failure, Outcome};
pub use kinds::Kind;
pub use report::{CheckResult, SuiteReport};
pub use response::ApiResponse;
pub use scope::Scope;
pub use target::Target;
pub use watch::{Event, NextEvent, WatchStream};
