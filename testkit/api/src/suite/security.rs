//! Pods are held to what the labels of their namespace say.
//!
//! `security.json` has requests and what a real server answered to the last of each case:
//! its code, what it said, and its warnings. `NS` and `UNIQ` are the namespace, `GEN` is
//! what a generated name ends in.

use crate::check::checks;
use crate::failure::{Rows, same_json};
use crate::{Answer, Failure, Outcome, Request, Scope};
use http::Method;
use serde_json::{Value, json};

checks! { security:
    [] pods_are_held_to_the_labels_of_their_namespace [Admission, Patch],
}

async fn pods_are_held_to_the_labels_of_their_namespace(scope: Scope) -> Outcome {
    let cases: Result<Vec<Value>, _> = serde_json::from_str(include_str!("security.json"));
    let cases = cases.map_err(|cause| Failure::new(format!("the cases are none: {cause}")))?;
    let mut rows = Rows::default();
    for (number, case) in cases.iter().enumerate() {
        let own = scope.beside(&format!("-{number}")).await?;
        let name = case["name"].as_str().unwrap_or_default();
        let told = play(&own, case).await?;
        let expected = json!({
            "code": case["code"], "message": case["message"], "warnings": case["warnings"],
        });
        rows.row(name, same_json(name, &expected, &told));
        own.leave().await;
    }
    rows.outcome()
}

/// What was said to the last request of a case.
async fn play(own: &Scope, case: &Value) -> Outcome<Value> {
    let labels = json!({"metadata": {"labels": case["labels"]}});
    let namespace = format!("/api/v1/namespaces/{}", own.namespace);
    own.client.patch(&namespace, &labels).await?.is(200)?;
    let mut last = None;
    for step in case["steps"].as_array().into_iter().flatten() {
        last = Some(send(own, step).await?);
    }
    let answer = last.ok_or_else(|| Failure::new("a case without requests"))?;
    let body = answer.json()?;
    let message = match body["kind"] == "Status" {
        true => body["message"].as_str().unwrap_or_default(),
        false => "",
    };
    let warnings = answer.headers.get_all("warning").into_iter();
    let warnings: Vec<Value> = warnings
        .filter_map(|warning| serde_json::from_str(warning.to_str().ok()?.get(6..)?).ok())
        .map(|warning: String| json!(plain(&warning, &own.namespace)))
        .collect();
    Ok(json!({
        "code": answer.status, "message": plain(message, &own.namespace), "warnings": warnings,
    }))
}

async fn send(own: &Scope, step: &Value) -> Outcome<Answer> {
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
    let path = text("path").replace("NS", &own.namespace);
    let request = Request::new(method, path).body(media_type, step["body"].to_string());
    own.client.ask(request).await
}

fn plain(text: &str, namespace: &str) -> String {
    let text = text.replace(namespace, "UNIQ");
    let Some((before, rest)) = text.split_once("pods \"p-") else {
        return text;
    };
    let after = rest.get(5..).unwrap_or_default();
    format!("{before}pods \"p-GEN{after}")
}
