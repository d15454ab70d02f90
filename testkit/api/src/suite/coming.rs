//! Custom kinds that come, change and go, as those see it who are connected.

use crate::check::checks;
use crate::crds::Defined;
use crate::failure::ensure;
use crate::object::set;
use crate::{Outcome, Request, Scope};
use serde_json::json;

checks! { coming:
    [] a_new_kind_changes_the_tag_of_discovery [CustomResources],
    [] patches_of_a_custom_kind_are_described [CustomResources],
    [] a_kind_that_goes_takes_its_objects_along [CustomResources],
    [] a_schema_that_changes_ends_watches [CustomResources],
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

async fn tag(scope: &Scope) -> Outcome<String> {
    let answer = scope.client.ask(Request::get("/apis").accept(AGGREGATED));
    let answer = answer.await?;
    answer.is(200)?;
    Ok(answer.header("etag").to_owned())
}

async fn a_new_kind_changes_the_tag_of_discovery(scope: Scope) -> Outcome {
    let before = tag(&scope).await?;
    ensure!(!before.is_empty(), "there is no tag");
    let defined = Defined::plain(&scope);
    defined.serve(&scope).await?;
    scope
        .until("another tag", || async {
            let now = tag(&scope).await?;
            Ok((now != before).then_some(()))
        })
        .await
}

async fn patches_of_a_custom_kind_are_described(scope: Scope) -> Outcome {
    let defined = Defined::plain(&scope);
    defined.serve(&scope).await?;
    let path = format!("/openapi/v3/apis/{}/v1", defined.group);
    let description = scope
        .until("a description", || async {
            let answer = scope.client.get(&path).await?;
            match answer.status {
                200 => answer.json().map(Some),
                _ => Ok(None),
            }
        })
        .await?;
    let object = format!(
        "/apis/{}/v1/namespaces/{{namespace}}/things/{{name}}",
        defined.group
    );
    let bodies = &description["paths"][&object]["patch"]["requestBody"]["content"];
    let merge = bodies.get("application/merge-patch+json");
    ensure!(merge.is_some(), "no merge patch is described: {bodies}");
    let strategic = bodies.get("application/strategic-merge-patch+json");
    ensure!(
        strategic.is_none(),
        "a strategic patch is described: {bodies}"
    );
    Ok(())
}

async fn a_kind_that_goes_takes_its_objects_along(scope: Scope) -> Outcome {
    let defined = Defined::plain(&scope);
    defined.serve(&scope).await?;
    let made = scope
        .client
        .post(&defined.path, &defined.object("a"))
        .await?;
    let made = made.is(201)?;
    let revision = made["metadata"]["resourceVersion"].as_str().unwrap_or("");
    let watched = format!("{}?watch=1&resourceVersion={revision}", defined.path);
    let mut watch = scope.client.watch(&watched).await?;
    defined.forget(&scope).await?;
    watch.expect_brief("DELETED a").await?;
    scope
        .until("the end of the path", || async {
            let answer = scope.client.get(&defined.path).await?;
            let gone = answer.status == 404 && answer.text().trim() == "404 page not found";
            Ok(gone.then_some(()))
        })
        .await
}

async fn a_schema_that_changes_ends_watches(scope: Scope) -> Outcome {
    let defined = Defined::plain(&scope);
    defined.serve(&scope).await?;
    let watched = format!("{}?watch=1&resourceVersion=0", defined.path);
    let mut watch = scope.client.watch(&watched).await?;
    let mut changed = defined.get(&scope).await?;
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/b";
    set(&mut changed, spec, json!({"type": "boolean"}));
    let path = scope.of("customresourcedefinitions", &defined.name);
    scope.client.put(&path, &changed).await?.is(200)?;
    watch.expect_end().await?;
    let made = defined.with("a", json!({"b": true}));
    scope.client.post(&defined.path, &made).await?.is(201)?;
    let mut watch = scope.client.watch(&watched).await?;
    watch.expect_brief("ADDED a").await?;
    Ok(())
}
