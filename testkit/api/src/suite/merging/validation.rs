//! Fields that are unknown or given twice (§5).

use super::{APPLY, JSON_PATCH, MERGE, STRATEGIC, apply_data, by, one_conflict, send, warnings};
use crate::check::checks;
use crate::failure::{Rows, ensure, same, same_json};
use crate::status;
use crate::{Answer, Outcome, Request, Scope};
use http::Method;
use serde_json::json;

checks! { validation of Merging:
    [105] odd_fields_are_told_in_order [],
    [106] odd_fields_are_refused [],
    [107] modes_have_a_case [],
    [108] yaml_is_told_with_its_lines [],
    [111] a_configuration_with_duplicates [Apply],
    [112] conflicts_come_before_duplicates [Apply],
    [] patches_are_refused_with_their_result [Patch],
    [] documents_in_both_forms_are_told [Patch],
    [] warnings_are_said_once [],
    [] warnings_are_bounded [],
}

/// In the order of the document, which is not that of the alphabet.
const ODD: &str = r#"{"kind":"ConfigMap","apiVersion":"v1",
    "metadata":{"name":"a","labels":{"a":"b","a":"c"},"zogus":1,"bogus":1},
    "unknown":1,"data":{"k":"v","k":"w"}}"#;

async fn post(scope: &Scope, media_type: &str, mode: &str, body: &str) -> Outcome<Answer> {
    let path = format!("{}?fieldValidation={mode}", scope.at("configmaps"));
    let request = Request::new(Method::POST, path).body(media_type, body.to_owned());
    scope.client.ask(request).await
}

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

async fn odd_fields_are_told_in_order(scope: Scope) -> Outcome {
    let answer = post(&scope, JSON, "", ODD).await?;
    let made = answer.is(201)?;
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

async fn odd_fields_are_refused(scope: Scope) -> Outcome {
    let expected = status::bad_request(
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: \
         duplicate field \"metadata.labels.a\", unknown field \"metadata.zogus\", unknown field \
         \"metadata.bogus\", unknown field \"unknown\", duplicate field \"data.k\"",
    );
    let answer = post(&scope, JSON, "Strict", ODD).await?;
    answer.fails_with(&expected)?;
    scope.make("configmaps", "a").await?;
    let path = format!("{}?fieldValidation=Strict", scope.of("configmaps", "a"));
    let request = Request::new(Method::PUT, path).body(JSON, ODD);
    scope.client.ask(request).await?.fails_with(&expected)
}

async fn modes_have_a_case(scope: Scope) -> Outcome {
    let answer = post(&scope, JSON, "strict", ODD).await?;
    let text = "Unsupported value: \"strict\": supported values: \"\", \"Ignore\", \"Strict\", \
                \"Warn\"";
    let cause = ("FieldValueNotSupported", "fieldValidation", text);
    answer.fails_with(&status::invalid(
        "CreateOptions",
        "meta.k8s.io",
        "",
        &[cause],
    ))
}

const TWICE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: v\n  \
                     b: w\n  a: x\n";

async fn yaml_is_told_with_its_lines(scope: Scope) -> Outcome {
    let strict = post(&scope, YAML, "Strict", TWICE).await?;
    strict.fails_with(&status::bad_request(
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: \
         yaml: unmarshal errors:\n  line 7: key \"a\" already set in map",
    ))?;
    let answer = post(&scope, YAML, "Warn", TWICE).await?;
    let made = answer.is(201)?;
    same_json("data", &json!({"a": "x", "b": "w"}), &made["data"])?;
    let expected = vec![r#"299 - "line 7: key \"a\" already set in map""#];
    same("warnings", &expected, &warnings(&answer))?;
    // Unknown fields follow, sorted: what Go converts has no order.
    let odd = format!(
        "zogus: 1\nbogus: 1\n{}",
        TWICE.replace("name: a", "name: b")
    );
    let strict = post(&scope, YAML, "Strict", &odd).await?;
    strict.fails_with(&status::bad_request(
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

async fn a_configuration_with_duplicates(scope: Scope) -> Outcome {
    let path = by(&scope.of("configmaps", "a"), "m");
    let answer = send(&scope, APPLY, &path, TWICE).await?;
    let made = answer.is(201)?;
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
    answer.fails_with(&status::bad_request(
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  \
         line 7: key \"a\" already set in map",
    ))
}

async fn conflicts_come_before_duplicates(scope: Scope) -> Outcome {
    apply_data(&scope, "m1", json!({"a": "1"})).await?.is(201)?;
    let path = by(&scope.of("configmaps", "a"), "m2");
    let strict = format!("{path}&fieldValidation=Strict");
    let answer = send(&scope, APPLY, &strict, TWICE).await?;
    answer.fails_with(&one_conflict("\"m1\"", ".data.a"))
}

async fn patches_are_refused_with_their_result(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = format!("{}?fieldValidation=Strict", scope.of("configmaps", "a"));
    let mut rows = Rows::default();
    for (media_type, patch) in [
        (MERGE, r#"{"bogus":1}"#),
        (STRATEGIC, r#"{"bogus":1}"#),
        (JSON_PATCH, r#"[{"op":"add","path":"/bogus","value":1}]"#),
    ] {
        let answer = send(&scope, media_type, &path, patch).await?;
        let outcome = || {
            let refused = answer.is(422)?;
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
        rows.row(media_type, outcome());
    }
    rows.outcome()
}

async fn documents_in_both_forms_are_told(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = scope.of("configmaps", "a");
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

async fn warnings_are_said_once(scope: Scope) -> Outcome {
    let body = r#"{"metadata":{"name":"a"},"bogus":1,"bogus":2,"bogus":3}"#;
    let answer = post(&scope, JSON, "Warn", body).await?;
    answer.has_status(201)?;
    let expected = vec![r#"299 - "unknown field \"bogus\"""#];
    same("warnings", &expected, &warnings(&answer))
}

/// Past 4096 characters every text is cut, and no more are sent.
async fn warnings_are_bounded(scope: Scope) -> Outcome {
    let many: Vec<String> = (0..150).map(|at| format!("\"x{at:03}\":1")).collect();
    let body = format!(r#"{{"metadata":{{"name":"a"}},{}}}"#, many.join(","));
    let refused = post(&scope, JSON, "Strict", &body).await?.is(400)?;
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
