//! Reading at revisions: malformed ones, and those that are not there yet (§1.2, §3.1).

use crate::check::checks;
use crate::client::query;
use crate::failure::{Rows, ensure, same, same_json};
use crate::object::{has_names, revision, with};
use crate::status;
use crate::{Answer, Failure, Outcome, Scope};
use futures::future::try_join;
use std::time::Duration;

checks! { revisions:
    [] malformed_revisions_are_refused_by_lists [],
    [] malformed_revisions_are_refused_by_gets [],
    [] malformed_revisions_are_refused_by_gets_of_uncached_resources [Kind("events")],
    [] malformed_revisions_are_refused_by_watches [],
    [80] a_list_of_the_future_waits_and_fails [],
    [80] an_exact_list_of_the_future_waits_and_fails [],
    [80] a_get_of_the_future_waits_and_fails [],
    [80] an_uncached_resource_does_not_wait [Kind("events")],
    [80] a_list_by_name_does_not_wait_if_exact [],
    [81] a_list_waits_for_its_revision [],
    [81] a_get_waits_for_its_revision [],
    [] a_get_with_an_old_revision_shows_the_newest [],
    [] a_get_ignores_the_match [],
    [104] a_get_does_not_watch [],
}

const MALFORMED: &[&str] = &["abc", "-1", "18446744073709551616"];

/// How long the server waits for a revision, and how exactly that is meant.
const WAIT: std::ops::Range<Duration> = Duration::from_millis(2500)..Duration::from_secs(8);

async fn malformed_revisions_are_refused_by_lists(scope: Scope) -> Outcome {
    let mut rows = Rows::default();
    for text in MALFORMED {
        let path = query(&scope.at("configmaps"), &[("resourceVersion", text)]);
        let answer = scope.client.get(&path).await?;
        rows.row(text, answer.fails_with(&status::revision_malformed(text)));
    }
    for zero in ["0", "00", ""] {
        let list = scope.list(&[("resourceVersion", zero)]).await;
        rows.row(format!("'{zero}'"), list.map(|_| ()));
    }
    rows.outcome()
}

async fn malformed_revisions_are_refused_by_gets(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let mut rows = Rows::default();
    for text in MALFORMED {
        let path = query(&scope.of("configmaps", "a"), &[("resourceVersion", text)]);
        let answer = scope.client.get(&path).await?;
        let expected = status::revision_malformed_internally(text);
        rows.row(text, answer.fails_with(&expected));
    }
    rows.outcome()
}

async fn malformed_revisions_are_refused_by_gets_of_uncached_resources(scope: Scope) -> Outcome {
    scope.make("events", "a").await?;
    let mut rows = Rows::default();
    for text in MALFORMED {
        let path = query(&scope.of("events", "a"), &[("resourceVersion", text)]);
        let answer = scope.client.get(&path).await?;
        rows.row(text, answer.fails_with(&status::revision_malformed(text)));
    }
    rows.outcome()
}

async fn malformed_revisions_are_refused_by_watches(scope: Scope) -> Outcome {
    let mut rows = Rows::default();
    for text in MALFORMED {
        let parameters = [("watch", "true"), ("resourceVersion", text)];
        let path = query(&scope.at("configmaps"), &parameters);
        let answer = scope.client.get(&path).await?;
        let expected = status::revision_malformed_internally(text);
        rows.row(text, answer.fails_with(&expected));
    }
    rows.outcome()
}

/// Asks, and says how long the answer took.
async fn timed(scope: &Scope, path: &str) -> Outcome<(Answer, Duration)> {
    let start = scope.instant();
    let answer = scope.client.get(path).await?;
    Ok((answer, scope.since(start)))
}

fn waited(answer: &Answer, took: Duration) -> Outcome {
    ensure!(
        WAIT.contains(&took),
        "{}: expected an answer after about 3 s, got it after {took:?}",
        answer.asked
    );
    Ok(())
}

fn did_not_wait(answer: &Answer, took: Duration) -> Outcome {
    ensure!(
        took < WAIT.start,
        "{}: expected an answer at once, got it after {took:?}",
        answer.asked
    );
    Ok(())
}

/// Which revision the server says is the newest: others write too.
pub(super) fn current_in(message: &str) -> Outcome<u64> {
    let number = message.rsplit_once("current: ").map(|(_, number)| number);
    let number = number.and_then(|number| number.parse().ok());
    number.ok_or_else(|| Failure::new(format!("no current revision: {message}")))
}

/// `T1`
fn is_too_large(answer: &Answer, asked: u64, before: u64, retry: Option<u64>) -> Outcome {
    let body = answer.json()?;
    let current = current_in(body["message"].as_str().unwrap_or_default())?;
    ensure!(
        (before..asked).contains(&current),
        "{}: current {current}, but it was {before} before",
        answer.asked
    );
    answer.fails_with(&status::too_large(asked, current, retry))
}

async fn a_list_of_the_future_waits_and_fails(scope: Scope) -> Outcome {
    fails_in_time(&scope, scope.at("configmaps"), &[]).await
}

async fn an_exact_list_of_the_future_waits_and_fails(scope: Scope) -> Outcome {
    let exact = [("resourceVersionMatch", "Exact")];
    fails_in_time(&scope, scope.at("configmaps"), &exact).await
}

async fn a_get_of_the_future_waits_and_fails(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    fails_in_time(&scope, scope.of("configmaps", "a"), &[]).await
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

async fn an_uncached_resource_does_not_wait(scope: Scope) -> Outcome {
    scope.make("events", "a").await?;
    let before = scope.now().await?;
    let asked = before + 1_000_000;
    let text = asked.to_string();
    let future = [("resourceVersion", text.as_str())];
    let exact = [future[0], ("resourceVersionMatch", "Exact")];
    let mut rows = Rows::default();
    for path in [
        query(&scope.at("events"), &future),
        query(&scope.at("events"), &exact),
        query(&scope.of("events", "a"), &future),
    ] {
        let (answer, took) = timed(&scope, &path).await?;
        rows.row(&path, is_too_large(&answer, asked, before, None));
        rows.row(&path, did_not_wait(&answer, took));
    }
    rows.outcome()
}

async fn a_list_by_name_does_not_wait_if_exact(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let before = scope.now().await?;
    let asked = before + 1_000_000;
    let text = asked.to_string();
    let parameters = [
        ("resourceVersion", text.as_str()),
        ("resourceVersionMatch", "Exact"),
        ("fieldSelector", "metadata.name=a"),
    ];
    let path = query(&scope.at("configmaps"), &parameters);
    let (answer, took) = timed(&scope, &path).await?;
    is_too_large(&answer, asked, before, None)?;
    did_not_wait(&answer, took)
}

/// Writes until the store is at `revision`. Others may help.
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

async fn a_list_waits_for_its_revision(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let goal = scope.now().await? + 20;
    let text = goal.to_string();
    let parameters = [("resourceVersion", text.as_str())];
    let reader = scope.another_client();
    let (list, ()) = try_join(reader.list(&parameters), write_until(&scope, goal)).await?;
    has_names(&list, &["a"])?;
    ensure!(revision(&list)? >= goal, "older than {goal}: {list}");
    Ok(())
}

async fn a_get_waits_for_its_revision(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let goal = scope.now().await? + 20;
    let text = goal.to_string();
    let path = query(&scope.of("configmaps", "a"), &[("resourceVersion", &text)]);
    let reader = scope.another_client();
    let (answer, ()) = try_join(reader.client.get(&path), write_until(&scope, goal)).await?;
    answer.has_status(200)
}

async fn a_get_with_an_old_revision_shows_the_newest(scope: Scope) -> Outcome {
    let old = scope.make("configmaps", "a").await?;
    let new = scope
        .replace("configmaps", &with(&old, "/data/k", "new"))
        .await?;
    let text = revision(&new)?.to_string();
    let path = query(&scope.of("configmaps", "a"), &[("resourceVersion", &text)]);
    let answer = scope.client.get(&path).await?;
    same_json(&answer.asked, &new, &answer.is(200)?)?;
    // Absent means: at least as new as the request.
    same_json("stored", &new, &scope.get("configmaps", "a").await?)?;
    let path = query(&scope.of("configmaps", "a"), &[("resourceVersion", "0")]);
    let any = scope.client.get(&path).await?;
    same("status", &200, &any.status)
}

async fn a_get_ignores_the_match(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let path = scope.of("configmaps", "a");
    for parameters in ["resourceVersionMatch=Exact", "resourceVersionMatch=Foo"] {
        let answer = scope.client.get(&format!("{path}?{parameters}")).await?;
        same_json(&answer.asked, &object, &answer.is(200)?)?;
    }
    Ok(())
}

async fn a_get_does_not_watch(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let path = format!("{}?watch=true", scope.of("configmaps", "a"));
    let answer = scope.client.get(&path).await?;
    same_json(&answer.asked, &object, &answer.is(200)?)
}
