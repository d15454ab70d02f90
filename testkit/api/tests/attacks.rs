//! Attacks on the API of a whole server. See THREAT_MODEL.md.

use http::Method;
use optik_api_testkit::{Client, NextEvent, Request, Target};
use optik_server_testkit::{TestEngine, TestServer};
use optik_store::{Origin, Put, Revision, Txn};
use serde_json::{Value, json};
use std::time::Duration;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";

async fn start() -> (TestServer, Client) {
    let server = TestServer::start_bare(TestEngine::Memory).await;
    let client = Client::new(Target::parse(&server.url, None).unwrap());
    (server, client)
}

async fn post(client: &Client, path: &str, body: &Value) {
    client
        .post(path, body)
        .await
        .unwrap()
        .expect_json(201)
        .unwrap();
}

async fn let_read(client: &Client, user: &str) {
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]);
    post(
        client,
        &format!("{RBAC}/roles"),
        &json!({"metadata": {"name": "reads"}, "rules": rules}),
    )
    .await;
    let binding = json!({
        "metadata": {"name": "reads"}, "roleRef": {"kind": "Role", "name": "reads"},
        "subjects": [{"kind": "User", "name": user}],
    });
    post(client, &format!("{RBAC}/rolebindings"), &binding).await;
}

/// Revoking a permission takes effect when the request returns, and ends the watches that it
/// allowed. Shows G40.
#[tokio::test(flavor = "multi_thread")]
async fn revoked_role_binding_ends_access_and_watches_at_once() {
    let (server, client) = start().await;
    let path = "/api/v1/namespaces/default/configmaps";
    let as_kim = |path: &str| Request::get(path).header("impersonate-user", "kim");
    let status = async |path: &str| client.execute(as_kim(path)).await.unwrap().status;
    for _ in 0..3 {
        assert_eq!(status(path).await, 403);
        let_read(&client, "kim").await;
        assert_eq!(status(path).await, 200, "what is answered is in force");
        let mut watch = client
            .watch_as(as_kim(&format!("{path}?watch=1")))
            .await
            .unwrap();
        // A change of roles that revokes nothing from kim does not end the watch.
        post(
            &client,
            &format!("{RBAC}/roles"),
            &json!({"metadata": {"name": "other"}}),
        )
        .await;
        post(&client, path, &json!({"metadata": {"name": "a"}})).await;
        let event = watch.next(REQUEST_TIMEOUT).await;
        assert!(matches!(event, NextEvent::Event(_)), "{event:?}");
        let gone = client
            .delete(&format!("{RBAC}/rolebindings/reads"))
            .await
            .unwrap();
        gone.expect_json(200).unwrap();
        assert_eq!(status(path).await, 403);
        // Ends without an error, as watches do.
        let end = watch.next(REQUEST_TIMEOUT).await;
        assert!(matches!(end, NextEvent::End), "{end:?}");
        for path in [
            format!("{RBAC}/roles/reads"),
            format!("{RBAC}/roles/other"),
            format!("{path}/a"),
        ] {
            client
                .delete(&path)
                .await
                .unwrap()
                .expect_json(200)
                .unwrap();
        }
    }
    server.stop().await;
}

/// A watch ends with its token: when the bound object or the service account is deleted, or is
/// recreated.
#[tokio::test(flavor = "multi_thread")]
async fn watch_ends_when_service_account_token_is_invalidated() {
    let (server, client) = start().await;
    let core = "/api/v1/namespaces/default";
    let account = json!({"metadata": {"name": "robot"}});
    post(&client, &format!("{core}/serviceaccounts"), &account).await;
    let_read(&client, "system:serviceaccount:default:robot").await;
    let issue = async |spec: Value| {
        let path = format!("{core}/serviceaccounts/robot/token");
        let made = client.post(&path, &json!({"spec": spec})).await.unwrap();
        let made = made.expect_json(201).unwrap();
        made["status"]["token"].as_str().unwrap().to_owned()
    };
    let watch = async |token: &str| {
        let request = Request::get(format!("{core}/configmaps?watch=1"))
            .header("authorization", format!("Bearer {token}"));
        client
            .with_new_connections()
            .watch_as(request)
            .await
            .unwrap()
    };
    let secret = json!({"metadata": {"name": "s"}});
    post(&client, &format!("{core}/secrets"), &secret).await;
    let reference = json!({"kind": "Secret", "apiVersion": "v1", "name": "s"});
    let bound = issue(json!({"boundObjectRef": reference})).await;
    let plain = issue(json!({})).await;
    let (mut by_bound, mut by_plain) = (watch(&bound).await, watch(&plain).await);
    let gone = async |path: String| {
        client
            .delete(&path)
            .await
            .unwrap()
            .expect_json(200)
            .unwrap()
    };
    gone(format!("{core}/secrets/s")).await;
    let end = by_bound.next(REQUEST_TIMEOUT).await;
    assert!(matches!(end, NextEvent::End), "{end:?}");
    // The other watch continues until its service account is recreated.
    let map = json!({"metadata": {"name": "a"}});
    post(&client, &format!("{core}/configmaps"), &map).await;
    let event = by_plain.next(REQUEST_TIMEOUT).await;
    assert!(matches!(event, NextEvent::Event(_)), "{event:?}");
    gone(format!("{core}/serviceaccounts/robot")).await;
    post(&client, &format!("{core}/serviceaccounts"), &account).await;
    let end = by_plain.next(REQUEST_TIMEOUT).await;
    assert!(matches!(end, NextEvent::End), "{end:?}");
    server.stop().await;
}

/// Small documents that stand for large ones are refused, not built.
#[tokio::test(flavor = "multi_thread")]
async fn yaml_alias_bombs_and_patch_amplification_are_rejected() {
    let (server, client) = start().await;
    let mut yaml = String::from(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n",
    );
    for level in 1..12 {
        let before = format!("*a{}", level - 1);
        let list = vec![before; 10].join(",");
        yaml.push_str(&format!("a{level}: &a{level} [{list}]\n"));
    }
    let deep = |open: &str, close: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a"}},"x":{}1{}}}"#,
            open.repeat(500_000),
            close.repeat(500_000)
        )
    };
    let path = "/api/v1/namespaces/default/configmaps";
    for (kind, body) in [
        ("application/yaml", yaml.clone()),
        ("application/yaml", format!("a: {}", "[".repeat(1_000_000))),
        ("application/json", deep("[", "]")),
        ("application/json", deep("{\"a\":", "}")),
    ] {
        let request = Request::new(Method::POST, path).body(kind, body);
        let answer = client.execute(request).await.unwrap();
        assert_eq!(answer.status, 400, "{kind}: {:.200}", answer.text());
    }
    let patch = Request::new(Method::PATCH, format!("{path}/a?fieldManager=m"));
    let answer = client
        .execute(patch.body("application/apply-patch+yaml", yaml))
        .await
        .unwrap();
    assert!(matches!(answer.status, 400 | 415), "{:.200}", answer.text());
    assert_eq!(client.get("/healthz").await.unwrap().status, 200);
    server.stop().await;
}

/// Ways up that roles leave open elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn privilege_escalation_through_roles_and_bindings_is_forbidden() {
    let (server, client) = start().await;
    let rules = json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["create", "update", "patch", "get"]},
    ]);
    // Every verb but those that would allow it.
    post(
        &client,
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        &json!({"metadata": {"name": "ed"}, "rules": rules}),
    )
    .await;
    let binding = json!({
        "metadata": {"name": "ed"}, "roleRef": {"kind": "ClusterRole", "name": "ed"},
        "subjects": [{"kind": "User", "name": "ed"}],
    });
    post(
        &client,
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        &binding,
    )
    .await;
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let cluster = "/apis/rbac.authorization.k8s.io/v1";
    let to_ed = json!([{"kind": "User", "name": "ed"}]);
    let json = "application/json";
    let merge = "application/merge-patch+json";
    let apply = "application/apply-patch+yaml";
    for (method, path, kind, body) in [
        // Makes a role that allows everything; changes one; gathers all.
        (
            Method::POST,
            format!("{cluster}/clusterroles"),
            json,
            json!({"metadata": {"name": "x"}, "rules": all}),
        ),
        (
            Method::POST,
            format!("{RBAC}/roles"),
            json,
            json!({"metadata": {"name": "x"}, "rules": all}),
        ),
        (
            Method::PUT,
            format!("{cluster}/clusterroles/ed"),
            json,
            json!({"metadata": {"name": "ed"}, "rules": all}),
        ),
        (
            Method::PATCH,
            format!("{cluster}/clusterroles/ed"),
            merge,
            json!({"rules": all}),
        ),
        (
            Method::PATCH,
            format!("{cluster}/clusterroles/ed"),
            "application/json-patch+json",
            json!([{"op": "replace", "path": "/rules", "value": all}]),
        ),
        (
            Method::PATCH,
            format!("{cluster}/clusterroles/ed?fieldManager=m&force=true"),
            apply,
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "ed"}, "rules": all}),
        ),
        (
            Method::PATCH,
            format!("{cluster}/clusterroles/new?fieldManager=m"),
            apply,
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "new"}, "rules": all}),
        ),
        (
            Method::POST,
            format!("{cluster}/clusterroles"),
            json,
            json!({"metadata": {"name": "x"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"kubernetes.io/bootstrapping": "rbac-defaults"}}]}}),
        ),
        // Creates a binding to an existing role; adds a subject to a binding; creates one by PUT.
        (
            Method::POST,
            format!("{cluster}/clusterrolebindings"),
            json,
            json!({"metadata": {"name": "x"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}, "subjects": to_ed}),
        ),
        (
            Method::POST,
            format!("{RBAC}/rolebindings"),
            json,
            json!({"metadata": {"name": "x"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}, "subjects": to_ed}),
        ),
        (
            Method::PATCH,
            format!("{cluster}/clusterrolebindings/cluster-admin"),
            merge,
            json!({"subjects": to_ed}),
        ),
        (
            Method::PUT,
            format!("{cluster}/clusterrolebindings/x"),
            json,
            json!({"metadata": {"name": "x"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}, "subjects": to_ed}),
        ),
    ] {
        let request = Request::new(method.clone(), &path).body(kind, body.to_string());
        let answer = client
            .execute(request.header("impersonate-user", "ed"))
            .await
            .unwrap();
        assert_eq!(answer.status, 403, "{method} {path}: {}", answer.text());
    }
    let asked = Request::get("/api/v1/secrets").header("impersonate-user", "ed");
    assert_eq!(client.execute(asked).await.unwrap().status, 403);
    server.stop().await;
}

/// Every user may read discovery below `/api/`; no spelling of a path turns another path into
/// discovery.
#[tokio::test(flavor = "multi_thread")]
async fn odd_paths_below_api_are_not_authorized_as_discovery() {
    let (server, client) = start().await;
    let_read(&client, "kim").await;
    for path in [
        "/api/v1/namespaces//configmaps",
        "/api/v1/namespaces//configmaps/",
        "/api/v1/namespaces//configmaps/a",
        "/api/v1/namespaces//secrets",
        "/api/v1/namespaces//secrets?watch=1",
        "/api/v1/namespaces/%2Fsecrets",
        "/api/v1/namespaces%2F%2Fsecrets",
        "/api/v1/watch/namespaces//secrets",
        "/api/v1/namespaces//pods/p/log",
        "/apis/apps/v1/namespaces//deployments",
        "/apis/apps/v1/namespaces//deployments/d/status",
    ] {
        for method in [Method::GET, Method::DELETE, Method::PUT] {
            let request = Request::new(method.clone(), path).header("impersonate-user", "kim");
            let answer = client.execute(request).await.unwrap();
            assert_eq!(answer.status, 403, "{method} {path}: {}", answer.text());
        }
    }
    for path in [
        "//api/v1/secrets",
        "/api//v1/secrets",
        "/api/v1//secrets",
        "/api/v1/secrets//",
        "/api/v1/namespaces///secrets",
        "/api/v1/namespaces/default//secrets",
        "/apis//v1/namespaces//secrets",
    ] {
        let request = Request::get(path).header("impersonate-user", "kim");
        let answer = client.execute(request).await.unwrap();
        let refused = matches!(answer.status, 403 | 404);
        assert!(refused, "{path}: {}", answer.text());
    }
    server.stop().await;
}

/// A CRD for a built-in resource would own its objects, and would delete them when it is deleted.
#[tokio::test(flavor = "multi_thread")]
async fn crd_for_built_in_resource_is_rejected() {
    let server = TestServer::start(TestEngine::Memory).await;
    let client = Client::new(Target::parse(&server.url, None).unwrap());
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = |group: &str, plural: &str, scope: &str| {
        json!({
            "metadata": {"name": format!("{plural}.{group}"),
                "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}},
            "spec": {"group": group, "scope": scope,
                "names": {"plural": plural, "kind": "Hidden"},
                "versions": [{"name": "v9", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object",
                        "x-kubernetes-preserve-unknown-fields": true}}}]},
        })
    };
    for (group, plural, scope) in [
        (
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            "Cluster",
        ),
        ("apiregistration.k8s.io", "apiservices", "Cluster"),
        ("networking.k8s.io", "ingresses", "Namespaced"),
        ("rbac.authorization.k8s.io", "clusterroles", "Cluster"),
    ] {
        let refused = client
            .post(path, &definition(group, plural, scope))
            .await
            .unwrap();
        let status = refused.json().unwrap();
        let told = status["message"].as_str().unwrap();
        let expected = format!(
            "CustomResourceDefinition.apiextensions.k8s.io \"{plural}.{group}\" is invalid: \
             spec.names.plural: Invalid value: \"{plural}\": is a built-in resource of the group \
             \"{group}\""
        );
        assert_eq!((refused.status, told), (422, &*expected));
    }
    // An unused name in that group is allowed, and its CRD can be created and deleted.
    let free = definition("networking.k8s.io", "gateways", "Namespaced");
    post(&client, path, &free).await;
    let other = definition("example.com", "customresourcedefinitions", "Cluster");
    post(&client, path, &other).await;
    let gone = format!("{path}/gateways.networking.k8s.io");
    client
        .delete(&gone)
        .await
        .unwrap()
        .expect_json(200)
        .unwrap();
    until_gone(&client, &gone).await;
    let kept = format!("{path}/customresourcedefinitions.example.com");
    client.get(&kept).await.unwrap().expect_json(200).unwrap();
    server.stop().await;
}

/// A stored CRD for a built-in resource, from before they were rejected: it is not served, and its
/// deletion deletes only the CRD.
#[tokio::test(flavor = "multi_thread")]
async fn stored_crd_for_built_in_resource_deletes_no_built_in_objects() {
    let server = TestServer::start(TestEngine::Memory).await;
    let client = Client::new(Target::parse(&server.url, None).unwrap());
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = |group: &str, plural: &str| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}"), "uid": "u", "generation": 1,
                "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"group": group, "scope": "Cluster", "conversion": {"strategy": "None"},
                "names": {"plural": plural, "singular": "hidden", "kind": "Hidden",
                    "listKind": "HiddenList"},
                "versions": [{"name": "v9", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}}}]},
            "status": {"storedVersions": ["v9"],
                "acceptedNames": {"plural": plural, "singular": "hidden", "kind": "Hidden",
                    "listKind": "HiddenList"},
                "conditions": [
                    {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts",
                        "lastTransitionTime": "2026-01-01T00:00:00Z"},
                    {"type": "Established", "status": "True", "reason": "InitialNamesAccepted",
                        "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        })
    };
    let mut free = definition("example.com", "things");
    for member in ["uid", "generation", "creationTimestamp"] {
        free["metadata"][member].take();
    }
    post(&client, path, &free).await;
    let hidden = definition("apiextensions.k8s.io", "customresourcedefinitions");
    let name = "customresourcedefinitions.apiextensions.k8s.io";
    let key = format!("/registry/apiextensions.k8s.io/customresourcedefinitions/{name}");
    let put = Put::new(&key, hidden.to_string().into_bytes());
    let txn = Txn::put_if(Revision::ZERO, put);
    server
        .store
        .commit(txn, Origin::system("test"))
        .await
        .unwrap();
    let at = |path: &str| format!("{path}/{name}");
    client
        .get(&at(path))
        .await
        .unwrap()
        .expect_json(200)
        .unwrap();
    let served = "/apis/apiextensions.k8s.io/v9/customresourcedefinitions";
    let answer = client.get(served).await.unwrap();
    assert_eq!(answer.status, 404, "{}", answer.text());
    client
        .delete(&at(path))
        .await
        .unwrap()
        .expect_json(200)
        .unwrap();
    until_gone(&client, &at(path)).await;
    let kept = format!("{path}/things.example.com");
    let kept = client.get(&kept).await.unwrap().expect_json(200).unwrap();
    assert!(kept["metadata"]["deletionTimestamp"].is_null(), "{kept}");
    server.stop().await;
}

async fn until_gone(client: &Client, path: &str) {
    let gone = async {
        let mut pulse = tokio::time::interval(Duration::from_millis(10));
        loop {
            pulse.tick().await;
            if client.get(path).await.unwrap().status == 404 {
                return;
            }
        }
    };
    tokio::time::timeout(REQUEST_TIMEOUT, gone)
        .await
        .expect(path);
}
