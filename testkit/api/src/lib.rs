//! What every Kubernetes API server must do, checked over HTTP.
//!
//! * [`suite`] is a table of named checks. Each knows the numbers of the assertions it
//!   covers and what a server needs for it; [`suite::run`] runs those that a server can
//!   be asked, and says which it left out.
//! * [`Target`] says where the server is, [`Client`] speaks to it, [`Traits`] say what
//!   it can do.
//! * [`samples`] has the smallest valid object of every kind.
//! * [`oracle`] has what nobody may get by asking in an odd way.
//! * [`crowd`] makes many objects that come to an end together.
//! * [`pod_security`] has what a real server made of pods in namespaces with labels.
//!
//! The suite uses nothing of the server but its port: what passes here passes for any
//! client, and a suite that passes on another server proves its checks right.

mod answer;
mod check;
mod client;
mod connection;
mod crds;
pub mod crowd;
mod failure;
mod kinds;
mod object;
pub mod oracle;
pub mod pod_security;
mod protobuf;
mod report;
pub mod samples;
mod scope;
mod status;
pub mod suite;
mod target;
mod traits;
mod watch;
mod webhook;
mod websocket;
pub mod wire;

pub use answer::Answer;
pub use check::{Check, Contract, Need};
pub use client::{Client, Request};
pub use failure::{Failure, Outcome};
pub use kinds::Kind;
pub use report::{Report, Verdict, tell};
pub use scope::Scope;
pub use target::Target;
pub use traits::{Compact, Traits};
pub use watch::{Event, Next, WatchStream};
