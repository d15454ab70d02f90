//! What every Kubernetes API server must do, checked over HTTP.
//!
//! * [`suite`] is a table of named checks. Each knows the ids of the assertions (docs/spec) it
//!   covers and what a server needs for it; [`suite::run`] runs those that a server can
//!   be asked, and says which it left out.
//! * [`Target`] says where the server is, [`Client`] speaks to it, [`ServerCapabilities`] say what
//!   it can do.
//! * [`samples`] has the smallest valid object of every kind.
//! * [`oracle`] has what nobody may get by asking in an odd way.
//! * [`crowd`] makes many objects that come to an end together.
//! * [`pod_security`] has what a real server made of pods in namespaces with labels.
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
