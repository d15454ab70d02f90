//! What clients accept (wire §3.2, §3.4).

use crate::check::checks;
use crate::failure::{Rows, ensure, same, same_json};
use crate::object::{has_names, items, with};
use crate::protobuf;
use crate::status;
use crate::{Answer, Outcome, Request, Scope};
use serde_json::{Value, json};

checks! { media:
    [] json_is_the_default [],
    [] what_nobody_speaks_is_refused [],
    [] unknown_transforms_are_refused [],
    [] the_best_clause_wins [],
    [] yaml_is_written [Yaml],
    [] protobuf_is_written [Protobuf],
    [] tables_are_written [Table],
    [] metadata_is_written [Metadata],
    [] a_transform_must_fit [Metadata],
    [] json_is_pretty_on_demand [],
    [] large_answers_are_compressed [Gzip],
    [] custom_resources_speak_no_protobuf [CustomResources, Protobuf],
    [] custom_resources_speak_what_else_is_accepted [CustomResources, Protobuf],
    [] metadata_of_custom_resources_is_like_any [CustomResources, Protobuf, Metadata],
}

async fn list_as(scope: &Scope, accept: &str) -> Outcome<Answer> {
    let request = Request::get(scope.at("configmaps")).accept(accept);
    scope.client.ask(request).await
}

async fn json_is_the_default(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    for accept in [
        "*/*",
        "application/json",
        "application/json;charset=utf-8",
        "",
    ] {
        let answer = list_as(&scope, accept).await?;
        has_names(&answer.is(200)?, &["a"])?;
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

async fn what_nobody_speaks_is_refused(scope: Scope) -> Outcome {
    let mut rows = Rows::default();
    let expected = status::failure(406, "NotAcceptable", AVAILABLE, Some(json!({})));
    for accept in [
        "text/plain",
        "application/xml",
        "application/cbor",
        "application/*",
    ] {
        let answer = list_as(&scope, accept).await?;
        rows.row(accept, answer.fails_with(&expected));
    }
    rows.outcome()
}

const ONLY: &str = "only the following media types are accepted: application/json, \
                    application/yaml, application/vnd.kubernetes.protobuf";

async fn unknown_transforms_are_refused(scope: Scope) -> Outcome {
    let mut rows = Rows::default();
    let expected = status::failure(406, "NotAcceptable", ONLY, None);
    for parameters in ["as=Foo;v=v1;g=meta.k8s.io", "as=Table;v=v2;g=meta.k8s.io"] {
        let accept = format!("application/json;{parameters}");
        let answer = list_as(&scope, &accept).await?;
        rows.row(parameters, answer.fails_with(&expected));
    }
    rows.outcome()
}

async fn the_best_clause_wins(scope: Scope) -> Outcome {
    let mut rows = Rows::default();
    for accept in [
        "text/plain;q=0.9,application/json;q=0.1",
        "text/plain, application/json",
        "application/json;as=Foo;v=v1;g=meta.k8s.io, application/json",
        "application/json, */*",
    ] {
        let answer = list_as(&scope, accept).await?;
        let outcome = answer
            .is(200)
            .and_then(|list| same_json("kind", &json!("ConfigMapList"), &list["kind"]));
        rows.row(accept, outcome);
    }
    rows.outcome()
}

async fn yaml_is_written(scope: Scope) -> Outcome {
    let made = scope.make("secrets", "a").await?;
    let request = Request::get(scope.of("secrets", "a")).accept("application/yaml");
    let answer = scope.client.ask(request).await?;
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

async fn protobuf_is_written(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let request = Request::get(scope.of("configmaps", "a")).accept(PROTOBUF);
    let answer = scope.client.ask(request).await?;
    answer.has_status(200)?;
    same("type", PROTOBUF, answer.header("content-type"))?;
    is_protobuf(&answer, b"ConfigMap")?;
    // A failure comes in what was accepted.
    let request = Request::get(scope.of("configmaps", "b")).accept(PROTOBUF);
    let answer = scope.client.ask(request).await?;
    answer.has_status(404)?;
    is_protobuf(&answer, b"Status")
}

fn is_protobuf(answer: &Answer, kind: &[u8]) -> Outcome {
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

async fn tables_are_written(scope: Scope) -> Outcome {
    let made = scope.make("configmaps", "a").await?;
    for path in [scope.at("configmaps"), scope.of("configmaps", "a")] {
        let request = Request::get(&path).accept(&transform("Table"));
        let answer = scope.client.ask(request).await?;
        let table = answer.is(200)?;
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
    let path = format!("{}?includeObject=None", scope.at("configmaps"));
    let request = Request::get(path).accept(&transform("Table"));
    let table = scope.client.ask(request).await?.is(200)?;
    same_json("object", &Value::Null, &table["rows"][0]["object"])
}

async fn metadata_is_written(scope: Scope) -> Outcome {
    let made = scope.make("configmaps", "a").await?;
    let request = Request::get(scope.of("configmaps", "a"));
    let request = request.accept(&transform("PartialObjectMetadata"));
    let one = scope.client.ask(request).await?;
    same_json(&one.asked, &partial(&made), &one.is(200)?)?;
    let request = Request::get(scope.at("configmaps"));
    let request = request.accept(&transform("PartialObjectMetadataList"));
    let list = scope.client.ask(request).await?.is(200)?;
    same_json("kind", &json!("PartialObjectMetadataList"), &list["kind"])?;
    same_json("item", &partial(&made), &items(&list)?[0])
}

async fn a_transform_must_fit(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    for (path, name, text) in [
        (
            scope.at("configmaps"),
            "PartialObjectMetadata",
            "you requested PartialObjectMetadata, but the requested object is a list \
             (*core.ConfigMapList)",
        ),
        (
            scope.of("configmaps", "a"),
            "PartialObjectMetadataList",
            "you requested PartialObjectMetadataList, but the requested object is not a list \
             (*core.ConfigMap)",
        ),
    ] {
        let request = Request::get(path).accept(&transform(name));
        let answer = scope.client.ask(request).await?;
        answer.fails_with(&status::failure(406, "NotAcceptable", text, None))?;
    }
    Ok(())
}

/// For people: asked for, or by the agents of people.
async fn json_is_pretty_on_demand(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = scope.of("configmaps", "a");
    let mut rows = Rows::default();
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
        let text = scope.client.ask(request).await?.text();
        let got = text.starts_with("{\n  \"kind\": \"ConfigMap\",\n  \"apiVersion\": \"v1\",\n");
        rows.row(
            format!("{parameters} {agent}"),
            same("pretty", &pretty, &got),
        );
    }
    rows.outcome()
}

async fn custom_resources_speak_no_protobuf(scope: Scope) -> Outcome {
    let request = Request::get(scope.at("widgets")).accept(PROTOBUF);
    let answer = scope.client.ask(request).await?;
    answer.has_status(406)?;
    is_protobuf(&answer, b"Status")
}

async fn custom_resources_speak_what_else_is_accepted(scope: Scope) -> Outcome {
    let accept = format!("{PROTOBUF},application/json");
    let request = Request::get(scope.at("widgets")).accept(&accept);
    let answer = scope.client.ask(request).await?;
    answer.has_status(200)?;
    same("type", "application/json", answer.header("content-type"))
}

async fn metadata_of_custom_resources_is_like_any(scope: Scope) -> Outcome {
    let accept = format!("{PROTOBUF};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io");
    let request = Request::get(scope.at("widgets")).accept(&accept);
    let answer = scope.client.ask(request).await?;
    answer.has_status(200)?;
    same("type", PROTOBUF, answer.header("content-type"))?;
    let unknown = answer.body.strip_prefix(protobuf::MAGIC);
    let unknown = unknown.ok_or_else(|| crate::Failure::new("no prefix"))?;
    let kind = protobuf::field(protobuf::field(unknown, 1)?, 2)?;
    same("kind", b"PartialObjectMetadataList".as_slice(), kind)
}

async fn large_answers_are_compressed(scope: Scope) -> Outcome {
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
        let request = Request::get(scope.of("configmaps", name));
        let request = request.header("accept-encoding", encoding);
        let answer = scope.client.ask(request).await?;
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
