//! Reads and watches after compaction (CONC §6).

use crate::check::checks;
use crate::client::query;
use crate::failure::{ensure, same, same_json};
use crate::object::{continue_token, has_names, items, names, revision, with};
use crate::status;
use crate::{Failure, Outcome, Scope};
use serde_json::Value;

checks! { compaction:
    ["CONC-78"] expired_continue_token_gets_410_with_new_token [Compaction],
    ["CONC-78"] expired_continue_token_of_uncached_resource_gets_410 [Compaction, Kind("events")],
    ["CONC-79"] exact_list_of_compacted_revision_gets_410 [Compaction],
    ["CONC-79"] exact_list_of_uncached_resource_at_compacted_revision_gets_410 [Compaction, Kind("events")],
    ["CONC-89", "CONC-90", "WIRE-75"] watch_from_compacted_revision_gets_error_event_410 [Compaction],
    ["CONC-89"] watch_of_uncached_resource_from_compacted_revision_gets_410 [Compaction, Kind("events")],
    ["CONC-109"] watch_list_works_after_compaction [Compaction],
    [] live_watches_and_objects_survive_compaction [Compaction],
}

/// Compacts, and waits until the server's reads observe it. `old` is a revision that must not be
/// readable any more.
async fn forget(scope: &Scope, plural: &str, old: u64) -> Outcome<u64> {
    let at = scope.compact().await?;
    let text = old.to_string();
    let exact = [
        ("resourceVersion", text.as_str()),
        ("resourceVersionMatch", "Exact"),
    ];
    let path = query(&scope.collection_path(plural), &exact);
    scope
        .wait_until("the past to be forgotten", || async {
            let answer = scope.client.get(&path).await?;
            Ok((answer.status != 200).then_some(()))
        })
        .await?;
    Ok(at)
}

async fn make_five(scope: &Scope, plural: &str) -> Outcome<Vec<Value>> {
    let mut made = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        made.push(scope.make(plural, name).await?);
    }
    Ok(made)
}

async fn expired_continue_token_gets_410_with_new_token(scope: Scope) -> Outcome {
    old_token(&scope, "configmaps").await
}

async fn expired_continue_token_of_uncached_resource_gets_410(scope: Scope) -> Outcome {
    old_token(&scope, "events").await
}

async fn old_token(scope: &Scope, plural: &str) -> Outcome {
    make_five(scope, plural).await?;
    let path = scope.collection_path(plural);
    let first = scope
        .client
        .get(&query(&path, &[("limit", "2")]))
        .await?
        .expect_json(200)?;
    scope
        .client
        .delete(&scope.object_path(plural, "d"))
        .await?
        .expect_json(200)?;
    scope.make(plural, "f").await?;
    forget(scope, plural, revision(&first)?).await?;
    let next = [("limit", "2"), ("continue", continue_token(&first))];
    let answer = scope.client.get(&query(&path, &next)).await?;
    let body = answer.json()?;
    let fresh = continue_token(&body);
    ensure!(!fresh.is_empty(), "no fresh token: {body}");
    answer.expect_failure(&status::continue_expired(fresh))?;
    // The rest of the list at the current revision; from there on all pages have one revision.
    let next = [("limit", "1"), ("continue", fresh)];
    let second = scope
        .client
        .get(&query(&path, &next))
        .await?
        .expect_json(200)?;
    has_names(&second, &["c"])?;
    let now = revision(&second)?;
    ensure!(now > revision(&first)?, "the old revision: {now}");
    scope.make(plural, "g").await?;
    let next = [("continue", continue_token(&second))];
    let third = scope
        .client
        .get(&query(&path, &next))
        .await?
        .expect_json(200)?;
    has_names(&third, &["e", "f"])?;
    same("revision", &now, &revision(&third)?)
}

/// Shows G30.
async fn exact_list_of_compacted_revision_gets_410(scope: Scope) -> Outcome {
    exact_list(&scope, "configmaps").await
}

async fn exact_list_of_uncached_resource_at_compacted_revision_gets_410(scope: Scope) -> Outcome {
    exact_list(&scope, "events").await
}

async fn exact_list(scope: &Scope, plural: &str) -> Outcome {
    let made = make_five(scope, plural).await?;
    let old = revision(&made[2])?;
    let at = forget(scope, plural, old).await?;
    let path = scope.collection_path(plural);
    let (text, at) = (old.to_string(), at.to_string());
    let of = |revision: &str, matching: &str| {
        let mut parameters = vec![("resourceVersion", revision)];
        if !matching.is_empty() {
            parameters.push(("resourceVersionMatch", matching));
        }
        query(&path, &parameters)
    };
    let answer = scope.client.get(&of(&text, "Exact")).await?;
    answer.expect_failure(&status::list_expired())?;
    let limited = format!("{}&limit=2", of(&text, ""));
    let answer = scope.client.get(&limited).await?;
    answer.expect_failure(&status::list_expired())?;
    for fine in [of(&text, "NotOlderThan"), of(&text, ""), of(&at, "Exact")] {
        let list = scope.client.get(&fine).await?.expect_json(200)?;
        same("items", &5, &items(&list)?.len())?;
    }
    Ok(())
}

/// Revision 1 is older than anything a server may still remember.
async fn watch_from_compacted_revision_gets_error_event_410(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    forget(&scope, "configmaps", 1).await?;
    let mut watch = scope.watch(&[("resourceVersion", "1")]).await?;
    let error = watch.expect("ERROR").await?.object;
    let oldest = oldest_in(&error)?;
    same_json("error", &status::watch_too_old(1, oldest), &error)?;
    watch.expect_end().await?;
    let text = oldest.to_string();
    let mut watch = scope.watch(&[("resourceVersion", &text)]).await?;
    scope.make("configmaps", "last").await?;
    let events = watch.read_until(|event| event.name() == "last").await?;
    let failed = events.iter().any(|event| event.kind == "ERROR");
    ensure!(!failed, "from {oldest}: {events:?}");
    Ok(())
}

/// `too old resource version: 1 (941)`
fn oldest_in(error: &Value) -> Outcome<u64> {
    let message = error["message"].as_str().unwrap_or_default();
    let inside = message.rsplit_once('(').map(|(_, rest)| rest);
    let number = inside.and_then(|rest| rest.trim_end_matches(')').parse().ok());
    number.ok_or_else(|| Failure::new(format!("no revision in brackets: {error}")))
}

async fn watch_of_uncached_resource_from_compacted_revision_gets_410(scope: Scope) -> Outcome {
    let made = scope.make("events", "a").await?;
    scope.make("events", "b").await?;
    forget(&scope, "events", revision(&made)?).await?;
    let old = (revision(&made)? - 1).to_string();
    let mut watch = scope
        .watch_kind("events", &[("resourceVersion", &old)])
        .await?;
    let error = watch.expect("ERROR").await?.object;
    same_json("error", &status::watch_expired(), &error)?;
    watch.expect_end().await
}

async fn watch_list_works_after_compaction(scope: Scope) -> Outcome {
    let made = scope.make("configmaps", "a").await?;
    let at = forget(&scope, "configmaps", revision(&made)?).await?;
    let old = revision(&made)?.to_string();
    for from in [old.as_str(), "1"] {
        let parameters = [
            ("sendInitialEvents", "true"),
            ("resourceVersionMatch", "NotOlderThan"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", from),
        ];
        let mut watch = scope.watch(&parameters).await?;
        watch.expect_summary("ADDED a").await?;
        let bookmark = watch.expect_end_of_initial().await?.revision()?;
        ensure!(bookmark + 1 >= at, "bookmark {bookmark}, compacted at {at}");
    }
    Ok(())
}

async fn live_watches_and_objects_survive_compaction(scope: Scope) -> Outcome {
    let made = make_five(&scope, "configmaps").await?;
    let mut watch = scope.watch_from_now().await?;
    scope.compact().await?;
    let changed = scope
        .replace("configmaps", &with(&made[0], "/data/k", "new"))
        .await?;
    same_json("event", &changed, &watch.expect("MODIFIED").await?.object)?;
    let all = names(&scope.list(&[]).await?)?;
    same("objects", &5, &all.len())?;
    same_json("b", &made[1], &scope.get("configmaps", "b").await?)
}
