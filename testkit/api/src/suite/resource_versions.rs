//! Reads at resourceVersions: malformed ones, and future ones (CONC §1.2, CONC §3.1).

use crate::check::checks;
use crate::client::query;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::object::{has_names, revision, with};
use crate::status;
use crate::{ApiResponse, Failure, Outcome, Scope};
use futures::future::try_join;
use std::time::Duration;

checks! { resource_versions:
    [] list_at_malformed_resource_version_is_rejected [],
    [] get_at_malformed_resource_version_is_rejected [],
    [] uncached_get_at_malformed_resource_version_is_rejected [Kind("events")],
    [] watch_from_malformed_resource_version_is_rejected [],
    ["CONC-80", "WIRE-65"] list_at_future_revision_times_out_with_504 [],
    ["CONC-80"] exact_list_at_future_revision_times_out_with_504 [],
    ["CONC-80"] get_at_future_revision_times_out_with_504 [],
    ["CONC-80"] uncached_list_at_future_revision_fails_at_once [Kind("events")],
    ["CONC-80"] exact_list_by_name_at_future_revision_fails_at_once [],
    ["CONC-81"] list_waits_for_its_resource_version [],
    ["CONC-81"] get_waits_for_its_resource_version [],
    [] get_at_old_resource_version_returns_newest [],
    [] get_ignores_resource_version_match [],
    ["CONC-104"] get_with_watch_parameter_is_a_get [],
}

const MALFORMED: &[&str] = &["abc", "-1", "18446744073709551616"];

/// How long the server waits for a future revision, with tolerance.
const WAIT: std::ops::Range<Duration> = Duration::from_millis(2500)..Duration::from_secs(8);

async fn list_at_malformed_resource_version_is_rejected(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    for text in MALFORMED {
        let path = query(
            &scope.collection_path("configmaps"),
            &[("resourceVersion", text)],
        );
        let answer = scope.client.get(&path).await?;
        rows.record(
            text,
            answer.expect_failure(&status::revision_malformed(text)),
        );
    }
    for zero in ["0", "00", ""] {
        let list = scope.list(&[("resourceVersion", zero)]).await;
        rows.record(format!("'{zero}'"), list.map(|_| ()));
    }
    rows.outcome()
}

async fn get_at_malformed_resource_version_is_rejected(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let mut rows = RowFailures::default();
    for text in MALFORMED {
        let path = query(
            &scope.object_path("configmaps", "a"),
            &[("resourceVersion", text)],
        );
        let answer = scope.client.get(&path).await?;
        let expected = status::revision_malformed_internally(text);
        rows.record(text, answer.expect_failure(&expected));
    }
    rows.outcome()
}

async fn uncached_get_at_malformed_resource_version_is_rejected(scope: Scope) -> Outcome {
    scope.make("events", "a").await?;
    let mut rows = RowFailures::default();
    for text in MALFORMED {
        let path = query(
            &scope.object_path("events", "a"),
            &[("resourceVersion", text)],
        );
        let answer = scope.client.get(&path).await?;
        rows.record(
            text,
            answer.expect_failure(&status::revision_malformed(text)),
        );
    }
    rows.outcome()
}

async fn watch_from_malformed_resource_version_is_rejected(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    for text in MALFORMED {
        let parameters = [("watch", "true"), ("resourceVersion", text)];
        let path = query(&scope.collection_path("configmaps"), &parameters);
        let answer = scope.client.get(&path).await?;
        let expected = status::revision_malformed_internally(text);
        rows.record(text, answer.expect_failure(&expected));
    }
    rows.outcome()
}

/// Sends a request and returns the duration.
async fn timed(scope: &Scope, path: &str) -> Outcome<(ApiResponse, Duration)> {
    let start = scope.monotonic_now();
    let answer = scope.client.get(path).await?;
    Ok((answer, scope.elapsed_since(start)))
}

fn waited(answer: &ApiResponse, took: Duration) -> Outcome {
    ensure!(
        WAIT.contains(&took),
        "{}: expected an answer after about 3 s, got it after {took:?}",
        answer.asked
    );
    Ok(())
}

fn did_not_wait(answer: &ApiResponse, took: Duration) -> Outcome {
    ensure!(
        took < WAIT.start,
        "{}: expected an answer at once, got it after {took:?}",
        answer.asked
    );
    Ok(())
}

/// The newest revision according to the message: other clients write, too.
pub(super) fn current_in(message: &str) -> Outcome<u64> {
    let number = message.rsplit_once("current: ").map(|(_, number)| number);
    let number = number.and_then(|number| number.parse().ok());
    number.ok_or_else(|| Failure::new(format!("no current revision: {message}")))
}

/// `CONC-T1`
fn is_too_large(answer: &ApiResponse, asked: u64, before: u64, retry: Option<u64>) -> Outcome {
    let body = answer.json()?;
    let current = current_in(body["message"].as_str().unwrap_or_default())?;
    ensure!(
        (before..asked).contains(&current),
        "{}: current {current}, but it was {before} before",
        answer.asked
    );
    answer.expect_failure(&status::too_large(asked, current, retry))
}

async fn list_at_future_revision_times_out_with_504(scope: Scope) -> Outcome {
    fails_in_time(&scope, scope.collection_path("configmaps"), &[]).await
}

async fn exact_list_at_future_revision_times_out_with_504(scope: Scope) -> Outcome {
    let exact = [("resourceVersionMatch", "Exact")];
    fails_in_time(&scope, scope.collection_path("configmaps"), &exact).await
}

async fn get_at_future_revision_times_out_with_504(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    fails_in_time(&scope, scope.object_path("configmaps", "a"), &[]).await
}

async fn fails_in_time(scope: &Scope, path: String, more: &[(&str, &str)]) -> Outcome {
    let before = scope.now().await?;
    let asked = before + 1_000_000;
    let text = asked.to_string();
    let mut parameters = vec![("resourceVersion", text.as_str())];
    parameters.extend_from_slice(more);
    let (answer, took) = timed(scope, &query(&path, &parameters)).await?;
    is_too_large(&answer, asked, before, Some(1))?;
    waited(&answer, took)
}

async fn uncached_list_at_future_revision_fails_at_once(scope: Scope) -> Outcome {
    scope.make("events", "a").await?;
    let before = scope.now().await?;
    let asked = before + 1_000_000;
    let text = asked.to_string();
    let future = [("resourceVersion", text.as_str())];
    let exact = [future[0], ("resourceVersionMatch", "Exact")];
    let mut rows = RowFailures::default();
    for path in [
        query(&scope.collection_path("events"), &future),
        query(&scope.collection_path("events"), &exact),
        query(&scope.object_path("events", "a"), &future),
    ] {
        let (answer, took) = timed(&scope, &path).await?;
        rows.record(&path, is_too_large(&answer, asked, before, None));
        rows.record(&path, did_not_wait(&answer, took));
    }
    rows.outcome()
}

async fn exact_list_by_name_at_future_revision_fails_at_once(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let before = scope.now().await?;
    let asked = before + 1_000_000;
    let text = asked.to_string();
    let parameters = [
        ("resourceVersion", text.as_str()),
        ("resourceVersionMatch", "Exact"),
        ("fieldSelector", "metadata.name=a"),
    ];
    let path = query(&scope.collection_path("configmaps"), &parameters);
    let (answer, took) = timed(&scope, &path).await?;
    is_too_large(&answer, asked, before, None)?;
    did_not_wait(&answer, took)
}

/// Writes until the store is at `revision`. Other clients may write, too.
pub(super) async fn write_until(scope: &Scope, goal: u64) -> Outcome {
    let mut object = scope.get("configmaps", "a").await?;
    let mut number = 0;
    while revision(&object)? < goal {
        number += 1;
        let body = with(&object, "/data/k", number.to_string());
        object = scope.replace("configmaps", &body).await?;
    }
    Ok(())
}

async fn list_waits_for_its_resource_version(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let goal = scope.now().await? + 20;
    let text = goal.to_string();
    let parameters = [("resourceVersion", text.as_str())];
    let reader = scope.with_another_client();
    let (list, ()) = try_join(reader.list(&parameters), write_until(&scope, goal)).await?;
    has_names(&list, &["a"])?;
    ensure!(revision(&list)? >= goal, "older than {goal}: {list}");
    Ok(())
}

async fn get_waits_for_its_resource_version(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let goal = scope.now().await? + 20;
    let text = goal.to_string();
    let path = query(
        &scope.object_path("configmaps", "a"),
        &[("resourceVersion", &text)],
    );
    let reader = scope.with_another_client();
    let (answer, ()) = try_join(reader.client.get(&path), write_until(&scope, goal)).await?;
    answer.has_status(200)
}

async fn get_at_old_resource_version_returns_newest(scope: Scope) -> Outcome {
    let old = scope.make("configmaps", "a").await?;
    let new = scope
        .replace("configmaps", &with(&old, "/data/k", "new"))
        .await?;
    let text = revision(&new)?.to_string();
    let path = query(
        &scope.object_path("configmaps", "a"),
        &[("resourceVersion", &text)],
    );
    let answer = scope.client.get(&path).await?;
    same_json(&answer.asked, &new, &answer.expect_json(200)?)?;
    // Absent means: at least as new as the request.
    same_json("stored", &new, &scope.get("configmaps", "a").await?)?;
    let path = query(
        &scope.object_path("configmaps", "a"),
        &[("resourceVersion", "0")],
    );
    let any = scope.client.get(&path).await?;
    same("status", &200, &any.status)
}

async fn get_ignores_resource_version_match(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    for parameters in ["resourceVersionMatch=Exact", "resourceVersionMatch=Foo"] {
        let answer = scope.client.get(&format!("{path}?{parameters}")).await?;
        same_json(&answer.asked, &object, &answer.expect_json(200)?)?;
    }
    Ok(())
}

async fn get_with_watch_parameter_is_a_get(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let path = format!("{}?watch=true", scope.object_path("configmaps", "a"));
    let answer = scope.client.get(&path).await?;
    same_json(&answer.asked, &object, &answer.expect_json(200)?)
}
