//! What the server needs, and how it is.

use crate::check::checks;
use crate::failure::{Rows, ensure, same, same_json};
use crate::object::items;
use crate::status;
use crate::{Outcome, Request, Scope};
use http::Method;
use serde_json::{Value, json};

checks! { components:
    [] the_store_is_a_component_that_is_well [Kind("componentstatuses")],
    [] components_are_selected_by_name [Kind("componentstatuses")],
    [] components_are_only_looked_at [Kind("componentstatuses")],
    [] components_are_rows_of_a_table [Kind("componentstatuses"), Table],
}

const PATH: &str = "/api/v1/componentstatuses";
const WARNING: &str = "299 - \"v1 ComponentStatus is deprecated in v1.19+\"";

fn store() -> Value {
    json!({
        "metadata": {"name": "etcd-0"},
        "conditions": [{"type": "Healthy", "status": "True", "message": "ok"}],
    })
}

async fn the_store_is_a_component_that_is_well(scope: Scope) -> Outcome {
    let answer = scope.client.get(PATH).await?;
    same("warning", WARNING, answer.header("warning"))?;
    let list = answer.is(200)?;
    same_json("kind", &json!("ComponentStatusList"), &list["kind"])?;
    same_json("metadata", &json!({}), &list["metadata"])?;
    ensure!(items(&list)?.contains(&store()), "no store: {list}");
    let one = scope.client.get(&format!("{PATH}/etcd-0")).await?.is(200)?;
    let mut expected = store();
    expected["kind"] = "ComponentStatus".into();
    expected["apiVersion"] = "v1".into();
    same_json("one", &expected, &one)?;
    let missing = scope.client.get(&format!("{PATH}/nothing")).await?;
    let details = json!({"name": "nothing", "kind": "componentstatus"});
    let text = "componentstatus \"nothing\" not found";
    missing.fails_with(&status::failure(404, "NotFound", text, Some(details)))
}

async fn components_are_selected_by_name(scope: Scope) -> Outcome {
    let mut rows = Rows::default();
    for (query, found) in [
        ("fieldSelector=metadata.name%3Detcd-0", true),
        ("fieldSelector=metadata.name%21%3Detcd-0", false),
        ("labelSelector=a%3Db", false),
        ("labelSelector=%21a", true),
        ("limit=1&resourceVersion=x", true),
    ] {
        let list = scope
            .client
            .get(&format!("{PATH}?{query}"))
            .await?
            .is(200)?;
        let contained = items(&list)?.contains(&store());
        rows.row(query, same("found", &found, &contained));
    }
    rows.outcome()
}

async fn components_are_only_looked_at(scope: Scope) -> Outcome {
    let one = format!("{PATH}/etcd-0");
    let mut rows = Rows::default();
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        for path in [PATH, &one] {
            let request = Request::new(method.clone(), path).json(&json!({}));
            let answer = scope.client.ask(request).await?;
            let outcome = answer.fails_with(&status::method_not_allowed());
            rows.row(format!("{method} {path}"), outcome);
        }
    }
    rows.outcome()?;
    let watched = scope.client.get(&format!("{PATH}?watch=true")).await?;
    let text = "watch is not supported on resources of kind \"componentstatuses\"";
    watched.says(405, "MethodNotAllowed", text)?;
    let path = "/api/v1/watch/componentstatuses";
    let watched = scope.client.get(path).await?;
    watched.fails_with(&status::no_such_resource())
}

async fn components_are_rows_of_a_table(scope: Scope) -> Outcome {
    let request = Request::get(format!("{PATH}?fieldSelector=metadata.name%3Detcd-0"))
        .accept("application/json;as=Table;v=v1;g=meta.k8s.io");
    let table = scope.client.ask(request).await?.is(200)?;
    let cells = &table["rows"][0]["cells"];
    same_json("cells", &json!(["etcd-0", "Healthy", "ok", ""]), cells)
}
