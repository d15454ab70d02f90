//! The results of a reconcile: `Outcome`, `Cleanup` and `ReconcileError`.

use kube::Error as KubeError;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The result of a successful reconcile.
///
/// ```
/// # use optik_controller::{Outcome, PollInterval, Wait};
/// # use std::time::Duration;
/// let nothing_left_to_do = Outcome::Done;
/// let something_the_cluster_does_not_tell = Outcome::RequeueAfter(PollInterval::every(Duration::from_secs(30)));
/// let something_that_is_watched = Outcome::Wait(Wait::until("the job has finished"));
/// # let _ = (nothing_left_to_do, something_the_cluster_does_not_tell, something_that_is_watched);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub enum Outcome {
    /// The desired state is reached. The next change of a watched object requeues the object.
    Done,
    /// Something outside the cluster has to be checked again after an interval.
    RequeueAfter(PollInterval),
    /// A watched object has to change first. Nothing is polled.
    Wait(Wait),
}

/// The interval of a requeue. It is never shorter than the controller's
/// [`ControllerOptions::poll_min`](crate::ControllerOptions::poll_min), and jittered so that a
/// thousand objects are not reconciled at once.
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
    /// Requeues after this time.
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

/// A wait for a change of a watched object. The change itself requeues the object.
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
    /// Creates a wait. The reason appears in the log.
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

    /// Requeues after this time even if nothing changed, for example to give up or to report it.
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

/// The result of a successful cleanup.
///
/// ```
/// # use optik_controller::{Cleanup, Wait};
/// let _ = Cleanup::Finished; // the finalizer is removed, and with it the object
/// let _ = Cleanup::Pending(Wait::until("the bucket is empty"));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub enum Cleanup {
    /// Nothing is left to clean up: the runtime removes the finalizer.
    Finished,
    /// A watched object has to change first.
    Pending(Wait),
    /// Something outside the cluster has to be checked again after an interval.
    RequeueAfter(PollInterval),
}

/// The error of a reconcile.
///
/// `?` converts any error to it, and the reconcile is retried with backoff. Conflicts, stale reads,
/// lost responses and overloaded servers are also errors of this type, but a reconciler cannot
/// distinguish them: it passes them on, and the runtime retries with fresh data.
///
/// ```
/// # use optik_controller::ReconcileError;
/// fn parse(text: &str) -> Result<u32, ReconcileError> {
///     let days: u32 = text.parse()?; // retried with backoff
///     if days == 0 {
///         return Err(ReconcileError::terminal("a retention of no days")); // not retried
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
    /// The object is not as it was read: it has changed, or is gone.
    Conflict(String),
    /// The server is overloaded and asks for a pause.
    Overload,
    /// The response was lost, so it is unknown whether the write happened.
    LostResponse(String),
}

impl ReconcileError {
    /// Creates an error that is retried with backoff, like an error passed on by `?`.
    ///
    /// ```
    /// # use optik_controller::ReconcileError;
    /// let fault = ReconcileError::retry("the bucket cannot be reached");
    /// assert_eq!(fault.to_string(), "the bucket cannot be reached");
    /// ```
    pub fn retry(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(ReconcileErrorKind::Retry(cause.into()))
    }

    /// Creates an error that is not retried until a watched object changes, because a retry would
    /// fail in the same way.
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
            // The reconciler has used a `kube` client of its own.
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
