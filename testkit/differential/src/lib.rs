//! Differential tests: one script of requests to two servers, and the differing responses.
//!
//! * A [`RequestScript`] is a file of requests, as they go over the wire.
//! * [`run_script`] sends them, one after the other, and takes down the answers, with what
//!   differs from run to run made `normalize`.
//! * A [`ResponseRecording`] is the responses of a real kube-apiserver. It is committed, so that our
//!   server is compared with it without one.

mod normalize;
mod recording;
mod runner;
mod script;

pub use recording::{RecordingDifference, ResponseRecording, compare};
pub use runner::{PlayError, run_script};
pub use script::{RequestScript, ScriptError, ScriptStep};
