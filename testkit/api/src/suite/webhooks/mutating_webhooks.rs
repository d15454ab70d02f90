//! Mutating webhooks.

use super::{
    MUTATING, NAME, WebhookFixture, configure_one, hook, only_request, requests, wait_until_called,
};
use crate::check::checks;
use crate::failure::{ensure, same, same_json};
use crate::object::{set, with};
use crate::status::failure;
use crate::webhook::{ReceivedReview, Reply, Webhook};
use crate::{Outcome, Scope};
use serde_json::{Value, json};

checks! { mutating_webhooks:
    ["EXT-65"] mutating_webhook_patch_is_applied [Webhooks],
    ["EXT-65"] mutating_webhook_patch_is_defaulted [Webhooks, Admission, Kind("pods")],
    ["EXT-66"] mutating_webhook_patch_requires_patch_type [Webhooks],
    [] inapplicable_mutating_webhook_patch_fails_write [Webhooks],
    ["EXT-68"] mutating_webhooks_run_in_configuration_name_order [Webhooks],
    ["EXT-69"] reinvocation_if_needed_calls_webhook_again_after_change [Webhooks],
    ["EXT-69"] reinvocation_does_not_happen_without_change [Webhooks],
    ["EXT-74"] mutating_webhook_sees_no_generated_name [Webhooks],
    [] fields_added_by_webhook_have_no_owner [Webhooks, Apply],
    [] webhook_is_called_for_every_kind_of_write [Webhooks, Patch, Apply],
}

fn add_label(key: &str, value: &str) -> Value {
    json!([
        {"op": "add", "path": "/metadata/labels", "value": {}},
        {"op": "add", "path": format!("/metadata/labels/{key}"), "value": value},
    ])
}

async fn mutating_webhook_patch_is_applied(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::patch(&add_label("seen", "yes"))).await?;
    let configured = configure_one(&scope, MUTATING, &webhook, |_| {}).await?;
    let outcome = async {
        let made = scope.make("configmaps", "a").await?;
        same_json(
            "labels",
            &json!({"seen": "yes"}),
            &made["metadata"]["labels"],
        )?;
        let kept = scope.get("configmaps", "a").await?;
        same_json("stored", &made, &kept)
    }
    .await;
    configured.cleanup(outcome).await
}

async fn mutating_webhook_patch_is_defaulted(scope: Scope) -> Outcome {
    let container = json!({"name": "added", "image": "b:1"});
    let patch = json!([{"op": "add", "path": "/spec/containers/-", "value": container}]);
    let webhook =
        Webhook::start(
            move |asked| match asked.request()["resource"]["resource"].as_str() {
                Some("pods") => Reply::patch(&patch),
                _ => Reply::allow(),
            },
        )
        .await?;
    let configured = configure_one(&scope, MUTATING, &webhook, |hook| {
        set(hook, "/rules/0/resources", json!(["pods", "configmaps"]));
    })
    .await?;
    let outcome = async {
        // kube-apiserver requires the service account of a pod to exist.
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"},
        });
        scope
            .client
            .post(&scope.collection_path("serviceaccounts"), &account)
            .await?;
        let made = scope.make("pods", "a").await?;
        let added = &made["spec"]["containers"][1];
        same_json("policy", &json!("IfNotPresent"), &added["imagePullPolicy"])?;
        let path = &added["terminationMessagePath"];
        same_json("path", &json!("/dev/termination-log"), path)
    }
    .await;
    configured.cleanup(outcome).await
}

/// A create that fails because of the webhook's response.
async fn fails(scope: &Scope, response: Value, text: &str) -> Outcome {
    let webhook = Webhook::start(move |_| Reply::Review(response.clone())).await?;
    let configured = configure_one(scope, MUTATING, &webhook, |_| {}).await?;
    let outcome = async {
        let path = scope.collection_path("configmaps");
        let answer = scope
            .client
            .post(&path, &scope.sample("configmaps", "a"))
            .await?;
        let message = format!("Internal error occurred: {text}");
        let details = json!({"causes": [{"message": text}]});
        answer.expect_failure(&failure(500, "InternalError", &message, Some(details)))
    }
    .await;
    configured.cleanup(outcome).await
}

fn response_with(operations: &Value, patch_type: Option<&str>) -> Value {
    let Reply::Review(mut response) = Reply::patch(operations) else {
        return Value::Null;
    };
    response["patchType"] = patch_type.into();
    response
}

async fn mutating_webhook_patch_requires_patch_type(scope: Scope) -> Outcome {
    let response = response_with(&add_label("a", "b"), None);
    let text = format!(
        "failed calling webhook \"{NAME}\": received invalid webhook response: webhook returned \
         response.patch but not response.patchType"
    );
    fails(&scope, response, &text).await
}

async fn inapplicable_mutating_webhook_patch_fails_write(scope: Scope) -> Outcome {
    let nowhere = json!([{"op": "remove", "path": "/data/nope"}]);
    let response = response_with(&nowhere, Some("JSONPatch"));
    let text = "error in remove for path: '/data/nope': Unable to remove nonexistent key: nope: \
                missing value";
    fails(&scope, response, text).await
}

/// Appends the path of the call to a key of `data`.
fn trace(asked: &ReceivedReview) -> Reply {
    let path = asked.path.trim_start_matches('/');
    let trace = asked.request()["object"]["data"]["trace"].as_str();
    let trace = format!("{}{path}", trace.unwrap_or_default());
    Reply::patch(&json!([
        {"op": "add", "path": "/data", "value": {"trace": trace}},
    ]))
}

async fn mutating_webhooks_run_in_configuration_name_order(scope: Scope) -> Outcome {
    let webhook = Webhook::start(trace).await?;
    let mut configured = WebhookFixture::new(&scope);
    let outcome = async {
        for (suffix, paths) in [("z", ["/z", "/y"]), ("a", ["/b", "/a"])] {
            let hooks = paths.map(|path| {
                let name = format!("h{}.optik.test", path.trim_start_matches('/'));
                hook(&scope, &name, &webhook.client(path))
            });
            configured.add(MUTATING, suffix, &json!(hooks)).await?;
        }
        wait_until_called(&scope, &webhook, &["/a", "/b", "/y", "/z"]).await?;
        let made = scope.make("configmaps", "a").await?;
        same_json("trace", &json!("bazy"), &made["data"]["trace"])
    }
    .await;
    configured.cleanup(outcome).await
}

/// `/a` is to be reinvoked if needed; `/b` changes the object if `change` is set.
async fn asked_again(scope: &Scope, change: bool) -> Outcome<(usize, usize)> {
    let webhook = Webhook::start(move |asked| match asked.path.as_str() {
        "/b" if change => Reply::patch(&json!([
            {"op": "add", "path": "/data", "value": {"by": "b"}},
        ])),
        _ => Reply::allow(),
    })
    .await?;
    let mut configured = WebhookFixture::new(scope);
    let mut count = (0, 0);
    let outcome = async {
        let mut a = hook(scope, "a.optik.test", &webhook.client("/a"));
        set(&mut a, "/reinvocationPolicy", json!("IfNeeded"));
        let mut b = hook(scope, "b.optik.test", &webhook.client("/b"));
        set(&mut b, "/reinvocationPolicy", json!("IfNeeded"));
        configured.add(MUTATING, "one", &json!([a, b])).await?;
        wait_until_called(scope, &webhook, &["/a", "/b"]).await?;
        scope.make("configmaps", "a").await?;
        let last = requests(&webhook, "/a").pop().unwrap_or_default();
        if change {
            same_json("last seen", &json!({"by": "b"}), &last["object"]["data"])?;
        }
        count = (
            requests(&webhook, "/a").len(),
            requests(&webhook, "/b").len(),
        );
        Ok(())
    }
    .await;
    configured.cleanup(outcome).await?;
    Ok(count)
}

async fn reinvocation_if_needed_calls_webhook_again_after_change(scope: Scope) -> Outcome {
    same("asked", &(2, 1), &asked_again(&scope, true).await?)
}

async fn reinvocation_does_not_happen_without_change(scope: Scope) -> Outcome {
    same("asked", &(1, 1), &asked_again(&scope, false).await?)
}

async fn mutating_webhook_sees_no_generated_name(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let mut configured = configure_one(&scope, MUTATING, &webhook, |_| {}).await?;
    let outcome = async {
        let validating = hook(&scope, "v.optik.test", &webhook.client("/v"));
        configured
            .add(super::VALIDATING, "v", &json!([validating]))
            .await?;
        wait_until_called(&scope, &webhook, &["/", "/v"]).await?;
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g-"},
        });
        let made = scope.create("configmaps", &body).await?;
        let first = only_request(&webhook, "/")?;
        same_json("name", &Value::Null, &first["name"])?;
        same_json(
            "name in it",
            &Value::Null,
            &first["object"]["metadata"]["name"],
        )?;
        same_json(
            "uid in it",
            &Value::Null,
            &first["object"]["metadata"]["uid"],
        )?;
        let second = only_request(&webhook, "/v")?;
        let metadata = &made["metadata"];
        same_json("name", &metadata["name"], &second["name"])?;
        let seen = &second["object"]["metadata"];
        same_json("uid in it", &metadata["uid"], &seen["uid"])
    }
    .await;
    configured.cleanup(outcome).await
}

async fn fields_added_by_webhook_have_no_owner(scope: Scope) -> Outcome {
    let patch = json!([{"op": "add", "path": "/data/added", "value": "yes"}]);
    let webhook = Webhook::start(move |asked| match asked.request()["name"].as_str() {
        Some("a") => Reply::patch(&patch),
        _ => Reply::allow(),
    })
    .await?;
    let configured = configure_one(&scope, MUTATING, &webhook, |_| {}).await?;
    let outcome = async {
        let body = with(
            &scope.sample("configmaps", "a"),
            "/data",
            json!({"own": "1"}),
        );
        let path = format!("{}?fieldManager=m", scope.object_path("configmaps", "a"));
        let media_type = "application/apply-patch+yaml";
        let made = scope.client.patch_as(media_type, &path, &body).await?;
        let made = made.expect_json(201)?;
        same_json("data", &json!({"own": "1", "added": "yes"}), &made["data"])?;
        let managers = &made["metadata"]["managedFields"];
        let fields = &managers[0]["fieldsV1"]["f:data"];
        same_json("fields", &json!({"f:own": {}}), fields)?;
        ensure!(managers[1].is_null(), "one manager, got {managers}");
        Ok(())
    }
    .await;
    configured.cleanup(outcome).await
}

async fn webhook_is_called_for_every_kind_of_write(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let configured = configure_one(&scope, MUTATING, &webhook, |_| {}).await?;
    let outcome = async {
        let path = scope.object_path("configmaps", "a");
        let body = scope.sample("configmaps", "a");
        let media_type = "application/apply-patch+yaml";
        let apply = format!("{path}?fieldManager=m&force=true");
        scope
            .client
            .patch_as(media_type, &apply, &body)
            .await?
            .expect_json(201)?;
        let change = json!({"data": {"b": "1"}});
        scope.client.patch(&path, &change).await?.expect_json(200)?;
        let body = with(&body, "/data", json!({"c": "1"}));
        scope.client.put(&path, &body).await?.expect_json(200)?;
        scope
            .client
            .patch_as(media_type, &apply, &body)
            .await?
            .expect_json(200)?;
        scope.client.delete(&path).await?.expect_json(200)?;
        let seen = requests(&webhook, "/").into_iter().map(|request| {
            let options = request["options"]["kind"].clone();
            json!([request["operation"], options, request["name"]])
        });
        let seen: Vec<Value> = seen.collect();
        let expected = json!([
            ["CREATE", "CreateOptions", "a"],
            ["UPDATE", "UpdateOptions", "a"],
            ["UPDATE", "UpdateOptions", "a"],
            ["UPDATE", "UpdateOptions", "a"],
            ["DELETE", "DeleteOptions", "a"],
        ]);
        same_json("asked", &expected, &seen.into())
    }
    .await;
    configured.cleanup(outcome).await
}
