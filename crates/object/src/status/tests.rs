//! Every entry of the error catalogue, as whole bodies.

use super::*;
use crate::field_error::FieldError;
use crate::json::SyntaxError;
use crate::paging::ContinueToken;
use crate::resource::ResourceName;
use crate::resource_version::{ParseUintError, parse_uint};

const CONFIG_MAP: ResourceName<'static> = ResourceName {
    group: "",
    plural: "configmaps",
    kind: "ConfigMap",
};
const LEASE: ResourceName<'static> = ResourceName {
    group: "coordination.k8s.io",
    plural: "leases",
    kind: "Lease",
};

const UIDS: UidMismatch<'static> = UidMismatch {
    sent: "U",
    stored: "V",
};

fn malformed() -> ParseUintError {
    parse_uint("abc").unwrap_err()
}

/// `rest` is what follows `"status":"Failure",`.
fn check(id: &str, status: &Status, code: u16, rest: &str) {
    let expected = format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure",{rest},"code":{code}}}"#
    );
    assert_eq!(
        String::from_utf8(status.to_json()).unwrap(),
        expected,
        "{id}"
    );
    assert_eq!(status.code(), code, "{id}");
}

#[test]
fn status_of_write_errors_matches_catalogue() {
    let core = r#""details":{"name":"n","kind":"configmaps"}"#;
    let grouped = r#""details":{"name":"n","group":"coordination.k8s.io","kind":"leases"}"#;
    let conflict = r#""message":"Operation cannot be fulfilled on"#;
    let by_kind = r#""reason":"Conflict","details":{"name":"n","group":"coordination.k8s.io","kind":"Lease"}"#;
    check(
        "CONC-A1",
        &Status::already_exists(CONFIG_MAP, "n"),
        409,
        &format!(r#""message":"configmaps \"n\" already exists","reason":"AlreadyExists",{core}"#),
    );
    check(
        "CONC-A1 in a group",
        &Status::already_exists(LEASE, "n"),
        409,
        &format!(
            r#""message":"leases.coordination.k8s.io \"n\" already exists","reason":"AlreadyExists",{grouped}"#
        ),
    );
    check(
        "CONC-A1 terminating",
        &Status::already_exists_terminating(CONFIG_MAP, "n"),
        409,
        &format!(
            r#""message":"object is being deleted: configmaps \"n\" already exists","reason":"AlreadyExists",{core}"#
        ),
    );
    check(
        "CONC-A2",
        &Status::already_exists(CONFIG_MAP, "n").into_generate_name_conflict(),
        409,
        r#""message":"configmaps \"n\" already exists, the server was not able to generate a unique name for the object","reason":"AlreadyExists","details":{"name":"n","kind":"configmaps","retryAfterSeconds":1}"#,
    );
    check(
        "CONC-C1",
        &Status::object_modified(LEASE, "n"),
        409,
        &format!(
            r#"{conflict} leases.coordination.k8s.io \"n\": the object has been modified; please apply your changes to the latest version and try again","reason":"Conflict",{grouped}"#
        ),
    );
    check(
        "CONC-C2",
        &Status::uid_mismatch(CONFIG_MAP, "n", "/registry/configmaps/s/n", UIDS),
        409,
        &format!(
            r#"{conflict} configmaps \"n\": StorageError: invalid object, Code: 4, Key: /registry/configmaps/s/n, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: U, UID in object meta: V","reason":"Conflict",{core}"#
        ),
    );
    check(
        "CONC-C3",
        &Status::uid_without_object(CONFIG_MAP, "n", "U"),
        409,
        &format!(
            r#"{conflict} configmaps \"n\": uid mismatch: the provided object specified uid U, and no existing object was found","reason":"Conflict",{core}"#
        ),
    );
    let cause = Cause {
        reason: "FieldManagerConflict".into(),
        message: "conflict with \"m\"".into(),
        field: ".data.a".into(),
    };
    check(
        "CONC-C4",
        &Status::apply_conflict(
            "Apply failed with 1 conflict: conflict with \"m\": .data.a",
            vec![cause],
        ),
        409,
        r#""message":"Apply failed with 1 conflict: conflict with \"m\": .data.a","reason":"Conflict","details":{"causes":[{"reason":"FieldManagerConflict","message":"conflict with \"m\"","field":".data.a"}]}"#,
    );
    check(
        "CONC-C5",
        &Status::delete_uid_mismatch(LEASE, "n", UIDS),
        409,
        &format!(
            r#"{conflict} Lease.coordination.k8s.io \"n\": the UID in the precondition (U) does not match the UID in record (V). The object might have been deleted and then recreated",{by_kind}"#
        ),
    );
    check(
        "CONC-C6",
        &Status::delete_resource_version_mismatch(LEASE, "n", "5", 7),
        409,
        &format!(
            r#"{conflict} Lease.coordination.k8s.io \"n\": the ResourceVersion in the precondition (5) does not match the ResourceVersion in record (7). The object might have been modified",{by_kind}"#
        ),
    );
    check(
        "CONC-N1",
        &Status::not_found(LEASE, "n"),
        404,
        &format!(
            r#""message":"leases.coordination.k8s.io \"n\" not found","reason":"NotFound",{grouped}"#
        ),
    );
}

#[test]
fn status_of_invalid_objects_matches_catalogue() {
    check(
        "CONC-I1",
        &Status::resource_version_required(LEASE, "n"),
        422,
        r#""message":"leases.coordination.k8s.io \"n\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update","reason":"Invalid","details":{"name":"n","group":"coordination.k8s.io","kind":"leases","causes":[{"reason":"FieldValueInvalid","message":"Invalid value: 0: must be specified for an update","field":"metadata.resourceVersion"}]}"#,
    );
    let text = r#"Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"f\"}"#;
    let cause = format!(
        r#"{{"reason":"FieldValueForbidden","message":"{text}","field":"metadata.finalizers"}}"#
    );
    check(
        "CONC-I2",
        &Status::finalizers_added_while_deleting(CONFIG_MAP, "n", &["f"]),
        422,
        &format!(
            r#""message":"ConfigMap \"n\" is invalid: metadata.finalizers: {text}","reason":"Invalid","details":{{"name":"n","kind":"ConfigMap","causes":[{cause},{cause}]}}"#
        ),
    );
    check(
        "CONC-I3",
        &Status::patch_rejected(),
        422,
        r#""message":"the server rejected our request due to an error in our request","reason":"Invalid","details":{}"#,
    );
    let errors = [
        FieldError::required("spec.a", ""),
        FieldError::invalid("spec.b", "<x>", "no"),
    ];
    check(
        "several",
        &Status::invalid(LEASE, "n", &errors),
        422,
        r#""message":"Lease.coordination.k8s.io \"n\" is invalid: [spec.a: Required value, spec.b: Invalid value: \"\u003cx\u003e\": no]","reason":"Invalid","details":{"name":"n","group":"coordination.k8s.io","kind":"Lease","causes":[{"reason":"FieldValueRequired","message":"Required value","field":"spec.a"},{"reason":"FieldValueInvalid","message":"Invalid value: \"\u003cx\u003e\": no","field":"spec.b"}]}"#,
    );
}

#[test]
fn status_of_list_option_errors_matches_catalogue() {
    use ListOptionsError as E;
    let forbidden = |text: &str| format!("Forbidden: {text}");
    for (id, error, field, reason, text) in [
        (
            "CONC-F1",
            E::MatchWithoutRevision,
            "resourceVersionMatch",
            "FieldValueForbidden",
            forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ),
        (
            "CONC-F2",
            E::MatchWithContinue,
            "resourceVersionMatch",
            "FieldValueForbidden",
            forbidden("resourceVersionMatch is forbidden when continue is provided"),
        ),
        (
            "CONC-F3",
            E::ExactAtZero,
            "resourceVersionMatch",
            "FieldValueForbidden",
            forbidden(r#"resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""#),
        ),
        (
            "CONC-F4",
            E::UnknownMatch("Foo".into()),
            "resourceVersionMatch",
            "FieldValueNotSupported",
            r#"Unsupported value: \"Foo\": supported values: \"Exact\", \"NotOlderThan\", \"\""#
                .into(),
        ),
        (
            "CONC-F5",
            E::InitialEventsOnList,
            "sendInitialEvents",
            "FieldValueForbidden",
            forbidden("sendInitialEvents is forbidden for list"),
        ),
        (
            "5.2 row 1",
            E::InitialEventsWithoutNotOlderThan,
            "resourceVersionMatch",
            "FieldValueForbidden",
            forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        ),
        (
            "5.2 row 2",
            E::UnsupportedMatchOnWatch("Exact".into()),
            "resourceVersionMatch",
            "FieldValueNotSupported",
            r#"Unsupported value: \"Exact\": supported values: \"NotOlderThan\""#.into(),
        ),
        (
            "5.2 row 3",
            E::MatchOnWatchWithoutInitialEvents,
            "resourceVersionMatch",
            "FieldValueForbidden",
            forbidden(
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ),
        ),
    ] {
        check(
            id,
            &Status::invalid_list_options(&[error]),
            422,
            &format!(
                r#""message":"ListOptions.meta.k8s.io \"\" is invalid: {field}: {text}","reason":"Invalid","details":{{"group":"meta.k8s.io","kind":"ListOptions","causes":[{{"reason":"{reason}","message":"{text}","field":"{field}"}}]}}"#
            ),
        );
    }
    let both = Status::invalid_list_options(&[E::MatchWithoutRevision, E::MatchWithContinue]);
    assert_eq!(
        both.message(),
        "ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided, resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided]"
    );
}

#[test]
fn status_of_list_and_watch_errors_matches_catalogue() {
    let bad = r#""reason":"BadRequest""#;
    let abc = r#"resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax"#;
    check(
        "CONC-B1",
        &Status::invalid_resource_version(&malformed()),
        400,
        &format!(r#""message":"invalid resource version: {abc}",{bad}"#),
    );
    check(
        "CONC-B2",
        &Status::resource_version_with_continue(),
        400,
        &format!(
            r#""message":"specifying resource version is not allowed when using continue",{bad}"#
        ),
    );
    check(
        "CONC-B3",
        &Status::invalid_continue_token(&ContinueToken::decode("%").unwrap_err()),
        400,
        &format!(
            r#""message":"invalid continue token: continue key is not valid: illegal base64 data at input byte 0",{bad}"#
        ),
    );
    check(
        "CONC-B4 name",
        &Status::name_mismatch("x", "y"),
        400,
        &format!(
            r#""message":"the name of the object (x) does not match the name on the URL (y)",{bad}"#
        ),
    );
    check(
        "CONC-B4 namespace",
        &Status::namespace_mismatch(),
        400,
        &format!(
            r#""message":"the namespace of the provided object does not match the namespace sent on the request",{bad}"#
        ),
    );
    let expired = r#""reason":"Expired""#;
    check(
        "CONC-G1",
        &Status::list_expired(),
        410,
        &format!(r#""message":"The resourceVersion for the provided list is too old.",{expired}"#),
    );
    check(
        "CONC-G3",
        &Status::too_old_resource_version(1, 941),
        410,
        &format!(r#""message":"too old resource version: 1 (941)",{expired}"#),
    );
    check(
        "CONC-G4",
        &Status::watch_expired(),
        410,
        &format!(r#""message":"The resourceVersion for the provided watch is too old.",{expired}"#),
    );
    let too_large = r#""message":"Timeout: Too large resource version: 9, current: 7","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}]"#;
    check(
        "CONC-T1 from a cache",
        &Status::too_large_resource_version(9, 7, 1),
        504,
        &format!(r#"{too_large},"retryAfterSeconds":1}}"#),
    );
    check(
        "CONC-T1 from a store",
        &Status::too_large_resource_version(9, 7, 0),
        504,
        &format!("{too_large}}}"),
    );
    check(
        "CONC-Q1",
        &Status::storage_initializing(1),
        429,
        r#""message":"storage is (re)initializing","reason":"TooManyRequests","details":{"retryAfterSeconds":1}"#,
    );
    check(
        "CONC-X1",
        &Status::resource_version_on_create(),
        500,
        r#""message":"resourceVersion should not be set on objects to be created""#,
    );
    check(
        "CONC-X2",
        &Status::invalid_resource_version_internal(&malformed()),
        500,
        &format!(r#""message":"{abc}""#),
    );
    check(
        "CONC-X3",
        &Status::invalid_resource_version_in_body(&malformed()),
        500,
        r#""message":"strconv.ParseUint: parsing \"abc\": invalid syntax""#,
    );
}

#[test]
fn status_of_expired_continue_carries_a_fresh_token_g2() {
    let body = String::from_utf8(Status::continue_expired("tok").to_json()).unwrap();
    let beginning = r#"{"kind":"Status","apiVersion":"v1","metadata":{"continue":"tok"},"status":"Failure","message":"The provided continue parameter is too old to display a consistent list result. You can start"#;
    assert!(body.starts_with(beginning), "{body}");
    assert!(
        body.ends_with(r#"and now may show up in the list.","reason":"Expired","code":410}"#),
        "{body}"
    );
}

#[test]
fn status_of_request_errors_matches_catalogue() {
    let attempt = ForbiddenRequest {
        user: "bob",
        verb: "list",
        resource: ResourceName {
            group: "",
            plural: "pods",
            kind: "Pod",
        },
        subresource: "",
        namespace: "",
        name: "",
        reason: "",
    };
    let forbidden = r#""reason":"Forbidden","details""#;
    check(
        "403 cluster scope",
        &Status::forbidden_request(attempt),
        403,
        &format!(
            r#""message":"pods is forbidden: User \"bob\" cannot list resource \"pods\" in API group \"\" at the cluster scope",{forbidden}:{{"kind":"pods"}}"#
        ),
    );
    let log = ForbiddenRequest {
        verb: "get",
        subresource: "log",
        namespace: "x",
        name: "p",
        reason: "r",
        ..attempt
    };
    check(
        "403 subresource",
        &Status::forbidden_request(log),
        403,
        &format!(
            r#""message":"pods \"p\" is forbidden: User \"bob\" cannot get resource \"pods/log\" in API group \"\" in the namespace \"x\": r",{forbidden}:{{"name":"p","kind":"pods"}}"#
        ),
    );
    check(
        "403 path, escaped",
        &Status::forbidden_path("u", "get", "/<x>&", ""),
        403,
        &format!(
            r#""message":"forbidden: User \"u\" cannot get path \"/\u0026lt;x\u0026gt;\u0026amp;\"",{forbidden}:{{}}"#
        ),
    );
    check(
        "403 namespace terminating",
        &Status::namespace_terminating(CONFIG_MAP, "n", "s"),
        403,
        &format!(
            r#""message":"configmaps \"n\" is forbidden: unable to create new content in namespace s because it is being terminated",{forbidden}:{{"name":"n","kind":"configmaps","causes":[{{"reason":"NamespaceTerminating","message":"namespace s is being terminated","field":"metadata.namespace"}}]}}"#
        ),
    );
    for (id, status, code, rest) in [
        (
            "400 strict",
            Status::strict_decoding(&[
                r#"unknown field "foo""#.into(),
                r#"duplicate field "data.a""#.into(),
            ]),
            400,
            r#""message":"strict decoding error: unknown field \"foo\", duplicate field \"data.a\"","reason":"BadRequest""#,
        ),
        (
            "400 body",
            Status::body_malformed("ConfigMap", &SyntaxError::TooDeep, b"{{"),
            400,
            r#""message":"the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: exceeded max depth ({{)","reason":"BadRequest""#,
        ),
        (
            "400 kind",
            Status::cannot_be_handled(
                SentType {
                    kind: "Pod",
                    version: "v1",
                },
                "ConfigMap",
                "strict decoding error: unknown field \"a\"",
            ),
            400,
            r#""message":"Pod in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"a\"","reason":"BadRequest""#,
        ),
        (
            "406 built-in",
            Status::not_representable(&["application/json", "application/yaml"]),
            406,
            r#""message":"406: Not Acceptable\n\nAvailable representations: application/json, application/yaml","reason":"NotAcceptable","details":{}"#,
        ),
        (
            "415 built-in patch",
            Status::unsupported_patch_type(),
            415,
            r#""message":"415: Unsupported Media Type","reason":"UnsupportedMediaType","details":{}"#,
        ),
        (
            "401",
            Status::unauthorized(),
            401,
            r#""message":"Unauthorized","reason":"Unauthorized""#,
        ),
        (
            "404",
            Status::resource_not_found(),
            404,
            r#""message":"the server could not find the requested resource","reason":"NotFound","details":{}"#,
        ),
        (
            "405",
            Status::method_not_allowed(),
            405,
            r#""message":"the server does not allow this method on the requested resource","reason":"MethodNotAllowed","details":{}"#,
        ),
        (
            "406",
            Status::not_acceptable(&["application/json", "application/yaml"]),
            406,
            r#""message":"only the following media types are accepted: application/json, application/yaml","reason":"NotAcceptable""#,
        ),
        (
            "413",
            Status::body_too_large(),
            413,
            r#""message":"Request entity too large: limit is 3145728","reason":"RequestEntityTooLarge""#,
        ),
        (
            "415",
            Status::unsupported_media_type(&["application/json"]),
            415,
            r#""message":"the body of the request was in an unknown format - accepted media types include: application/json","reason":"UnsupportedMediaType""#,
        ),
        (
            "429",
            Status::too_many_requests("slow", 2),
            429,
            r#""message":"slow","reason":"TooManyRequests","details":{"retryAfterSeconds":2}"#,
        ),
        (
            "500",
            Status::internal("x"),
            500,
            r#""message":"Internal error occurred: x","reason":"InternalError","details":{"causes":[{"message":"x"}]}"#,
        ),
        (
            "500 storage",
            Status::storage_failure("etcdserver: request is too large"),
            500,
            r#""message":"etcdserver: request is too large""#,
        ),
        (
            "503",
            Status::not_yet_installed(),
            503,
            r#""message":"the request has been made before all known HTTP paths have been installed, please try again","reason":"ServiceUnavailable","details":{"retryAfterSeconds":5}"#,
        ),
        (
            "504",
            Status::timeout("x", 0),
            504,
            r#""message":"Timeout: x","reason":"Timeout","details":{}"#,
        ),
    ] {
        check(id, &status, code, rest);
    }
}

#[test]
fn status_of_exceeded_deadline_has_no_kind() {
    assert_eq!(
        String::from_utf8(Status::deadline_exceeded().to_json()).unwrap(),
        r#"{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted timeout","reason":"Timeout","details":{},"code":504}"#
    );
}

#[test]
fn status_of_delete_success_has_no_code() {
    let status = Status::deleted(LEASE, "n", "u");
    assert_eq!(
        String::from_utf8(status.to_json()).unwrap(),
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"n","group":"coordination.k8s.io","kind":"leases","uid":"u"}}"#
    );
    assert_eq!((status.code(), status.reason()), (200, None));
}

#[test]
fn status_carries_retry_after_seconds() {
    assert_eq!(
        Status::storage_initializing(30).retry_after_seconds(),
        Some(30)
    );
    assert_eq!(Status::timeout("x", 0).retry_after_seconds(), None);
    assert_eq!(Status::unauthorized().retry_after_seconds(), None);
}

#[test]
fn status_quotes_the_start_of_a_malformed_body() {
    for (body, expected) in [
        (&b""[..], "unexpected end of JSON input (<empty>)"),
        (
            b"{a",
            "invalid character 'a' looking for beginning of object key string ({a)",
        ),
        (
            b"kind",
            "invalid character 'k' looking for beginning of value (6b696e64)",
        ),
        (
            b"{\"0123456789012345678901234567890\"",
            "unexpected end of JSON input ({\"0123456789012345678901234567 ...)",
        ),
    ] {
        let error = crate::json::parse(body).unwrap_err();
        let status = Status::body_malformed("ConfigMap", &error, body);
        let beginning = "the object provided is unrecognized (must be of type ConfigMap): \
                         couldn't get version/kind; json parse error: ";
        assert_eq!(status.message(), format!("{beginning}{expected}"));
    }
}
