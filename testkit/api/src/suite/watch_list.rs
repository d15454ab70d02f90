//! Streaming lists: `sendInitialEvents` (CONC §5).

use crate::check::checks;
use crate::client::query;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::object::{continue_token, items, revision, with};
use crate::status::{self, Cause};
use crate::watch::WatchStream;
use crate::{Outcome, Scope};
use serde_json::Value;
use std::time::Duration;

use super::resource_versions::current_in;

checks! { watch_list:
    ["CONC-105", "CONC-107", "CONC-108", "WIRE-69"] watch_list_is_consistent_and_continues_as_watch [],
    ["CONC-105"] watch_list_at_resource_version [],
    ["CONC-106"] watch_list_of_empty_collection_is_one_bookmark [],
    ["CONC-106"] watch_list_without_bookmarks_has_no_end_marker [],
    ["CONC-110"] watch_list_at_future_revision_gets_error_event [],
    ["CONC-110"] uncached_watch_list_at_future_revision_fails_at_once [Kind("events")],
    ["CONC-111", "WIRE-66", "WIRE-72"] watch_list_options_are_validated [],
    ["CONC-112", "WIRE-71"] watch_with_send_initial_events_false_starts_now [],
    [] deprecated_watch_paths_reject_send_initial_events [],
    [] watch_list_applies_selectors [],
    [] uncached_watch_list_ends_with_bookmark [Kind("events")],
}

const STREAMING: [(&str, &str); 3] = [
    ("sendInitialEvents", "true"),
    ("resourceVersionMatch", "NotOlderThan"),
    ("allowWatchBookmarks", "true"),
];

async fn stream(scope: &Scope, more: &[(&str, &str)]) -> Outcome<WatchStream> {
    let mut parameters = STREAMING.to_vec();
    parameters.extend_from_slice(more);
    scope.watch(&parameters).await
}

async fn watch_list_is_consistent_and_continues_as_watch(scope: Scope) -> Outcome {
    let made = scope.make_several(&["b", "a"]).await?;
    let newest = revision(&made[1])?;
    let mut watch = stream(&scope, &[]).await?;
    for at in [1, 0] {
        same_json("initial", &made[at], &watch.expect("ADDED").await?.object)?;
    }
    let bookmark = watch.expect_end_of_initial().await?.revision()?;
    ensure!(bookmark >= newest, "bookmark {bookmark}, written {newest}");
    let text = bookmark.to_string();
    let exact = [
        ("resourceVersion", text.as_str()),
        ("resourceVersionMatch", "Exact"),
    ];
    let list = scope.list(&exact).await?;
    same("items", &2, &items(&list)?.len())?;
    same("revision", &bookmark, &revision(&list)?)?;
    let changed = scope
        .replace("configmaps", &with(&made[0], "/data/k", "new"))
        .await?;
    let event = watch.expect("MODIFIED").await?;
    same_json("live", &changed, &event.object)?;
    ensure!(event.revision()? > bookmark, "not behind the bookmark");
    Ok(())
}

async fn watch_list_at_resource_version(scope: Scope) -> Outcome {
    let made = scope.make_several(&["a", "b"]).await?;
    let first = revision(&made[0])?.to_string();
    // At least as new: the second may be there. Revision 0 may be of any age.
    for at_least in [first.as_str(), "0"] {
        let mut watch = stream(&scope, &[("resourceVersion", at_least)]).await?;
        let events = watch.read_until(crate::Event::ends_initial_events).await?;
        let bookmark = events.last().map(crate::Event::revision).transpose()?;
        ensure!(
            bookmark >= at_least.parse().ok(),
            "{at_least}: bookmark {bookmark:?}"
        );
        ensure!(
            events
                .iter()
                .rev()
                .skip(1)
                .all(|event| event.kind == "ADDED"),
            "{events:?}"
        );
    }
    Ok(())
}

async fn watch_list_of_empty_collection_is_one_bookmark(scope: Scope) -> Outcome {
    let start = scope.monotonic_now();
    let mut watch = stream(&scope, &[]).await?;
    watch.expect_end_of_initial().await?;
    let took = scope.elapsed_since(start);
    ensure!(took < Duration::from_millis(2500), "took {took:?}");
    Ok(())
}

async fn watch_list_without_bookmarks_has_no_end_marker(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let mut watch = scope.watch(&STREAMING[..2]).await?;
    watch.expect_summary("ADDED a").await?;
    scope.make("configmaps", "b").await?;
    watch.expect_summary("ADDED b").await?;
    Ok(())
}

/// An ERROR event in a stream that began well.
async fn watch_list_at_future_revision_gets_error_event(scope: Scope) -> Outcome {
    let before = scope.now().await?;
    let asked = before + 1_000_000;
    let text = asked.to_string();
    let start = scope.monotonic_now();
    let mut watch = stream(&scope, &[("resourceVersion", &text)]).await?;
    let error = watch.expect("ERROR").await?.object;
    let took = scope.elapsed_since(start);
    let expected = Duration::from_millis(2500)..Duration::from_secs(8);
    ensure!(expected.contains(&took), "failed after {took:?}");
    let current = current_in(error["message"].as_str().unwrap_or_default())?;
    let expected = status::too_large(asked, current, Some(1));
    same_json("error", &expected, &error)?;
    watch.expect_end().await
}

async fn uncached_watch_list_at_future_revision_fails_at_once(scope: Scope) -> Outcome {
    let asked = scope.now().await? + 1_000_000;
    let text = asked.to_string();
    let mut parameters = STREAMING.to_vec();
    parameters.push(("resourceVersion", &text));
    let start = scope.monotonic_now();
    let mut watch = scope.watch_kind("events", &parameters).await?;
    let error = watch.expect("ERROR").await?.object;
    let took = scope.elapsed_since(start);
    ensure!(took < Duration::from_millis(2500), "failed after {took:?}");
    let current = current_in(error["message"].as_str().unwrap_or_default())?;
    let retry = error["details"]["retryAfterSeconds"].as_u64();
    ensure!(
        retry.is_some_and(|retry| (1..=3).contains(&retry)),
        "{error}"
    );
    same_json("error", &status::too_large(asked, current, retry), &error)?;
    watch.expect_end().await
}

const MATCH: &str = "resourceVersionMatch";

const REQUIRES: Cause<'_> = (
    "FieldValueForbidden",
    MATCH,
    "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
);
const EXACT: Cause<'_> = (
    "FieldValueNotSupported",
    MATCH,
    "Unsupported value: \"Exact\": supported values: \"NotOlderThan\"",
);
const UNLESS: Cause<'_> = (
    "FieldValueForbidden",
    MATCH,
    "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
);
const CONTINUE: Cause<'_> = (
    "FieldValueForbidden",
    MATCH,
    "Forbidden: resourceVersionMatch is forbidden when continue is provided",
);

/// CONC §5.2: sendInitialEvents, resourceVersionMatch, resourceVersion; the causes. `C` in
/// the last column means a token.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    bool,
    &'static [Cause<'static>],
);

const INVALID: &[Row] = &[
    ("true", "", "", false, &[REQUIRES]),
    ("false", "", "", false, &[REQUIRES]),
    ("true", "", "N", false, &[REQUIRES]),
    ("true", "", "0", false, &[REQUIRES]),
    ("true", "Exact", "", false, &[REQUIRES, EXACT]),
    ("false", "Exact", "N", false, &[REQUIRES, EXACT]),
    ("", "NotOlderThan", "", false, &[UNLESS]),
    ("", "NotOlderThan", "N", false, &[UNLESS]),
    ("", "NotOlderThan", "0", false, &[UNLESS]),
    ("", "Exact", "N", false, &[UNLESS, EXACT]),
    ("true", "NotOlderThan", "", true, &[CONTINUE]),
    // The match set by default meets the token too.
    ("", "", "", true, &[CONTINUE]),
];

async fn watch_list_options_are_validated(scope: Scope) -> Outcome {
    scope.make_several(&["a", "b"]).await?;
    let list = scope.list(&[("limit", "1")]).await?;
    let now = revision(&list)?.to_string();
    let mut rows = RowFailures::default();
    for (initial, matching, at, with_token, causes) in INVALID {
        let mut parameters = vec![("watch", "true")];
        let at = at.replace('N', &now);
        for (name, value) in [
            ("sendInitialEvents", *initial),
            (MATCH, *matching),
            ("resourceVersion", at.as_str()),
            (
                "continue",
                if *with_token {
                    continue_token(&list)
                } else {
                    ""
                },
            ),
        ] {
            if !value.is_empty() {
                parameters.push((name, value));
            }
        }
        let path = query(&scope.collection_path("configmaps"), &parameters);
        let answer = scope
            .client
            .get(&format!("{path}&timeoutSeconds=1"))
            .await?;
        let row = format!("initial={initial} match={matching} rv={at} token={with_token}");
        rows.record(row, answer.expect_failure(&status::list_options(causes)));
    }
    rows.outcome()
}

async fn watch_with_send_initial_events_false_starts_now(scope: Scope) -> Outcome {
    let old = scope.make("configmaps", "old").await?;
    let now = revision(&old)?.to_string();
    for from in ["", "0", now.as_str()] {
        let mut parameters = vec![("sendInitialEvents", "false"), (MATCH, "NotOlderThan")];
        if !from.is_empty() {
            parameters.push(("resourceVersion", from));
        }
        let mut watch = scope.watch(&parameters).await?;
        let name = format!("new{from}");
        scope.make("configmaps", &name).await?;
        let events = watch.read_until(|event| event.name() == name).await?;
        let unexpected = events.iter().any(|event| event.name() == "old");
        ensure!(!unexpected, "from {from:?}: {events:?}");
    }
    Ok(())
}

/// They validate as a list does.
async fn deprecated_watch_paths_reject_send_initial_events(scope: Scope) -> Outcome {
    let base = format!("/api/v1/watch/namespaces/{}/configmaps", scope.namespace);
    let answer = scope.client.get(&query(&base, &STREAMING)).await?;
    let body = answer.expect_json(422)?;
    let text = "sendInitialEvents is forbidden for list";
    let message = body["message"].as_str().unwrap_or_default();
    ensure!(message.contains(text), "{body}");
    // Without resourceVersion the match is forbidden as well.
    let causes = body["details"]["causes"].as_array().map(Vec::len);
    same("causes", &Some(2), &causes)
}

async fn watch_list_applies_selectors(scope: Scope) -> Outcome {
    for (name, label) in [("a", "in"), ("b", "out")] {
        let body = scope.sample("configmaps", name);
        let body = with(&body, "/metadata/labels/x", label);
        scope.create("configmaps", &body).await?;
    }
    let mut watch = stream(&scope, &[("labelSelector", "x=in")]).await?;
    watch.expect_summary("ADDED a").await?;
    watch.expect_end_of_initial().await?;
    Ok(())
}

async fn uncached_watch_list_ends_with_bookmark(scope: Scope) -> Outcome {
    let made: Value = scope.make("events", "a").await?;
    let mut watch = scope.watch_kind("events", &STREAMING).await?;
    same_json("initial", &made, &watch.expect("ADDED").await?.object)?;
    let bookmark = watch.expect_end_of_initial().await?.revision()?;
    ensure!(bookmark >= revision(&made)?, "bookmark {bookmark}");
    Ok(())
}
