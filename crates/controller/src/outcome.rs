//! What a reconciler says when it is through.

use kube::Error as KubeError;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// How a reconcile ended well.
///
/// ```
/// # use optik_controller::{Outcome, PollInterval, Wait};
/// # use std::time::Duration;
/// let nothing_left_to_do = Outcome::Done;
/// let something_the_cluster_does_not_tell = Outcome::After(PollInterval::every(Duration::from_secs(30)));
/// let something_that_is_watched = Outcome::Wait(Wait::until("the job has finished"));
/// # let _ = (nothing_left_to_do, something_the_cluster_does_not_tell, something_that_is_watched);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub enum Outcome {
    /// The world is as desired. The next change brings the object back.
    Done,
    /// Something outside of the cluster has to be looked at again.
    RequeueAfter(PollInterval),
    /// Something that is watched has to happen first: nothing is polled.
    Wait(Wait),
}

/// An interval at which to look again. It is never shorter than the controller allows
/// ([`ControllerOptions::poll_min`](crate::ControllerOptions::poll_min)), and spread so
/// that a thousand objects do not come at once.
///
/// ```
/// # use optik_controller::PollInterval;
/// # use std::time::Duration;
/// let poll = PollInterval::every(Duration::from_secs(60));
/// # let _ = poll;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PollInterval(pub(crate) Duration);

impl PollInterval {
    /// Looks again after this time.
    ///
    /// ```
    /// # use optik_controller::PollInterval;
    /// let _ = PollInterval::every(std::time::Duration::from_secs(60));
    /// ```
    #[must_use]
    pub fn every(interval: Duration) -> Self {
        Self(interval)
    }
}

/// Something watched that has to happen. The change itself brings the object back.
///
/// ```
/// # use optik_controller::Wait;
/// # use std::time::Duration;
/// let wait = Wait::until("the job has finished").at_most(Duration::from_secs(3600));
/// # let _ = wait;
/// ```
#[derive(Clone, Debug)]
pub struct Wait {
    pub(crate) reason: String,
    pub(crate) at_most: Option<Duration>,
}

impl Wait {
    /// Says what is waited for; it shows in the log.
    ///
    /// ```
    /// # use optik_controller::Wait;
    /// let _ = Wait::until("the volume is bound");
    /// ```
    #[must_use]
    pub fn until(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            at_most: None,
        }
    }

    /// Comes back after this time even if nothing happened, to give up or to complain.
    ///
    /// ```
    /// # use optik_controller::Wait;
    /// let _ = Wait::until("the volume is bound").at_most(std::time::Duration::from_secs(60));
    /// ```
    #[must_use]
    pub fn at_most(mut self, limit: Duration) -> Self {
        self.at_most = Some(limit);
        self
    }
}

/// How a cleanup ended well.
///
/// ```
/// # use optik_controller::{Cleanup, Wait};
/// let _ = Cleanup::Finished; // the finalizer goes, and with it the object
/// let _ = Cleanup::PendingStatus(Wait::until("the bucket is empty"));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub enum Cleanup {
    /// Nothing is left: the runtime removes the finalizer.
    Finished,
    /// Something that is watched has to happen first.
    Pending(Wait),
    /// Something outside of the cluster has to be looked at again.
    RequeueAfter(PollInterval),
}

/// Why a reconcile could not do its work.
///
/// Any error becomes one by `?` and means: try again, later each time. Conflicts, stale
/// reads, lost answers and overloaded servers are faults too, but not such as a
/// reconciler could tell apart: it passes them on, and the runtime comes back with what
/// is there now.
///
/// ```
/// # use optik_controller::ReconcileError;
/// fn parse(text: &str) -> Result<u32, ReconcileError> {
///     let days: u32 = text.parse()?; // tried again
///     if days == 0 {
///         return Err(ReconcileError::terminal("a retention of no days")); // until it is changed
///     }
///     Ok(days)
/// }
/// assert!(parse("0").is_err());
/// ```
#[must_use]
pub struct ReconcileError(pub(crate) ReconcileErrorKind);

pub(crate) enum ReconcileErrorKind {
    Retry(Box<dyn Error + Send + Sync>),
    Terminal(Box<dyn Error + Send + Sync>),
    /// What was read is no longer what is there.
    Conflict(String),
    /// The server asked to be left alone for a while.
    Overload,
    /// Nobody knows whether it was done.
    LostResponse(String),
}

impl ReconcileError {
    /// Tried again, later each time. The same as `?` on an error.
    ///
    /// ```
    /// # use optik_controller::ReconcileError;
    /// let fault = ReconcileError::retry("the bucket cannot be reached");
    /// assert_eq!(fault.to_string(), "the bucket cannot be reached");
    /// ```
    pub fn retry(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(ReconcileErrorKind::Retry(cause.into()))
    }

    /// Not tried again until the object changes: it would fail the same way.
    ///
    /// ```
    /// # use optik_controller::ReconcileError;
    /// let fault = ReconcileError::terminal("a retention of no days");
    /// # let _ = fault;
    /// ```
    pub fn terminal(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(ReconcileErrorKind::Terminal(cause.into()))
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for ReconcileError {
    fn from(cause: E) -> Self {
        let cause: Box<dyn Error + Send + Sync> = Box::new(cause);
        match cause.downcast_ref::<KubeError>() {
            // Somebody used a client of their own.
            Some(KubeError::Api(status)) if status.code == 409 => {
                Self(ReconcileErrorKind::Conflict(status.message.clone()))
            }
            _ => Self(ReconcileErrorKind::Retry(cause)),
        }
    }
}

impl fmt::Display for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ReconcileErrorKind::Retry(cause) | ReconcileErrorKind::Terminal(cause) => {
                fmt::Display::fmt(cause, f)
            }
            ReconcileErrorKind::Conflict(text) => write!(f, "conflict: {text}"),
            ReconcileErrorKind::Overload => f.write_str("the server is busy"),
            ReconcileErrorKind::LostResponse(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
