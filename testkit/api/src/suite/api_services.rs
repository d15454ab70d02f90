//! `APIService` objects: what is served, as objects.

use crate::check::checks;
use crate::crds::Defined;
use crate::failure::{Rows, ensure, same_json};
use crate::{Outcome, Scope};
use serde_json::{Value, json};

checks! { api_services of Extension:
    [] built_in_groups_have_theirs [],
    [] a_definition_brings_its_own_and_takes_it_along [CustomResources],
    [] one_that_was_removed_comes_back [CustomResources],
}

const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

fn path_of(name: &str) -> String {
    format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}")
}

/// Waits for one.
async fn find(scope: &Scope, name: &str) -> Outcome<Value> {
    let path = path_of(name);
    scope
        .until(name, || async {
            let answer = scope.client.get(&path).await?;
            match answer.status {
                404 => Ok(None),
                _ => answer.is(200).map(Some),
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

async fn built_in_groups_have_theirs(scope: Scope) -> Outcome {
    let mut rows = Rows::default();
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
        rows.row(format!("{version}.{group}"), outcome);
    }
    rows.outcome()
}

async fn a_definition_brings_its_own_and_takes_it_along(scope: Scope) -> Outcome {
    let defined = Defined::plain(&scope);
    defined.serve(&scope).await?;
    let name = format!("v1.{}", defined.group);
    let spec = json!({
        "group": defined.group, "version": "v1",
        "groupPriorityMinimum": 1000, "versionPriority": 100,
    });
    is(&find(&scope, &name).await?, "true", &spec)?;
    defined.forget(&scope).await?;
    let path = path_of(&name);
    let gone = || async {
        let answer = scope.client.get(&path).await?;
        Ok((answer.status == 404).then_some(()))
    };
    scope.until("its end", gone).await
}

async fn one_that_was_removed_comes_back(scope: Scope) -> Outcome {
    let defined = Defined::plain(&scope);
    defined.serve(&scope).await?;
    let name = format!("v1.{}", defined.group);
    let first = find(&scope, &name).await?;
    let path = path_of(&name);
    scope.client.delete(&path).await?.is(200)?;
    let another = || async {
        let answer = scope.client.get(&path).await?;
        let now = answer.json().unwrap_or_default();
        let is_new = now["metadata"]["uid"] != first["metadata"]["uid"];
        Ok((answer.status == 200 && is_new).then_some(()))
    };
    let outcome = scope.until("another one", another).await;
    defined.forget(&scope).await?;
    outcome
}
