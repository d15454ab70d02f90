//! Apply patches: checked against the endpoint's kind and stored in the storage version.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use optik_apiserver::{ApiRequest, ApiServer, ResponseBody, User};
use optik_store::{Options, Store};
use serde_json::{Value, json};
use std::sync::Arc;

async fn send(api: &ApiServer, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let mut headers = HeaderMap::new();
    let apply = HeaderValue::from_static("application/apply-patch+yaml");
    headers.insert("content-type", apply);
    let response = api
        .handle(ApiRequest {
            headers,
            user: Arc::new(User::admin()),
            body: Bytes::from(body.to_string()),
            ..ApiRequest::new(&method, &format!("{path}?fieldManager=me"))
        })
        .await;
    let ResponseBody::Whole(bytes) = response.body else {
        panic!("a stream in answer to {path}");
    };
    let answer = serde_json::from_slice(&bytes).unwrap();
    (response.status.as_u16(), answer)
}

async fn server() -> ApiServer {
    let api = ApiServer::new(Store::open(Options::ephemeral()).unwrap());
    api.bootstrap().await.unwrap();
    api
}

#[tokio::test]
async fn apply_with_another_kind_is_rejected() {
    let api = server().await;
    let path = "/api/v1/namespaces/default/configmaps/a";
    for (kind, version, told) in [
        ("Secret", "v1", "invalid object type: /v1, Kind=Secret"),
        (
            "Deployment",
            "apps/v1",
            "invalid object type: apps/v1, Kind=Deployment",
        ),
        ("", "", "invalid object type: /, Kind="),
    ] {
        let config = json!({"kind": kind, "apiVersion": version, "metadata": {"name": "a"}});
        let (code, status) = send(&api, Method::PATCH, path, &config).await;
        assert_eq!((code, &status["message"]), (400, &json!(told)));
    }
    let (code, _) = send(&api, Method::GET, path, &Value::Null).await;
    assert_eq!(code, 404);
}

#[tokio::test]
async fn apply_with_old_version_is_stored_in_the_storage_version() {
    let api = server().await;
    let place = "namespaces/default/horizontalpodautoscalers/a";
    let (v1, v2) = (
        format!("/apis/autoscaling/v1/{place}"),
        format!("/apis/autoscaling/v2/{place}"),
    );
    for percent in [80, 70] {
        let config = json!({
            "kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v1",
            "metadata": {"name": "a"},
            "spec": {
                "maxReplicas": 3, "targetCPUUtilizationPercentage": percent,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            },
        });
        let (code, applied) = send(&api, Method::PATCH, &v1, &config).await;
        assert!(code == 200 || code == 201, "{applied}");
        assert_eq!(applied["spec"]["targetCPUUtilizationPercentage"], percent);
        let (_, shown) = send(&api, Method::GET, &v2, &Value::Null).await;
        assert_eq!(shown["apiVersion"], "autoscaling/v2");
        let target = &shown["spec"]["metrics"][0]["resource"]["target"];
        assert_eq!(target["averageUtilization"], percent, "{shown}");
        assert!(
            shown["spec"]
                .get("targetCPUUtilizationPercentage")
                .is_none()
        );
    }
}
