//! Discovery, health and version endpoints, and HTTP details of them (WIRE §1, WIRE §2, WIRE §4).

use crate::check::checks;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::{ApiResponse, Failure, Outcome, Request, Scope};
use http::Method;
use serde_json::json;

checks! { discovery_and_health:
    ["WIRE-1"] api_lists_core_versions [],
    ["WIRE-2", "WIRE-10"] api_groups_prefer_their_first_version [],
    ["WIRE-3"] aggregated_discovery_is_served_on_accept [],
    ["WIRE-4"] aggregated_discovery_supports_etag_revalidation [],
    ["WIRE-5"] aggregated_discovery_v2beta1_is_not_served [],
    ["WIRE-6"] protobuf_discovery_has_the_same_etag [Protobuf],
    ["WIRE-7"] core_group_has_empty_name_in_discovery [],
    ["WIRE-8", "WIRE-9"] discovery_lists_resources_verbs_and_short_names [],
    [] discovery_is_served_in_yaml_and_protobuf [Yaml, Protobuf],
    ["WIRE-21"] openapi_v3_index_lists_group_versions [],
    ["WIRE-22"] openapi_v3_with_hash_is_immutable [],
    ["WIRE-23"] openapi_v3_with_old_hash_redirects [],
    ["WIRE-24"] openapi_lists_patch_content_types [],
    [] openapi_describes_fields [],
    ["WIRE-26"] openapi_of_unknown_group_gets_404 [],
    [] openapi_v2_is_served [],
    ["WIRE-27"] openapi_v2_is_served_in_protobuf [],
    ["WIRE-30"] protobuf_body_is_accepted [Protobuf],
    ["WIRE-31"] protobuf_has_magic_prefix [Protobuf],
    ["WIRE-52"] cbor_is_not_supported [],
    ["WIRE-67"] timeout_parameter_limits_request_with_504 [],
    ["WIRE-77", "WIRE-78"] requests_get_audit_id_header [],
    ["WIRE-80", "WIRE-81", "WIRE-82"] health_endpoints_report_individual_checks [],
    ["WIRE-87"] version_endpoint_reports_version [],
    ["WIRE-88"] metrics_count_requests [Metrics],
}

async fn ask(scope: &Scope, path: &str, accept: &str) -> Outcome<ApiResponse> {
    scope
        .client
        .execute(Request::get(path).accept(accept))
        .await
}

async fn api_lists_core_versions(scope: Scope) -> Outcome {
    let document = ask(&scope, "/api", "").await?.expect_json(200)?;
    same_json("kind", &json!("APIVersions"), &document["kind"])?;
    same_json("versions", &json!(["v1"]), &document["versions"])
}

async fn api_groups_prefer_their_first_version(scope: Scope) -> Outcome {
    let document = ask(&scope, "/apis", "application/json")
        .await?
        .expect_json(200)?;
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

async fn aggregated_discovery_is_served_on_accept(scope: Scope) -> Outcome {
    let accept = format!("{AGGREGATED},{BETA},application/json");
    let answer = ask(&scope, "/apis", &accept).await?;
    let document = answer.expect_json(200)?;
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

async fn aggregated_discovery_supports_etag_revalidation(scope: Scope) -> Outcome {
    let answer = ask(&scope, "/apis", AGGREGATED).await?;
    let tag = answer.header("etag").to_owned();
    ensure!(tag.len() == 130 && tag.starts_with('"'), "no tag: {tag}");
    let request = Request::get("/apis").accept(AGGREGATED);
    let answer = scope
        .client
        .execute(request.header("if-none-match", tag))
        .await?;
    answer.has_status(304)?;
    same("body", "", answer.text().as_str())
}

async fn aggregated_discovery_v2beta1_is_not_served(scope: Scope) -> Outcome {
    let answer = ask(&scope, "/apis", BETA).await?;
    same_json("kind", &json!("Status"), &answer.expect_json(406)?["kind"])
}

async fn protobuf_discovery_has_the_same_etag(scope: Scope) -> Outcome {
    let accept = AGGREGATED.replace("json", "vnd.kubernetes.protobuf");
    let answer = ask(&scope, "/apis", &accept).await?;
    answer.has_status(200)?;
    same("type", accept.as_str(), answer.header("content-type"))?;
    ensure!(answer.body.starts_with(b"k8s\0"), "no prefix");
    let json = ask(&scope, "/apis", AGGREGATED).await?;
    same("tag", json.header("etag"), answer.header("etag"))
}

async fn core_group_has_empty_name_in_discovery(scope: Scope) -> Outcome {
    let document = ask(&scope, "/api", AGGREGATED).await?.expect_json(200)?;
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

async fn discovery_lists_resources_verbs_and_short_names(scope: Scope) -> Outcome {
    let document = ask(&scope, "/api/v1", "").await?.expect_json(200)?;
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

async fn discovery_is_served_in_yaml_and_protobuf(scope: Scope) -> Outcome {
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

async fn openapi_v3_index_lists_group_versions(scope: Scope) -> Outcome {
    for path in [
        "api/v1",
        "apis/apps/v1",
        "apis/rbac.authorization.k8s.io/v1",
    ] {
        url_of(&scope, path).await?;
    }
    Ok(())
}

async fn openapi_v3_with_hash_is_immutable(scope: Scope) -> Outcome {
    let url = url_of(&scope, "apis/apps/v1").await?;
    let answer = ask(&scope, &url, "application/json").await?;
    answer.has_status(200)?;
    same("cache", "public, immutable", answer.header("cache-control"))?;
    ensure!(!answer.header("expires").is_empty(), "it does not expire");
    let hash = url.split_once("hash=").map_or("", |(_, hash)| hash);
    let tag = format!("\"{hash}\"");
    same("tag", tag.as_str(), answer.header("etag"))?;
    let request = Request::get(&url).header("if-none-match", tag);
    scope.client.execute(request).await?.has_status(304)
}

async fn openapi_v3_with_old_hash_redirects(scope: Scope) -> Outcome {
    let url = url_of(&scope, "apis/apps/v1").await?;
    let answer = ask(&scope, "/openapi/v3/apis/apps/v1?hash=00", "").await?;
    answer.has_status(301)?;
    same("location", url.as_str(), answer.header("location"))
}

async fn openapi_lists_patch_content_types(scope: Scope) -> Outcome {
    let document = ask(&scope, "/openapi/v3/apis/apps/v1", "")
        .await?
        .expect_json(200)?;
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

async fn openapi_describes_fields(scope: Scope) -> Outcome {
    let document = ask(&scope, "/openapi/v3/api/v1", "")
        .await?
        .expect_json(200)?;
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

async fn openapi_of_unknown_group_gets_404(scope: Scope) -> Outcome {
    let answer = ask(&scope, "/openapi/v3/apis/nope/v1", "").await?;
    answer.has_status(404)?;
    same("body", "", answer.text().as_str())?;
    let answer = ask(&scope, "/openapi/v3/apis/apps/v1", "text/html").await?;
    answer.has_status(406)?;
    same("body", "", answer.text().as_str())
}

async fn openapi_v2_is_served(scope: Scope) -> Outcome {
    let document = ask(&scope, "/openapi/v2", "application/json")
        .await?
        .expect_json(200)?;
    same_json("version", &json!("2.0"), &document["swagger"])?;
    let spec = &document["definitions"]["io.k8s.api.core.v1.Pod"]["properties"]["spec"];
    let expected = json!("#/definitions/io.k8s.api.core.v1.PodSpec");
    same_json("reference", &expected, &spec["$ref"])?;
    ask(&scope, "/openapi/v2", "application/yaml")
        .await?
        .has_status(406)
}

async fn openapi_v2_is_served_in_protobuf(scope: Scope) -> Outcome {
    let accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let answer = ask(&scope, "/openapi/v2", accept).await?;
    answer.has_status(200)?;
    let expected = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    same("type", expected, answer.header("content-type"))?;
    // The first field is the version of the document.
    ensure!(answer.body.starts_with(b"\x0a\x032.0"), "no document");
    Ok(())
}

/// `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"cm"},"data":{"a":"1"}}`, as
/// Go's client writes it.
const CONFIG_MAP: &[u8] = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x1c\x0a\x12\x0a\x02cm\
    \x12\0\x1a\0\x22\0\x2a\0\x32\0\x38\0\x42\0\x12\x06\x0a\x01a\x12\x011\x1a\0\x22\0";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

async fn protobuf_body_is_accepted(scope: Scope) -> Outcome {
    let request = Request::new(Method::POST, scope.collection_path("configmaps"));
    let request = request.body(PROTOBUF, CONFIG_MAP).accept(PROTOBUF);
    let answer = scope.client.execute(request).await?;
    answer.has_status(201)?;
    same("type", PROTOBUF, answer.header("content-type"))?;
    ensure!(answer.body.starts_with(b"k8s\0"), "no prefix");
    let made = scope.get("configmaps", "cm").await?;
    same_json("data", &json!({"a": "1"}), &made["data"])
}

async fn protobuf_has_magic_prefix(scope: Scope) -> Outcome {
    let request = Request::new(Method::POST, scope.collection_path("configmaps"));
    let answer = scope
        .client
        .execute(request.body(PROTOBUF, &CONFIG_MAP[4..]))
        .await?;
    let refused = answer.expect_json(400)?;
    let text = refused["message"].as_str().unwrap_or_default();
    ensure!(
        text.contains("expected prefix [107 56 115 0]"),
        "another text: {text}"
    );
    Ok(())
}

async fn cbor_is_not_supported(scope: Scope) -> Outcome {
    let request = Request::new(Method::POST, scope.collection_path("configmaps"));
    let answer = scope
        .client
        .execute(request.body("application/cbor", "\u{a0}"))
        .await?;
    answer.has_status(415)?;
    ask(
        &scope,
        &scope.collection_path("configmaps"),
        "application/cbor",
    )
    .await?
    .has_status(406)
}

async fn timeout_parameter_limits_request_with_504(scope: Scope) -> Outcome {
    let path = scope.collection_path("configmaps");
    ask(&scope, &format!("{path}?timeout=abc"), "")
        .await?
        .has_status(400)?;
    ask(&scope, &format!("{path}?timeout=1ns"), "")
        .await?
        .has_status(504)
}

async fn requests_get_audit_id_header(scope: Scope) -> Outcome {
    let path = scope.collection_path("configmaps");
    let request = Request::get(&path).header("audit-id", "my-own");
    let answer = scope.client.execute(request).await?;
    same("id", "my-own", answer.header("audit-id"))?;
    let answer = ask(&scope, &path, "").await?;
    ensure!(!answer.header("audit-id").is_empty(), "no Audit-Id");
    same("cache", "no-cache, private", answer.header("cache-control"))
}

async fn health_endpoints_report_individual_checks(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
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
            same("text", &true, &found).map_err(|failure| failure.with_step(answer.text()))
        });
        rows.record(path, outcome);
    }
    rows.outcome()
}

async fn version_endpoint_reports_version(scope: Scope) -> Outcome {
    let version = ask(&scope, "/version", "*/*").await?.expect_json(200)?;
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

async fn metrics_count_requests(scope: Scope) -> Outcome {
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
