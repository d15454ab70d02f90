//! What the failure of a call says about whether it was carried out.

use optik_etcd_api::errors::{self, EtcdError};
use tonic::{Code, ConnectError, Status};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was not carried out. Another connection may have more luck.
    Reconnect,
    /// It was not carried out, because the server has too much to do.
    Wait,
    /// It may or may not have been carried out.
    Unclear,
    /// It was not carried out, and will not be however often it is sent.
    Refused,
}

/// Errors of etcd that our own server never returns.
const INVALID_TOKEN: &str = "etcdserver: invalid auth token";
const OLD_AUTH: &str = "etcdserver: revision of auth store is old";
const NOT_CAPABLE: &str = "etcdserver: not capable";
const MESSAGE_TOO_LARGE: &str = "grpc: received message larger than max";

pub(crate) fn judge(status: &Status) -> Verdict {
    let text = status.message();
    let is = |error: EtcdError| error.matches(status);
    if was_never_sent(status)
        || is(errors::NO_LEADER)
        || [INVALID_TOKEN, OLD_AUTH, NOT_CAPABLE].contains(&text)
    {
        return Verdict::Reconnect;
    }
    if is(errors::TOO_MANY_REQUESTS) {
        return Verdict::Wait;
    }
    let definite = match status.code() {
        // Our side makes such errors too, about answers: the text tells them apart.
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
        Verdict::Refused
    } else {
        Verdict::Unclear
    }
}

pub(crate) fn is_too_large(status: &Status) -> bool {
    errors::REQUEST_TOO_LARGE.matches(status) || status.message().starts_with(MESSAGE_TOO_LARGE)
}

/// Whether there was no connection to send it on.
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
    fn only_what_surely_failed_is_called_so() {
        let cases = [
            (Status::from(errors::NO_LEADER), Verdict::Reconnect),
            (Status::unauthenticated(INVALID_TOKEN), Verdict::Reconnect),
            (errors::TOO_MANY_REQUESTS.into(), Verdict::Wait),
            (errors::NO_SPACE.into(), Verdict::Refused),
            (errors::REQUEST_TOO_LARGE.into(), Verdict::Refused),
            (errors::COMPACTED.into(), Verdict::Refused),
            (errors::LEASE_NOT_FOUND.into(), Verdict::Refused),
            (errors::TIMEOUT.into(), Verdict::Unclear),
            (errors::STOPPED.into(), Verdict::Unclear),
            (errors::LEADER_CHANGED.into(), Verdict::Unclear),
            (Status::unavailable("connection reset"), Verdict::Unclear),
            (Status::cancelled("dropped"), Verdict::Unclear),
            // About an answer that we could not take in.
            (
                Status::out_of_range("decoded message length"),
                Verdict::Unclear,
            ),
            (
                Status::resource_exhausted("h2 protocol error"),
                Verdict::Unclear,
            ),
        ];
        for (status, expected) in cases {
            assert_eq!(judge(&status), expected, "{status:?}");
        }
        let refused = Status::from_error(Box::new(ConnectError("refused".into())));
        assert_eq!(judge(&refused), Verdict::Reconnect);
    }
}
