//! Field validation: unknown and duplicate fields (PATCH §5).

use super::{APPLY, JSON_PATCH, MERGE, STRATEGIC, apply_data, by, one_conflict, send, warnings};
use crate::check::checks;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::status;
use crate::{ApiResponse, Outcome, Request, Scope};
use http::Method;
use serde_json::json;

checks! { field_validation:
    ["PATCH-105"] unknown_and_duplicate_fields_warn_in_order [],
    ["PATCH-106"] strict_field_validation_rejects_unknown_and_duplicate_fields [],
    ["PATCH-107"] field_validation_value_is_case_sensitive [],
    ["PATCH-108"] yaml_field_errors_name_their_lines [],
    ["PATCH-111"] apply_configuration_with_duplicate_fields [Apply],
    ["PATCH-112"] apply_conflicts_are_reported_before_duplicate_fields [Apply],
    [] strict_patch_error_shows_unknown_fields_of_result [Patch],
    [] merge_and_strategic_patches_warn_about_duplicate_fields [Patch],
    [] warnings_are_deduplicated [],
    [] warnings_are_truncated_at_4096_characters [],
}

/// In the order of the document, which is not that of the alphabet.
const ODD: &str = r#"{"kind":"ConfigMap","apiVersion":"v1",
    "metadata":{"name":"a","labels":{"a":"b","a":"c"},"zogus":1,"bogus":1},
    "unknown":1,"data":{"k":"v","k":"w"}}"#;

async fn post(scope: &Scope, media_type: &str, mode: &str, body: &str) -> Outcome<ApiResponse> {
    let path = format!(
        "{}?fieldValidation={mode}",
        scope.collection_path("configmaps")
    );
    let request = Request::new(Method::POST, path).body(media_type, body.to_owned());
    scope.client.execute(request).await
}

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

async fn unknown_and_duplicate_fields_warn_in_order(scope: Scope) -> Outcome {
    let answer = post(&scope, JSON, "", ODD).await?;
    let made = answer.expect_json(201)?;
    same_json("data", &json!({"k": "w"}), &made["data"])?;
    let expected = vec![
        r#"299 - "duplicate field \"metadata.labels.a\"""#,
        r#"299 - "unknown field \"metadata.zogus\"""#,
        r#"299 - "unknown field \"metadata.bogus\"""#,
        r#"299 - "unknown field \"unknown\"""#,
        r#"299 - "duplicate field \"data.k\"""#,
    ];
    same("warnings", &expected, &warnings(&answer))
}

async fn strict_field_validation_rejects_unknown_and_duplicate_fields(scope: Scope) -> Outcome {
    let expected = status::bad_request(
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: \
         duplicate field \"metadata.labels.a\", unknown field \"metadata.zogus\", unknown field \
         \"metadata.bogus\", unknown field \"unknown\", duplicate field \"data.k\"",
    );
    let answer = post(&scope, JSON, "Strict", ODD).await?;
    answer.expect_failure(&expected)?;
    scope.make("configmaps", "a").await?;
    let path = format!(
        "{}?fieldValidation=Strict",
        scope.object_path("configmaps", "a")
    );
    let request = Request::new(Method::PUT, path).body(JSON, ODD);
    scope
        .client
        .execute(request)
        .await?
        .expect_failure(&expected)
}

async fn field_validation_value_is_case_sensitive(scope: Scope) -> Outcome {
    let answer = post(&scope, JSON, "strict", ODD).await?;
    let text = "Unsupported value: \"strict\": supported values: \"\", \"Ignore\", \"Strict\", \
                \"Warn\"";
    let cause = ("FieldValueNotSupported", "fieldValidation", text);
    answer.expect_failure(&status::invalid(
        "CreateOptions",
        "meta.k8s.io",
        "",
        &[cause],
    ))
}

const TWICE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: v\n  \
                     b: w\n  a: x\n";

async fn yaml_field_errors_name_their_lines(scope: Scope) -> Outcome {
    let strict = post(&scope, YAML, "Strict", TWICE).await?;
    strict.expect_failure(&status::bad_request(
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: \
         yaml: unmarshal errors:\n  line 7: key \"a\" already set in map",
    ))?;
    let answer = post(&scope, YAML, "Warn", TWICE).await?;
    let made = answer.expect_json(201)?;
    same_json("data", &json!({"a": "x", "b": "w"}), &made["data"])?;
    let expected = vec![r#"299 - "line 7: key \"a\" already set in map""#];
    same("warnings", &expected, &warnings(&answer))?;
    // Unknown fields follow, sorted: Go's conversion has no stable order.
    let odd = format!(
        "zogus: 1\nbogus: 1\n{}",
        TWICE.replace("name: a", "name: b")
    );
    let strict = post(&scope, YAML, "Strict", &odd).await?;
    strict.expect_failure(&status::bad_request(
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: \
         yaml: unmarshal errors:\n  line 9: key \"a\" already set in map, unknown field \
         \"bogus\", unknown field \"zogus\"",
    ))?;
    let answer = post(&scope, YAML, "Warn", &odd).await?;
    answer.has_status(201)?;
    let expected = vec![
        r#"299 - "line 9: key \"a\" already set in map""#,
        r#"299 - "unknown field \"bogus\"""#,
        r#"299 - "unknown field \"zogus\"""#,
    ];
    same("warnings", &expected, &warnings(&answer))
}

async fn apply_configuration_with_duplicate_fields(scope: Scope) -> Outcome {
    let path = by(&scope.object_path("configmaps", "a"), "m");
    let answer = send(&scope, APPLY, &path, TWICE).await?;
    let made = answer.expect_json(201)?;
    same_json("data", &json!({"a": "x", "b": "w"}), &made["data"])?;
    let expected = vec![r#"299 - "line 7: key \"a\" already set in map""#];
    same("warnings", &expected, &warnings(&answer))?;
    let ignoring = format!("{path}&fieldValidation=Ignore");
    let answer = send(&scope, APPLY, &ignoring, TWICE).await?;
    answer.has_status(200)?;
    same("ignored", &Vec::<&str>::new(), &warnings(&answer))?;
    let json = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},
        "data":{"a":"x","a":"y"}}"#;
    let answer = send(&scope, APPLY, &path, json).await?;
    answer.has_status(200)?;
    let expected = vec![r#"299 - "line 2: key \"a\" already set in map""#];
    same("JSON", &expected, &warnings(&answer))?;
    let strict = format!("{path}&fieldValidation=Strict");
    let answer = send(&scope, APPLY, &strict, TWICE).await?;
    answer.expect_failure(&status::bad_request(
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  \
         line 7: key \"a\" already set in map",
    ))
}

async fn apply_conflicts_are_reported_before_duplicate_fields(scope: Scope) -> Outcome {
    apply_data(&scope, "m1", json!({"a": "1"}))
        .await?
        .expect_json(201)?;
    let path = by(&scope.object_path("configmaps", "a"), "m2");
    let strict = format!("{path}&fieldValidation=Strict");
    let answer = send(&scope, APPLY, &strict, TWICE).await?;
    answer.expect_failure(&one_conflict("\"m1\"", ".data.a"))
}

async fn strict_patch_error_shows_unknown_fields_of_result(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = format!(
        "{}?fieldValidation=Strict",
        scope.object_path("configmaps", "a")
    );
    let mut rows = RowFailures::default();
    for (media_type, patch) in [
        (MERGE, r#"{"bogus":1}"#),
        (STRATEGIC, r#"{"bogus":1}"#),
        (JSON_PATCH, r#"[{"op":"add","path":"/bogus","value":1}]"#),
    ] {
        let answer = send(&scope, media_type, &path, patch).await?;
        let outcome = || {
            let refused = answer.expect_json(422)?;
            let cause = &refused["details"]["causes"][0];
            same_json("field", &json!("patch"), &cause["field"])?;
            let message = refused["message"].as_str().unwrap_or_default();
            ensure!(
                message.ends_with(": strict decoding error: unknown field \"bogus\""),
                "another text: {refused}"
            );
            let map = message.contains("Invalid value: \"map[bogus:1]\"");
            ensure!(
                map == (media_type == STRATEGIC),
                "shown otherwise: {refused}"
            );
            Ok(())
        };
        rows.record(media_type, outcome());
    }
    rows.outcome()
}

async fn merge_and_strategic_patches_warn_about_duplicate_fields(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    for media_type in [MERGE, STRATEGIC] {
        let patch = r#"{"data":{"k":"1","k":"2"},"bogus":1}"#;
        let answer = send(&scope, media_type, &path, patch).await?;
        answer.has_status(200)?;
        let expected = vec![
            r#"299 - "duplicate field \"data.k\"""#,
            r#"299 - "unknown field \"bogus\"""#,
        ];
        same(media_type, &expected, &warnings(&answer))?;
    }
    Ok(())
}

async fn warnings_are_deduplicated(scope: Scope) -> Outcome {
    let body = r#"{"metadata":{"name":"a"},"bogus":1,"bogus":2,"bogus":3}"#;
    let answer = post(&scope, JSON, "Warn", body).await?;
    answer.has_status(201)?;
    let expected = vec![r#"299 - "unknown field \"bogus\"""#];
    same("warnings", &expected, &warnings(&answer))
}

/// Past 4096 characters every text is cut, and no more are sent.
async fn warnings_are_truncated_at_4096_characters(scope: Scope) -> Outcome {
    let many: Vec<String> = (0..150).map(|at| format!("\"x{at:03}\":1")).collect();
    let body = format!(r#"{{"metadata":{{"name":"a"}},{}}}"#, many.join(","));
    let refused = post(&scope, JSON, "Strict", &body)
        .await?
        .expect_json(400)?;
    let message = refused["message"].as_str().unwrap_or_default();
    same("many", &100, &message.matches("unknown field").count())?;
    let long = "y".repeat(300);
    let many: Vec<String> = (0..30).map(|at| format!("\"{at:02}{long}\":1")).collect();
    let body = format!(r#"{{"metadata":{{"name":"b"}},{}}}"#, many.join(","));
    let answer = post(&scope, JSON, "Warn", &body).await?;
    answer.has_status(201)?;
    let told = warnings(&answer);
    let lengths: Vec<usize> = told.iter().map(|text| text.len()).collect();
    same("lengths", &vec![265; 16], &lengths)
}
