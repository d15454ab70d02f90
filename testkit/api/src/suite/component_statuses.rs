//! ComponentStatuses: the components of the server and their health.

use crate::check::checks;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::object::items;
use crate::status;
use crate::{Outcome, Request, Scope};
use http::Method;
use serde_json::{Value, json};

checks! { component_statuses:
    [] component_statuses_report_healthy_etcd [Kind("componentstatuses")],
    [] component_statuses_support_name_field_selector [Kind("componentstatuses")],
    [] component_statuses_are_read_only [Kind("componentstatuses")],
    [] component_statuses_render_as_table [Kind("componentstatuses"), Table],
}

const PATH: &str = "/api/v1/componentstatuses";
const WARNING: &str = "299 - \"v1 ComponentStatus is deprecated in v1.19+\"";

fn store() -> Value {
    json!({
        "metadata": {"name": "etcd-0"},
        "conditions": [{"type": "Healthy", "status": "True", "message": "ok"}],
    })
}

async fn component_statuses_report_healthy_etcd(scope: Scope) -> Outcome {
    let answer = scope.client.get(PATH).await?;
    same("warning", WARNING, answer.header("warning"))?;
    let list = answer.expect_json(200)?;
    same_json("kind", &json!("ComponentStatusList"), &list["kind"])?;
    same_json("metadata", &json!({}), &list["metadata"])?;
    ensure!(items(&list)?.contains(&store()), "no store: {list}");
    let one = scope
        .client
        .get(&format!("{PATH}/etcd-0"))
        .await?
        .expect_json(200)?;
    let mut expected = store();
    expected["kind"] = "ComponentStatus".into();
    expected["apiVersion"] = "v1".into();
    same_json("one", &expected, &one)?;
    let missing = scope.client.get(&format!("{PATH}/nothing")).await?;
    let details = json!({"name": "nothing", "kind": "componentstatus"});
    let text = "componentstatus \"nothing\" not found";
    missing.expect_failure(&status::failure(404, "NotFound", text, Some(details)))
}

async fn component_statuses_support_name_field_selector(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
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
            .expect_json(200)?;
        let contained = items(&list)?.contains(&store());
        rows.record(query, same("found", &found, &contained));
    }
    rows.outcome()
}

async fn component_statuses_are_read_only(scope: Scope) -> Outcome {
    let one = format!("{PATH}/etcd-0");
    let mut rows = RowFailures::default();
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        for path in [PATH, &one] {
            let request = Request::new(method.clone(), path).json(&json!({}));
            let answer = scope.client.execute(request).await?;
            let outcome = answer.expect_failure(&status::method_not_allowed());
            rows.record(format!("{method} {path}"), outcome);
        }
    }
    rows.outcome()?;
    let watched = scope.client.get(&format!("{PATH}?watch=true")).await?;
    let text = "watch is not supported on resources of kind \"componentstatuses\"";
    watched.expect_message(405, "MethodNotAllowed", text)?;
    let path = "/api/v1/watch/componentstatuses";
    let watched = scope.client.get(path).await?;
    watched.expect_failure(&status::no_such_resource())
}

async fn component_statuses_render_as_table(scope: Scope) -> Outcome {
    let request = Request::get(format!("{PATH}?fieldSelector=metadata.name%3Detcd-0"))
        .accept("application/json;as=Table;v=v1;g=meta.k8s.io");
    let table = scope.client.execute(request).await?.expect_json(200)?;
    let cells = &table["rows"][0]["cells"];
    same_json("cells", &json!(["etcd-0", "Healthy", "ok", ""]), cells)
}
