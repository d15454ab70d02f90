//! Content negotiation: the Accept header (WIRE §3.2, WIRE §3.4).

use crate::check::checks;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::object::{has_names, items, with};
use crate::protobuf;
use crate::status;
use crate::{ApiResponse, Outcome, Request, Scope};
use serde_json::{Value, json};

checks! { negotiation:
    [] response_defaults_to_json [],
    ["WIRE-38"] unsupported_accept_gets_406 [],
    [] unknown_as_parameter_gets_406 [],
    [] accept_picks_first_supported_clause [],
    [] accept_yaml_returns_yaml [Yaml],
    [] accept_protobuf_returns_protobuf [Protobuf],
    ["WIRE-43"] accept_table_returns_table [Table],
    [] accept_partial_object_metadata_returns_metadata [Metadata],
    ["WIRE-48"] partial_object_metadata_must_match_object_or_list [Metadata],
    ["WIRE-50"] json_is_pretty_for_pretty_param_and_browsers [],
    ["WIRE-49"] large_responses_are_gzipped_on_request [Gzip],
    ["WIRE-34"] protobuf_of_custom_resource_gets_406 [CustomResources, Protobuf],
    ["WIRE-33"] custom_resource_falls_back_from_protobuf_to_json [CustomResources, Protobuf],
    ["WIRE-47"] partial_metadata_of_custom_resource_in_protobuf [CustomResources, Protobuf, Metadata],
}

async fn list_as(scope: &Scope, accept: &str) -> Outcome<ApiResponse> {
    let request = Request::get(scope.collection_path("configmaps")).accept(accept);
    scope.client.execute(request).await
}

async fn response_defaults_to_json(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    for accept in [
        "*/*",
        "application/json",
        "application/json;charset=utf-8",
        "",
    ] {
        let answer = list_as(&scope, accept).await?;
        has_names(&answer.expect_json(200)?, &["a"])?;
        same("type", "application/json", answer.header("content-type"))?;
        let text = answer.text();
        let start = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"#;
        ensure!(text.starts_with(start), "another order: {text}");
        ensure!(text.ends_with("}\n"), "no newline: {text}");
        let item = &answer.json()?["items"][0];
        ensure!(
            item["kind"].is_null(),
            "items of built-in lists have no type"
        );
    }
    Ok(())
}

const AVAILABLE: &str = "406: Not Acceptable\n\nAvailable representations: application/json, \
                         application/yaml, application/vnd.kubernetes.protobuf, \
                         application/json;stream=watch, \
                         application/vnd.kubernetes.protobuf;stream=watch";

async fn unsupported_accept_gets_406(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    let expected = status::failure(406, "NotAcceptable", AVAILABLE, Some(json!({})));
    for accept in [
        "text/plain",
        "application/xml",
        "application/cbor",
        "application/*",
    ] {
        let answer = list_as(&scope, accept).await?;
        rows.record(accept, answer.expect_failure(&expected));
    }
    rows.outcome()
}

const ONLY: &str = "only the following media types are accepted: application/json, \
                    application/yaml, application/vnd.kubernetes.protobuf";

async fn unknown_as_parameter_gets_406(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    let expected = status::failure(406, "NotAcceptable", ONLY, None);
    for parameters in ["as=Foo;v=v1;g=meta.k8s.io", "as=Table;v=v2;g=meta.k8s.io"] {
        let accept = format!("application/json;{parameters}");
        let answer = list_as(&scope, &accept).await?;
        rows.record(parameters, answer.expect_failure(&expected));
    }
    rows.outcome()
}

async fn accept_picks_first_supported_clause(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    for accept in [
        "text/plain;q=0.9,application/json;q=0.1",
        "text/plain, application/json",
        "application/json;as=Foo;v=v1;g=meta.k8s.io, application/json",
        "application/json, */*",
    ] {
        let answer = list_as(&scope, accept).await?;
        let outcome = answer
            .expect_json(200)
            .and_then(|list| same_json("kind", &json!("ConfigMapList"), &list["kind"]));
        rows.record(accept, outcome);
    }
    rows.outcome()
}

async fn accept_yaml_returns_yaml(scope: Scope) -> Outcome {
    let made = scope.make("secrets", "a").await?;
    let request = Request::get(scope.object_path("secrets", "a")).accept("application/yaml");
    let answer = scope.client.execute(request).await?;
    answer.has_status(200)?;
    same("type", "application/yaml", answer.header("content-type"))?;
    let text = answer.text();
    let start = "apiVersion: v1\ndata:\n  k: dg==\nkind: Secret\nmetadata:\n  creationTimestamp: ";
    ensure!(text.starts_with(start), "unexpected: {text}");
    let name = format!(
        "\n  uid: {}\n",
        made["metadata"]["uid"].as_str().unwrap_or("?")
    );
    ensure!(text.contains(&name), "no uid: {text}");
    Ok(())
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

async fn accept_protobuf_returns_protobuf(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let request = Request::get(scope.object_path("configmaps", "a")).accept(PROTOBUF);
    let answer = scope.client.execute(request).await?;
    answer.has_status(200)?;
    same("type", PROTOBUF, answer.header("content-type"))?;
    is_protobuf(&answer, b"ConfigMap")?;
    // A failure is encoded in the accepted media type.
    let request = Request::get(scope.object_path("configmaps", "b")).accept(PROTOBUF);
    let answer = scope.client.execute(request).await?;
    answer.has_status(404)?;
    is_protobuf(&answer, b"Status")
}

fn is_protobuf(answer: &ApiResponse, kind: &[u8]) -> Outcome {
    let unknown = answer.body.strip_prefix(protobuf::MAGIC);
    let unknown = unknown.ok_or_else(|| crate::Failure::new("no prefix"))?;
    let type_meta = protobuf::field(unknown, 1)?;
    same(
        "apiVersion",
        b"v1".as_slice(),
        protobuf::field(type_meta, 1)?,
    )?;
    same("kind", kind, protobuf::field(type_meta, 2)?)
}

fn transform(name: &str) -> String {
    format!("application/json;as={name};v=v1;g=meta.k8s.io")
}

fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}

async fn accept_table_returns_table(scope: Scope) -> Outcome {
    let made = scope.make("configmaps", "a").await?;
    for path in [
        scope.collection_path("configmaps"),
        scope.object_path("configmaps", "a"),
    ] {
        let request = Request::get(&path).accept(&transform("Table"));
        let answer = scope.client.execute(request).await?;
        let table = answer.expect_json(200)?;
        same("type", "application/json", answer.header("content-type"))?;
        same_json("kind", &json!("Table"), &table["kind"])?;
        let columns = table["columnDefinitions"].as_array().into_iter().flatten();
        let names: Vec<&str> = columns
            .filter_map(|column| column["name"].as_str())
            .collect();
        same("columns", &vec!["Name", "Data", "Age"], &names)?;
        same_json("row", &partial(&made), &table["rows"][0]["object"])?;
        same_json("name", &json!("a"), &table["rows"][0]["cells"][0])?;
        same_json("count", &json!(1), &table["rows"][0]["cells"][1])?;
    }
    let path = format!("{}?includeObject=None", scope.collection_path("configmaps"));
    let request = Request::get(path).accept(&transform("Table"));
    let table = scope.client.execute(request).await?.expect_json(200)?;
    same_json("object", &Value::Null, &table["rows"][0]["object"])
}

async fn accept_partial_object_metadata_returns_metadata(scope: Scope) -> Outcome {
    let made = scope.make("configmaps", "a").await?;
    let request = Request::get(scope.object_path("configmaps", "a"));
    let request = request.accept(&transform("PartialObjectMetadata"));
    let one = scope.client.execute(request).await?;
    same_json(&one.asked, &partial(&made), &one.expect_json(200)?)?;
    let request = Request::get(scope.collection_path("configmaps"));
    let request = request.accept(&transform("PartialObjectMetadataList"));
    let list = scope.client.execute(request).await?.expect_json(200)?;
    same_json("kind", &json!("PartialObjectMetadataList"), &list["kind"])?;
    same_json("item", &partial(&made), &items(&list)?[0])
}

async fn partial_object_metadata_must_match_object_or_list(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    for (path, name, text) in [
        (
            scope.collection_path("configmaps"),
            "PartialObjectMetadata",
            "you requested PartialObjectMetadata, but the requested object is a list \
             (*core.ConfigMapList)",
        ),
        (
            scope.object_path("configmaps", "a"),
            "PartialObjectMetadataList",
            "you requested PartialObjectMetadataList, but the requested object is not a list \
             (*core.ConfigMap)",
        ),
    ] {
        let request = Request::get(path).accept(&transform(name));
        let answer = scope.client.execute(request).await?;
        answer.expect_failure(&status::failure(406, "NotAcceptable", text, None))?;
    }
    Ok(())
}

/// Pretty-printed JSON: on request, or for browsers and command-line tools.
async fn json_is_pretty_for_pretty_param_and_browsers(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    let mut rows = RowFailures::default();
    for (parameters, agent, pretty) in [
        ("", "x/1", false),
        ("?pretty=true", "x/1", true),
        ("?pretty=1", "x/1", true),
        ("?pretty=false", "curl/8", false),
        ("", "curl/8", true),
        ("", "Mozilla/5.0 (x)", true),
        ("", "Wget/1", true),
    ] {
        let request = Request::get(format!("{path}{parameters}")).header("user-agent", agent);
        let text = scope.client.execute(request).await?.text();
        let got = text.starts_with("{\n  \"kind\": \"ConfigMap\",\n  \"apiVersion\": \"v1\",\n");
        rows.record(
            format!("{parameters} {agent}"),
            same("pretty", &pretty, &got),
        );
    }
    rows.outcome()
}

async fn protobuf_of_custom_resource_gets_406(scope: Scope) -> Outcome {
    let request = Request::get(scope.collection_path("widgets")).accept(PROTOBUF);
    let answer = scope.client.execute(request).await?;
    answer.has_status(406)?;
    is_protobuf(&answer, b"Status")
}

async fn custom_resource_falls_back_from_protobuf_to_json(scope: Scope) -> Outcome {
    let accept = format!("{PROTOBUF},application/json");
    let request = Request::get(scope.collection_path("widgets")).accept(&accept);
    let answer = scope.client.execute(request).await?;
    answer.has_status(200)?;
    same("type", "application/json", answer.header("content-type"))
}

async fn partial_metadata_of_custom_resource_in_protobuf(scope: Scope) -> Outcome {
    let accept = format!("{PROTOBUF};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io");
    let request = Request::get(scope.collection_path("widgets")).accept(&accept);
    let answer = scope.client.execute(request).await?;
    answer.has_status(200)?;
    same("type", PROTOBUF, answer.header("content-type"))?;
    let unknown = answer.body.strip_prefix(protobuf::MAGIC);
    let unknown = unknown.ok_or_else(|| crate::Failure::new("no prefix"))?;
    let kind = protobuf::field(protobuf::field(unknown, 1)?, 2)?;
    same("kind", b"PartialObjectMetadataList".as_slice(), kind)
}

async fn large_responses_are_gzipped_on_request(scope: Scope) -> Outcome {
    const LARGE: usize = 128 * 1024;
    scope.make("configmaps", "small").await?;
    let value = "x".repeat(LARGE + 1);
    let body = with(&scope.sample("configmaps", "large"), "/data/k", value);
    scope.create("configmaps", &body).await?;
    for (name, encoding, expected) in [
        ("small", "gzip", ""),
        ("large", "identity", ""),
        ("large", "gzip", "gzip"),
    ] {
        let request = Request::get(scope.object_path("configmaps", name));
        let request = request.header("accept-encoding", encoding);
        let answer = scope.client.execute(request).await?;
        answer.has_status(200)?;
        same("encoding", expected, answer.header("content-encoding"))?;
        let magic = answer.body.starts_with(&[0x1f, 0x8b]);
        same("compressed", &(expected == "gzip"), &magic)?;
        if magic {
            same("vary", "Accept-Encoding", answer.header("vary"))?;
        }
    }
    Ok(())
}
