//! Lifecycle of CRDs with connected clients: creation, change and deletion.

use crate::check::checks;
use crate::crds::CrdFixture;
use crate::failure::ensure;
use crate::object::set;
use crate::{Outcome, Request, Scope};
use serde_json::json;

checks! { crd_lifecycle:
    ["WIRE-12"] new_crd_changes_aggregated_discovery_etag [CustomResources],
    ["WIRE-25"] openapi_lists_patch_types_of_custom_resource [CustomResources],
    ["WIRE-13"] crd_deletion_deletes_its_objects_and_ends_watches [CustomResources],
    ["WIRE-14"] crd_schema_change_ends_watches [CustomResources],
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

async fn tag(scope: &Scope) -> Outcome<String> {
    let answer = scope
        .client
        .execute(Request::get("/apis").accept(AGGREGATED));
    let answer = answer.await?;
    answer.expect_json(200)?;
    Ok(answer.header("etag").to_owned())
}

async fn new_crd_changes_aggregated_discovery_etag(scope: Scope) -> Outcome {
    let before = tag(&scope).await?;
    ensure!(!before.is_empty(), "there is no tag");
    let defined = CrdFixture::with_default_schema(&scope);
    defined.serve(&scope).await?;
    scope
        .wait_until("another tag", || async {
            let now = tag(&scope).await?;
            Ok((now != before).then_some(()))
        })
        .await
}

async fn openapi_lists_patch_types_of_custom_resource(scope: Scope) -> Outcome {
    let defined = CrdFixture::with_default_schema(&scope);
    defined.serve(&scope).await?;
    let path = format!("/openapi/v3/apis/{}/v1", defined.group);
    let description = scope
        .wait_until("a description", || async {
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

async fn crd_deletion_deletes_its_objects_and_ends_watches(scope: Scope) -> Outcome {
    let defined = CrdFixture::with_default_schema(&scope);
    defined.serve(&scope).await?;
    let made = scope
        .client
        .post(&defined.path, &defined.object("a"))
        .await?;
    let made = made.expect_json(201)?;
    let revision = made["metadata"]["resourceVersion"].as_str().unwrap_or("");
    let watched = format!("{}?watch=1&resourceVersion={revision}", defined.path);
    let mut watch = scope.client.watch(&watched).await?;
    defined.delete_definitions(&scope).await?;
    watch.expect_summary("DELETED a").await?;
    scope
        .wait_until("the end of the path", || async {
            let answer = scope.client.get(&defined.path).await?;
            let gone = answer.status == 404 && answer.text().trim() == "404 page not found";
            Ok(gone.then_some(()))
        })
        .await
}

async fn crd_schema_change_ends_watches(scope: Scope) -> Outcome {
    let defined = CrdFixture::with_default_schema(&scope);
    defined.serve(&scope).await?;
    let watched = format!("{}?watch=1&resourceVersion=0", defined.path);
    let mut watch = scope.client.watch(&watched).await?;
    let mut changed = defined.get(&scope).await?;
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/b";
    set(&mut changed, spec, json!({"type": "boolean"}));
    let path = scope.object_path("customresourcedefinitions", &defined.name);
    scope.client.put(&path, &changed).await?.expect_json(200)?;
    watch.expect_end().await?;
    let made = defined.with("a", json!({"b": true}));
    scope
        .client
        .post(&defined.path, &made)
        .await?
        .expect_json(201)?;
    let mut watch = scope.client.watch(&watched).await?;
    watch.expect_summary("ADDED a").await?;
    Ok(())
}
