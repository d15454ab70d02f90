//! Watches: the delivered events (CONC §4.1, CONC §4.2).

use crate::check::checks;
use crate::client::query;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::object::{revision, set, text_at, with};
use crate::samples::sample;
use crate::status;
use crate::watch::{Event, NextEvent, WatchStream};
use crate::{Outcome, Scope};
use futures::future::try_join_all;
use serde_json::{Value, json};
use std::time::Duration;

use super::resource_versions::write_until;

checks! { watch_events:
    ["CONC-86"] watch_starts_after_its_resource_version [],
    ["CONC-87"] watch_without_resource_version_sends_initial_state [],
    ["CONC-87"] watch_from_resource_version_0_sends_initial_state [],
    ["CONC-88", "WIRE-70"] initial_events_end_with_bookmark_if_allowed [],
    ["CONC-91"] watch_from_future_revision_skips_earlier_events [],
    ["CONC-92"] watch_selector_maps_changes_to_added_and_deleted [],
    ["CONC-92"] watch_sends_deleted_for_selected_object [],
    ["CONC-94"] watch_omits_objects_outside_selector [],
    ["CONC-96"] all_watchers_see_the_same_event_order [],
    ["CONC-97", "WIRE-76"] watch_ends_at_timeout_seconds [],
    ["CONC-97"] watch_with_negative_timeout_ends_at_once [],
    ["CONC-97"] watch_without_timeout_stays_open [],
    ["CONC-99"] watch_without_allow_watch_bookmarks_gets_none [],
    [] watch_sends_added_modified_and_deleted [],
    [] watch_of_single_name [],
    [] watch_of_all_namespaces [],
    ["WIRE-18"] watch_parameter_accepts_go_booleans [],
    [] watch_ignores_limit [],
    ["WIRE-20"] deprecated_watch_paths_are_served [],
    [] deprecated_watch_paths_apply_selectors [],
    [] uncached_resource_can_be_watched [Kind("events")],
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
    events.iter().map(Event::summary).collect()
}

async fn watch_starts_after_its_resource_version(scope: Scope) -> Outcome {
    let made = scope.make_several(&["a", "b", "c"]).await?;
    update(&scope, &made[0], "new").await?;
    let from = revision(&made[1])?;
    let text = from.to_string();
    let mut watch = scope.watch(&[("resourceVersion", &text)]).await?;
    scope.make("configmaps", "last").await?;
    let events = watch.read_until(|event| event.name() == "last").await?;
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
        .wait_until("the cache to catch up", || async {
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
    let event = watch.expect_summary("MODIFIED b").await?;
    same_json("live", &changed, &event.object)
}

async fn watch_without_resource_version_sends_initial_state(scope: Scope) -> Outcome {
    begins_with_what_is_there(&scope, &[]).await
}

async fn watch_from_resource_version_0_sends_initial_state(scope: Scope) -> Outcome {
    begins_with_what_is_there(&scope, &[("resourceVersion", "0")]).await
}

async fn initial_events_end_with_bookmark_if_allowed(scope: Scope) -> Outcome {
    let newest = revision(&scope.make("configmaps", "a").await?)?;
    let mut watch = scope.watch(&[("allowWatchBookmarks", "true")]).await?;
    watch.expect_summary("ADDED a").await?;
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

async fn watch_from_future_revision_skips_earlier_events(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let from = scope.now().await? + 20;
    let text = from.to_string();
    let mut watch = scope.watch(&[("resourceVersion", &text)]).await?;
    write_until(&scope, from).await?;
    scope.make_several(&["x", "y", "z"]).await?;
    let events = watch.read_until(|event| event.name() == "z").await?;
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

async fn watch_selector_maps_changes_to_added_and_deleted(scope: Scope) -> Outcome {
    let inside = make_labelled(&scope, "a", "in").await?;
    let mut watch = watch_labelled(&scope).await?;
    let outside = relabel(&scope, &inside, "out").await?;
    let event = watch.expect_summary("DELETED a").await?;
    // The object before the change, at the revision of the change.
    let now = revision(&outside)?.to_string();
    let expected = with(&inside, "/metadata/resourceVersion", now);
    same_json("left", &expected, &event.object)?;
    let back = relabel(&scope, &outside, "in").await?;
    let event = watch.expect_summary("ADDED a").await?;
    same_json("entered", &back, &event.object)?;
    let stays = update(&scope, &back, "more").await?;
    let event = watch.expect_summary("MODIFIED a").await?;
    same_json("stayed", &stays, &event.object)
}

async fn watch_sends_deleted_for_selected_object(scope: Scope) -> Outcome {
    let inside = make_labelled(&scope, "a", "in").await?;
    make_labelled(&scope, "b", "out").await?;
    let mut watch = watch_labelled(&scope).await?;
    for name in ["b", "a"] {
        scope
            .client
            .delete(&scope.object_path("configmaps", name))
            .await?
            .expect_json(200)?;
    }
    let event = watch.expect_summary("DELETED a").await?;
    let now = event.revision()?;
    ensure!(now > revision(&inside)?, "an old revision: {now}");
    let expected = with(&inside, "/metadata/resourceVersion", now.to_string());
    same_json("deleted", &expected, &event.object)
}

async fn watch_omits_objects_outside_selector(scope: Scope) -> Outcome {
    let object = make_labelled(&scope, "a", "out").await?;
    let mut watch = watch_labelled(&scope).await?;
    update(&scope, &object, "new").await?;
    make_labelled(&scope, "next", "in").await?;
    watch.expect_summary("ADDED next").await?;
    Ok(())
}

async fn all_watchers_see_the_same_event_order(scope: Scope) -> Outcome {
    const WATCHERS: usize = 5;
    let now = scope.now().await?.to_string();
    let clients: Vec<Scope> = (0..WATCHERS).map(|_| scope.with_another_client()).collect();
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
        let events = watch.read_until(|event| event.name() == "last").await?;
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

async fn watch_ends_at_timeout_seconds(scope: Scope) -> Outcome {
    let now = scope.now().await?.to_string();
    let start = scope.monotonic_now();
    let parameters = [("resourceVersion", now.as_str()), ("timeoutSeconds", "2")];
    let mut watch = scope.watch(&parameters).await?;
    watch.expect_end().await?;
    let took = scope.elapsed_since(start);
    let expected = Duration::from_millis(1800)..Duration::from_secs(5);
    ensure!(expected.contains(&took), "ended after {took:?}");
    Ok(())
}

async fn watch_with_negative_timeout_ends_at_once(scope: Scope) -> Outcome {
    let now = scope.now().await?.to_string();
    let parameters = [("resourceVersion", now.as_str()), ("timeoutSeconds", "-1")];
    let start = scope.monotonic_now();
    scope.watch(&parameters).await?.expect_end().await?;
    let took = scope.elapsed_since(start);
    ensure!(took < Duration::from_secs(2), "ended after {took:?}");
    // With initial events to send, the server may notice first that it has no time.
    let mut watch = scope.watch(&[("timeoutSeconds", "-1")]).await?;
    match watch.next(Duration::from_secs(2)).await {
        NextEvent::End => Ok(()),
        NextEvent::Event(event) if event.kind == "ERROR" => {
            let message = "context deadline exceeded";
            let expected = status::failure(500, "InternalError", message, None);
            same_json("error", &expected, &event.object)?;
            watch.expect_end().await
        }
        other => Err(watch.instead_of("the end", &other)),
    }
}

/// Zero means the default, and `timeout` applies to other requests only.
async fn watch_without_timeout_stays_open(scope: Scope) -> Outcome {
    let now = scope.now().await?.to_string();
    for more in [("timeoutSeconds", "0"), ("timeout", "1s")] {
        let mut watch = scope.watch(&[("resourceVersion", &now), more]).await?;
        match watch.next(Duration::from_millis(2500)).await {
            NextEvent::Silence => {}
            other => return Err(watch.instead_of("silence", &other)),
        }
    }
    Ok(())
}

async fn watch_without_allow_watch_bookmarks_gets_none(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    for parameters in [
        vec![("timeoutSeconds", "4")],
        vec![("timeoutSeconds", "4"), ("allowWatchBookmarks", "false")],
    ] {
        let mut watch = scope.watch(&parameters).await?;
        watch.expect_summary("ADDED a").await?;
        watch.expect_end().await?;
    }
    Ok(())
}

async fn watch_sends_added_modified_and_deleted(scope: Scope) -> Outcome {
    let mut watch = scope.watch_from_now().await?;
    let made = scope.make("configmaps", "a").await?;
    let changed = update(&scope, &made, "new").await?;
    scope
        .client
        .delete(&scope.object_path("configmaps", "a"))
        .await?
        .expect_json(200)?;
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

async fn watch_of_single_name(scope: Scope) -> Outcome {
    scope.make_several(&["a", "b"]).await?;
    let by_name = [("fieldSelector", "metadata.name=b")];
    let mut watch = scope.watch(&by_name).await?;
    watch.expect_summary("ADDED b").await?;
    scope.make("configmaps", "c").await?;
    scope
        .client
        .delete(&scope.object_path("configmaps", "b"))
        .await?
        .expect_json(200)?;
    watch.expect_summary("DELETED b").await?;
    Ok(())
}

async fn watch_of_all_namespaces(scope: Scope) -> Outcome {
    let other = scope.second_namespace("-x").await?;
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

async fn watch_parameter_accepts_go_booleans(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = scope.collection_path("configmaps");
    let mut rows = RowFailures::default();
    for text in ["watch", "watch=", "watch=1", "watch=yes", "watch=True"] {
        let opened = scope.client.watch(&format!("{path}?{text}")).await;
        let outcome = match opened {
            Ok(mut watch) => watch.expect_summary("ADDED a").await.map(|_| ()),
            Err(failure) => Err(failure),
        };
        rows.record(text, outcome);
    }
    for text in ["watch=0", "watch=false", "watch=FALSE", "watch=False"] {
        let answer = scope.client.get(&format!("{path}?{text}")).await?;
        let list = answer.expect_json(200)?;
        rows.record(
            text,
            same_json("kind", &json!("ConfigMapList"), &list["kind"]),
        );
    }
    rows.outcome()
}

async fn watch_ignores_limit(scope: Scope) -> Outcome {
    scope.make_several(&["a", "b", "c"]).await?;
    let mut watch = scope.watch(&[("limit", "1")]).await?;
    for brief in ["ADDED a", "ADDED b", "ADDED c"] {
        watch.expect_summary(brief).await?;
    }
    // With a revision, not even a token is looked at.
    let now = scope.now().await?.to_string();
    let parameters = [("resourceVersion", now.as_str()), ("continue", "garbage")];
    let mut watch = scope.watch(&parameters).await?;
    scope.make("configmaps", "d").await?;
    watch.expect_summary("ADDED d").await?;
    Ok(())
}

/// Deprecated, and still served; a name may be in the path.
async fn deprecated_watch_paths_are_served(scope: Scope) -> Outcome {
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
        .read_until(|event| event.object["metadata"]["uid"] == made["metadata"]["uid"])
        .await?;
    ascending(&events)
}

async fn deprecated_watch_paths_apply_selectors(scope: Scope) -> Outcome {
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
    watch.expect_summary("ADDED a").await?;
    watch.expect_summary("DELETED a").await?;
    // A field selector may name this object, and no other.
    let path = format!("{base}?fieldSelector=metadata.name%3Da");
    scope
        .client
        .watch(&path)
        .await?
        .expect_summary("ADDED a")
        .await?;
    for fields in ["metadata.name%3Db", "metadata.name%21%3Da"] {
        let answer = scope
            .client
            .get(&format!("{base}?fieldSelector={fields}"))
            .await?;
        let expected = "fieldSelector metadata.name doesn't match requested name";
        answer.expect_failure(&status::bad_request(expected))?;
    }
    // A watch requested by query is validated like any watch.
    let path = format!("{base}?watch=true&sendInitialEvents=true");
    let answer = scope.client.get(&path).await?.expect_json(422)?;
    let cause = text_at(&answer, "/details/causes/0/field")?;
    same("field", "resourceVersionMatch", cause)
}

async fn uncached_resource_can_be_watched(scope: Scope) -> Outcome {
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
        .delete(&scope.object_path("events", "a"))
        .await?
        .expect_json(200)?;
    let deleted = watch.expect("DELETED").await?;
    ensure!(deleted.revision()? > revision(&changed)?, "an old revision");
    // No bookmarks and no errors follow.
    match watch.next(Duration::from_millis(300)).await {
        NextEvent::Silence => Ok(()),
        other => Err(watch.instead_of("silence", &other)),
    }
}
