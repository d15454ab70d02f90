//! Conversion webhooks of CRDs.

use crate::check::checks;
use crate::crds::CrdFixture;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::object::{set, with};
use crate::status::failure;
use crate::webhook::{ReceivedReview, Reply, Webhook};
use crate::{Outcome, Scope};
use serde_json::{Value, json};

checks! { conversion:
    [] conversion_webhook_converts_reads [Webhooks, CustomResources],
    [] conversion_webhook_converts_writes [Webhooks, CustomResources],
    [] conversion_webhook_converts_lists_and_watches [Webhooks, CustomResources],
    [] conversion_webhook_is_not_called_for_matching_version [Webhooks, CustomResources],
    [] conversion_webhook_may_change_only_labels_and_annotations [Webhooks, CustomResources],
    [] conversion_webhook_requires_valid_ca_bundle [Webhooks, CustomResources],
    ["EXT-57"] failed_conversion_fails_the_request [Webhooks, CustomResources],
    ["EXT-58"] conversion_must_keep_object_identity [Webhooks, CustomResources],
}

/// `v1` names the field `a`, `v2` names it `b`; the storage version is `v1`.
fn renamed(object: &Value, to: &str) -> Value {
    let mut object = object.clone();
    let (from, into) = match to.ends_with("/v2") {
        true => ("a", "b"),
        false => ("b", "a"),
    };
    object["apiVersion"] = to.into();
    if let Some(spec) = object["spec"].as_object_mut()
        && let Some(value) = spec.remove(from)
    {
        spec.insert(into.into(), value);
    }
    object
}

fn converted(asked: &ReceivedReview, change: impl Fn(&mut Value)) -> Reply {
    let request = asked.request();
    let to = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects = request["objects"].as_array().into_iter().flatten();
    let objects = objects.map(|object| {
        let mut object = renamed(object, to);
        change(&mut object);
        object
    });
    let objects: Vec<Value> = objects.collect();
    Reply::Review(json!({"result": {"status": "Success"}, "convertedObjects": objects}))
}

/// Defines the CRD `things` with a conversion webhook.
async fn define(scope: &Scope, webhook: &Webhook) -> Outcome<CrdFixture> {
    define_as(scope, webhook, ("things", "Thing")).await
}

async fn define_as(
    scope: &Scope,
    webhook: &Webhook,
    (plural, kind): (&str, &str),
) -> Outcome<CrdFixture> {
    let mut defined = CrdFixture::with_default_schema(scope).with_names(plural, kind);
    let spec = |name: &str| {
        json!({"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {name: {"type": "string"}}}}}})
    };
    let version = |name: &str, storage: bool, field: &str| json!({"name": name, "served": true, "storage": storage, "schema": spec(field)});
    let versions = json!([version("v1", true, "a"), version("v2", false, "b")]);
    set(&mut defined.definition, "/spec/versions", versions);
    let conversion = json!({"strategy": "Webhook", "webhook": {
        "clientConfig": webhook.client("/"), "conversionReviewVersions": ["v1"],
    }});
    set(&mut defined.definition, "/spec/conversion", conversion);
    defined.serve(scope).await?;
    crate::crds::is_served(scope, &in_v2(&defined)).await?;
    Ok(defined)
}

fn in_v2(defined: &CrdFixture) -> String {
    defined.path.replace("/v1/", "/v2/")
}

fn thing(defined: &CrdFixture, version: &str, name: &str) -> Value {
    let field = if version == "v2" { "b" } else { "a" };
    let mut thing = defined.with(name, json!({field: "x"}));
    thing["apiVersion"] = format!("{}/{version}", defined.group).into();
    thing
}

async fn conversion_webhook_converts_reads(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|asked| converted(asked, |_| {})).await?;
    let defined = define(&scope, &webhook).await?;
    let made = scope
        .client
        .post(&defined.path, &thing(&defined, "v1", "t"))
        .await?
        .expect_json(201)?;
    let path = format!("{}/t", in_v2(&defined));
    let read = scope.client.get(&path).await?.expect_json(200)?;
    same_json("spec", &json!({"b": "x"}), &read["spec"])?;
    let version = format!("{}/v2", defined.group);
    same_json("apiVersion", &json!(version), &read["apiVersion"])?;
    let revision = &made["metadata"]["resourceVersion"];
    same_json("revision", revision, &read["metadata"]["resourceVersion"])?;
    let asked = webhook.received();
    let asked = asked.last().map(|asked| asked.review.clone());
    let asked = asked.unwrap_or_default();
    same_json("kind", &json!("ConversionReview"), &asked["kind"])?;
    let api_version = &asked["apiVersion"];
    same_json("apiVersion", &json!("apiextensions.k8s.io/v1"), api_version)?;
    defined.delete_definitions(&scope).await
}

async fn conversion_webhook_converts_writes(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|asked| converted(asked, |_| {})).await?;
    let defined = define(&scope, &webhook).await?;
    let path = in_v2(&defined);
    let made = scope
        .client
        .post(&path, &thing(&defined, "v2", "t"))
        .await?
        .expect_json(201)?;
    same_json("spec", &json!({"b": "x"}), &made["spec"])?;
    let one_kept = format!("{}/t", defined.path);
    let kept = scope.client.get(&one_kept).await?.expect_json(200)?;
    same_json("kept", &json!({"a": "x"}), &kept["spec"])?;
    let changed = with(&made, "/spec/b", json!("y"));
    let one = format!("{path}/t");
    let changed = scope.client.put(&one, &changed).await?.expect_json(200)?;
    same_json("changed", &json!({"b": "y"}), &changed["spec"])?;
    let patch = json!({"spec": {"b": "z"}});
    let patched = scope.client.patch(&one, &patch).await?.expect_json(200)?;
    same_json("patched", &json!({"b": "z"}), &patched["spec"])?;
    let generation = &patched["metadata"]["generation"];
    same_json("generation", &json!(3), generation)?;
    let kept = scope.client.get(&one_kept).await?.expect_json(200)?;
    same_json("kept", &json!({"a": "z"}), &kept["spec"])?;
    // An update without a change is no write.
    let again = scope.client.patch(&one, &patch).await?.expect_json(200)?;
    let revision = &patched["metadata"]["resourceVersion"];
    same_json("revision", revision, &again["metadata"]["resourceVersion"])?;
    scope.client.delete(&one).await?.expect_json(200)?;
    defined.delete_definitions(&scope).await
}

async fn conversion_webhook_converts_lists_and_watches(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|asked| converted(asked, |_| {})).await?;
    let defined = define(&scope, &webhook).await?;
    let path = in_v2(&defined);
    for name in ["a", "b", "c"] {
        let body = thing(&defined, "v1", name);
        scope
            .client
            .post(&defined.path, &body)
            .await?
            .expect_json(201)?;
    }
    let list = scope.client.get(&path).await?.expect_json(200)?;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let specs: Vec<&Value> = items.iter().map(|item| &item["spec"]).collect();
    let expected = json!({"b": "x"});
    same("specs", &vec![&expected; 3], &specs)?;
    let page = scope
        .client
        .get(&format!("{path}?limit=2"))
        .await?
        .expect_json(200)?;
    same_json("of a page", &expected, &page["items"][1]["spec"])?;
    let revision = list["metadata"]["resourceVersion"].as_str();
    let revision = revision.unwrap_or_default();
    let watch = format!("{path}?watch=true&resourceVersion={revision}");
    let mut watch = scope.client.watch(&watch).await?;
    let change = json!({"spec": {"a": "y"}});
    let one = format!("{}/b", defined.path);
    scope.client.patch(&one, &change).await?.expect_json(200)?;
    let event = watch.expect("MODIFIED").await?;
    same_json("told", &json!({"b": "y"}), &event.object["spec"])?;
    scope.client.delete(&one).await?.expect_json(200)?;
    let event = watch.expect("DELETED").await?;
    same_json("told", &json!({"b": "y"}), &event.object["spec"])?;
    defined.delete_definitions(&scope).await
}

async fn conversion_webhook_is_not_called_for_matching_version(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|asked| converted(asked, |_| {})).await?;
    let defined = define(&scope, &webhook).await?;
    let body = thing(&defined, "v1", "t");
    scope
        .client
        .post(&defined.path, &body)
        .await?
        .expect_json(201)?;
    webhook.clear_received();
    let one = format!("{}/t", defined.path);
    scope.client.get(&one).await?.expect_json(200)?;
    scope
        .client
        .patch(&one, &json!({"spec": {"a": "y"}}))
        .await?
        .expect_json(200)?;
    let asked = webhook.received();
    let about_v1 = asked.iter().filter(|asked| {
        let to = asked.request()["desiredAPIVersion"].as_str();
        to.is_some_and(|to| to.ends_with("/v1"))
    });
    same("asked", &0, &about_v1.count())?;
    defined.delete_definitions(&scope).await
}

async fn conversion_webhook_may_change_only_labels_and_annotations(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|asked| {
        converted(asked, |object| {
            let labels = json!({"converted": "yes"});
            object["metadata"]["labels"] = labels;
            object["metadata"]["finalizers"] = json!(["optik.test/no"]);
            object["metadata"]["generation"] = json!(77);
        })
    })
    .await?;
    let defined = define(&scope, &webhook).await?;
    let body = thing(&defined, "v1", "t");
    let made = scope
        .client
        .post(&defined.path, &body)
        .await?
        .expect_json(201)?;
    let path = format!("{}/t", in_v2(&defined));
    let read = scope.client.get(&path).await?.expect_json(200)?;
    let expected = with(&made["metadata"], "/labels", json!({"converted": "yes"}));
    same_json("metadata", &expected, &read["metadata"])?;
    defined.delete_definitions(&scope).await
}

async fn conversion_webhook_requires_valid_ca_bundle(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|asked| converted(asked, |_| {})).await?;
    let bundle = "/spec/conversion/webhook/clientConfig/caBundle";
    let nobody = json!("bm9uc2Vuc2U=");
    let mut distrusted =
        CrdFixture::with_default_schema(&scope).with_names("strangers", "Stranger");
    let conversion = json!({"strategy": "Webhook", "webhook": {
        "clientConfig": {"url": webhook.url("/"), "caBundle": nobody},
        "conversionReviewVersions": ["v1"],
    }});
    set(&mut distrusted.definition, "/spec/conversion", conversion);
    distrusted.make(&scope).await?;
    let told = scope
        .wait_until("a verdict", || async {
            let now = distrusted.get(&scope).await?;
            let list = now["status"]["conditions"].as_array().cloned();
            let mut list = list.unwrap_or_default().into_iter();
            Ok(list.find(|one| one["type"] == "Established" && one["reason"] != "Installing"))
        })
        .await?;
    same_json("status", &json!("False"), &told["status"])?;
    same_json("reason", &json!("InvalidCABundle"), &told["reason"])?;
    let text = "The conversion webhook CABundle is invalid";
    same_json("message", &json!(text), &told["message"])?;
    distrusted.delete_definitions(&scope).await?;

    let defined = define(&scope, &webhook).await?;
    let now = defined.established(&scope).await?;
    let path = scope.object_path("customresourcedefinitions", &defined.name);
    let answer = scope.client.put(&path, &with(&now, bundle, nobody)).await?;
    let status = answer.expect_json(422)?;
    let field = &status["details"]["causes"][0]["field"];
    let expected = "spec.conversion.webhookClientConfig.caBundle";
    same_json("field", &json!(expected), field)?;
    defined.delete_definitions(&scope).await
}

/// Reads an object that is not converted well.
async fn fails(
    scope: &Scope,
    names: (&str, &str),
    reply: fn(&ReceivedReview) -> Reply,
    text: &str,
) -> Outcome {
    let webhook = Webhook::start(reply).await?;
    let defined = define_as(scope, &webhook, names).await?;
    let body = thing(&defined, "v1", "t");
    scope
        .client
        .post(&defined.path, &body)
        .await?
        .expect_json(201)?;
    let path = format!("{}/t", in_v2(&defined));
    let answer = scope.client.get(&path).await?;
    let message = format!(
        "conversion webhook for {}/v1, Kind={} {text}",
        defined.group, names.1
    );
    let outcome = answer.expect_failure(&failure(500, "", &message, None));
    let list = scope.client.get(&in_v2(&defined)).await?;
    let listed = list.expect_json(500).and_then(|status| {
        let told = status["message"].as_str().unwrap_or_default();
        ensure!(told.contains(text), "expected {text}\n  got {told}");
        Ok(())
    });
    defined.delete_definitions(scope).await?;
    outcome.and(listed)
}

async fn failed_conversion_fails_the_request(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    let failed = |_: &ReceivedReview| {
        Reply::Review(json!({"result": {"status": "Failed", "message": "cannot do that"}}))
    };
    rows.record(
        "failed",
        fails(
            &scope,
            ("failures", "Failure"),
            failed,
            "failed: cannot do that",
        )
        .await,
    );
    let nothing = |_: &ReceivedReview| {
        Reply::Review(json!({"result": {"status": "Success"}, "convertedObjects": []}))
    };
    let text = "returned 0 objects, expected 1";
    rows.record(
        "nothing",
        fails(&scope, ("nothings", "Nothing"), nothing, text).await,
    );
    rows.outcome()
}

async fn conversion_must_keep_object_identity(scope: Scope) -> Outcome {
    let renames = |asked: &ReceivedReview| {
        converted(asked, |object| object["metadata"]["name"] = json!("zzz"))
    };
    let text = "returned invalid object: must have the same name: t != zzz";
    fails(&scope, ("things", "Thing"), renames, text).await
}
