//! Classifies the errors of etcd calls by whether the call was executed.

use optik_etcd_api::errors::{self, EtcdError};
use tonic::{Code, ConnectError, Status};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorClass {
    /// Not executed; another connection may succeed.
    Reconnect,
    /// Not executed, because the server is overloaded.
    Overloaded,
    /// May or may not have been executed.
    Unknown,
    /// Not executed, and a retry fails the same way.
    Refused,
}

/// Errors of etcd that our own etcd server never returns.
const INVALID_TOKEN: &str = "etcdserver: invalid auth token";
const OLD_AUTH: &str = "etcdserver: revision of auth store is old";
const NOT_CAPABLE: &str = "etcdserver: not capable";
const MESSAGE_TOO_LARGE: &str = "grpc: received message larger than max";

pub(crate) fn classify(status: &Status) -> ErrorClass {
    let text = status.message();
    let is = |error: EtcdError| error.matches(status);
    if was_never_sent(status)
        || is(errors::NO_LEADER)
        || [INVALID_TOKEN, OLD_AUTH, NOT_CAPABLE].contains(&text)
    {
        return ErrorClass::Reconnect;
    }
    if is(errors::TOO_MANY_REQUESTS) {
        return ErrorClass::Overloaded;
    }
    let definite = match status.code() {
        // The client library also creates such errors while decoding responses: the text
        // distinguishes them.
        Code::InvalidArgument
        | Code::OutOfRange
        | Code::NotFound
        | Code::FailedPrecondition
        | Code::ResourceExhausted
        | Code::DataLoss => text.starts_with("etcdserver: ") || is_too_large(status),
        Code::PermissionDenied | Code::Unauthenticated | Code::Unimplemented => true,
        _ => false,
    };
    if definite {
        ErrorClass::Refused
    } else {
        ErrorClass::Unknown
    }
}

pub(crate) fn is_too_large(status: &Status) -> bool {
    errors::REQUEST_TOO_LARGE.matches(status) || status.message().starts_with(MESSAGE_TOO_LARGE)
}

/// Whether the call failed before it was sent.
fn was_never_sent(status: &Status) -> bool {
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        if error.is::<ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcd_errors_are_classified_by_whether_call_was_executed() {
        let cases = [
            (Status::from(errors::NO_LEADER), ErrorClass::Reconnect),
            (
                Status::unauthenticated(INVALID_TOKEN),
                ErrorClass::Reconnect,
            ),
            (errors::TOO_MANY_REQUESTS.into(), ErrorClass::Overloaded),
            (errors::NO_SPACE.into(), ErrorClass::Refused),
            (errors::REQUEST_TOO_LARGE.into(), ErrorClass::Refused),
            (errors::COMPACTED.into(), ErrorClass::Refused),
            (errors::LEASE_NOT_FOUND.into(), ErrorClass::Refused),
            (errors::TIMEOUT.into(), ErrorClass::Unknown),
            (errors::STOPPED.into(), ErrorClass::Unknown),
            (errors::LEADER_CHANGED.into(), ErrorClass::Unknown),
            (Status::unavailable("connection reset"), ErrorClass::Unknown),
            (Status::cancelled("dropped"), ErrorClass::Unknown),
            // About an answer that we could not take in.
            (
                Status::out_of_range("decoded message length"),
                ErrorClass::Unknown,
            ),
            (
                Status::resource_exhausted("h2 protocol error"),
                ErrorClass::Unknown,
            ),
        ];
        for (status, expected) in cases {
            assert_eq!(classify(&status), expected, "{status:?}");
        }
        let refused = Status::from_error(Box::new(ConnectError("refused".into())));
        assert_eq!(classify(&refused), ErrorClass::Reconnect);
    }
}
