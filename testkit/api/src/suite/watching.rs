//! Watches: what they deliver (§4.1, §4.2).

use crate::check::checks;
use crate::client::query;
use crate::failure::{Rows, ensure, same, same_json};
use crate::object::{revision, set, text, with};
use crate::samples::sample;
use crate::status;
use crate::watch::{Event, Next, WatchStream};
use crate::{Outcome, Scope};
use futures::future::try_join_all;
use serde_json::{Value, json};
use std::time::Duration;

use super::revisions::write_until;

checks! { watching:
    [86] a_watch_begins_behind_its_revision [],
    [87] a_watch_without_revision_begins_with_what_is_there [],
    [87] a_watch_from_zero_begins_with_what_is_there [],
    [88] initial_events_end_with_a_bookmark_if_bookmarks_are_allowed [],
    [91] a_watch_of_the_future_drops_what_comes_before [],
    [92] leaving_and_entering_a_selector [],
    [92] deleting_what_is_selected [],
    [94] what_is_outside_a_selector_is_not_seen [],
    [96] all_watchers_see_the_same_order [],
    [97] a_watch_ends_in_time [],
    [97] a_negative_timeout_ends_at_once [],
    [97] no_timeout_is_a_long_one [],
    [99] without_permission_there_are_no_bookmarks [],
    [] every_type_of_event [],
    [] a_watch_of_one_name [],
    [] a_watch_of_all_namespaces [],
    [] what_counts_as_watch [],
    [] limits_do_not_limit_watches [],
    [] the_old_paths_watch_too [],
    [] the_old_paths_take_selectors [],
    [] uncached_resources_are_watched_too [Kind("events")],
}

async fn update(scope: &Scope, object: &Value, to: &str) -> Outcome<Value> {
    scope
        .replace("configmaps", &with(object, "/data/k", to))
        .await
}

fn ascending(events: &[Event]) -> Outcome {
    let revisions: Vec<u64> = events.iter().map(Event::revision).collect::<Outcome<_>>()?;
    ensure!(
        revisions.windows(2).all(|pair| pair[0] < pair[1]),
        "not ascending: {revisions:?}"
    );
    Ok(())
}

fn briefs(events: &[Event]) -> Vec<String> {
    events.iter().map(Event::brief).collect()
}

async fn a_watch_begins_behind_its_revision(scope: Scope) -> Outcome {
    let made = scope.make_several(&["a", "b", "c"]).await?;
    update(&scope, &made[0], "new").await?;
    let from = revision(&made[1])?;
    let text = from.to_string();
    let mut watch = scope.watch(&[("resourceVersion", &text)]).await?;
    scope.make("configmaps", "last").await?;
    let events = watch.until(|event| event.name() == "last").await?;
    let expected = ["ADDED c", "MODIFIED a", "ADDED last"]
        .map(str::to_owned)
        .to_vec();
    same("events", &expected, &briefs(&events))?;
    ensure!(events[0].revision()? > from, "at the revision itself");
    ascending(&events)
}

async fn begins_with_what_is_there(scope: &Scope, parameters: &[(&str, &str)]) -> Outcome {
    // Written in another order than their keys have.
    let made = scope.make_several(&["b", "a", "c"]).await?;
    let newest = revision(&made[2])?;
    scope
        .until("the cache to catch up", || async {
            let list = scope.list(&[("resourceVersion", "0")]).await?;
            Ok((revision(&list)? >= newest).then_some(()))
        })
        .await?;
    let mut watch = scope.watch(parameters).await?;
    for at in [1, 0, 2] {
        let event = watch.expect("ADDED").await?;
        same_json("initial", &made[at], &event.object)?;
    }
    let changed = update(scope, &made[0], "new").await?;
    let event = watch.expect_brief("MODIFIED b").await?;
    same_json("live", &changed, &event.object)
}

async fn a_watch_without_revision_begins_with_what_is_there(scope: Scope) -> Outcome {
    begins_with_what_is_there(&scope, &[]).await
}

async fn a_watch_from_zero_begins_with_what_is_there(scope: Scope) -> Outcome {
    begins_with_what_is_there(&scope, &[("resourceVersion", "0")]).await
}

async fn initial_events_end_with_a_bookmark_if_bookmarks_are_allowed(scope: Scope) -> Outcome {
    let newest = revision(&scope.make("configmaps", "a").await?)?;
    let mut watch = scope.watch(&[("allowWatchBookmarks", "true")]).await?;
    watch.expect_brief("ADDED a").await?;
    let bookmark = watch.expect_end_of_initial().await?;
    ensure!(
        bookmark.revision()? >= newest,
        "too old: {}",
        bookmark.object
    );
    let expected = json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {
            "resourceVersion": bookmark.revision()?.to_string(),
            "annotations": {"k8s.io/initial-events-end": "true"},
        },
    });
    same_json("bookmark", &expected, &without_nulls(&bookmark.object))
}

/// Older servers write `creationTimestamp: null` into bookmarks.
fn without_nulls(object: &Value) -> Value {
    let mut copy = object.clone();
    if let Some(meta) = copy["metadata"].as_object_mut() {
        meta.retain(|_, value| !value.is_null());
    }
    copy
}

async fn a_watch_of_the_future_drops_what_comes_before(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let from = scope.now().await? + 20;
    let text = from.to_string();
    let mut watch = scope.watch(&[("resourceVersion", &text)]).await?;
    write_until(&scope, from).await?;
    scope.make_several(&["x", "y", "z"]).await?;
    let events = watch.until(|event| event.name() == "z").await?;
    ascending(&events)?;
    ensure!(
        events[0].revision()? > from,
        "an event at or before {from}: {}",
        events[0].object
    );
    let named = events.iter().filter(|event| event.name() != "a").count();
    same("events of x, y, z", &3, &named)
}

async fn make_labelled(scope: &Scope, name: &str, label: &str) -> Outcome<Value> {
    let body = with(
        &sample("configmaps", name),
        "/metadata/labels",
        json!({"x": label}),
    );
    scope.create("configmaps", &body).await
}

async fn watch_labelled(scope: &Scope) -> Outcome<WatchStream> {
    let now = scope.now().await?.to_string();
    let parameters = [("resourceVersion", now.as_str()), ("labelSelector", "x=in")];
    scope.watch(&parameters).await
}

async fn relabel(scope: &Scope, object: &Value, label: &str) -> Outcome<Value> {
    let mut body = with(object, "/metadata/labels/x", label);
    set(&mut body, "/data/k", label.into());
    scope.replace("configmaps", &body).await
}

async fn leaving_and_entering_a_selector(scope: Scope) -> Outcome {
    let inside = make_labelled(&scope, "a", "in").await?;
    let mut watch = watch_labelled(&scope).await?;
    let outside = relabel(&scope, &inside, "out").await?;
    let event = watch.expect_brief("DELETED a").await?;
    // The object as it was, at the revision of the change.
    let now = revision(&outside)?.to_string();
    let expected = with(&inside, "/metadata/resourceVersion", now);
    same_json("left", &expected, &event.object)?;
    let back = relabel(&scope, &outside, "in").await?;
    let event = watch.expect_brief("ADDED a").await?;
    same_json("entered", &back, &event.object)?;
    let stays = update(&scope, &back, "more").await?;
    let event = watch.expect_brief("MODIFIED a").await?;
    same_json("stayed", &stays, &event.object)
}

async fn deleting_what_is_selected(scope: Scope) -> Outcome {
    let inside = make_labelled(&scope, "a", "in").await?;
    make_labelled(&scope, "b", "out").await?;
    let mut watch = watch_labelled(&scope).await?;
    for name in ["b", "a"] {
        scope
            .client
            .delete(&scope.of("configmaps", name))
            .await?
            .is(200)?;
    }
    let event = watch.expect_brief("DELETED a").await?;
    let now = event.revision()?;
    ensure!(now > revision(&inside)?, "an old revision: {now}");
    let expected = with(&inside, "/metadata/resourceVersion", now.to_string());
    same_json("deleted", &expected, &event.object)
}

async fn what_is_outside_a_selector_is_not_seen(scope: Scope) -> Outcome {
    let object = make_labelled(&scope, "a", "out").await?;
    let mut watch = watch_labelled(&scope).await?;
    update(&scope, &object, "new").await?;
    make_labelled(&scope, "next", "in").await?;
    watch.expect_brief("ADDED next").await?;
    Ok(())
}

async fn all_watchers_see_the_same_order(scope: Scope) -> Outcome {
    const WATCHERS: usize = 5;
    let now = scope.now().await?.to_string();
    let clients: Vec<Scope> = (0..WATCHERS).map(|_| scope.another_client()).collect();
    let parameters = [("resourceVersion", now.as_str())];
    let opening = clients.iter().map(|client| client.watch(&parameters));
    let mut watches = try_join_all(opening).await?;
    let writing = clients.iter().enumerate().map(|(who, client)| async move {
        for number in 0..10 {
            let object = client
                .make("configmaps", &format!("w{who}-{number}"))
                .await?;
            update(client, &object, "new").await?;
        }
        Ok(())
    });
    try_join_all(writing).await?;
    scope.make("configmaps", "last").await?;
    let mut seen = Vec::new();
    for watch in &mut watches {
        let events = watch.until(|event| event.name() == "last").await?;
        ascending(&events)?;
        same("events", &(WATCHERS * 20 + 1), &events.len())?;
        seen.push(briefs(&events));
    }
    ensure!(
        seen.iter().all(|each| *each == seen[0]),
        "the watchers disagree: {seen:?}"
    );
    Ok(())
}

async fn a_watch_ends_in_time(scope: Scope) -> Outcome {
    let now = scope.now().await?.to_string();
    let start = scope.instant();
    let parameters = [("resourceVersion", now.as_str()), ("timeoutSeconds", "2")];
    let mut watch = scope.watch(&parameters).await?;
    watch.expect_end().await?;
    let took = scope.since(start);
    let expected = Duration::from_millis(1800)..Duration::from_secs(5);
    ensure!(expected.contains(&took), "ended after {took:?}");
    Ok(())
}

async fn a_negative_timeout_ends_at_once(scope: Scope) -> Outcome {
    let now = scope.now().await?.to_string();
    let parameters = [("resourceVersion", now.as_str()), ("timeoutSeconds", "-1")];
    let start = scope.instant();
    scope.watch(&parameters).await?.expect_end().await?;
    let took = scope.since(start);
    ensure!(took < Duration::from_secs(2), "ended after {took:?}");
    // With initial events to send, the server may notice first that it has no time.
    let mut watch = scope.watch(&[("timeoutSeconds", "-1")]).await?;
    match watch.next(Duration::from_secs(2)).await {
        Next::End => Ok(()),
        Next::Event(event) if event.kind == "ERROR" => {
            let message = "context deadline exceeded";
            let expected = status::failure(500, "InternalError", message, None);
            same_json("error", &expected, &event.object)?;
            watch.expect_end().await
        }
        other => Err(watch.instead_of("the end", &other)),
    }
}

/// Zero means the default, and `timeout` is for other requests.
async fn no_timeout_is_a_long_one(scope: Scope) -> Outcome {
    let now = scope.now().await?.to_string();
    for more in [("timeoutSeconds", "0"), ("timeout", "1s")] {
        let mut watch = scope.watch(&[("resourceVersion", &now), more]).await?;
        match watch.next(Duration::from_millis(2500)).await {
            Next::Silence => {}
            other => return Err(watch.instead_of("silence", &other)),
        }
    }
    Ok(())
}

async fn without_permission_there_are_no_bookmarks(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    for parameters in [
        vec![("timeoutSeconds", "4")],
        vec![("timeoutSeconds", "4"), ("allowWatchBookmarks", "false")],
    ] {
        let mut watch = scope.watch(&parameters).await?;
        watch.expect_brief("ADDED a").await?;
        watch.expect_end().await?;
    }
    Ok(())
}

async fn every_type_of_event(scope: Scope) -> Outcome {
    let mut watch = scope.watch_from_now().await?;
    let made = scope.make("configmaps", "a").await?;
    let changed = update(&scope, &made, "new").await?;
    scope
        .client
        .delete(&scope.of("configmaps", "a"))
        .await?
        .is(200)?;
    let again = scope.make("configmaps", "a").await?;
    same_json("added", &made, &watch.expect("ADDED").await?.object)?;
    same_json(
        "modified",
        &changed,
        &watch.expect("MODIFIED").await?.object,
    )?;
    let deleted = watch.expect("DELETED").await?;
    let now = deleted.revision()?;
    ensure!(now > revision(&changed)?, "an old revision: {now}");
    let expected = with(&changed, "/metadata/resourceVersion", now.to_string());
    same_json("deleted", &expected, &deleted.object)?;
    same_json("added again", &again, &watch.expect("ADDED").await?.object)
}

async fn a_watch_of_one_name(scope: Scope) -> Outcome {
    scope.make_several(&["a", "b"]).await?;
    let by_name = [("fieldSelector", "metadata.name=b")];
    let mut watch = scope.watch(&by_name).await?;
    watch.expect_brief("ADDED b").await?;
    scope.make("configmaps", "c").await?;
    scope
        .client
        .delete(&scope.of("configmaps", "b"))
        .await?
        .is(200)?;
    watch.expect_brief("DELETED b").await?;
    Ok(())
}

async fn a_watch_of_all_namespaces(scope: Scope) -> Outcome {
    let other = scope.beside("-x").await?;
    let now = scope.now().await?.to_string();
    let parameters = [
        ("watch", "true"),
        ("resourceVersion", now.as_str()),
        ("fieldSelector", "metadata.name=here"),
    ];
    let path = query("/api/v1/configmaps", &parameters);
    let mut watch = scope.client.watch(&path).await?;
    let mut expected = Vec::new();
    for place in [&scope, &other] {
        expected.push(place.make("configmaps", "here").await?);
    }
    for object in expected {
        // Other checks use other names.
        same_json("seen", &object, &watch.expect("ADDED").await?.object)?;
    }
    Ok(())
}

async fn what_counts_as_watch(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = scope.at("configmaps");
    let mut rows = Rows::default();
    for text in ["watch", "watch=", "watch=1", "watch=yes", "watch=True"] {
        let opened = scope.client.watch(&format!("{path}?{text}")).await;
        let outcome = match opened {
            Ok(mut watch) => watch.expect_brief("ADDED a").await.map(|_| ()),
            Err(failure) => Err(failure),
        };
        rows.row(text, outcome);
    }
    for text in ["watch=0", "watch=false", "watch=FALSE", "watch=False"] {
        let answer = scope.client.get(&format!("{path}?{text}")).await?;
        let list = answer.is(200)?;
        rows.row(
            text,
            same_json("kind", &json!("ConfigMapList"), &list["kind"]),
        );
    }
    rows.outcome()
}

async fn limits_do_not_limit_watches(scope: Scope) -> Outcome {
    scope.make_several(&["a", "b", "c"]).await?;
    let mut watch = scope.watch(&[("limit", "1")]).await?;
    for brief in ["ADDED a", "ADDED b", "ADDED c"] {
        watch.expect_brief(brief).await?;
    }
    // With a revision, not even a token is looked at.
    let now = scope.now().await?.to_string();
    let parameters = [("resourceVersion", now.as_str()), ("continue", "garbage")];
    let mut watch = scope.watch(&parameters).await?;
    scope.make("configmaps", "d").await?;
    watch.expect_brief("ADDED d").await?;
    Ok(())
}

/// Deprecated, and still served; a name may be in the path.
async fn the_old_paths_watch_too(scope: Scope) -> Outcome {
    let made = scope.make_several(&["a", "b"]).await?;
    let base = format!("/api/v1/watch/namespaces/{}/configmaps", scope.namespace);
    let mut watch = scope.client.watch(&base).await?;
    same_json("a", &made[0], &watch.expect("ADDED").await?.object)?;
    same_json("b", &made[1], &watch.expect("ADDED").await?.object)?;
    let mut watch = scope.client.watch(&format!("{base}/b")).await?;
    same_json("b", &made[1], &watch.expect("ADDED").await?.object)?;
    let changed = update(&scope, &made[1], "new").await?;
    same_json("b", &changed, &watch.expect("MODIFIED").await?.object)?;
    let now = revision(&changed)?;
    let path = format!("/api/v1/watch/configmaps?resourceVersion={now}");
    let mut watch = scope.client.watch(&path).await?;
    let made = scope.make("configmaps", "c").await?;
    let events = watch
        .until(|event| event.object["metadata"]["uid"] == made["metadata"]["uid"])
        .await?;
    ascending(&events)
}

async fn the_old_paths_take_selectors(scope: Scope) -> Outcome {
    let body = with(
        &sample("configmaps", "a"),
        "/metadata/labels",
        json!({"l": "1"}),
    );
    let made = scope.create("configmaps", &body).await?;
    let base = format!("/api/v1/watch/namespaces/{}/configmaps/a", scope.namespace);
    let now = revision(&made)?;
    let path = format!("{base}?resourceVersion={now}&labelSelector=l%3D2");
    let mut watch = scope.client.watch(&path).await?;
    for label in ["2", "1"] {
        let body = with(&body, "/metadata/labels/l", label);
        scope.replace("configmaps", &body).await?;
    }
    watch.expect_brief("ADDED a").await?;
    watch.expect_brief("DELETED a").await?;
    // Fields may name the same object, and no other.
    let path = format!("{base}?fieldSelector=metadata.name%3Da");
    scope
        .client
        .watch(&path)
        .await?
        .expect_brief("ADDED a")
        .await?;
    for fields in ["metadata.name%3Db", "metadata.name%21%3Da"] {
        let answer = scope
            .client
            .get(&format!("{base}?fieldSelector={fields}"))
            .await?;
        let expected = "fieldSelector metadata.name doesn't match requested name";
        answer.fails_with(&status::bad_request(expected))?;
    }
    // Who also asks by the query is judged as everybody who does.
    let path = format!("{base}?watch=true&sendInitialEvents=true");
    let answer = scope.client.get(&path).await?.is(422)?;
    let cause = text(&answer, "/details/causes/0/field")?;
    same("field", "resourceVersionMatch", cause)
}

async fn uncached_resources_are_watched_too(scope: Scope) -> Outcome {
    let made = scope.make("events", "a").await?;
    let mut watch = scope.watch_kind("events", &[]).await?;
    same_json("initial", &made, &watch.expect("ADDED").await?.object)?;
    let changed = scope
        .replace("events", &with(&made, "/message", "new"))
        .await?;
    same_json(
        "modified",
        &changed,
        &watch.expect("MODIFIED").await?.object,
    )?;
    scope
        .client
        .delete(&scope.of("events", "a"))
        .await?
        .is(200)?;
    let deleted = watch.expect("DELETED").await?;
    ensure!(deleted.revision()? > revision(&changed)?, "an old revision");
    // Nothing else comes: no bookmarks, no errors.
    match watch.next(Duration::from_millis(300)).await {
        Next::Silence => Ok(()),
        other => Err(watch.instead_of("silence", &other)),
    }
}
