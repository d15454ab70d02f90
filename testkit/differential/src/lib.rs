//! The same requests to two servers, and what they answer differently.
//!
//! * A [`Script`] is a file of requests, as they go over the wire.
//! * [`play`] sends them, one after the other, and takes down the answers, with what
//!   differs from run to run made [`plain`].
//! * A [`Record`] is what a real kube-apiserver answered. It is committed, so that our
//!   server is compared with it without one.

mod plain;
mod play;
mod record;
mod script;

pub use play::{PlayError, play};
pub use record::{Difference, Record, compare};
pub use script::{Script, ScriptError, Step};
