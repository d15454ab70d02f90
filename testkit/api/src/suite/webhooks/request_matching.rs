//! Matching of requests to webhooks, and the content of the AdmissionReview.

use super::{
    MUTATING, VALIDATING, WebhookFixture, configure_one, hook, only_request, requests,
    wait_until_called,
};
use crate::check::checks;
use crate::failure::{ensure, same, same_json};
use crate::object::{set, with};
use crate::webhook::{Reply, Webhook};
use crate::{Outcome, Scope};
use serde_json::{Value, json};

checks! { request_matching:
    ["EXT-70"] match_policy_equivalent_matches_other_versions [Webhooks, Kind("horizontalpodautoscalers")],
    ["EXT-71"] namespace_selector_limits_webhook [Webhooks],
    ["EXT-71"] object_selector_limits_webhook [Webhooks],
    ["EXT-72"] unmet_match_condition_skips_webhook [Webhooks, Policies],
    ["EXT-72"] failing_match_condition_follows_failure_policy [Webhooks, Policies],
    ["EXT-73"] webhook_gets_old_object_on_delete [Webhooks],
    ["EXT-73"] delete_collection_calls_webhook_for_each_object [Webhooks],
    ["EXT-75"] webhook_request_has_dry_run [Webhooks],
    ["EXT-76"] webhook_configurations_are_exempt_from_webhooks [Webhooks],
    [] admission_review_request_is_complete [Webhooks],
    [] webhook_rules_match_status_and_scale_subresources [Webhooks, Scale, Status, Kind("replicasets")],
    [] namespace_selector_matches_namespace_object_itself [Webhooks],
}

async fn match_policy_equivalent_matches_other_versions(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let mut configured = configure_one(&scope, VALIDATING, &webhook, |_| {}).await?;
    let outcome = async {
        let mut equivalent = hook(&scope, "e.optik.test", &webhook.client("/equivalent"));
        let rules = json!([{
            "apiGroups": ["autoscaling"], "apiVersions": ["v2"], "operations": ["CREATE"],
            "resources": ["horizontalpodautoscalers"],
        }]);
        set(&mut equivalent, "/rules", rules);
        let exact = with(&equivalent, "/matchPolicy", json!("Exact"));
        let exact = with(&exact, "/name", json!("x.optik.test"));
        let exact = with(&exact, "/clientConfig", webhook.client("/exact"));
        configured
            .add(VALIDATING, "two", &json!([equivalent, exact]))
            .await?;
        let body = json!({
            "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "a"},
            "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 70,
                     "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}},
        });
        let path = format!(
            "/apis/autoscaling/v1/namespaces/{}/horizontalpodautoscalers",
            scope.namespace
        );
        let tried = format!("{path}?dryRun=All");
        let asked = || async {
            scope.client.post(&tried, &body).await?.expect_json(201)?;
            Ok((!webhook.received_at("/equivalent").is_empty()).then_some(()))
        };
        scope.wait_until("an equivalent kind to count", asked).await?;
        webhook.clear_received();
        scope.client.post(&path, &body).await?.expect_json(201)?;
        let request = only_request(&webhook, "/equivalent")?;
        let names = |version: &str| {
            json!({"group": "autoscaling", "version": version, "kind": "HorizontalPodAutoscaler"})
        };
        same_json("kind", &names("v2"), &request["kind"])?;
        same_json("requestKind", &names("v1"), &request["requestKind"])?;
        let resource = &request["requestResource"];
        same_json("version", &json!("v1"), &resource["version"])?;
        same_json("version", &json!("v2"), &request["resource"]["version"])?;
        let seen = &request["object"];
        same_json("apiVersion", &json!("autoscaling/v2"), &seen["apiVersion"])?;
        let target = &seen["spec"]["metrics"][0]["resource"]["target"];
        same_json("target", &json!(70), &target["averageUtilization"])?;
        same("exact", &0, &requests(&webhook, "/exact").len())
    }
    .await;
    configured.cleanup(outcome).await
}

async fn namespace_selector_limits_webhook(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let configured = configure_one(&scope, VALIDATING, &webhook, |_| {}).await?;
    let outcome = async {
        let other = scope.second_namespace("-other").await?;
        other.make("configmaps", "a").await?;
        other.cleanup().await;
        same("asked", &0, &requests(&webhook, "/").len())?;
        scope.make("configmaps", "a").await?;
        same("asked", &1, &requests(&webhook, "/").len())
    }
    .await;
    configured.cleanup(outcome).await
}

async fn object_selector_limits_webhook(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let mut configured = configure_one(&scope, VALIDATING, &webhook, |_| {}).await?;
    let outcome = async {
        let mut labelled = hook(&scope, "l.optik.test", &webhook.client("/labelled"));
        let selector = json!({"matchExpressions": [
            {"key": "see", "operator": "In", "values": ["me", "them"]},
        ]});
        set(&mut labelled, "/objectSelector", selector);
        configured.add(VALIDATING, "l", &json!([labelled])).await?;
        let plain = scope.sample("configmaps", "b");
        let body = with(&plain, "/metadata/labels", json!({"see": "me"}));
        let tried = format!("{}?dryRun=All", scope.collection_path("configmaps"));
        let asked = || async {
            scope.client.post(&tried, &body).await?.expect_json(201)?;
            Ok((!webhook.received_at("/labelled").is_empty()).then_some(()))
        };
        scope.wait_until("a selector to count", asked).await?;
        webhook.clear_received();
        scope.make("configmaps", "a").await?;
        same(
            "asked about others",
            &0,
            &requests(&webhook, "/labelled").len(),
        )?;
        scope.create("configmaps", &body).await?;
        same("asked", &1, &requests(&webhook, "/labelled").len())?;
        // The old object is matched as well as the new one.
        scope.replace("configmaps", &plain).await?;
        same("asked", &2, &requests(&webhook, "/labelled").len())
    }
    .await;
    configured.cleanup(outcome).await
}

async fn webhook_gets_old_object_on_delete(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let configured = configure_one(&scope, VALIDATING, &webhook, |_| {}).await?;
    let outcome = async {
        let made = scope.make("configmaps", "a").await?;
        let path = scope.object_path("configmaps", "a");
        scope
            .client
            .delete(&format!("{}/no", scope.collection_path("configmaps")))
            .await?
            .expect_json(404)?;
        webhook.clear_received();
        scope.client.delete(&path).await?.expect_json(200)?;
        let request = only_request(&webhook, "/")?;
        same_json("operation", &json!("DELETE"), &request["operation"])?;
        same_json("object", &Value::Null, &request["object"])?;
        same_json("name", &json!("a"), &request["name"])?;
        let kind = &request["options"]["kind"];
        same_json("options", &json!("DeleteOptions"), kind)?;
        let uid = &request["oldObject"]["metadata"]["uid"];
        same_json("oldObject", &made["metadata"]["uid"], uid)
    }
    .await;
    configured.cleanup(outcome).await
}

async fn delete_collection_calls_webhook_for_each_object(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let configured = configure_one(&scope, VALIDATING, &webhook, |_| {}).await?;
    let outcome = async {
        for name in ["a", "b"] {
            let labels = json!({"of": "check"});
            let body = with(
                &scope.sample("configmaps", name),
                "/metadata/labels",
                labels,
            );
            scope.create("configmaps", &body).await?;
        }
        webhook.clear_received();
        let path = format!(
            "{}?labelSelector=of%3Dcheck",
            scope.collection_path("configmaps")
        );
        scope.client.delete(&path).await?.expect_json(200)?;
        let mut seen: Vec<String> = Vec::new();
        for request in requests(&webhook, "/") {
            same_json("name", &Value::Null, &request["name"])?;
            let old = &request["oldObject"]["metadata"]["name"];
            seen.push(old.as_str().unwrap_or_default().to_owned());
        }
        seen.sort();
        same("asked about", &vec!["a".to_owned(), "b".to_owned()], &seen)
    }
    .await;
    configured.cleanup(outcome).await
}

async fn webhook_request_has_dry_run(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let configured = configure_one(&scope, VALIDATING, &webhook, |_| {}).await?;
    let outcome = async {
        let path = format!("{}?dryRun=All", scope.collection_path("configmaps"));
        let body = scope.sample("configmaps", "a");
        scope.client.post(&path, &body).await?.expect_json(201)?;
        let request = only_request(&webhook, "/")?;
        same_json("dryRun", &json!(true), &request["dryRun"])?;
        let options = &request["options"];
        same_json("options", &json!(["All"]), &options["dryRun"])?;
        scope.is_gone("configmaps", "a").await
    }
    .await;
    configured.cleanup(outcome).await
}

async fn webhook_configurations_are_exempt_from_webhooks(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|asked| {
        let denied = asked.request()["resource"]["group"] == "admissionregistration.k8s.io";
        Reply::Review(json!({"allowed": !denied}))
    })
    .await?;
    let mut configured = configure_one(&scope, VALIDATING, &webhook, |_| {}).await?;
    let outcome = async {
        let mut greedy = hook(&scope, "g.optik.test", &webhook.client("/greedy"));
        let rules = json!([
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"],
             "resources": ["configmaps"]},
            {"apiGroups": ["admissionregistration.k8s.io"], "apiVersions": ["*"],
             "operations": ["*"], "resources": ["*/*"]},
        ]);
        set(&mut greedy, "/rules", rules);
        configured
            .add(VALIDATING, "greedy", &json!([greedy]))
            .await?;
        wait_until_called(&scope, &webhook, &["/greedy"]).await?;
        for plural in [MUTATING, VALIDATING] {
            let mut other = WebhookFixture::new(&scope);
            let made = other.add(plural, "other", &json!([])).await;
            other.cleanup(made.map(drop)).await?;
        }
        same("asked", &0, &requests(&webhook, "/greedy").len())
    }
    .await;
    configured.cleanup(outcome).await
}

async fn admission_review_request_is_complete(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let configured = configure_one(&scope, VALIDATING, &webhook, |hook| {
        set(hook, "/timeoutSeconds", json!(7));
    })
    .await?;
    let outcome = async {
        let made = scope.make("configmaps", "a").await?;
        let path = format!(
            "{}?fieldManager=m&fieldValidation=Strict",
            scope.object_path("configmaps", "a")
        );
        let body = with(&made, "/data", json!({"b": "2"}));
        webhook.clear_received();
        scope.client.put(&path, &body).await?.expect_json(200)?;
        let asked = webhook.received();
        ensure!(asked.len() == 1, "asked {} times", asked.len());
        let asked = &asked[0];
        same("query", "timeout=7s", asked.query.as_str())?;
        same("agent", "kube-apiserver-admission", asked.agent.as_str())?;
        let review = &asked.review;
        same_json("kind", &json!("AdmissionReview"), &review["kind"])?;
        let version = &review["apiVersion"];
        same_json("apiVersion", &json!("admission.k8s.io/v1"), version)?;
        let mut request = asked.request().clone();
        ensure!(request["uid"].is_string(), "no uid: {request}");
        ensure!(
            request["userInfo"]["username"].is_string(),
            "no user: {request}"
        );
        let object = request["object"].take();
        same_json("data", &json!({"b": "2"}), &object["data"])?;
        let revision = &made["metadata"]["resourceVersion"];
        let of = &object["metadata"]["resourceVersion"];
        same_json("resourceVersion", revision, of)?;
        let old = request["oldObject"].take();
        same_json("oldObject", &made, &old)?;
        for name in ["uid", "userInfo"] {
            request[name].take();
        }
        let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
        let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
        let expected = json!({
            "uid": null, "userInfo": null, "object": null, "oldObject": null,
            "kind": kind, "requestKind": kind, "resource": resource, "requestResource": resource,
            "name": "a", "namespace": scope.namespace, "operation": "UPDATE", "dryRun": false,
            "options": {
                "kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1",
                "fieldManager": "m", "fieldValidation": "Strict",
            },
        });
        same_json("request", &expected, &request)
    }
    .await;
    configured.cleanup(outcome).await
}

async fn webhook_rules_match_status_and_scale_subresources(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let mut configured = configure_one(&scope, VALIDATING, &webhook, |_| {}).await?;
    let outcome = async {
        let mut subs = hook(&scope, "s.optik.test", &webhook.client("/subs"));
        let rules = json!([
            {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"],
             "resources": ["replicasets/status", "replicasets/scale"]},
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
             "resources": ["configmaps"]},
        ]);
        set(&mut subs, "/rules", rules);
        configured.add(VALIDATING, "subs", &json!([subs])).await?;
        wait_until_called(&scope, &webhook, &["/subs"]).await?;
        let made = scope.make("replicasets", "a").await?;
        let path = scope.object_path("replicasets", "a");
        let status = json!({"status": {"replicas": 1}});
        scope
            .client
            .patch(&format!("{path}/status"), &status)
            .await?
            .expect_json(200)?;
        let scale = json!({"spec": {"replicas": 2}});
        scope
            .client
            .patch(&format!("{path}/scale"), &scale)
            .await?
            .expect_json(200)?;
        scope
            .client
            .patch(&path, &json!({"metadata": {"labels": {"a": "b"}}}))
            .await?
            .expect_json(200)?;
        let requests = requests(&webhook, "/subs");
        same("asked", &2, &requests.len())?;
        same_json("sub", &json!("status"), &requests[0]["subResource"])?;
        same_json("sub", &json!("status"), &requests[0]["requestSubResource"])?;
        same_json("kind", &json!("ReplicaSet"), &requests[0]["kind"]["kind"])?;
        let object = &requests[0]["object"];
        same_json("status", &json!(1), &object["status"]["replicas"])?;
        same_json("uid", &made["metadata"]["uid"], &object["metadata"]["uid"])?;
        same_json("sub", &json!("scale"), &requests[1]["subResource"])?;
        let kind = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
        same_json("kind", &kind, &requests[1]["kind"])?;
        let object = &requests[1]["object"];
        same_json("kind of it", &json!("Scale"), &object["kind"])?;
        same_json("replicas", &json!(2), &object["spec"]["replicas"])
    }
    .await;
    configured.cleanup(outcome).await
}

async fn namespace_selector_matches_namespace_object_itself(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let name = scope.unique_name("inner");
    let mut configured = configure_one(&scope, VALIDATING, &webhook, |_| {}).await?;
    let outcome = async {
        let mut of_namespaces = hook(&scope, "n.optik.test", &webhook.client("/n"));
        let rules = json!([{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
            "resources": ["namespaces", "configmaps"], "scope": "*",
        }]);
        set(&mut of_namespaces, "/rules", rules);
        let names = json!([scope.namespace, name]);
        let selector = json!({"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": names},
        ]});
        set(&mut of_namespaces, "/namespaceSelector", selector);
        configured
            .add(VALIDATING, "n", &json!([of_namespaces]))
            .await?;
        wait_until_called(&scope, &webhook, &["/n"]).await?;
        scope.make("namespaces", &name).await?;
        scope
            .client
            .delete(&scope.object_path("namespaces", &name))
            .await?;
        let request = only_request(&webhook, "/n")?;
        same_json("name", &json!(name), &request["name"])?;
        same_json("namespace", &json!(name), &request["namespace"])
    }
    .await;
    configured.cleanup(outcome).await
}

/// One webhook with a match condition, called for one object.
async fn with_condition(
    scope: &Scope,
    expression: &str,
    policy: &str,
) -> Outcome<(u16, String, usize)> {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let mut configured = configure_one(scope, VALIDATING, &webhook, |_| {}).await?;
    let mut seen = (0, String::new(), 0);
    let outcome = async {
        let mut choosy = hook(scope, "c.optik.test", &webhook.client("/choosy"));
        let is_probe = "request.name == 'probe'";
        let conditions = json!([
            {"name": "not-the-probe", "expression": format!("{is_probe} || ({expression})")},
        ]);
        set(&mut choosy, "/matchConditions", conditions);
        set(&mut choosy, "/failurePolicy", json!(policy));
        set(&mut choosy, "/rules/0/operations", json!(["CREATE"]));
        configured.add(VALIDATING, "c", &json!([choosy])).await?;
        wait_until_called(scope, &webhook, &["/choosy"]).await?;
        let body = scope.sample("configmaps", "a1");
        let answer = scope
            .client
            .post(&scope.collection_path("configmaps"), &body)
            .await?;
        let status = answer.json()?;
        let message = status["message"].as_str().unwrap_or_default();
        let asked = requests(&webhook, "/choosy").len();
        seen = (answer.status, message.to_owned(), asked);
        scope
            .client
            .delete(&scope.object_path("configmaps", "a1"))
            .await?;
        Ok(())
    }
    .await;
    configured.cleanup(outcome).await?;
    Ok(seen)
}

async fn unmet_match_condition_skips_webhook(scope: Scope) -> Outcome {
    let seen = with_condition(&scope, "object.metadata.name == 'b'", "Fail").await?;
    same("not met", &(201, String::new(), 0), &seen)?;
    let seen = with_condition(&scope, "object.metadata.name == 'a1'", "Fail").await?;
    same("met", &(201, String::new(), 1), &seen)
}

async fn failing_match_condition_follows_failure_policy(scope: Scope) -> Outcome {
    let wrong = "object.data.foo == 'x'";
    let message = format!(
        "configmaps \"a1\" is forbidden: expression 'request.name == 'probe' || ({wrong})' \
         resulted in error: no such key: foo"
    );
    let seen = with_condition(&scope, wrong, "Fail").await?;
    same("failed", &(403, message, 0), &seen)?;
    let seen = with_condition(&scope, wrong, "Ignore").await?;
    same("ignored", &(201, String::new(), 0), &seen)
}
