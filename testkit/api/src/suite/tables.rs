//! Tables: the cells of objects for people (WIRE §5).

use crate::check::checks;
use crate::client::query;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::status;
use crate::{Failure, Outcome, Request, Scope};
use serde_json::{Value, json};

checks! { tables:
    ["WIRE-43"] table_cells_match_upstream [Table, Status],
    [] table_row_of_finished_pod_has_completed_condition [Table, Status],
    ["WIRE-45"] table_in_protobuf_is_not_acceptable [Table, Protobuf],
    ["WIRE-46"] table_include_object_selects_row_object [Table],
    [] writes_return_table_on_request [Table],
    [] table_pages_have_continue_token [Table],
    [] table_in_yaml [Table, Yaml],
    [] partial_object_metadata_in_protobuf [Metadata, Protobuf],
    [] list_in_protobuf [Protobuf],
    [] list_in_yaml [Yaml],
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Objects, and the cells that kube-apiserver v1.36.4 returns for them. Cells that depend on time
/// or chance are `null`.
const RECORDED: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../recordings/tables/cells.json"
));

fn recorded() -> Outcome<Vec<Value>> {
    serde_json::from_str(RECORDED).map_err(|cause| Failure::new(format!("cells.json: {cause}")))
}

/// Makes a recorded object, with its status, and returns its path.
async fn make(scope: &Scope, row: &Value) -> Outcome<String> {
    let of = |name: &str| row[name].as_str().unwrap_or_default();
    let (group, version) = (of("group"), of("version"));
    let (root, api_version) = match group {
        "" => (format!("/api/{version}"), version.to_owned()),
        group => (
            format!("/apis/{group}/{version}"),
            format!("{group}/{version}"),
        ),
    };
    let collection = match row["cluster"].as_bool() {
        Some(true) => format!("{root}/{}", of("plural")),
        _ => format!("{root}/namespaces/{}/{}", scope.namespace, of("plural")),
    };
    let text = row["object"].to_string();
    let text = text.replace("\"NS\"", &format!("\"{}\"", scope.namespace));
    let mut object: Value = serde_json::from_str(&text).unwrap_or_default();
    object["apiVersion"] = api_version.into();
    object["kind"] = of("kind").into();
    let mut name = object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    if row["cluster"].as_bool() == Some(true) {
        name = scope.unique_name(&name);
        object["metadata"]["name"] = name.as_str().into();
    }
    scope
        .client
        .post(&collection, &object)
        .await?
        .expect_json(201)?;
    let path = format!("{collection}/{name}");
    if row["status"].is_object() {
        let mut current = scope.client.get(&path).await?.expect_json(200)?;
        current["status"] = row["status"].clone();
        let answer = scope
            .client
            .put(&format!("{path}/status"), &current)
            .await?;
        answer.expect_json(200)?;
    }
    Ok(path)
}

async fn table_cells_match_upstream(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    for row in recorded()? {
        let path = make(&scope, &row).await?;
        let answer = scope
            .client
            .execute(Request::get(&path).accept(TABLE))
            .await?;
        let got = answer.expect_json(200)?["rows"][0]["cells"].clone();
        // Names of cluster-wide objects are unique to this run.
        let prefix = scope.unique_name("");
        let text = got.to_string().replace(&prefix, "");
        let mut got: Value = serde_json::from_str(&text).unwrap_or_default();
        for (at, cell) in row["cells"].as_array().into_iter().flatten().enumerate() {
            if cell.is_null() {
                got[at] = Value::Null;
            }
        }
        rows.record(&path, same_json(&path, &row["cells"], &got));
        if row["cluster"].as_bool() == Some(true) {
            let request = Request::new(http::Method::DELETE, &path);
            scope.client.execute(request).await?;
        }
    }
    rows.outcome()
}

async fn table_row_of_finished_pod_has_completed_condition(scope: Scope) -> Outcome {
    let done = recorded()?
        .into_iter()
        .find(|row| row["object"]["metadata"]["name"] == "done");
    let path = make(&scope, &done.unwrap_or_default()).await?;
    let answer = scope
        .client
        .execute(Request::get(&path).accept(TABLE))
        .await?;
    let expected = json!([{
        "type": "Completed", "status": "True", "reason": "Succeeded",
        "message": "The pod has completed successfully.",
    }]);
    same_json(
        &path,
        &expected,
        &answer.expect_json(200)?["rows"][0]["conditions"],
    )
}

async fn table_in_protobuf_is_not_acceptable(scope: Scope) -> Outcome {
    let only = TABLE.replace("json", "vnd.kubernetes.protobuf");
    let path = scope.collection_path("configmaps");
    let answer = scope
        .client
        .execute(Request::get(&path).accept(&only))
        .await?;
    answer.has_status(406)?;
    // The Accept header of kubectl.
    let both = format!("{only},{TABLE},application/json");
    let answer = scope
        .client
        .execute(Request::get(&path).accept(&both))
        .await?;
    same_json("kind", &json!("Table"), &answer.expect_json(200)?["kind"])
}

async fn table_include_object_selects_row_object(scope: Scope) -> Outcome {
    let made = scope.make("configmaps", "a").await?;
    for (word, expected) in [
        ("Object", made.clone()),
        ("None", Value::Null),
        (
            "Metadata",
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                   "metadata": made["metadata"]}),
        ),
    ] {
        let path = query(
            &scope.collection_path("configmaps"),
            &[("includeObject", word)],
        );
        let answer = scope
            .client
            .execute(Request::get(path).accept(TABLE))
            .await?;
        same_json(
            word,
            &expected,
            &answer.expect_json(200)?["rows"][0]["object"],
        )?;
    }
    let path = query(
        &scope.collection_path("configmaps"),
        &[("includeObject", "Bad")],
    );
    let answer = scope
        .client
        .execute(Request::get(path).accept(TABLE))
        .await?;
    let text = "Unable to convert to Table as requested: includeObject: Invalid value: \"Bad\": \
                must be 'Metadata', 'Object', 'None', or empty";
    let mut expected = status::bad_request(text);
    expected
        .as_object_mut()
        .map(|members| members.remove("details"));
    answer.expect_failure(&expected)
}

async fn writes_return_table_on_request(scope: Scope) -> Outcome {
    let body = scope.sample("configmaps", "a");
    let request = Request::new(http::Method::POST, scope.collection_path("configmaps"));
    let answer = scope
        .client
        .execute(request.json(&body).accept(TABLE))
        .await?;
    let table = answer.expect_json(201)?;
    same_json("kind", &json!("Table"), &table["kind"])?;
    same_json("name", &json!("a"), &table["rows"][0]["cells"][0])?;
    // The response to a delete has no row.
    let request = Request::new(http::Method::DELETE, scope.object_path("configmaps", "a"));
    let answer = scope.client.execute(request.accept(TABLE)).await?;
    same_json("gone", &json!("Status"), &answer.expect_json(200)?["kind"])
}

async fn table_pages_have_continue_token(scope: Scope) -> Outcome {
    scope.make_several(&["a", "b", "c"]).await?;
    let path = query(&scope.collection_path("configmaps"), &[("limit", "2")]);
    let answer = scope
        .client
        .execute(Request::get(path).accept(TABLE))
        .await?;
    let table = answer.expect_json(200)?;
    same_json("rest", &json!(1), &table["metadata"]["remainingItemCount"])?;
    let token = table["metadata"]["continue"].as_str().unwrap_or_default();
    let path = query(
        &scope.collection_path("configmaps"),
        &[("limit", "2"), ("continue", token)],
    );
    let answer = scope
        .client
        .execute(Request::get(path).accept(TABLE))
        .await?;
    let table = answer.expect_json(200)?;
    same_json("last", &json!("c"), &table["rows"][0]["cells"][0])?;
    same_json("end", &Value::Null, &table["metadata"]["continue"])
}

async fn table_in_yaml(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let accept = TABLE.replace("json", "yaml");
    for path in [
        scope.collection_path("configmaps"),
        scope.object_path("configmaps", "a"),
    ] {
        let path = format!("{path}?includeObject=None");
        let answer = scope
            .client
            .execute(Request::get(path).accept(&accept))
            .await?;
        answer.has_status(200)?;
        same("type", "application/yaml", answer.header("content-type"))?;
        let text = answer.text();
        let start = "apiVersion: meta.k8s.io/v1\ncolumnDefinitions:\n- description: ";
        ensure!(text.starts_with(start), "unexpected: {text}");
        let row = "\nkind: Table\nmetadata:\n  resourceVersion: \"";
        ensure!(text.contains(row), "no metadata: {text}");
        let row = "\nrows:\n- cells:\n  - a\n  - 1\n  - ";
        ensure!(text.contains(row), "no row: {text}");
        ensure!(text.ends_with("\n  object: null\n"), "no end: {text}");
    }
    Ok(())
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// apiVersion, kind and message of a document.
fn open(bytes: &[u8]) -> Outcome<(String, String, &[u8])> {
    use crate::protobuf::{MAGIC, field};
    let unknown = bytes.strip_prefix(MAGIC);
    let unknown = unknown.ok_or_else(|| Failure::new("no prefix"))?;
    let type_meta = field(unknown, 1)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (version, kind) = (field(type_meta, 1)?, field(type_meta, 2)?);
    Ok((text(version), text(kind), field(unknown, 2)?))
}

async fn partial_object_metadata_in_protobuf(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    for (path, name) in [
        (
            scope.object_path("configmaps", "a"),
            "PartialObjectMetadata",
        ),
        (
            scope.collection_path("configmaps"),
            "PartialObjectMetadataList",
        ),
    ] {
        let accept = format!("{PROTOBUF};as={name};v=v1;g=meta.k8s.io");
        let answer = scope
            .client
            .execute(Request::get(path).accept(&accept))
            .await?;
        answer.has_status(200)?;
        same("type", PROTOBUF, answer.header("content-type"))?;
        let (version, kind, message) = open(&answer.body)?;
        same("version", "meta.k8s.io/v1", version.as_str())?;
        same("kind", name, kind.as_str())?;
        let object = match name.ends_with("List") {
            true => crate::protobuf::field(message, 2)?,
            false => message,
        };
        let metadata = crate::protobuf::field(object, 1)?;
        same("name", &b"a"[..], crate::protobuf::field(metadata, 1)?)?;
    }
    Ok(())
}

async fn list_in_protobuf(scope: Scope) -> Outcome {
    scope.make_several(&["a", "b"]).await?;
    let request = Request::get(scope.collection_path("configmaps")).accept(PROTOBUF);
    let answer = scope.client.execute(request).await?;
    answer.has_status(200)?;
    let (version, kind, message) = open(&answer.body)?;
    same("version", "v1", version.as_str())?;
    same("kind", "ConfigMapList", kind.as_str())?;
    let metadata = crate::protobuf::field(message, 1)?;
    ensure!(
        !crate::protobuf::field(metadata, 2)?.is_empty(),
        "no revision"
    );
    let item = crate::protobuf::field(message, 2)?;
    let metadata = crate::protobuf::field(item, 1)?;
    same("name", &b"a"[..], crate::protobuf::field(metadata, 1)?)?;
    let empty = scope.second_namespace("-empty").await?;
    let request = Request::get(empty.collection_path("secrets")).accept(PROTOBUF);
    let answer = scope.client.execute(request).await?;
    let (_, kind, message) = open(&answer.body)?;
    same("kind", "SecretList", kind.as_str())?;
    ensure!(
        crate::protobuf::field(message, 2).is_err(),
        "items: {message:02x?}"
    );
    Ok(())
}

async fn list_in_yaml(scope: Scope) -> Outcome {
    let request = || Request::get(scope.collection_path("secrets")).accept("application/yaml");
    let answer = scope.client.execute(request()).await?;
    answer.has_status(200)?;
    let start = "apiVersion: v1\nitems: []\nkind: SecretList\nmetadata:\n  resourceVersion: \"";
    ensure!(
        answer.text().starts_with(start),
        "unexpected: {}",
        answer.text()
    );
    scope.make("secrets", "a").await?;
    scope.make("secrets", "b").await?;
    let text = scope.client.execute(request()).await?.text();
    let start =
        "apiVersion: v1\nitems:\n- data:\n    k: dg==\n  metadata:\n    creationTimestamp: ";
    ensure!(text.starts_with(start), "unexpected: {text}");
    let end = "\nkind: SecretList\nmetadata:\n  resourceVersion: \"";
    ensure!(text.contains(end), "no end: {text}");
    same("items", &2, &text.matches("\n- data:").count())
}
