//! Delete (§2.5); pods and namespaces have modules of their own.

use crate::check::checks;
use crate::failure::{Rows, ensure, same, same_json};
use crate::kinds::kind;
use crate::object::{has_names, revision, text, uid, with};
use crate::samples::sample;
use crate::status;
use crate::{Outcome, Request, Scope};
use http::Method;
use serde_json::{Value, json};

pub(super) const FINALIZER: &str = "optik.test/hold";
const OTHER_UID: &str = "11111111-1111-1111-1111-111111111111";

checks! { delete:
    [48] a_delete_answers_with_a_status [],
    [49] some_kinds_answer_with_the_object [Kind("serviceaccounts")],
    [] what_is_missing_is_not_deleted [],
    [50] another_incarnation_is_not_deleted [],
    [51] another_revision_is_not_deleted [],
    [50, 51] preconditions_that_hold_do_not_hinder [],
    [52, 53] a_finalizer_keeps_the_object [],
    [54] a_finalizer_cannot_be_added_to_a_dying_object_e87 [],
    [54] a_finalizer_cannot_be_patched_onto_a_dying_object [Patch],
    [55] a_deletion_cannot_be_taken_back [],
    [55] a_deletion_cannot_be_patched_away [Patch],
    [56, 57] the_last_finalizer_takes_the_object_along [],
    [56, 57] the_last_finalizer_can_be_patched_away [Patch],
    [59] orphaning_leaves_a_finalizer [],
    [59] foreground_leaves_a_finalizer [],
    [60] orphan_dependents_false_answers_202 [],
    [66] two_policies_are_one_too_many [],
    [] unknown_options_are_refused [],
    [] options_may_come_in_the_query [],
    [50, 51] preconditions_may_come_in_the_query [],
    [] a_dry_delete_deletes_nothing [],
    [] a_collection_is_deleted_and_shown [],
}

/// A config map that a delete does not remove.
pub(super) async fn make_held(scope: &Scope, name: &str) -> Outcome<Value> {
    let body = sample("configmaps", name);
    let body = with(&body, "/metadata/finalizers", json!([FINALIZER]));
    scope.create("configmaps", &body).await
}

/// A config map that is being deleted.
async fn make_dying(scope: &Scope, name: &str) -> Outcome<Value> {
    make_held(scope, name).await?;
    scope
        .client
        .delete(&scope.of("configmaps", name))
        .await?
        .is(200)
}

async fn a_delete_answers_with_a_status(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let mut watch = scope.watch_from_now().await?;
    let answer = scope.client.delete(&scope.of("configmaps", "a")).await?;
    let expected = status::deleted(kind("configmaps"), "a", uid(&object)?);
    answer.has_status(200)?;
    same_json(&answer.asked, &expected, &answer.json()?)?;
    scope.is_gone("configmaps", "a").await?;
    let event = watch.expect_brief("DELETED a").await?;
    let now = event.revision()?;
    ensure!(
        now > revision(&object)?,
        "an old revision: {}",
        event.object
    );
    let expected = with(&object, "/metadata/resourceVersion", now.to_string());
    same_json("the event", &expected, &event.object)
}

async fn some_kinds_answer_with_the_object(scope: Scope) -> Outcome {
    let object = scope.make("serviceaccounts", "a").await?;
    let from = revision(&object)?.to_string();
    let parameters = [("resourceVersion", from.as_str())];
    let mut watch = scope.watch_kind("serviceaccounts", &parameters).await?;
    let answer = scope
        .client
        .delete(&scope.of("serviceaccounts", "a"))
        .await?;
    let shown = answer.is(200)?;
    let now = revision(&shown)?;
    ensure!(now > revision(&object)?, "not the deletion's: {now}");
    let expected = with(&object, "/metadata/resourceVersion", now.to_string());
    same_json(&answer.asked, &expected, &shown)?;
    let event = watch.expect_brief("DELETED a").await?;
    same_json("the event", &shown, &event.object)?;
    scope.is_gone("serviceaccounts", "a").await
}

async fn what_is_missing_is_not_deleted(scope: Scope) -> Outcome {
    let answer = scope.client.delete(&scope.of("configmaps", "a")).await?;
    answer.fails_with(&status::not_found(kind("configmaps"), "a"))
}

async fn another_incarnation_is_not_deleted(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let path = scope.of("configmaps", "a");
    for other in [OTHER_UID, ""] {
        let options = json!({"preconditions": {"uid": other}});
        let answer = scope.client.delete_with(&path, &options).await?;
        let uids = [other, uid(&object)?];
        answer.fails_with(&status::delete_uid_differs(kind("configmaps"), "a", uids))?;
    }
    scope
        .is_still_at("configmaps", "a", revision(&object)?)
        .await
}

/// Compared as texts: a leading zero is a difference.
async fn another_revision_is_not_deleted(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let path = scope.of("configmaps", "a");
    let stored = revision(&object)?.to_string();
    for other in ["1", "", "abc", &format!("0{stored}")] {
        let options = json!({"preconditions": {"resourceVersion": other}});
        let answer = scope.client.delete_with(&path, &options).await?;
        let pair = [other, &stored];
        answer.fails_with(&status::delete_revision_differs(
            kind("configmaps"),
            "a",
            pair,
        ))?;
    }
    scope
        .is_still_at("configmaps", "a", revision(&object)?)
        .await
}

async fn preconditions_that_hold_do_not_hinder(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let options = json!({
        "kind": "DeleteOptions", "apiVersion": "v1",
        "preconditions": {
            "uid": uid(&object)?, "resourceVersion": revision(&object)?.to_string(),
        },
    });
    let path = scope.of("configmaps", "a");
    scope.client.delete_with(&path, &options).await?.is(200)?;
    scope.is_gone("configmaps", "a").await
}

async fn a_finalizer_keeps_the_object(scope: Scope) -> Outcome {
    let object = make_held(&scope, "a").await?;
    let mut watch = scope.watch_from_now().await?;
    let path = scope.of("configmaps", "a");
    let answer = scope.client.delete(&path).await?;
    let dying = answer.is(200)?;
    let mut expected = object.clone();
    let time = text(&dying, "/metadata/deletionTimestamp")?;
    expected["metadata"]["deletionTimestamp"] = time.into();
    expected["metadata"]["deletionGracePeriodSeconds"] = 0.into();
    let now = revision(&dying)?;
    expected["metadata"]["resourceVersion"] = now.to_string().into();
    same_json(&answer.asked, &expected, &dying)?;
    ensure!(now > revision(&object)?, "not written: {dying}");
    let event = watch.expect_brief("MODIFIED a").await?;
    same_json("the event", &dying, &event.object)?;
    // Again: nothing happens.
    let again = scope.client.delete(&path).await?;
    same_json(&again.asked, &dying, &again.is(200)?)?;
    scope.make("configmaps", "next").await?;
    watch.expect_brief("ADDED next").await?;
    Ok(())
}

async fn a_finalizer_cannot_be_added_to_a_dying_object_e87(scope: Scope) -> Outcome {
    let dying = make_dying(&scope, "a").await?;
    let both = json!([FINALIZER, "optik.test/more"]);
    let body = with(&dying, "/metadata/finalizers", both);
    let answer = scope
        .client
        .put(&scope.of("configmaps", "a"), &body)
        .await?;
    let expected = status::finalizer_added(kind("configmaps"), "a", "optik.test/more");
    answer.fails_with(&expected)
}

async fn a_finalizer_cannot_be_patched_onto_a_dying_object(scope: Scope) -> Outcome {
    make_dying(&scope, "a").await?;
    let patch = json!({"metadata": {"finalizers": [FINALIZER, "optik.test/more"]}});
    let answer = scope
        .client
        .patch(&scope.of("configmaps", "a"), &patch)
        .await?;
    let expected = status::finalizer_added(kind("configmaps"), "a", "optik.test/more");
    answer.fails_with(&expected)
}

async fn a_deletion_cannot_be_taken_back(scope: Scope) -> Outcome {
    let dying = make_dying(&scope, "a").await?;
    for member in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        let body = with(&dying, &format!("/metadata/{member}"), Value::Null);
        let again = scope.replace("configmaps", &body).await?;
        same_json(member, &dying, &again)?;
    }
    Ok(())
}

async fn a_deletion_cannot_be_patched_away(scope: Scope) -> Outcome {
    let dying = make_dying(&scope, "a").await?;
    let patch = json!({"metadata": {"deletionTimestamp": null}});
    let answer = scope
        .client
        .patch(&scope.of("configmaps", "a"), &patch)
        .await?;
    same_json(&answer.asked, &dying, &answer.is(200)?)
}

/// What was asked comes back at the old revision, but what is removed is what was
/// stored: the edits of that request never existed.
async fn the_last_finalizer_takes_the_object_along(scope: Scope) -> Outcome {
    let dying = make_dying(&scope, "a").await?;
    let mut watch = scope.watch_from_now().await?;
    let mut body = with(&dying, "/data/k", "edited");
    body["metadata"]["finalizers"] = json!([]);
    let answer = scope
        .client
        .put(&scope.of("configmaps", "a"), &body)
        .await?;
    is_shown_and_gone(&scope, &answer.is(200)?, &dying).await?;
    let event = watch.expect_brief("DELETED a").await?;
    is_the_removal_of(&dying, &event.object)
}

async fn the_last_finalizer_can_be_patched_away(scope: Scope) -> Outcome {
    let dying = make_dying(&scope, "a").await?;
    let mut watch = scope.watch_from_now().await?;
    let patch = json!({"metadata": {"finalizers": null}, "data": {"k": "edited"}});
    let answer = scope
        .client
        .patch(&scope.of("configmaps", "a"), &patch)
        .await?;
    is_shown_and_gone(&scope, &answer.is(200)?, &dying).await?;
    let event = watch.expect_brief("DELETED a").await?;
    is_the_removal_of(&dying, &event.object)
}

async fn is_shown_and_gone(scope: &Scope, shown: &Value, dying: &Value) -> Outcome {
    same("revision", &revision(dying)?, &revision(shown)?)?;
    same_json("data", &json!({"k": "edited"}), &shown["data"])?;
    let finalizers = &shown["metadata"]["finalizers"];
    ensure!(finalizers.is_null(), "finalizers: {finalizers}");
    scope.is_gone("configmaps", "a").await
}

fn is_the_removal_of(dying: &Value, event: &Value) -> Outcome {
    let now = revision(event)?;
    ensure!(now > revision(dying)?, "an old revision: {event}");
    let expected = with(dying, "/metadata/resourceVersion", now.to_string());
    same_json("the event", &expected, event)
}

async fn orphaning_leaves_a_finalizer(scope: Scope) -> Outcome {
    leaves_a_finalizer(&scope, "Orphan", "orphan").await
}

async fn foreground_leaves_a_finalizer(scope: Scope) -> Outcome {
    leaves_a_finalizer(&scope, "Foreground", "foregroundDeletion").await
}

/// A later delete in the background takes it away again, and the object with it.
async fn leaves_a_finalizer(scope: &Scope, policy: &str, finalizer: &str) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let path = scope.of("configmaps", "a");
    let options = json!({"propagationPolicy": policy});
    let dying = scope.client.delete_with(&path, &options).await?.is(200)?;
    let meta = &dying["metadata"];
    same_json("finalizers", &json!([finalizer]), &meta["finalizers"])?;
    ensure!(meta["deletionTimestamp"].is_string(), "alive: {dying}");
    same_json("grace", &json!(0), &meta["deletionGracePeriodSeconds"])?;
    ensure!(
        revision(&dying)? > revision(&object)?,
        "not written: {dying}"
    );
    let options = json!({"propagationPolicy": "Background"});
    let answer = scope.client.delete_with(&path, &options).await?;
    let expected = status::deleted(kind("configmaps"), "a", uid(&object)?);
    same_json(&answer.asked, &expected, &answer.is(200)?)?;
    scope.is_gone("configmaps", "a").await
}

async fn orphan_dependents_false_answers_202(scope: Scope) -> Outcome {
    make_held(&scope, "a").await?;
    let options = json!({"orphanDependents": false});
    let path = scope.of("configmaps", "a");
    let dying = scope.client.delete_with(&path, &options).await?.is(202)?;
    ensure!(
        dying["metadata"]["deletionTimestamp"].is_string(),
        "alive: {dying}"
    );
    scope.make("configmaps", "b").await?;
    let path = scope.of("configmaps", "b");
    scope
        .client
        .delete_with(&path, &options)
        .await?
        .has_status(200)
}

async fn two_policies_are_one_too_many(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let options = json!({"orphanDependents": true, "propagationPolicy": "Orphan"});
    let path = scope.of("configmaps", "a");
    let answer = scope.client.delete_with(&path, &options).await?;
    let text = "Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be \
                both set";
    answer.fails_with(&delete_options((
        "FieldValueInvalid",
        "propagationPolicy",
        text,
    )))
}

fn delete_options(cause: status::Cause<'_>) -> Value {
    status::invalid("DeleteOptions", "meta.k8s.io", "", &[cause])
}

async fn unknown_options_are_refused(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let path = scope.of("configmaps", "a");
    let mut rows = Rows::default();
    for (parameter, field, text) in [
        (
            "propagationPolicy=Foo",
            "propagationPolicy",
            "Unsupported value: \"Foo\": supported values: \"Foreground\", \"Background\", \
             \"Orphan\", \"nil\"",
        ),
        (
            "dryRun=Foo",
            "dryRun",
            "Unsupported value: [\"Foo\"]: supported values: \"All\"",
        ),
    ] {
        let answer = scope.client.delete(&format!("{path}?{parameter}")).await?;
        let expected = delete_options(("FieldValueNotSupported", field, text));
        rows.row(parameter, answer.fails_with(&expected));
    }
    rows.outcome()?;
    scope
        .is_still_at("configmaps", "a", revision(&object)?)
        .await
}

async fn options_may_come_in_the_query(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = format!("{}?propagationPolicy=Orphan", scope.of("configmaps", "a"));
    let dying = scope.client.delete(&path).await?.is(200)?;
    let finalizers = &dying["metadata"]["finalizers"];
    same_json("finalizers", &json!(["orphan"]), finalizers)
}

/// Where there is no body that has the say.
async fn preconditions_may_come_in_the_query(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let (path, kind) = (scope.of("configmaps", "a"), kind("configmaps"));
    let (stored, revision) = (uid(&object)?, revision(&object)?);
    let answer = scope.client.delete(&format!("{path}?uid=other")).await?;
    answer.fails_with(&status::delete_uid_differs(kind, "a", ["other", stored]))?;
    for other in ["1", "x"] {
        let path = format!("{path}?resourceVersion={other}");
        let answer = scope.client.delete(&path).await?;
        let pair = [other, &revision.to_string()];
        answer.fails_with(&status::delete_revision_differs(kind, "a", pair))?;
    }
    scope.is_still_at("configmaps", "a", revision).await?;
    let path = format!("{path}?uid={stored}&resourceVersion={revision}");
    scope.client.delete(&path).await?.has_status(200)?;
    scope.is_gone("configmaps", "a").await?;
    // What is empty is no condition, and next to a body the query says nothing.
    scope.make("configmaps", "b").await?;
    let path = format!("{}?uid=&resourceVersion=", scope.of("configmaps", "b"));
    scope.client.delete(&path).await?.has_status(200)?;
    scope.make("configmaps", "c").await?;
    let path = format!("{}?resourceVersion=1", scope.of("configmaps", "c"));
    let options = json!({"propagationPolicy": "Background"});
    let answer = scope.client.delete_with(&path, &options).await?;
    answer.has_status(200)
}

async fn a_dry_delete_deletes_nothing(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let path = format!("{}?dryRun=All", scope.of("configmaps", "a"));
    let answer = scope.client.delete(&path).await?;
    let expected = status::deleted(kind("configmaps"), "a", uid(&object)?);
    same_json(&answer.asked, &expected, &answer.is(200)?)?;
    scope
        .is_still_at("configmaps", "a", revision(&object)?)
        .await?;
    let held = make_held(&scope, "b").await?;
    let path = format!("{}?dryRun=All", scope.of("configmaps", "b"));
    let dying = scope.client.delete(&path).await?.is(200)?;
    ensure!(
        dying["metadata"]["deletionTimestamp"].is_string(),
        "not what would be: {dying}"
    );
    same_json("stored", &held, &scope.get("configmaps", "b").await?)
}

/// Shown is what was there before; what has finalizers stays.
async fn a_collection_is_deleted_and_shown(scope: Scope) -> Outcome {
    for name in ["a", "b"] {
        let body = with(
            &sample("configmaps", name),
            "/metadata/labels",
            json!({"x": "y"}),
        );
        scope.create("configmaps", &body).await?;
    }
    make_held(&scope, "c").await?;
    let path = format!("{}?labelSelector=x%3Dy", scope.at("configmaps"));
    let request = Request::new(Method::DELETE, path);
    let shown = scope.client.ask(request).await?.is(200)?;
    same_json("kind", &json!("ConfigMapList"), &shown["kind"])?;
    has_names(&shown, &["a", "b"])?;
    has_names(&scope.list(&[]).await?, &["c"])?;
    let path = scope.at("configmaps");
    let shown = scope.client.delete(&path).await?.is(200)?;
    has_names(&shown, &["c"])?;
    let dying = scope.get("configmaps", "c").await?;
    ensure!(
        dying["metadata"]["deletionTimestamp"].is_string(),
        "alive: {dying}"
    );
    Ok(())
}
