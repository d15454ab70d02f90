//! What servers say about themselves, and HTTP around it (wire §1, §2, §4).

use crate::check::checks;
use crate::failure::{Rows, ensure, same, same_json};
use crate::{Answer, Failure, Outcome, Request, Scope};
use http::Method;
use serde_json::json;

checks! { wire:
    [] core_versions [],
    [] groups_prefer_their_first_version [],
    [] discovery_is_aggregated_for_those_who_ask [],
    [] discovery_is_revalidated [],
    [] the_beta_of_discovery_is_gone [],
    [] discovery_in_protobuf_has_the_same_tag [Protobuf],
    [] the_core_group_has_no_name [],
    [] kinds_are_described [],
    [] documents_in_every_encoding [Yaml, Protobuf],
    [] descriptions_are_indexed [],
    [] a_description_can_be_kept [],
    [] an_old_hash_leads_to_the_new_one [],
    [] patches_are_described [],
    [] fields_are_described [],
    [] what_is_not_there_is_not_described [],
    [] the_old_description [],
    [] the_old_description_in_protobuf [],
    [] protobuf_is_read [Protobuf],
    [] protobuf_begins_with_its_magic [Protobuf],
    [] nobody_speaks_cbor [],
    [] time_is_limited_on_demand [],
    [] requests_have_names [],
    [] health_in_detail [],
    [] the_version_is_told [],
    [] requests_are_counted [Metrics],
}

async fn ask(scope: &Scope, path: &str, accept: &str) -> Outcome<Answer> {
    scope.client.ask(Request::get(path).accept(accept)).await
}

async fn core_versions(scope: Scope) -> Outcome {
    let document = ask(&scope, "/api", "").await?.is(200)?;
    same_json("kind", &json!("APIVersions"), &document["kind"])?;
    same_json("versions", &json!(["v1"]), &document["versions"])
}

async fn groups_prefer_their_first_version(scope: Scope) -> Outcome {
    let document = ask(&scope, "/apis", "application/json").await?.is(200)?;
    same_json("kind", &json!("APIGroupList"), &document["kind"])?;
    let groups = document["groups"].as_array().cloned().unwrap_or_default();
    for group in &groups {
        same_json("first", &group["preferredVersion"], &group["versions"][0])?;
    }
    let scaling = groups.iter().find(|group| group["name"] == "autoscaling");
    let versions = scaling
        .map(|group| group["versions"].clone())
        .unwrap_or_default();
    same_json("first", &json!("v2"), &versions[0]["version"])?;
    same_json("second", &json!("v1"), &versions[1]["version"])
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const BETA: &str = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

async fn discovery_is_aggregated_for_those_who_ask(scope: Scope) -> Outcome {
    let accept = format!("{AGGREGATED},{BETA},application/json");
    let answer = ask(&scope, "/apis", &accept).await?;
    let document = answer.is(200)?;
    same("type", AGGREGATED, answer.header("content-type"))?;
    same("vary", "Accept", answer.header("vary"))?;
    same_json("kind", &json!("APIGroupDiscoveryList"), &document["kind"])?;
    let apps = document["items"].as_array().into_iter().flatten();
    let apps = apps
        .clone()
        .find(|group| group["metadata"]["name"] == "apps");
    let apps = apps.ok_or_else(|| Failure::new("no group apps"))?;
    same_json(
        "fresh",
        &json!("Current"),
        &apps["versions"][0]["freshness"],
    )
}

async fn discovery_is_revalidated(scope: Scope) -> Outcome {
    let answer = ask(&scope, "/apis", AGGREGATED).await?;
    let tag = answer.header("etag").to_owned();
    ensure!(tag.len() == 130 && tag.starts_with('"'), "no tag: {tag}");
    let request = Request::get("/apis").accept(AGGREGATED);
    let answer = scope
        .client
        .ask(request.header("if-none-match", tag))
        .await?;
    answer.has_status(304)?;
    same("body", "", answer.text().as_str())
}

async fn the_beta_of_discovery_is_gone(scope: Scope) -> Outcome {
    let answer = ask(&scope, "/apis", BETA).await?;
    same_json("kind", &json!("Status"), &answer.is(406)?["kind"])
}

async fn discovery_in_protobuf_has_the_same_tag(scope: Scope) -> Outcome {
    let accept = AGGREGATED.replace("json", "vnd.kubernetes.protobuf");
    let answer = ask(&scope, "/apis", &accept).await?;
    answer.has_status(200)?;
    same("type", accept.as_str(), answer.header("content-type"))?;
    ensure!(answer.body.starts_with(b"k8s\0"), "no prefix");
    let json = ask(&scope, "/apis", AGGREGATED).await?;
    same("tag", json.header("etag"), answer.header("etag"))
}

async fn the_core_group_has_no_name(scope: Scope) -> Outcome {
    let document = ask(&scope, "/api", AGGREGATED).await?.is(200)?;
    same(
        "items",
        &Some(1),
        &document["items"].as_array().map(Vec::len),
    )?;
    same_json("metadata", &json!({}), &document["items"][0]["metadata"])?;
    same_json(
        "version",
        &json!("v1"),
        &document["items"][0]["versions"][0]["version"],
    )
}

async fn kinds_are_described(scope: Scope) -> Outcome {
    let document = ask(&scope, "/api/v1", "").await?.is(200)?;
    let find = |name: &str| {
        let all = document["resources"].as_array().into_iter().flatten();
        all.clone()
            .find(|entry| entry["name"] == name)
            .cloned()
            .unwrap_or_default()
    };
    let expected = json!("qFsyl6wFWjQ=");
    same_json("hash", &expected, &find("configmaps")["storageVersionHash"])?;
    same_json("short", &json!(["cm"]), &find("configmaps")["shortNames"])?;
    same_json("singular", &json!(""), &find("pods/status")["singularName"])?;
    same_json(
        "namespaced",
        &json!(true),
        &find("pods/status")["namespaced"],
    )
}

async fn documents_in_every_encoding(scope: Scope) -> Outcome {
    for (path, kind) in [
        ("/api", "APIVersions"),
        ("/apis", "APIGroupList"),
        ("/apis/apps", "APIGroup"),
        ("/apis/apps/v1", "APIResourceList"),
    ] {
        let answer = ask(&scope, path, "application/yaml").await?;
        answer.has_status(200)?;
        same("type", "application/yaml", answer.header("content-type"))?;
        let line = format!("kind: {kind}\n");
        ensure!(answer.text().contains(&line), "{path}: {}", answer.text());
        let protobuf = "application/vnd.kubernetes.protobuf";
        let answer = ask(&scope, path, protobuf).await?;
        same("type", protobuf, answer.header("content-type"))?;
        ensure!(answer.body.starts_with(b"k8s\0"), "{path}: no prefix");
    }
    Ok(())
}

async fn url_of(scope: &Scope, path: &str) -> Outcome<String> {
    let index = ask(scope, "/openapi/v3", "").await?;
    index.has_status(200)?;
    let url = index.json()?["paths"][path]["serverRelativeURL"].clone();
    let url = url.as_str().unwrap_or_default().to_owned();
    let start = format!("/openapi/v3/{path}?hash=");
    ensure!(url.starts_with(&start), "{path}: no URL with a hash: {url}");
    Ok(url)
}

async fn descriptions_are_indexed(scope: Scope) -> Outcome {
    for path in [
        "api/v1",
        "apis/apps/v1",
        "apis/rbac.authorization.k8s.io/v1",
    ] {
        url_of(&scope, path).await?;
    }
    Ok(())
}

async fn a_description_can_be_kept(scope: Scope) -> Outcome {
    let url = url_of(&scope, "apis/apps/v1").await?;
    let answer = ask(&scope, &url, "application/json").await?;
    answer.has_status(200)?;
    same("cache", "public, immutable", answer.header("cache-control"))?;
    ensure!(!answer.header("expires").is_empty(), "it does not expire");
    let hash = url.split_once("hash=").map_or("", |(_, hash)| hash);
    let tag = format!("\"{hash}\"");
    same("tag", tag.as_str(), answer.header("etag"))?;
    let request = Request::get(&url).header("if-none-match", tag);
    scope.client.ask(request).await?.has_status(304)
}

async fn an_old_hash_leads_to_the_new_one(scope: Scope) -> Outcome {
    let url = url_of(&scope, "apis/apps/v1").await?;
    let answer = ask(&scope, "/openapi/v3/apis/apps/v1?hash=00", "").await?;
    answer.has_status(301)?;
    same("location", url.as_str(), answer.header("location"))
}

async fn patches_are_described(scope: Scope) -> Outcome {
    let document = ask(&scope, "/openapi/v3/apis/apps/v1", "").await?.is(200)?;
    for plural in ["deployments", "daemonsets", "statefulsets", "replicasets"] {
        let path = format!("/apis/apps/v1/namespaces/{{namespace}}/{plural}/{{name}}");
        let patch = &document["paths"][&path]["patch"];
        let named = patch["parameters"].as_array().into_iter().flatten();
        let mut named = named.filter(|own| own["name"] == "fieldValidation");
        let found = named.next().cloned().unwrap_or_default();
        same_json(plural, &json!("query"), &found["in"])?;
        let kind = &patch["x-kubernetes-group-version-kind"];
        same_json(plural, &json!("apps"), &kind["group"])?;
        let content = &patch["requestBody"]["content"];
        let strategic = &content["application/strategic-merge-patch+json"];
        ensure!(strategic.is_object(), "{plural}: no strategic merge patch");
    }
    Ok(())
}

async fn fields_are_described(scope: Scope) -> Outcome {
    let document = ask(&scope, "/openapi/v3/api/v1", "").await?.is(200)?;
    let schemas = &document["components"]["schemas"];
    let pod = &schemas["io.k8s.api.core.v1.Pod"];
    let expected = json!([{"group": "", "kind": "Pod", "version": "v1"}]);
    same_json("kind", &expected, &pod["x-kubernetes-group-version-kind"])?;
    let container = &schemas["io.k8s.api.core.v1.Container"]["properties"];
    let words = container["image"]["description"]
        .as_str()
        .unwrap_or_default();
    ensure!(
        words.starts_with("Container image name."),
        "no words: {container}"
    );
    let ports = &container["ports"];
    same_json(
        "key",
        &json!("containerPort"),
        &ports["x-kubernetes-patch-merge-key"],
    )?;
    let keys = &ports["x-kubernetes-list-map-keys"];
    same_json("keys", &json!(["containerPort", "protocol"]), keys)
}

async fn what_is_not_there_is_not_described(scope: Scope) -> Outcome {
    let answer = ask(&scope, "/openapi/v3/apis/nope/v1", "").await?;
    answer.has_status(404)?;
    same("body", "", answer.text().as_str())?;
    let answer = ask(&scope, "/openapi/v3/apis/apps/v1", "text/html").await?;
    answer.has_status(406)?;
    same("body", "", answer.text().as_str())
}

async fn the_old_description(scope: Scope) -> Outcome {
    let document = ask(&scope, "/openapi/v2", "application/json")
        .await?
        .is(200)?;
    same_json("version", &json!("2.0"), &document["swagger"])?;
    let spec = &document["definitions"]["io.k8s.api.core.v1.Pod"]["properties"]["spec"];
    let expected = json!("#/definitions/io.k8s.api.core.v1.PodSpec");
    same_json("reference", &expected, &spec["$ref"])?;
    ask(&scope, "/openapi/v2", "application/yaml")
        .await?
        .has_status(406)
}

async fn the_old_description_in_protobuf(scope: Scope) -> Outcome {
    let accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let answer = ask(&scope, "/openapi/v2", accept).await?;
    answer.has_status(200)?;
    let expected = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    same("type", expected, answer.header("content-type"))?;
    // The first field says which version this is.
    ensure!(answer.body.starts_with(b"\x0a\x032.0"), "no document");
    Ok(())
}

/// `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"cm"},"data":{"a":"1"}}`, as
/// Go's client writes it.
const CONFIG_MAP: &[u8] = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x1c\x0a\x12\x0a\x02cm\
    \x12\0\x1a\0\x22\0\x2a\0\x32\0\x38\0\x42\0\x12\x06\x0a\x01a\x12\x011\x1a\0\x22\0";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

async fn protobuf_is_read(scope: Scope) -> Outcome {
    let request = Request::new(Method::POST, scope.at("configmaps"));
    let request = request.body(PROTOBUF, CONFIG_MAP).accept(PROTOBUF);
    let answer = scope.client.ask(request).await?;
    answer.has_status(201)?;
    same("type", PROTOBUF, answer.header("content-type"))?;
    ensure!(answer.body.starts_with(b"k8s\0"), "no prefix");
    let made = scope.get("configmaps", "cm").await?;
    same_json("data", &json!({"a": "1"}), &made["data"])
}

async fn protobuf_begins_with_its_magic(scope: Scope) -> Outcome {
    let request = Request::new(Method::POST, scope.at("configmaps"));
    let answer = scope
        .client
        .ask(request.body(PROTOBUF, &CONFIG_MAP[4..]))
        .await?;
    let refused = answer.is(400)?;
    let text = refused["message"].as_str().unwrap_or_default();
    ensure!(
        text.contains("expected prefix [107 56 115 0]"),
        "another text: {text}"
    );
    Ok(())
}

async fn nobody_speaks_cbor(scope: Scope) -> Outcome {
    let request = Request::new(Method::POST, scope.at("configmaps"));
    let answer = scope
        .client
        .ask(request.body("application/cbor", "\u{a0}"))
        .await?;
    answer.has_status(415)?;
    ask(&scope, &scope.at("configmaps"), "application/cbor")
        .await?
        .has_status(406)
}

async fn time_is_limited_on_demand(scope: Scope) -> Outcome {
    let path = scope.at("configmaps");
    ask(&scope, &format!("{path}?timeout=abc"), "")
        .await?
        .has_status(400)?;
    ask(&scope, &format!("{path}?timeout=1ns"), "")
        .await?
        .has_status(504)
}

async fn requests_have_names(scope: Scope) -> Outcome {
    let path = scope.at("configmaps");
    let request = Request::get(&path).header("audit-id", "my-own");
    let answer = scope.client.ask(request).await?;
    same("id", "my-own", answer.header("audit-id"))?;
    let answer = ask(&scope, &path, "").await?;
    ensure!(!answer.header("audit-id").is_empty(), "no Audit-Id");
    same("cache", "no-cache, private", answer.header("cache-control"))
}

async fn health_in_detail(scope: Scope) -> Outcome {
    let mut rows = Rows::default();
    for (path, code, parts) in [
        ("/readyz", 200, &["ok"][..]),
        (
            "/readyz?verbose",
            200,
            &["[+]ping ok\n", "[+]etcd ok\n", "readyz check passed\n"],
        ),
        (
            "/readyz?exclude=etcd&verbose",
            200,
            &["[+]etcd excluded: ok\n"],
        ),
        (
            "/livez?verbose&exclude=nope",
            200,
            &["no matches for \"nope\"", "livez check passed"],
        ),
        ("/readyz/etcd", 200, &["ok"]),
        ("/readyz/nope", 404, &[""]),
        ("/healthz/ping", 200, &["ok"]),
    ] {
        let answer = ask(&scope, path, "*/*").await?;
        let found = parts.iter().all(|part| answer.text().contains(part));
        let outcome = answer.has_status(code).and_then(|()| {
            same("text", &true, &found).map_err(|failure| failure.during(answer.text()))
        });
        rows.row(path, outcome);
    }
    rows.outcome()
}

async fn the_version_is_told(scope: Scope) -> Outcome {
    let version = ask(&scope, "/version", "*/*").await?.is(200)?;
    same_json("minor", &json!("36"), &version["minor"])?;
    let text = version["gitVersion"].as_str().unwrap_or_default();
    let numbers: Vec<&str> = text
        .strip_prefix('v')
        .unwrap_or_default()
        .split('.')
        .collect();
    let parsed = numbers
        .iter()
        .take(2)
        .all(|part| part.parse::<u32>().is_ok());
    ensure!(parsed && numbers.len() >= 3, "no version: {text}");
    Ok(())
}

const LABELS: &[&str] = &[
    "code",
    "component",
    "dry_run",
    "group",
    "resource",
    "scope",
    "subresource",
    "verb",
    "version",
];

async fn requests_are_counted(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let answer = ask(&scope, "/metrics", "*/*").await?;
    answer.has_status(200)?;
    let text = answer.text();
    let line = text
        .lines()
        .find(|line| line.starts_with("apiserver_request_total{") && line.contains("configmaps"));
    let line = line.ok_or_else(|| Failure::new("no apiserver_request_total"))?;
    for label in LABELS {
        ensure!(line.contains(&format!("{label}=\"")), "no {label}: {line}");
    }
    for name in [
        "apiserver_request_duration_seconds_bucket{",
        "apiserver_current_inflight_requests{",
        "apiserver_storage_objects{",
        "process_start_time_seconds",
    ] {
        let found = text.lines().any(|line| line.starts_with(name));
        ensure!(found, "no {name}");
    }
    Ok(())
}
