//! Pod Security Standards: recorded decisions of kube-apiserver about pods in labelled namespaces.
//! `recordings/pod-security/security.json` has requests and the response to the last request of
//! each case: code, message and warnings. `NS` and `UNIQ` are placeholders for the namespace, `GEN`
//! for the suffix of a generated name.

use crate::failure::same_json;
use crate::{ApiResponse, Client, Failure, Outcome, Request};
use http::Method;
use serde_json::{Value, json};

/// All cases. Some consist of several requests, of which the last depends on the others.
///
/// # Errors
/// If the table cannot be read.
pub fn cases() -> Outcome<Vec<Value>> {
    let read = serde_json::from_str(include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../recordings/pod-security/security.json"
    )));
    read.map_err(|cause| Failure::new(format!("the cases cannot be read: {cause}")))
}

/// Whether a case has more than one request. The last then relies on the immediate effect of the
/// earlier ones; kube-apiserver takes a moment.
#[must_use]
pub fn needs_immediate_effect(case: &Value) -> bool {
    steps(case).len() > 1
}

fn steps(case: &Value) -> &[Value] {
    case["steps"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// Plays a case in a namespace that is created for it.
///
/// # Errors
/// If the response differs from the recording.
pub async fn run_case(client: &Client, namespace: &str, case: &Value) -> Outcome {
    let object = json!({"metadata": {"name": namespace, "labels": case["labels"]}});
    client
        .post("/api/v1/namespaces", &object)
        .await?
        .expect_json(201)?;
    let mut last = None;
    for step in steps(case) {
        last = Some(send(client, namespace, step).await?);
    }
    client
        .delete(&format!("/api/v1/namespaces/{namespace}"))
        .await?;
    let answer = last.ok_or_else(|| Failure::new("a case without requests"))?;
    let name = case["name"].as_str().unwrap_or_default();
    let expected = json!({
        "code": case["code"], "message": case["message"], "warnings": case["warnings"],
    });
    same_json(name, &expected, &response_summary(&answer, namespace)?)
}

fn response_summary(answer: &ApiResponse, namespace: &str) -> Outcome<Value> {
    let body = answer.json()?;
    let message = match body["kind"] == "Status" {
        true => body["message"].as_str().unwrap_or_default(),
        false => "",
    };
    let warnings = answer.headers.get_all("warning").into_iter();
    let warnings: Vec<Value> = warnings
        .filter_map(|warning| serde_json::from_str(warning.to_str().ok()?.get(6..)?).ok())
        .map(|warning: String| json!(normalize(&warning, namespace)))
        .collect();
    Ok(json!({
        "code": answer.status, "message": normalize(message, namespace), "warnings": warnings,
    }))
}

async fn send(client: &Client, namespace: &str, step: &Value) -> Outcome<ApiResponse> {
    let text = |name: &str| step[name].as_str().unwrap_or_default();
    let media_type = match text("as") {
        "merge" => "application/merge-patch+json",
        "patch" => "application/json-patch+json",
        _ => "application/json",
    };
    let method = match text("method") {
        "PATCH" => Method::PATCH,
        _ => Method::POST,
    };
    let path = text("path").replace("NS", namespace);
    let request = Request::new(method, path).body(media_type, step["body"].to_string());
    client.execute(request).await
}

fn normalize(text: &str, namespace: &str) -> String {
    let text = text.replace(namespace, "UNIQ");
    let Some((before, rest)) = text.split_once("pods \"p-") else {
        return text;
    };
    let after = rest.get(5..).unwrap_or_default();
    format!("{before}pods \"p-GEN{after}")
}
