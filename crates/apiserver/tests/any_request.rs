//! Random requests: each gets a response, and the server keeps running.

use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderMap, HeaderValue, Method};
use optik_apiserver::{ApiRequest, ApiServer, ByteRope, ResponseBody};
use optik_store::{Options, Store};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

/// 500s that upstream sends, too: resourceVersions that are not numbers, and objects that etcd
/// would reject.
const EXPECTED_500_MESSAGES: &[&str] = &[
    "strconv.ParseUint",
    "resourceVersion should not be set",
    "etcdserver: request is too large",
];

fn words() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        8 => prop::sample::select(vec![
            "api", "apis", "v1", "apps", "namespaces", "default", "configmaps", "pods",
            "deployments", "status", "finalize", "binding", "watch", "a", "b", "events",
            "events.k8s.io", "openapi", "v3", "leases", "coordination.k8s.io", "roles",
            "rbac.authorization.k8s.io", "..", ".", "", "%2e%2e", "%2F", "%00", "%ff", "scale",
        ]).prop_map(str::to_owned),
        1 => "[ -~]{0,12}".prop_map(|text: String| text.replace(['?', '#'], "")),
    ];
    prop::collection::vec(word, 0..8).prop_map(|words| format!("/{}", words.join("/")))
}

fn query() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "watch",
        "resourceVersion",
        "resourceVersionMatch",
        "limit",
        "continue",
        "labelSelector",
        "fieldSelector",
        "sendInitialEvents",
        "allowWatchBookmarks",
        "timeoutSeconds",
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "propagationPolicy",
        "gracePeriodSeconds",
        "orphanDependents",
        "pretty",
        "nonsense",
    ]);
    let value = prop_oneof![
        3 => prop::sample::select(vec![
            "", "0", "1", "true", "false", "-1", "abc", "Exact", "NotOlderThan", "All", "a=b",
            "a in (b,c)", "!a", "metadata.name=a", "metadata.name!=a,spec.nodeName=", "Orphan",
            "99999999999999999999", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0",
        ]).prop_map(str::to_owned),
        1 => "[ -~]{0,20}".prop_map(|text: String| text),
    ];
    let pair = (name, value).prop_map(|(name, value)| {
        let value: String = form_urlencoded::byte_serialize(value.as_bytes()).collect();
        format!("{name}={value}")
    });
    prop::collection::vec(pair, 0..5).prop_map(|mut pairs| {
        // A watch must end within the test.
        pairs.insert(0, "timeoutSeconds=1".into());
        pairs.join("&")
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let object = prop::sample::select(vec![
        r#"{"metadata":{"name":"a"}}"#,
        r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"k":"v"}}"#,
        r#"{"metadata":{"name":"a","resourceVersion":"1"}}"#,
        r#"{"metadata":{"generateName":"a-","finalizers":["x/y"]}}"#,
        r#"{"metadata":{"name":1}}"#,
        r#"{"metadata":[]}"#,
        r#"{"metadata":{"name":"a/b"}}"#,
        r#"{"kind":"DeleteOptions","preconditions":{"uid":"x"}}"#,
        r#"{"target":{"name":"n"}}"#,
        "[]",
        "null",
        "",
        "{",
    ]);
    prop_oneof![
        3 => object.prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..64),
        1 => prop::collection::vec(any::<u8>(), 0..64).prop_map(|mut bytes| {
            bytes.splice(0..0, *b"k8s\0");
            bytes
        }),
    ]
}

fn request() -> impl Strategy<Value = ApiRequest> {
    let method = prop::sample::select(vec![
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::PATCH,
        Method::HEAD,
        Method::OPTIONS,
    ]);
    let content_type = prop::sample::select(vec![
        "",
        "application/json",
        "application/vnd.kubernetes.protobuf",
        "application/yaml",
        "text/plain",
    ]);
    let accept = prop::sample::select(vec!["*/*", "application/json", "text/html", ";;,,q=x"]);
    (method, words(), query(), body(), content_type, accept).prop_map(
        |(method, path, query, body, content_type, accept)| {
            let mut headers = HeaderMap::new();
            headers.insert("content-type", HeaderValue::from_static(content_type));
            headers.insert("accept", HeaderValue::from_static(accept));
            ApiRequest {
                headers,
                body: Bytes::from(body),
                ..ApiRequest::new(&method, &format!("{path}?{query}"))
            }
        },
    )
}

/// Reads a response to its end.
async fn read(body: ResponseBody) -> Vec<u8> {
    match body {
        ResponseBody::Whole(bytes) => bytes.to_vec(),
        ResponseBody::Stream(stream) => stream
            .map(ByteRope::into_bytes)
            .collect::<Vec<_>>()
            .await
            .concat(),
    }
}

async fn check(api: &ApiServer, request: ApiRequest) {
    let told = format!("{request:?}");
    // For these, only upstream's status code is specified.
    let path = request.info.non_resource_path();
    let silent = path.is_some_and(|path| path.starts_with("/openapi/"));
    let response = api.handle(request).await;
    let code = response.status.as_u16();
    let bytes = read(response.body).await;
    let text = String::from_utf8_lossy(&bytes);
    if code >= 500 && code != 504 {
        assert!(
            EXPECTED_500_MESSAGES
                .iter()
                .any(|known| text.contains(known)),
            "{told}\n{code} {text}"
        );
    }
    let plain = text.starts_with("404 page not found") || silent && text.is_empty();
    if code >= 400 && !plain {
        let status: serde_json::Value = serde_json::from_slice(&bytes).expect(&told);
        assert_eq!(status["kind"], "Status", "{told}");
        assert_eq!(status["code"], code, "{told}");
    }
}

/// Thousands of requests in a row on one server, which works as before afterwards.
#[test]
fn arbitrary_requests_get_an_answer_and_no_unknown_500() {
    // Paused time advances at once when every task waits: watches end, and a future revision is
    // never reached.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let api = ApiServer::new(Store::open(Options::ephemeral()).unwrap());
        api.bootstrap().await.unwrap();
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        for _ in 0..5_000 {
            let request = request().new_tree(&mut runner).unwrap().current();
            check(&api, request).await;
        }
        let healthy = ApiRequest::new(&Method::GET, "/api/v1/namespaces/default");
        assert_eq!(api.handle(healthy).await.status.as_u16(), 200);
    });
}
