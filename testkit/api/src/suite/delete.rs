//! Checks of delete (CONC §2.5); pods and namespaces have modules of their own.

use crate::check::checks;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::kinds::kind;
use crate::object::{has_names, revision, text_at, uid, with};
use crate::samples::sample;
use crate::status;
use crate::{Outcome, Request, Scope};
use http::Method;
use serde_json::{Value, json};

pub(super) const FINALIZER: &str = "optik.test/hold";
const OTHER_UID: &str = "11111111-1111-1111-1111-111111111111";

checks! { delete:
    ["CONC-48", "WIRE-68"] delete_returns_status [],
    ["CONC-49"] delete_of_some_kinds_returns_the_object [Kind("serviceaccounts")],
    [] delete_of_missing_object_gets_404 [],
    ["CONC-50"] delete_with_other_uid_precondition_gets_409 [],
    ["CONC-51"] delete_with_other_resource_version_precondition_gets_409 [],
    ["CONC-50", "CONC-51"] delete_with_matching_preconditions_succeeds [],
    ["CONC-52", "CONC-53", "WIRE-68"] delete_with_finalizer_sets_deletion_timestamp [],
    ["CONC-54", "EXT-87"] finalizer_cannot_be_added_by_update_while_terminating [],
    ["CONC-54"] finalizer_cannot_be_added_by_patch_while_terminating [Patch],
    ["CONC-55"] update_cannot_clear_deletion_timestamp [],
    ["CONC-55"] patch_cannot_clear_deletion_timestamp [Patch],
    ["CONC-56", "CONC-57"] update_removing_last_finalizer_deletes_object [],
    ["CONC-56", "CONC-57"] patch_removing_last_finalizer_deletes_object [Patch],
    ["CONC-59"] orphan_propagation_adds_orphan_finalizer [],
    ["CONC-59"] foreground_propagation_adds_finalizer [],
    ["CONC-60"] delete_with_orphan_dependents_false_returns_202 [],
    ["CONC-66"] orphan_dependents_and_propagation_policy_exclude_each_other [],
    [] unknown_delete_options_are_rejected [],
    [] delete_options_are_read_from_query [],
    ["CONC-50", "CONC-51"] delete_preconditions_are_read_from_query [],
    [] dry_run_delete_deletes_nothing [],
    [] delete_collection_returns_deleted_objects [],
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
        .delete(&scope.object_path("configmaps", name))
        .await?
        .expect_json(200)
}

async fn delete_returns_status(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let mut watch = scope.watch_from_now().await?;
    let answer = scope
        .client
        .delete(&scope.object_path("configmaps", "a"))
        .await?;
    let expected = status::delete_success(kind("configmaps"), "a", uid(&object)?);
    answer.has_status(200)?;
    same_json(&answer.asked, &expected, &answer.json()?)?;
    scope.is_gone("configmaps", "a").await?;
    let event = watch.expect_summary("DELETED a").await?;
    let now = event.revision()?;
    ensure!(
        now > revision(&object)?,
        "an old revision: {}",
        event.object
    );
    let expected = with(&object, "/metadata/resourceVersion", now.to_string());
    same_json("the event", &expected, &event.object)
}

async fn delete_of_some_kinds_returns_the_object(scope: Scope) -> Outcome {
    let object = scope.make("serviceaccounts", "a").await?;
    let from = revision(&object)?.to_string();
    let parameters = [("resourceVersion", from.as_str())];
    let mut watch = scope.watch_kind("serviceaccounts", &parameters).await?;
    let answer = scope
        .client
        .delete(&scope.object_path("serviceaccounts", "a"))
        .await?;
    let shown = answer.expect_json(200)?;
    let now = revision(&shown)?;
    ensure!(now > revision(&object)?, "not the deletion's: {now}");
    let expected = with(&object, "/metadata/resourceVersion", now.to_string());
    same_json(&answer.asked, &expected, &shown)?;
    let event = watch.expect_summary("DELETED a").await?;
    same_json("the event", &shown, &event.object)?;
    scope.is_gone("serviceaccounts", "a").await
}

async fn delete_of_missing_object_gets_404(scope: Scope) -> Outcome {
    let answer = scope
        .client
        .delete(&scope.object_path("configmaps", "a"))
        .await?;
    answer.expect_failure(&status::not_found(kind("configmaps"), "a"))
}

async fn delete_with_other_uid_precondition_gets_409(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    for other in [OTHER_UID, ""] {
        let options = json!({"preconditions": {"uid": other}});
        let answer = scope.client.delete_with(&path, &options).await?;
        let uids = [other, uid(&object)?];
        answer.expect_failure(&status::delete_uid_differs(kind("configmaps"), "a", uids))?;
    }
    scope
        .is_still_at("configmaps", "a", revision(&object)?)
        .await
}

/// Compared as texts: a leading zero is a difference.
async fn delete_with_other_resource_version_precondition_gets_409(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    let stored = revision(&object)?.to_string();
    for other in ["1", "", "abc", &format!("0{stored}")] {
        let options = json!({"preconditions": {"resourceVersion": other}});
        let answer = scope.client.delete_with(&path, &options).await?;
        let pair = [other, &stored];
        answer.expect_failure(&status::delete_revision_differs(
            kind("configmaps"),
            "a",
            pair,
        ))?;
    }
    scope
        .is_still_at("configmaps", "a", revision(&object)?)
        .await
}

async fn delete_with_matching_preconditions_succeeds(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let options = json!({
        "kind": "DeleteOptions", "apiVersion": "v1",
        "preconditions": {
            "uid": uid(&object)?, "resourceVersion": revision(&object)?.to_string(),
        },
    });
    let path = scope.object_path("configmaps", "a");
    scope
        .client
        .delete_with(&path, &options)
        .await?
        .expect_json(200)?;
    scope.is_gone("configmaps", "a").await
}

async fn delete_with_finalizer_sets_deletion_timestamp(scope: Scope) -> Outcome {
    let object = make_held(&scope, "a").await?;
    let mut watch = scope.watch_from_now().await?;
    let path = scope.object_path("configmaps", "a");
    let answer = scope.client.delete(&path).await?;
    let dying = answer.expect_json(200)?;
    let mut expected = object.clone();
    let time = text_at(&dying, "/metadata/deletionTimestamp")?;
    expected["metadata"]["deletionTimestamp"] = time.into();
    expected["metadata"]["deletionGracePeriodSeconds"] = 0.into();
    let now = revision(&dying)?;
    expected["metadata"]["resourceVersion"] = now.to_string().into();
    same_json(&answer.asked, &expected, &dying)?;
    ensure!(now > revision(&object)?, "not written: {dying}");
    let event = watch.expect_summary("MODIFIED a").await?;
    same_json("the event", &dying, &event.object)?;
    // A second delete changes nothing.
    let again = scope.client.delete(&path).await?;
    same_json(&again.asked, &dying, &again.expect_json(200)?)?;
    scope.make("configmaps", "next").await?;
    watch.expect_summary("ADDED next").await?;
    Ok(())
}

async fn finalizer_cannot_be_added_by_update_while_terminating(scope: Scope) -> Outcome {
    let dying = make_dying(&scope, "a").await?;
    let both = json!([FINALIZER, "optik.test/more"]);
    let body = with(&dying, "/metadata/finalizers", both);
    let answer = scope
        .client
        .put(&scope.object_path("configmaps", "a"), &body)
        .await?;
    let expected = status::finalizer_added(kind("configmaps"), "a", "optik.test/more");
    answer.expect_failure(&expected)
}

async fn finalizer_cannot_be_added_by_patch_while_terminating(scope: Scope) -> Outcome {
    make_dying(&scope, "a").await?;
    let patch = json!({"metadata": {"finalizers": [FINALIZER, "optik.test/more"]}});
    let answer = scope
        .client
        .patch(&scope.object_path("configmaps", "a"), &patch)
        .await?;
    let expected = status::finalizer_added(kind("configmaps"), "a", "optik.test/more");
    answer.expect_failure(&expected)
}

async fn update_cannot_clear_deletion_timestamp(scope: Scope) -> Outcome {
    let dying = make_dying(&scope, "a").await?;
    for member in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        let body = with(&dying, &format!("/metadata/{member}"), Value::Null);
        let again = scope.replace("configmaps", &body).await?;
        same_json(member, &dying, &again)?;
    }
    Ok(())
}

async fn patch_cannot_clear_deletion_timestamp(scope: Scope) -> Outcome {
    let dying = make_dying(&scope, "a").await?;
    let patch = json!({"metadata": {"deletionTimestamp": null}});
    let answer = scope
        .client
        .patch(&scope.object_path("configmaps", "a"), &patch)
        .await?;
    same_json(&answer.asked, &dying, &answer.expect_json(200)?)
}

/// The response is the requested object at the old revision, but the stored object is deleted: the
/// other edits of that request are discarded.
async fn update_removing_last_finalizer_deletes_object(scope: Scope) -> Outcome {
    let dying = make_dying(&scope, "a").await?;
    let mut watch = scope.watch_from_now().await?;
    let mut body = with(&dying, "/data/k", "edited");
    body["metadata"]["finalizers"] = json!([]);
    let answer = scope
        .client
        .put(&scope.object_path("configmaps", "a"), &body)
        .await?;
    is_shown_and_gone(&scope, &answer.expect_json(200)?, &dying).await?;
    let event = watch.expect_summary("DELETED a").await?;
    is_the_removal_of(&dying, &event.object)
}

async fn patch_removing_last_finalizer_deletes_object(scope: Scope) -> Outcome {
    let dying = make_dying(&scope, "a").await?;
    let mut watch = scope.watch_from_now().await?;
    let patch = json!({"metadata": {"finalizers": null}, "data": {"k": "edited"}});
    let answer = scope
        .client
        .patch(&scope.object_path("configmaps", "a"), &patch)
        .await?;
    is_shown_and_gone(&scope, &answer.expect_json(200)?, &dying).await?;
    let event = watch.expect_summary("DELETED a").await?;
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

async fn orphan_propagation_adds_orphan_finalizer(scope: Scope) -> Outcome {
    leaves_a_finalizer(&scope, "Orphan", "orphan").await
}

async fn foreground_propagation_adds_finalizer(scope: Scope) -> Outcome {
    leaves_a_finalizer(&scope, "Foreground", "foregroundDeletion").await
}

/// A later background delete removes the finalizer, and the object with it.
async fn leaves_a_finalizer(scope: &Scope, policy: &str, finalizer: &str) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    let options = json!({"propagationPolicy": policy});
    let dying = scope
        .client
        .delete_with(&path, &options)
        .await?
        .expect_json(200)?;
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
    let expected = status::delete_success(kind("configmaps"), "a", uid(&object)?);
    same_json(&answer.asked, &expected, &answer.expect_json(200)?)?;
    scope.is_gone("configmaps", "a").await
}

async fn delete_with_orphan_dependents_false_returns_202(scope: Scope) -> Outcome {
    make_held(&scope, "a").await?;
    let options = json!({"orphanDependents": false});
    let path = scope.object_path("configmaps", "a");
    let dying = scope
        .client
        .delete_with(&path, &options)
        .await?
        .expect_json(202)?;
    ensure!(
        dying["metadata"]["deletionTimestamp"].is_string(),
        "alive: {dying}"
    );
    scope.make("configmaps", "b").await?;
    let path = scope.object_path("configmaps", "b");
    scope
        .client
        .delete_with(&path, &options)
        .await?
        .has_status(200)
}

async fn orphan_dependents_and_propagation_policy_exclude_each_other(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let options = json!({"orphanDependents": true, "propagationPolicy": "Orphan"});
    let path = scope.object_path("configmaps", "a");
    let answer = scope.client.delete_with(&path, &options).await?;
    let text = "Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be \
                both set";
    answer.expect_failure(&delete_options((
        "FieldValueInvalid",
        "propagationPolicy",
        text,
    )))
}

fn delete_options(cause: status::Cause<'_>) -> Value {
    status::invalid("DeleteOptions", "meta.k8s.io", "", &[cause])
}

async fn unknown_delete_options_are_rejected(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    let mut rows = RowFailures::default();
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
        rows.record(parameter, answer.expect_failure(&expected));
    }
    rows.outcome()?;
    scope
        .is_still_at("configmaps", "a", revision(&object)?)
        .await
}

async fn delete_options_are_read_from_query(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = format!(
        "{}?propagationPolicy=Orphan",
        scope.object_path("configmaps", "a")
    );
    let dying = scope.client.delete(&path).await?.expect_json(200)?;
    let finalizers = &dying["metadata"]["finalizers"];
    same_json("finalizers", &json!(["orphan"]), finalizers)
}

/// Without a body the query decides.
async fn delete_preconditions_are_read_from_query(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let (path, kind) = (scope.object_path("configmaps", "a"), kind("configmaps"));
    let (stored, revision) = (uid(&object)?, revision(&object)?);
    let answer = scope.client.delete(&format!("{path}?uid=other")).await?;
    answer.expect_failure(&status::delete_uid_differs(kind, "a", ["other", stored]))?;
    for other in ["1", "x"] {
        let path = format!("{path}?resourceVersion={other}");
        let answer = scope.client.delete(&path).await?;
        let pair = [other, &revision.to_string()];
        answer.expect_failure(&status::delete_revision_differs(kind, "a", pair))?;
    }
    scope.is_still_at("configmaps", "a", revision).await?;
    let path = format!("{path}?uid={stored}&resourceVersion={revision}");
    scope.client.delete(&path).await?.has_status(200)?;
    scope.is_gone("configmaps", "a").await?;
    // An empty value is no precondition, and with a body the query is ignored.
    scope.make("configmaps", "b").await?;
    let path = format!(
        "{}?uid=&resourceVersion=",
        scope.object_path("configmaps", "b")
    );
    scope.client.delete(&path).await?.has_status(200)?;
    scope.make("configmaps", "c").await?;
    let path = format!("{}?resourceVersion=1", scope.object_path("configmaps", "c"));
    let options = json!({"propagationPolicy": "Background"});
    let answer = scope.client.delete_with(&path, &options).await?;
    answer.has_status(200)
}

async fn dry_run_delete_deletes_nothing(scope: Scope) -> Outcome {
    let object = scope.make("configmaps", "a").await?;
    let path = format!("{}?dryRun=All", scope.object_path("configmaps", "a"));
    let answer = scope.client.delete(&path).await?;
    let expected = status::delete_success(kind("configmaps"), "a", uid(&object)?);
    same_json(&answer.asked, &expected, &answer.expect_json(200)?)?;
    scope
        .is_still_at("configmaps", "a", revision(&object)?)
        .await?;
    let held = make_held(&scope, "b").await?;
    let path = format!("{}?dryRun=All", scope.object_path("configmaps", "b"));
    let dying = scope.client.delete(&path).await?.expect_json(200)?;
    ensure!(
        dying["metadata"]["deletionTimestamp"].is_string(),
        "not what would be: {dying}"
    );
    same_json("stored", &held, &scope.get("configmaps", "b").await?)
}

/// The response has the objects before the delete; objects with finalizers remain.
async fn delete_collection_returns_deleted_objects(scope: Scope) -> Outcome {
    for name in ["a", "b"] {
        let body = with(
            &sample("configmaps", name),
            "/metadata/labels",
            json!({"x": "y"}),
        );
        scope.create("configmaps", &body).await?;
    }
    make_held(&scope, "c").await?;
    let path = format!(
        "{}?labelSelector=x%3Dy",
        scope.collection_path("configmaps")
    );
    let request = Request::new(Method::DELETE, path);
    let shown = scope.client.execute(request).await?.expect_json(200)?;
    same_json("kind", &json!("ConfigMapList"), &shown["kind"])?;
    has_names(&shown, &["a", "b"])?;
    has_names(&scope.list(&[]).await?, &["c"])?;
    let path = scope.collection_path("configmaps");
    let shown = scope.client.delete(&path).await?.expect_json(200)?;
    has_names(&shown, &["c"])?;
    let dying = scope.get("configmaps", "c").await?;
    ensure!(
        dying["metadata"]["deletionTimestamp"].is_string(),
        "alive: {dying}"
    );
    Ok(())
}
