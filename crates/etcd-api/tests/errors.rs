//! Compares the error table with the texts of etcd (WIRE §7.6).

use optik_etcd_api::errors::{self, EtcdError};
use tonic::{Code, Status};

#[track_caller]
fn assert_error(error: EtcdError, code: Code, text: &str) {
    let status = Status::from(error);
    assert_eq!((status.code(), status.message()), (code, text));
}

#[test]
fn etcd_errors_have_specified_text_and_code() {
    use Code::*;
    let table = [
        (
            errors::COMPACTED,
            OutOfRange,
            "mvcc: required revision has been compacted",
        ),
        (
            errors::FUTURE_REVISION,
            OutOfRange,
            "mvcc: required revision is a future revision",
        ),
        (
            errors::LEASE_TTL_TOO_LARGE,
            OutOfRange,
            "too large lease TTL",
        ),
        (
            errors::KEY_NOT_PROVIDED,
            InvalidArgument,
            "key is not provided",
        ),
        (errors::KEY_NOT_FOUND, InvalidArgument, "key not found"),
        (errors::VALUE_PROVIDED, InvalidArgument, "value is provided"),
        (errors::LEASE_PROVIDED, InvalidArgument, "lease is provided"),
        (
            errors::DUPLICATE_KEY,
            InvalidArgument,
            "duplicate key given in txn request",
        ),
        (
            errors::TOO_MANY_OPS,
            InvalidArgument,
            "too many operations in txn request",
        ),
        (
            errors::REQUEST_TOO_LARGE,
            InvalidArgument,
            "request is too large",
        ),
        (
            errors::INVALID_SORT_OPTION,
            InvalidArgument,
            "invalid sort option",
        ),
        (
            errors::LEASE_NOT_FOUND,
            NotFound,
            "requested lease not found",
        ),
        (
            errors::LEASE_EXISTS,
            FailedPrecondition,
            "lease already exists",
        ),
        (
            errors::AUTH_NOT_ENABLED,
            FailedPrecondition,
            "authentication is not enabled",
        ),
        (
            errors::TOO_MANY_REQUESTS,
            ResourceExhausted,
            "too many requests",
        ),
        (
            errors::NO_SPACE,
            ResourceExhausted,
            "mvcc: database space exceeded",
        ),
        (errors::NO_LEADER, Unavailable, "no leader"),
        (errors::LEADER_CHANGED, Unavailable, "leader changed"),
        (errors::TIMEOUT, Unavailable, "request timed out"),
        (errors::STOPPED, Unavailable, "server stopped"),
        (errors::WATCH_CANCELED, Cancelled, "watch canceled"),
    ];
    for (error, code, text) in table {
        assert_error(error, code, &format!("etcdserver: {text}"));
    }
    assert_eq!(table.len(), errors::ALL.len());
}

#[test]
fn etcd_error_matches_only_itself() {
    for sent in errors::ALL {
        let status = Status::from(*sent);
        for expected in errors::ALL {
            assert_eq!(expected.matches(&status), expected == sent, "{sent:?}");
        }
    }
}

#[test]
fn etcd_error_matching_ignores_code() {
    assert!(errors::COMPACTED.matches(&Status::unknown(errors::COMPACTED.text)));
    assert!(!errors::COMPACTED.matches(&Status::out_of_range("out of range")));
}
