//! Errors that etcd clients recognise by their exact text.

use tonic::{Code, Status};

/// An error of the etcd API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtcdError {
    pub code: Code,
    pub text: &'static str,
}

impl EtcdError {
    /// Whether `status`, received from a server, is this error.
    ///
    /// Only the text is compared, as in etcd's own client.
    pub fn matches(&self, status: &Status) -> bool {
        status.message() == self.text
    }
}

impl From<EtcdError> for Status {
    fn from(error: EtcdError) -> Self {
        Status::new(error.code, error.text)
    }
}

macro_rules! etcd_errors {
    ($($name:ident = $code:ident, $text:literal;)*) => {
        $(pub const $name: EtcdError = EtcdError { code: Code::$code, text: $text };)*

        /// Every error of this module.
        pub const ALL: &[EtcdError] = &[$($name),*];
    };
}

etcd_errors! {
    COMPACTED = OutOfRange, "etcdserver: mvcc: required revision has been compacted";
    FUTURE_REVISION = OutOfRange, "etcdserver: mvcc: required revision is a future revision";
    LEASE_TTL_TOO_LARGE = OutOfRange, "etcdserver: too large lease TTL";

    KEY_NOT_PROVIDED = InvalidArgument, "etcdserver: key is not provided";
    KEY_NOT_FOUND = InvalidArgument, "etcdserver: key not found";
    VALUE_PROVIDED = InvalidArgument, "etcdserver: value is provided";
    LEASE_PROVIDED = InvalidArgument, "etcdserver: lease is provided";
    DUPLICATE_KEY = InvalidArgument, "etcdserver: duplicate key given in txn request";
    TOO_MANY_OPS = InvalidArgument, "etcdserver: too many operations in txn request";
    REQUEST_TOO_LARGE = InvalidArgument, "etcdserver: request is too large";
    INVALID_SORT_OPTION = InvalidArgument, "etcdserver: invalid sort option";

    LEASE_NOT_FOUND = NotFound, "etcdserver: requested lease not found";

    LEASE_EXISTS = FailedPrecondition, "etcdserver: lease already exists";
    AUTH_NOT_ENABLED = FailedPrecondition, "etcdserver: authentication is not enabled";

    TOO_MANY_REQUESTS = ResourceExhausted, "etcdserver: too many requests";
    NO_SPACE = ResourceExhausted, "etcdserver: mvcc: database space exceeded";

    NO_LEADER = Unavailable, "etcdserver: no leader";
    LEADER_CHANGED = Unavailable, "etcdserver: leader changed";
    TIMEOUT = Unavailable, "etcdserver: request timed out";
    STOPPED = Unavailable, "etcdserver: server stopped";

    WATCH_CANCELED = Cancelled, "etcdserver: watch canceled";
}
