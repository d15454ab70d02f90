//! The same requests to two servers, and what they answer differently.
//!
//! * A [`RequestScript`] is a file of requests, as they go over the wire.
//! * [`run_script`] sends them, one after the other, and takes down the answers, with what
//!   differs from run to run made [`normalize`].
//! * A [`ResponseRecording`] is what a real kube-apiserver answered. It is committed, so that our
//!   server is compared with it without one.

mod normalize;
mod recording;
mod runner;
mod script;

pub use recording::{RecordingDifference, ResponseRecording, compare};
pub use runner::{PlayError, run_script};
pub use script::{RequestScript, ScriptError, ScriptStep};
