//! Which writes a webhook is asked about, and what it is told of them.

use super::{Configured, MUTATING, VALIDATING, counts, hook, one, only, requests};
use crate::check::checks;
use crate::failure::{ensure, same, same_json};
use crate::object::{set, with};
use crate::webhook::{Reply, Webhook};
use crate::{Outcome, Scope};
use serde_json::{Value, json};

checks! { matching of Extension:
    [70] another_version_of_the_same_objects_counts [Webhooks, Kind("horizontalpodautoscalers")],
    [71] other_namespaces_do_not_count [Webhooks],
    [71] objects_are_selected_by_their_labels [Webhooks],
    [72] a_condition_that_is_not_met_skips_the_webhook [Webhooks, Policies],
    [72] a_condition_that_fails_refuses_the_write [Webhooks, Policies],
    [73] what_is_deleted_is_told [Webhooks],
    [73] a_collection_is_asked_about_one_by_one [Webhooks],
    [75] a_dry_run_says_so [Webhooks],
    [76] configurations_themselves_are_nobodys_concern [Webhooks],
    [] the_question_is_complete [Webhooks],
    [] a_status_and_a_scale_are_subresources [Webhooks, Scale, Status, Kind("replicasets")],
    [] a_namespace_is_in_itself [Webhooks],
}

async fn another_version_of_the_same_objects_counts(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let mut configured = one(&scope, VALIDATING, &webhook, |_| {}).await?;
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
            scope.client.post(&tried, &body).await?.is(201)?;
            Ok((!webhook.asked_at("/equivalent").is_empty()).then_some(()))
        };
        scope.until("an equivalent kind to count", asked).await?;
        webhook.forget();
        scope.client.post(&path, &body).await?.is(201)?;
        let request = only(&webhook, "/equivalent")?;
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
    configured.end(outcome).await
}

async fn other_namespaces_do_not_count(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let configured = one(&scope, VALIDATING, &webhook, |_| {}).await?;
    let outcome = async {
        let other = scope.beside("-other").await?;
        other.make("configmaps", "a").await?;
        other.leave().await;
        same("asked", &0, &requests(&webhook, "/").len())?;
        scope.make("configmaps", "a").await?;
        same("asked", &1, &requests(&webhook, "/").len())
    }
    .await;
    configured.end(outcome).await
}

async fn objects_are_selected_by_their_labels(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let mut configured = one(&scope, VALIDATING, &webhook, |_| {}).await?;
    let outcome = async {
        let mut labelled = hook(&scope, "l.optik.test", &webhook.client("/labelled"));
        let selector = json!({"matchExpressions": [
            {"key": "see", "operator": "In", "values": ["me", "them"]},
        ]});
        set(&mut labelled, "/objectSelector", selector);
        configured.add(VALIDATING, "l", &json!([labelled])).await?;
        let plain = scope.sample("configmaps", "b");
        let body = with(&plain, "/metadata/labels", json!({"see": "me"}));
        let tried = format!("{}?dryRun=All", scope.at("configmaps"));
        let asked = || async {
            scope.client.post(&tried, &body).await?.is(201)?;
            Ok((!webhook.asked_at("/labelled").is_empty()).then_some(()))
        };
        scope.until("a selector to count", asked).await?;
        webhook.forget();
        scope.make("configmaps", "a").await?;
        same(
            "asked about others",
            &0,
            &requests(&webhook, "/labelled").len(),
        )?;
        scope.create("configmaps", &body).await?;
        same("asked", &1, &requests(&webhook, "/labelled").len())?;
        // What it was counts as well as what it becomes.
        scope.replace("configmaps", &plain).await?;
        same("asked", &2, &requests(&webhook, "/labelled").len())
    }
    .await;
    configured.end(outcome).await
}

async fn what_is_deleted_is_told(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let configured = one(&scope, VALIDATING, &webhook, |_| {}).await?;
    let outcome = async {
        let made = scope.make("configmaps", "a").await?;
        let path = scope.of("configmaps", "a");
        scope
            .client
            .delete(&format!("{}/no", scope.at("configmaps")))
            .await?
            .is(404)?;
        webhook.forget();
        scope.client.delete(&path).await?.is(200)?;
        let request = only(&webhook, "/")?;
        same_json("operation", &json!("DELETE"), &request["operation"])?;
        same_json("object", &Value::Null, &request["object"])?;
        same_json("name", &json!("a"), &request["name"])?;
        let kind = &request["options"]["kind"];
        same_json("options", &json!("DeleteOptions"), kind)?;
        let uid = &request["oldObject"]["metadata"]["uid"];
        same_json("oldObject", &made["metadata"]["uid"], uid)
    }
    .await;
    configured.end(outcome).await
}

async fn a_collection_is_asked_about_one_by_one(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let configured = one(&scope, VALIDATING, &webhook, |_| {}).await?;
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
        webhook.forget();
        let path = format!("{}?labelSelector=of%3Dcheck", scope.at("configmaps"));
        scope.client.delete(&path).await?.is(200)?;
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
    configured.end(outcome).await
}

async fn a_dry_run_says_so(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let configured = one(&scope, VALIDATING, &webhook, |_| {}).await?;
    let outcome = async {
        let path = format!("{}?dryRun=All", scope.at("configmaps"));
        let body = scope.sample("configmaps", "a");
        scope.client.post(&path, &body).await?.is(201)?;
        let request = only(&webhook, "/")?;
        same_json("dryRun", &json!(true), &request["dryRun"])?;
        let options = &request["options"];
        same_json("options", &json!(["All"]), &options["dryRun"])?;
        scope.is_gone("configmaps", "a").await
    }
    .await;
    configured.end(outcome).await
}

async fn configurations_themselves_are_nobodys_concern(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|asked| {
        let denied = asked.request()["resource"]["group"] == "admissionregistration.k8s.io";
        Reply::Review(json!({"allowed": !denied}))
    })
    .await?;
    let mut configured = one(&scope, VALIDATING, &webhook, |_| {}).await?;
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
        counts(&scope, &webhook, &["/greedy"]).await?;
        for plural in [MUTATING, VALIDATING] {
            let mut other = Configured::new(&scope);
            let made = other.add(plural, "other", &json!([])).await;
            other.end(made.map(drop)).await?;
        }
        same("asked", &0, &requests(&webhook, "/greedy").len())
    }
    .await;
    configured.end(outcome).await
}

async fn the_question_is_complete(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let configured = one(&scope, VALIDATING, &webhook, |hook| {
        set(hook, "/timeoutSeconds", json!(7));
    })
    .await?;
    let outcome = async {
        let made = scope.make("configmaps", "a").await?;
        let path = format!(
            "{}?fieldManager=m&fieldValidation=Strict",
            scope.of("configmaps", "a")
        );
        let body = with(&made, "/data", json!({"b": "2"}));
        webhook.forget();
        scope.client.put(&path, &body).await?.is(200)?;
        let asked = webhook.asked();
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
    configured.end(outcome).await
}

async fn a_status_and_a_scale_are_subresources(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let mut configured = one(&scope, VALIDATING, &webhook, |_| {}).await?;
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
        counts(&scope, &webhook, &["/subs"]).await?;
        let made = scope.make("replicasets", "a").await?;
        let path = scope.of("replicasets", "a");
        let status = json!({"status": {"replicas": 1}});
        scope
            .client
            .patch(&format!("{path}/status"), &status)
            .await?
            .is(200)?;
        let scale = json!({"spec": {"replicas": 2}});
        scope
            .client
            .patch(&format!("{path}/scale"), &scale)
            .await?
            .is(200)?;
        scope
            .client
            .patch(&path, &json!({"metadata": {"labels": {"a": "b"}}}))
            .await?
            .is(200)?;
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
    configured.end(outcome).await
}

async fn a_namespace_is_in_itself(scope: Scope) -> Outcome {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let name = scope.unique("inner");
    let mut configured = one(&scope, VALIDATING, &webhook, |_| {}).await?;
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
        counts(&scope, &webhook, &["/n"]).await?;
        scope.make("namespaces", &name).await?;
        scope.client.delete(&scope.of("namespaces", &name)).await?;
        let request = only(&webhook, "/n")?;
        same_json("name", &json!(name), &request["name"])?;
        same_json("namespace", &json!(name), &request["namespace"])
    }
    .await;
    configured.end(outcome).await
}

/// One webhook with a condition, asked about one object.
async fn with_condition(
    scope: &Scope,
    expression: &str,
    policy: &str,
) -> Outcome<(u16, String, usize)> {
    let webhook = Webhook::start(|_| Reply::allow()).await?;
    let mut configured = one(scope, VALIDATING, &webhook, |_| {}).await?;
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
        counts(scope, &webhook, &["/choosy"]).await?;
        let body = scope.sample("configmaps", "a1");
        let answer = scope.client.post(&scope.at("configmaps"), &body).await?;
        let status = answer.json()?;
        let message = status["message"].as_str().unwrap_or_default();
        let asked = requests(&webhook, "/choosy").len();
        seen = (answer.status, message.to_owned(), asked);
        scope.client.delete(&scope.of("configmaps", "a1")).await?;
        Ok(())
    }
    .await;
    configured.end(outcome).await?;
    Ok(seen)
}

async fn a_condition_that_is_not_met_skips_the_webhook(scope: Scope) -> Outcome {
    let seen = with_condition(&scope, "object.metadata.name == 'b'", "Fail").await?;
    same("not met", &(201, String::new(), 0), &seen)?;
    let seen = with_condition(&scope, "object.metadata.name == 'a1'", "Fail").await?;
    same("met", &(201, String::new(), 1), &seen)
}

async fn a_condition_that_fails_refuses_the_write(scope: Scope) -> Outcome {
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
