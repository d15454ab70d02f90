//! Bodies that cannot be decoded (WIRE §3.1, WIRE §3.6).

use crate::check::checks;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::samples::sample;
use crate::status;
use crate::{ApiResponse, Outcome, Request, Scope};
use http::Method;
use serde_json::{Value, json};

checks! { request_bodies:
    ["WIRE-55"] malformed_json_body_gets_400_with_parse_error [],
    [] wrong_kind_or_api_version_in_body_gets_400 [],
    [] fields_of_wrong_type_get_400 [Admission],
    [] missing_kind_and_api_version_default_from_path [],
    [] create_without_name_gets_422 [Admission],
    [] invalid_names_and_labels_get_422 [Admission],
    ["WIRE-56", "WIRE-57"] unknown_fields_follow_field_validation [Admission],
    [] invalid_write_options_are_rejected [],
    ["WIRE-51"] body_is_limited_to_3_mib [],
    [] body_of_exactly_3_mib_is_decoded [Admission],
    ["WIRE-36", "WIRE-37"] unsupported_body_content_type_is_rejected [],
    ["WIRE-35"] yaml_body_is_accepted [Yaml],
    [] delete_without_body_is_accepted [],
    [] malformed_delete_options_are_rejected [],
}

async fn post(scope: &Scope, media_type: &str, body: &str) -> Outcome<ApiResponse> {
    let request = Request::new(Method::POST, scope.collection_path("configmaps"));
    let request = request.body(media_type, body.to_owned());
    scope.client.execute(request).await
}

async fn post_json(scope: &Scope, body: &str) -> Outcome<ApiResponse> {
    post(scope, "application/json", body).await
}

const MALFORMED: &[(&str, &str)] = &[
    ("{", "unexpected end of JSON input ({)"),
    ("", "unexpected end of JSON input (<empty>)"),
    (
        "abc",
        "invalid character 'a' looking for beginning of value (616263)",
    ),
    (
        "[]",
        "json: cannot unmarshal array into Go value of type struct { APIVersion string \
         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" } \
         (5b5d)",
    ),
    (
        "{\"metadata\":{\"name\":\"x8\"}} trailing",
        "invalid character 't' after top-level value ({\"metadata\":{\"name\":\"x8\"}} tra ...)",
    ),
    (
        "{\"metadata\":{\"name\":\"x9\"}}{\"a\":1}",
        "invalid character '{' after top-level value ({\"metadata\":{\"name\":\"x9\"}}{\"a\" ...)",
    ),
    (
        "{\"a\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "unexpected end of JSON input ({\"a\":\"xxxxxxxxxxxxxxxxxxxxxxxx ...)",
    ),
];

async fn malformed_json_body_gets_400_with_parse_error(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    for (body, text) in MALFORMED {
        let answer = post_json(&scope, body).await?;
        let message = format!(
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get \
             version/kind; json parse error: {text}"
        );
        rows.record(body, answer.expect_failure(&status::bad_request(&message)));
    }
    rows.outcome()
}

const SCHEME: &str = "in scheme \"pkg/runtime/scheme.go:111\"";

/// Kind and apiVersion of the body; the error message.
const TYPES: &[(&str, &str, &str)] = &[
    (
        "Pod",
        "v1",
        "Pod in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Pod) to \
         (core.ConfigMap): unknown conversion",
    ),
    (
        "ConfigMapList",
        "v1",
        "ConfigMapList in version \"v1\" cannot be handled as a ConfigMap: converting \
         (v1.ConfigMapList) to (core.ConfigMap): unknown conversion",
    ),
    (
        "ConfigMap",
        "v2",
        "ConfigMap in version \"v2\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is \
         registered for version \"v2\"",
    ),
    (
        "ConfigMap",
        "apps/v1",
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is \
         registered for version \"apps/v1\"",
    ),
    (
        "Nope",
        "v1",
        "Nope in version \"v1\" cannot be handled as a ConfigMap: no kind \"Nope\" is registered \
         for version \"v1\"",
    ),
];

async fn wrong_kind_or_api_version_in_body_gets_400(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    scope.make("configmaps", "old").await?;
    for (kind, version, text) in TYPES {
        let text = if text.contains("registered") {
            format!("{text} {SCHEME}")
        } else {
            (*text).to_owned()
        };
        let expected = status::bad_request(&text);
        let body = json!({"kind": kind, "apiVersion": version, "metadata": {"name": "old"}});
        let answer = scope
            .client
            .post(&scope.collection_path("configmaps"), &body)
            .await?;
        rows.record(
            format!("POST {kind} {version}"),
            answer.expect_failure(&expected),
        );
        let answer = scope
            .client
            .put(&scope.object_path("configmaps", "old"), &body)
            .await?;
        rows.record(
            format!("PUT {kind} {version}"),
            answer.expect_failure(&expected),
        );
    }
    rows.outcome()
}

const MISTYPED: &[(&str, &str)] = &[
    (
        r#"{"metadata":{"name":5}}"#,
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type \
         string",
    ),
    (
        r#"{"metadata":{"name":"a","resourceVersion":5}}"#,
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.resourceVersion \
         of type string",
    ),
    (
        r#"{"metadata":"x"}"#,
        "json: cannot unmarshal string into Go struct field ConfigMap.metadata of type \
         v1.ObjectMeta",
    ),
    (
        r#"{"metadata":{"name":"a"},"data":{"a":1}}"#,
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
    ),
    (
        r#"{"metadata":{"name":"a"},"data":[]}"#,
        "json: cannot unmarshal array into Go struct field ConfigMap.data of type \
         map[string]string",
    ),
];

async fn fields_of_wrong_type_get_400(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    for (body, text) in MISTYPED {
        let answer = post_json(&scope, body).await?;
        let message =
            format!("ConfigMap in version \"v1\" cannot be handled as a ConfigMap: {text}");
        rows.record(body, answer.expect_failure(&status::bad_request(&message)));
    }
    rows.outcome()
}

async fn missing_kind_and_api_version_default_from_path(scope: Scope) -> Outcome {
    for (name, mut body) in [
        ("a", json!({})),
        ("b", json!({"kind": "ConfigMap"})),
        ("c", json!({"apiVersion": "v1"})),
    ] {
        body["metadata"] = json!({"name": name});
        let made = scope.create("configmaps", &body).await?;
        same_json("kind", &json!("ConfigMap"), &made["kind"])?;
        same_json("apiVersion", &json!("v1"), &made["apiVersion"])?;
    }
    Ok(())
}

fn invalid(name: &str, reason: &str, field: &str, text: &str) -> Value {
    status::invalid("ConfigMap", "", name, &[(reason, field, text)])
}

async fn create_without_name_gets_422(scope: Scope) -> Outcome {
    let text = "Required value: name or generateName is required";
    let expected = invalid("", "FieldValueRequired", "metadata.name", text);
    for body in ["{}", "null", r#"{"metadata":{}}"#] {
        post_json(&scope, body).await?.expect_failure(&expected)?;
    }
    Ok(())
}

async fn invalid_names_and_labels_get_422(scope: Scope) -> Outcome {
    let name = json!({"metadata": {"name": "Bad_Name"}});
    let answer = scope
        .client
        .post(&scope.collection_path("configmaps"), &name)
        .await?;
    let text = "Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain must consist of \
                lower case alphanumeric characters, '-' or '.', and must start and end with an \
                alphanumeric character (e.g. 'example.com', regex used for validation is \
                '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    answer.expect_failure(&invalid(
        "Bad_Name",
        "FieldValueInvalid",
        "metadata.name",
        text,
    ))?;
    let label = json!({"metadata": {"name": "a", "labels": {"a b": "c"}}});
    let answer = scope
        .client
        .post(&scope.collection_path("configmaps"), &label)
        .await?;
    let text = "Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', \
                '_' or '.', and must start and end with an alphanumeric character (e.g. \
                'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    answer.expect_failure(&invalid("a", "FieldValueInvalid", "metadata.labels", text))
}

/// By default they are dropped with a warning in a header.
async fn unknown_fields_follow_field_validation(scope: Scope) -> Outcome {
    let body = r#"{"metadata":{"name":"a"},"dat":{"a":"1"},"data":{"a":"1","a":"2"}}"#;
    let with_mode = |mode: &str| {
        let path = format!(
            "{}?fieldValidation={mode}",
            scope.collection_path("configmaps")
        );
        let request = Request::new(Method::POST, path);
        let request = request.body("application/json", body.to_owned());
        let client = scope.client.clone();
        async move { client.execute(request).await }
    };
    let strict = with_mode("Strict").await?;
    strict.expect_failure(&status::bad_request(
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: \
         unknown field \"dat\", duplicate field \"data.a\"",
    ))?;
    let ignored = with_mode("Ignore").await?;
    let made = ignored.expect_json(201)?;
    same_json("data", &json!({"a": "2"}), &made["data"])?;
    same("warning", "", ignored.header("warning"))?;
    scope
        .client
        .delete(&scope.object_path("configmaps", "a"))
        .await?
        .expect_json(200)?;
    let warned = post_json(&scope, body).await?;
    warned.has_status(201)?;
    let warnings: Vec<&str> = warned
        .headers
        .get_all("warning")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    let expected = vec![
        r#"299 - "unknown field \"dat\"""#,
        r#"299 - "duplicate field \"data.a\"""#,
    ];
    same("warnings", &expected, &warnings)
}

async fn invalid_write_options_are_rejected(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let mut rows = RowFailures::default();
    for (parameter, field, text) in [
        (
            "dryRun=Foo",
            "dryRun",
            "Unsupported value: [\"Foo\"]: supported values: \"All\"",
        ),
        (
            "fieldValidation=Foo",
            "fieldValidation",
            "Unsupported value: \"Foo\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
        ),
    ] {
        let body = sample("configmaps", "a");
        let cause = ("FieldValueNotSupported", field, text);
        let expected = |kind: &str| status::invalid(kind, "meta.k8s.io", "", &[cause]);
        let path = format!("{}?{parameter}", scope.collection_path("configmaps"));
        let answer = scope.client.post(&path, &body).await?;
        let name = format!("POST {parameter}");
        rows.record(name, answer.expect_failure(&expected("CreateOptions")));
        let path = format!("{}?{parameter}", scope.object_path("configmaps", "a"));
        let answer = scope.client.put(&path, &body).await?;
        let name = format!("PUT {parameter}");
        rows.record(name, answer.expect_failure(&expected("UpdateOptions")));
    }
    rows.outcome()
}

const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// A config map of exactly this number of bytes.
fn body_of(bytes: usize) -> String {
    let (start, end) = (r#"{"metadata":{"name":"a"},"data":{"k":""#, r#""}}"#);
    let filling = "x".repeat(bytes - start.len() - end.len());
    format!("{start}{filling}{end}")
}

async fn body_is_limited_to_3_mib(scope: Scope) -> Outcome {
    let answer = post_json(&scope, &body_of(BODY_BYTES_MAX + 1)).await?;
    answer.expect_failure(&status::failure(
        413,
        "RequestEntityTooLarge",
        "Request entity too large: limit is 3145728",
        None,
    ))
}

/// The body is decoded, but exceeds the size limit of a config map.
async fn body_of_exactly_3_mib_is_decoded(scope: Scope) -> Outcome {
    let answer = post_json(&scope, &body_of(BODY_BYTES_MAX)).await?;
    let text = "Too long: may not be more than 1048576 bytes";
    answer.expect_failure(&invalid("a", "FieldValueTooLong", "[]", text))
}

async fn unsupported_body_content_type_is_rejected(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    for (name, media_type) in [
        ("a", ""),
        ("b", "application/json"),
        ("c", "application/json; charset=utf-8"),
        ("d", "application/json;x=y"),
    ] {
        let body = sample("configmaps", name).to_string();
        let answer = post(&scope, media_type, &body).await?;
        rows.record(media_type, answer.has_status(201));
    }
    for media_type in [
        "text/plain",
        "application/cbor",
        "application/xml",
        "application/x-www-form-urlencoded",
        "garbage",
    ] {
        let answer = post(&scope, media_type, "{}").await?;
        let outcome = answer.expect_message(
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: \
             application/json, application/yaml, application/vnd.kubernetes.protobuf",
        );
        rows.record(media_type, outcome);
    }
    rows.outcome()
}

async fn yaml_body_is_accepted(scope: Scope) -> Outcome {
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: 'v'\n";
    let made = post(&scope, "application/yaml", body)
        .await?
        .expect_json(201)?;
    same_json("data", &json!({"k": "v"}), &made["data"])
}

async fn delete_without_body_is_accepted(scope: Scope) -> Outcome {
    for (name, media_type) in [("a", ""), ("b", "application/json")] {
        scope.make("configmaps", name).await?;
        let request = Request::new(Method::DELETE, scope.object_path("configmaps", name));
        let answer = scope.client.execute(request.body(media_type, "")).await?;
        answer.has_status(200)?;
    }
    Ok(())
}

async fn malformed_delete_options_are_rejected(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    for body in ["{", "abc"] {
        let request = Request::new(Method::DELETE, &path).body("application/json", body);
        let refused = scope.client.execute(request).await?.expect_json(400)?;
        ensure!(refused["reason"] == "BadRequest", "{refused}");
    }
    scope.get("configmaps", "a").await?;
    Ok(())
}
