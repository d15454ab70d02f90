//! No request changes or returns anything that the one permission of its user does not allow. See
//! `optik_api_testkit::oracle`.

mod verifier;

use http::Method;
use optik_api_testkit::oracle::{self, METHODS, OracleRequest, Permission, RESOURCES};
use optik_api_testkit::{Client, Target};
use optik_auth::{PathDepth, PathScope, PathShape, RequestInfo};
use optik_server_testkit::{TestEngine, TestServer};
use std::collections::BTreeSet;
use verifier::PermissionVerifier;

/// The resources that are tested together: they share a server.
const RESOURCE_GROUPS: [&[&str]; 5] = [
    &["configmaps", "secrets", "widgets"],
    &["pods"],
    &["serviceaccounts", "deployments", "leases"],
    &["services", "events", "customresourcedefinitions"],
    &[
        "nodes",
        "namespaces",
        "roles",
        "clusterroles",
        "rolebindings",
        "certificatesigningrequests",
    ],
];

async fn start() -> (TestServer, Client) {
    let server = TestServer::start_bare(TestEngine::Memory).await;
    let client = Client::new(Target::parse(&server.url, None).unwrap());
    oracle::set_up(&client).await.unwrap();
    (server, client)
}

/// Permissions that allow nothing.
const USELESS_PERMISSIONS: [&str; 10] = [
    // A name is not known before there is an object, or of a collection.
    "oracle-create-secrets-object",
    "oracle-create-widgets-object",
    "oracle-deletecollection-secrets-object",
    "oracle-deletecollection-widgets-object",
    // There is no such endpoint.
    "oracle-deletecollection-namespaces-everywhere",
    "oracle-get-namespaces-finalize-everywhere",
    "oracle-patch-namespaces-finalize-everywhere",
    // Binding a role needs the permission to grant it.
    "oracle-create-rolebindings-namespace",
    "oracle-update-rolebindings-namespace",
    "oracle-patch-rolebindings-namespace",
];

async fn verify_single_permissions(plurals: &[&str]) {
    let (server, client) = start().await;
    let mut judge = PermissionVerifier::new(&server.store);
    let rights = oracle::permissions().filter(|right| plurals.contains(&right.resource.plural));
    let mut useless = BTreeSet::new();
    for right in rights {
        let mut useful = false;
        for sent in oracle::requests(&right) {
            useful |= judge.check_request(&client, &right, &sent).await;
        }
        if right.is_useful() && !useful {
            useless.insert(right.user());
        }
    }
    // An oracle that observes no allowed effect would detect no violation either.
    let unexpected: Vec<_> = useless
        .iter()
        .filter(|user| !USELESS_PERMISSIONS.contains(&user.as_str()))
        .collect();
    assert!(unexpected.is_empty(), "of no use: {unexpected:#?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn single_permission_on_configmaps_secrets_and_custom_objects() {
    verify_single_permissions(RESOURCE_GROUPS[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn single_permission_on_pods() {
    verify_single_permissions(RESOURCE_GROUPS[1]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn single_permission_on_service_accounts_workloads_and_leases() {
    verify_single_permissions(RESOURCE_GROUPS[2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn single_permission_on_services_events_and_crds() {
    verify_single_permissions(RESOURCE_GROUPS[3]).await;
}

/// Virtual resources are not stored, and support one or two verbs.
#[tokio::test(flavor = "multi_thread")]
async fn single_permission_on_virtual_resources() {
    let (server, client) = start().await;
    let mut judge = PermissionVerifier::new(&server.store);
    let mut useful = BTreeSet::new();
    let rights = oracle::permissions().filter(|right| !right.resource.stored);
    for right in rights {
        for sent in oracle::requests(&right) {
            if judge.check_request(&client, &right, &sent).await {
                useful.insert((right.resource.plural, right.verb));
            }
        }
    }
    let expected = [
        ("bindings", "create"),
        ("componentstatuses", "get"),
        ("componentstatuses", "list"),
        ("localsubjectaccessreviews", "create"),
        ("subjectaccessreviews", "create"),
        ("tokenreviews", "create"),
    ];
    assert_eq!(useful, BTreeSet::from(expected));
    server.stop().await;
}

/// Every row is in one of the tests above.
#[test]
fn every_resource_is_in_an_authorization_test() {
    let kept = RESOURCES.iter().filter(|resource| resource.stored);
    let kept: BTreeSet<_> = kept.map(|resource| resource.plural).collect();
    let asked: BTreeSet<_> = RESOURCE_GROUPS.concat().into_iter().collect();
    assert_eq!(kept, asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn single_permission_on_cluster_scoped_resources() {
    verify_single_permissions(RESOURCE_GROUPS[4]).await;
}

fn shape(sent: &OracleRequest) -> Option<PathShape> {
    match RequestInfo::new(sent.method, sent.path(), "") {
        RequestInfo::Resource(request) => Some(request.target.shape()),
        RequestInfo::NonResource(_) => None,
    }
}

/// A new path shape automatically gets requests with every method.
#[test]
fn every_path_shape_is_requested_with_every_method() {
    let all: BTreeSet<(PathShape, &str)> = PathShape::all()
        .flat_map(|shape| METHODS.map(|method| (shape, method)))
        .collect();
    assert_eq!(all.len(), 240);
    // The segment after the name of a namespace is a resource in it.
    let exists = |plural: &str, shape: PathShape| {
        plural != "namespaces"
            || (shape.scope, shape.depth) != (PathScope::Cluster, PathDepth::Subpath)
    };
    for resource in RESOURCES {
        let of = |right: &Permission| right.resource.plural == resource.plural;
        let Some(right) = oracle::permissions().find(of) else {
            panic!("nobody has a right on {}", resource.plural);
        };
        let asked: BTreeSet<_> = oracle::requests(&right)
            .iter()
            .filter_map(|sent| Some((shape(sent)?, sent.method)))
            .collect();
        let missing = all.difference(&asked);
        let missing: Vec<_> = missing.filter(|it| exists(resource.plural, it.0)).collect();
        assert!(missing.is_empty(), "{}: {missing:?}", resource.plural);
    }
}

/// Discovery, health and version are open to every authenticated user.
fn is_public(path: &str) -> bool {
    let pages = ["/api", "/apis", "/version", "/healthz", "/livez", "/readyz"];
    let below = ["/api/", "/apis/", "/openapi/"];
    pages.contains(&path) || below.iter().any(|prefix| path.starts_with(prefix))
}

/// Documents about the server are shown by the right to read that path.
#[tokio::test(flavor = "multi_thread")]
async fn single_permission_on_non_resource_urls() {
    let (server, client) = start().await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let mut users = Vec::new();
    // The permissions matter less here than the requests.
    let rights =
        oracle::non_resource_requests().filter(|sent| matches!(sent.method, "GET" | "POST"));
    for (at, sent) in rights.enumerate() {
        let (user, verb) = (format!("oracle-document-{at}"), sent.method.to_lowercase());
        let rule = serde_json::json!({"nonResourceURLs": [sent.url], "verbs": [verb]});
        let role = serde_json::json!({"metadata": {"name": user}, "rules": [rule]});
        let binding = serde_json::json!({
            "metadata": {"name": user}, "roleRef": {"kind": "ClusterRole", "name": user,
                "apiGroup": "rbac.authorization.k8s.io"},
            "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
        });
        for (plural, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
            let made = client.post(&format!("{rbac}/{plural}"), &object).await;
            made.unwrap().expect_json(201).unwrap();
        }
        users.push((user, sent));
    }
    let revision = server.store.snapshot().revision();
    for (user, own) in &users {
        for sent in oracle::non_resource_requests() {
            let answer = client.execute(sent.request(user)).await.unwrap();
            let may = (&sent.url, sent.method) == (&own.url, own.method)
                || is_public(&sent.url) && sent.method == "GET";
            assert_eq!(
                answer.status != 403,
                may,
                "{user} {} {}: {} {}",
                sent.method,
                sent.url,
                answer.status,
                answer.text()
            );
        }
    }
    assert_eq!(server.store.snapshot().revision(), revision);
    server.stop().await;
}

/// The method of the request line applies, also for users with all permissions.
#[tokio::test(flavor = "multi_thread")]
async fn method_override_headers_are_ignored() {
    let (server, client) = start().await;
    let path = format!(
        "/api/v1/namespaces/{}/configmaps/{}",
        oracle::NAMESPACE,
        oracle::NAMES[0]
    );
    let revision = server.store.snapshot().revision();
    for header in [
        "x-http-method-override",
        "x-http-method",
        "x-method-override",
    ] {
        for method in ["DELETE", "PUT", "PATCH"] {
            let request = optik_api_testkit::Request::new(Method::GET, &*path);
            let answer = client
                .execute(request.header(header, method))
                .await
                .unwrap();
            answer.expect_json(200).unwrap();
        }
    }
    assert_eq!(server.store.snapshot().revision(), revision);
    server.stop().await;
}
