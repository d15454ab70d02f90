//! Patches of custom resources apply to the object as served, normalized by the current CRD, not to
//! the stored bytes.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use optik_apiserver::{ApiRequest, ApiServer, ResponseBody, run_crd_controller};
use optik_store::{Options, Store};
use serde_json::{Value, json};

async fn send(
    api: &ApiServer,
    method: Method,
    path: &str,
    media_type: &'static str,
    body: &Value,
) -> (u16, Value) {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static(media_type));
    let response = api
        .handle(ApiRequest {
            headers,
            body: Bytes::from(body.to_string()),
            ..ApiRequest::new(&method, path)
        })
        .await;
    let ResponseBody::Whole(bytes) = response.body else {
        panic!("a stream in answer to {path}");
    };
    let answer = serde_json::from_slice(&bytes).unwrap_or_default();
    (response.status.as_u16(), answer)
}

const JSON: &str = "application/json";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.a.test"},
        "spec": {
            "group": "a.test", "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"color": {"type": "string"}}},
                }}},
            }],
        },
    })
}

const THINGS: &str = "/apis/a.test/v1/namespaces/default/things";

/// A server with a custom resource `a`.
async fn server() -> ApiServer {
    let store = Store::open(Options::ephemeral()).unwrap();
    let api = ApiServer::new(store.clone());
    api.bootstrap().await.unwrap();
    tokio::spawn(run_crd_controller(api.clone(), store));
    let (code, _) = send(&api, Method::POST, DEFINITIONS, JSON, &definition()).await;
    assert_eq!(code, 201);
    let thing = json!({
        "apiVersion": "a.test/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {},
    });
    // Until the CRD is established the kind is not served.
    while send(&api, Method::POST, THINGS, JSON, &thing).await.0 != 201 {
        tokio::task::yield_now().await;
    }
    api
}

/// Upstream closes the connection here. WIRE-32.
#[tokio::test]
async fn custom_resource_rejects_protobuf_bodies() {
    let api = server().await;
    let protobuf = "application/vnd.kubernetes.protobuf";
    let (code, told) = send(&api, Method::POST, THINGS, protobuf, &json!("k8s")).await;
    assert_eq!(
        (code, &told["reason"]),
        (415, &json!("UnsupportedMediaType"))
    );
}

#[tokio::test]
async fn json_patch_test_sees_crd_defaults_added_after_the_write() {
    let api = server().await;
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/color/default";
    let add = json!([{"op": "add", "path": path, "value": "red"}]);
    let place = format!("{DEFINITIONS}/things.a.test");
    let patch = "application/json-patch+json";
    let (code, told) = send(&api, Method::PATCH, &place, patch, &add).await;
    assert_eq!(code, 200, "{told}");

    let change = json!([
        {"op": "test", "path": "/spec/color", "value": "red"},
        {"op": "add", "path": "/metadata/labels", "value": {"l": "1"}},
    ]);
    let (code, told) = send(&api, Method::PATCH, &format!("{THINGS}/a"), patch, &change).await;
    assert_eq!(code, 200, "{told}");
    assert_eq!(told["spec"]["color"], "red");
}
