//! `APIService` objects: the list of served groups and versions.

use crate::check::checks;
use crate::crds::CrdFixture;
use crate::failure::{RowFailures, ensure, same_json};
use crate::{Outcome, Scope};
use serde_json::{Value, json};

checks! { api_services:
    [] built_in_group_versions_have_api_services [],
    [] crd_group_version_adds_and_removes_its_api_service [CustomResources],
    [] deleted_api_service_is_recreated [CustomResources],
}

const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

fn path_of(name: &str) -> String {
    format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}")
}

/// Waits for one.
async fn find(scope: &Scope, name: &str) -> Outcome<Value> {
    let path = path_of(name);
    scope
        .wait_until(name, || async {
            let answer = scope.client.get(&path).await?;
            match answer.status {
                404 => Ok(None),
                _ => answer.expect_json(200).map(Some),
            }
        })
        .await
}

fn is(object: &Value, managed: &str, spec: &Value) -> Outcome {
    same_json(
        "label",
        &json!(managed),
        &object["metadata"]["labels"][MANAGED],
    )?;
    same_json("spec", spec, &object["spec"])?;
    let mut condition = object["status"]["conditions"][0].clone();
    ensure!(
        condition["lastTransitionTime"].take().is_string(),
        "no time: {object}"
    );
    let expected = json!({
        "type": "Available", "status": "True", "reason": "Local", "lastTransitionTime": null,
        "message": "Local APIServices are always available",
    });
    same_json("condition", &expected, &condition)
}

async fn built_in_group_versions_have_api_services(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    for (version, group, of_group, of_version) in [
        ("v1", "", 18000, 1),
        ("v1", "apps", 17800, 15),
        ("v2", "autoscaling", 17500, 30),
        ("v1", "rbac.authorization.k8s.io", 17000, 15),
        ("v1", "apiextensions.k8s.io", 16700, 15),
        ("v1", "resource.k8s.io", 16200, 21),
        ("v1", "flowcontrol.apiserver.k8s.io", 16100, 21),
    ] {
        let mut spec = json!({
            "version": version, "groupPriorityMinimum": of_group, "versionPriority": of_version,
        });
        if !group.is_empty() {
            spec["group"] = group.into();
        }
        let found = find(&scope, &format!("{version}.{group}")).await;
        let outcome = found.and_then(|found| is(&found, "onstart", &spec));
        rows.record(format!("{version}.{group}"), outcome);
    }
    rows.outcome()
}

async fn crd_group_version_adds_and_removes_its_api_service(scope: Scope) -> Outcome {
    let defined = CrdFixture::with_default_schema(&scope);
    defined.serve(&scope).await?;
    let name = format!("v1.{}", defined.group);
    let spec = json!({
        "group": defined.group, "version": "v1",
        "groupPriorityMinimum": 1000, "versionPriority": 100,
    });
    is(&find(&scope, &name).await?, "true", &spec)?;
    defined.delete_definitions(&scope).await?;
    let path = path_of(&name);
    let gone = || async {
        let answer = scope.client.get(&path).await?;
        Ok((answer.status == 404).then_some(()))
    };
    scope.wait_until("its end", gone).await
}

async fn deleted_api_service_is_recreated(scope: Scope) -> Outcome {
    let defined = CrdFixture::with_default_schema(&scope);
    defined.serve(&scope).await?;
    let name = format!("v1.{}", defined.group);
    let first = find(&scope, &name).await?;
    let path = path_of(&name);
    scope.client.delete(&path).await?.expect_json(200)?;
    let another = || async {
        let answer = scope.client.get(&path).await?;
        let now = answer.json().unwrap_or_default();
        let is_new = now["metadata"]["uid"] != first["metadata"]["uid"];
        Ok((answer.status == 200 && is_new).then_some(()))
    };
    let outcome = scope.wait_until("another one", another).await;
    defined.delete_definitions(&scope).await?;
    outcome
}
