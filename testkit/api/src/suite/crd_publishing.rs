//! Publishing of CRDs to clients: tables, OpenAPI, discovery.

use crate::check::checks;
use crate::crds::{CrdFixture, is_served};
use crate::failure::{RowFailures, ensure, same_json};
use crate::object::set;
use crate::{Failure, Outcome, Request, Scope};
use serde_json::{Value, json};

checks! { crd_publishing:
    [] table_of_custom_resource_has_additional_printer_columns [Table, CustomResources],
    ["EXT-54"] table_of_custom_resource_without_printer_columns_has_defaults [Table, CustomResources],
    [] openapi_describes_custom_resource [CustomResources],
    ["WIRE-11"] openapi_follows_crd_changes [CustomResources],
    ["WIRE-11"] discovery_follows_crd_changes [CustomResources],
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Column type, JSON path, and the resulting cell.
fn expected() -> Vec<(&'static str, &'static str, Value)> {
    let ready = ".spec.conditions[?(@.type==\"Ready\")].status";
    vec![
        ("string", ".spec.text", json!("w<o>rd")),
        ("integer", ".spec.count", json!(3)),
        ("number", ".spec.num", json!(1.5)),
        ("boolean", ".spec.flag", json!(true)),
        ("date", ".spec.when", json!("25y")),
        ("string", ready, json!("True")),
        ("string", ".spec.conditions[0].type", json!("Synced")),
        ("string", ".spec.conditions[-1].type", json!("Ready")),
        ("string", ".spec.conditions[*].type", json!("Synced")),
        ("string", ".spec.conditions[?(@.n>1)].type", json!("Ready")),
        ("string", ".spec.conditions[1,0].type", json!("Ready")),
        ("string", ".spec.conditions[7].type", Value::Null),
        ("string", ".spec.map['a\\.b/c']", json!("dot")),
        ("string", ".spec.map", json!("{\"a.b/c\":\"dot\"}")),
        ("string", ".spec.num", json!("1.5")),
        ("string", ".spec.null", json!("<no value>")),
        ("string", ".spec.nothing", Value::Null),
        ("integer", ".spec.text", Value::Null),
        ("integer", ".spec.num", json!(1)),
        ("date", ".spec.text", json!("<invalid>")),
    ]
}

fn object_of(defined: &CrdFixture) -> Value {
    let spec = json!({
        "text": "w<o>rd", "count": 3, "num": 1.5, "flag": true, "null": null,
        "when": "2001-02-03T04:05:06Z", "map": {"a.b/c": "dot"},
        "conditions": [{"type": "Synced", "status": "False", "n": 1},
            {"type": "Ready", "status": "True", "n": 2}],
    });
    defined.with("a", spec)
}

async fn table_of_custom_resource_has_additional_printer_columns(scope: Scope) -> Outcome {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut defined = CrdFixture::with_default_schema(&scope).with_spec(open);
    let mut columns = Vec::new();
    for (at, (kind, path, _)) in expected().iter().enumerate() {
        columns.push(json!({"name": format!("C{at}"), "type": kind, "jsonPath": path}));
    }
    columns[1]["description"] = "how many".into();
    columns[1]["format"] = "int32".into();
    columns[1]["priority"] = 1.into();
    // The columns end before the first invalid one.
    columns.push(json!({"name": "Broken", "type": "string", "jsonPath": ".spec[?(x"}));
    columns.push(json!({"name": "After", "type": "string", "jsonPath": ".spec.text"}));
    let place = "/spec/versions/0/additionalPrinterColumns";
    set(&mut defined.definition, place, columns.into());
    defined.serve(&scope).await?;
    let made = scope
        .client
        .post(&defined.path, &object_of(&defined))
        .await?;
    made.expect_json(201)?;
    let request = Request::get(&defined.path).accept(TABLE);
    let table = scope.client.execute(request).await?.expect_json(200)?;
    let head = &table["columnDefinitions"];
    same_json("name", &json!("name"), &head[0]["format"])?;
    let text = "Custom resource definition column (in JSONPath format): .spec.text";
    let column = json!({"name": "C0", "type": "string", "format": "", "description": text,
        "priority": 0});
    same_json("first", &column, &head[1])?;
    let column = json!({"name": "C1", "type": "integer", "format": "int32",
        "description": "how many", "priority": 1});
    same_json("second", &column, &head[2])?;
    let cells = &table["rows"][0]["cells"];
    let mut rows = RowFailures::default();
    rows.record("name", same_json("name", &json!("a"), &cells[0]));
    for (at, (kind, path, cell)) in expected().iter().enumerate() {
        rows.record(
            path,
            same_json(&format!("{kind} {path}"), cell, &cells[at + 1]),
        );
    }
    rows.outcome()?;
    for list in [head, cells] {
        let length = list.as_array().map_or(0, Vec::len);
        same_json("length", &json!(expected().len() + 1), &json!(length))?;
    }
    defined.delete_definitions(&scope).await
}

async fn table_of_custom_resource_without_printer_columns_has_defaults(scope: Scope) -> Outcome {
    let defined = CrdFixture::with_default_schema(&scope);
    defined.serve(&scope).await?;
    scope
        .client
        .post(&defined.path, &defined.object("a"))
        .await?
        .expect_json(201)?;
    let request = Request::get(format!("{}/a", defined.path)).accept(TABLE);
    let table = scope.client.execute(request).await?.expect_json(200)?;
    let shown = |at: usize| {
        let column = &table["columnDefinitions"][at];
        json!([column["name"], column["type"], column["format"]])
    };
    same_json("first", &json!(["Name", "string", "name"]), &shown(0))?;
    same_json("second", &json!(["Age", "date", ""]), &shown(1))?;
    same_json("name", &json!("a"), &table["rows"][0]["cells"][0])?;
    let age = table["rows"][0]["cells"][1].as_str().unwrap_or_default();
    ensure!(age.ends_with('s'), "age: {age}");
    defined.delete_definitions(&scope).await
}

/// The document of the group, once it has the kind.
async fn described(scope: &Scope, defined: &CrdFixture) -> Outcome<Value> {
    let path = format!("/openapi/v3/apis/{}/v1", defined.group);
    scope
        .wait_until("a description", || async {
            let answer = scope.client.get(&path).await?;
            Ok(match answer.status {
                200 => Some(answer.expect_json(200)?),
                _ => None,
            })
        })
        .await
}

/// How documents call a kind of the group.
fn schema_name(defined: &CrdFixture, kind: &str) -> String {
    let mut words: Vec<&str> = defined.group.split('.').collect();
    words.reverse();
    format!("{}.v1.{kind}", words.join("."))
}

async fn openapi_describes_custom_resource(scope: Scope) -> Outcome {
    let spec = json!({"type": "object", "description": "What is wanted.", "properties": {
        "port": {"x-kubernetes-int-or-string": true},
        "word": {"type": "string", "description": "A word.", "nullable": true}}});
    let defined = CrdFixture::with_default_schema(&scope).with_spec(spec);
    defined.serve(&scope).await?;
    let document = described(&scope, &defined).await?;
    let name = schema_name(&defined, "Thing");
    let schema = &document["components"]["schemas"][&name];
    let group = &defined.group;
    let kind = json!([{"group": group, "version": "v1", "kind": "Thing"}]);
    same_json("kind", &kind, &schema["x-kubernetes-group-version-kind"])?;
    let expected = json!({"type": "object", "description": "What is wanted.", "properties": {
        "port": {"anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": true},
        "word": {"type": "string", "description": "A word.", "nullable": true}}});
    same_json("spec", &expected, &schema["properties"]["spec"])?;
    let metadata = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    let own = &schema["properties"]["metadata"]["allOf"][0]["$ref"];
    same_json("metadata", &json!(metadata), own)?;
    let list = &document["components"]["schemas"][schema_name(&defined, "ThingList")];
    let item = json!(format!("#/components/schemas/{name}"));
    same_json("item", &item, &list["properties"]["items"]["items"]["$ref"])?;
    let path = format!("/apis/{group}/v1/namespaces/{{namespace}}/things/{{name}}");
    let patch = &document["paths"][&path]["patch"];
    let content = patch["requestBody"]["content"].as_object();
    let types: Vec<&String> = content
        .into_iter()
        .flat_map(|content| content.keys())
        .collect();
    let expected = json!([
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
    ]);
    same_json("patches", &expected, &json!(types))?;
    let older = scope
        .wait_until("the older description", || async {
            let request = Request::get("/openapi/v2").accept("application/json");
            let document = scope.client.execute(request).await?.expect_json(200)?;
            let found = document["definitions"][&name].clone();
            Ok(found.is_object().then_some(found))
        })
        .await?;
    let expected = json!({"type": "object", "description": "What is wanted.", "properties": {
        "port": {"x-kubernetes-int-or-string": true}, "word": {"description": "A word."}}});
    same_json("older spec", &expected, &older["properties"]["spec"])?;
    defined.delete_definitions(&scope).await
}

/// The location of a document according to the OpenAPI index.
async fn place_of(scope: &Scope, group: &str) -> Outcome<Option<String>> {
    let index = scope.client.get("/openapi/v3").await?.expect_json(200)?;
    let entry = &index["paths"][format!("apis/{group}/v1")];
    Ok(entry["serverRelativeURL"].as_str().map(str::to_owned))
}

async fn openapi_follows_crd_changes(scope: Scope) -> Outcome {
    let defined = CrdFixture::with_default_schema(&scope);
    defined.serve(&scope).await?;
    described(&scope, &defined).await?;
    let first = scope
        .wait_until("the index", || place_of(&scope, &defined.group))
        .await?;
    let mut changed = defined.get(&scope).await?;
    let place = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/description";
    set(&mut changed, place, json!("New words."));
    let path = scope.object_path("customresourcedefinitions", &defined.name);
    scope.client.put(&path, &changed).await?.expect_json(200)?;
    let second = scope
        .wait_until("another hash", || async {
            let place = place_of(&scope, &defined.group).await?;
            Ok(place.filter(|place| *place != first))
        })
        .await?;
    let document = scope.client.get(&second).await?.expect_json(200)?;
    let schema = &document["components"]["schemas"][schema_name(&defined, "Thing")];
    let text = &schema["properties"]["spec"]["description"];
    same_json("description", &json!("New words."), text)?;
    defined.delete_definitions(&scope).await?;
    scope
        .wait_until("the end", || async {
            let place = place_of(&scope, &defined.group).await?;
            Ok(place.is_none().then_some(()))
        })
        .await
}

/// The entry of a group in aggregated discovery.
async fn discovered(scope: &Scope, group: &str) -> Outcome<Option<Value>> {
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let request = Request::get("/apis").accept(accept);
    let all = scope.client.execute(request).await?.expect_json(200)?;
    let items = all["items"]
        .as_array()
        .ok_or_else(|| Failure::new("no groups"))?;
    let mut items = items.iter();
    Ok(items
        .find(|item| item["metadata"]["name"] == group)
        .cloned())
}

async fn discovery_follows_crd_changes(scope: Scope) -> Outcome {
    let mut defined = CrdFixture::with_default_schema(&scope);
    let names = &mut defined.definition;
    set(names, "/spec/names/shortNames", json!(["thg"]));
    set(names, "/spec/names/categories", json!(["all", "things"]));
    defined.make(&scope).await?;
    is_served(&scope, &defined.path).await?;
    let group = scope
        .wait_until("the group", || discovered(&scope, &defined.group))
        .await?;
    let resource = &group["versions"][0]["resources"][0];
    same_json("name", &json!("things"), &resource["resource"])?;
    same_json("short", &json!(["thg"]), &resource["shortNames"])?;
    same_json(
        "categories",
        &json!(["all", "things"]),
        &resource["categories"],
    )?;
    let mut changed = defined.get(&scope).await?;
    set(&mut changed, "/spec/names/shortNames", json!(["thing1"]));
    let path = scope.object_path("customresourcedefinitions", &defined.name);
    scope.client.put(&path, &changed).await?.expect_json(200)?;
    scope
        .wait_until("another short name", || async {
            let group = discovered(&scope, &defined.group)
                .await?
                .unwrap_or_default();
            let short = &group["versions"][0]["resources"][0]["shortNames"];
            Ok((*short == json!(["thing1"])).then_some(()))
        })
        .await?;
    defined.delete_definitions(&scope).await?;
    scope
        .wait_until("the end of the group", || async {
            let group = discovered(&scope, &defined.group).await?;
            Ok(group.is_none().then_some(()))
        })
        .await
}
