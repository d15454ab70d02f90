//! Data stored beside an object (its lease and its addresses) stays with it for every kind of
//! write.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use optik_apiserver::{ApiRequest, ApiServer, ResponseBody, User};
use optik_store::{LeaseId, Options, Store};
use serde_json::{Value, json};
use std::sync::Arc;

struct ApiFixture {
    store: Store,
    api: ApiServer,
}

impl ApiFixture {
    async fn begin() -> Self {
        let store = Store::open(Options::ephemeral()).unwrap();
        let api = ApiServer::new(store.clone());
        api.bootstrap().await.unwrap();
        Self { store, api }
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let mut headers = HeaderMap::new();
        let json = HeaderValue::from_static("application/json");
        headers.insert("content-type", json);
        let request = ApiRequest {
            headers,
            user: Arc::new(User::admin()),
            body: Bytes::from(body.to_string()),
            ..ApiRequest::new(&method, path)
        };
        let response = self.api.handle(request).await;
        let ResponseBody::Whole(bytes) = response.body else {
            panic!("a stream in answer to {path}");
        };
        let answer = serde_json::from_slice(&bytes).unwrap();
        (response.status.as_u16(), answer)
    }

    async fn make(&self, path: &str, object: &Value) -> Value {
        let (code, answer) = self.send(Method::POST, path, object).await;
        assert_eq!(code, 201, "{}", brief(&answer));
        answer
    }

    fn lease(&self, key: &str) -> LeaseId {
        let state = self.store.snapshot();
        state.get(key.as_bytes()).expect(key).lease()
    }
}

fn brief(answer: &Value) -> String {
    answer.to_string().chars().take(400).collect()
}

/// So many that managedFields do not fit beside them.
fn many_finalizers() -> Vec<String> {
    (0..11_000)
        .map(|number| format!("example.com/{number:060}"))
        .collect()
}

fn event(name: &str, finalizers: &[String]) -> Value {
    json!({
        "metadata": {"name": name, "finalizers": finalizers},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
    })
}

const EVENTS: &str = "/api/v1/namespaces/default/events";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn event_pending_deletion_keeps_its_lease() {
    let world = ApiFixture::begin().await;
    let held = ["example.com/x".to_owned()];
    world.make(EVENTS, &event("e", &held)).await;
    let key = "/registry/events/default/e";
    let lease = world.lease(key);
    assert_ne!(lease, LeaseId::NONE);
    let path = format!("{EVENTS}/e");
    let (code, marked) = world.send(Method::DELETE, &path, &json!({})).await;
    assert_eq!(code, 200);
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(world.lease(key), lease);
}

#[tokio::test]
async fn object_too_large_with_managed_fields_keeps_its_lease_and_claims() {
    let world = ApiFixture::begin().await;
    let made = world.make(EVENTS, &event("e", &many_finalizers())).await;
    assert!(
        made["metadata"]["managedFields"].is_null(),
        "it was too large"
    );
    assert_ne!(world.lease("/registry/events/default/e"), LeaseId::NONE);
    let service = |name: &str, finalizers: &[String]| {
        json!({"metadata": {"name": name, "finalizers": finalizers},
            "spec": {"ports": [{"port": 80}], "clusterIP": "10.96.0.77"}})
    };
    let made = world
        .make(SERVICES, &service("large", &many_finalizers()))
        .await;
    assert!(
        made["metadata"]["managedFields"].is_null(),
        "it was too large"
    );
    let (code, refused) = world
        .send(Method::POST, SERVICES, &service("small", &[]))
        .await;
    assert_eq!(code, 422, "{}", brief(&refused));
    assert!(
        brief(&refused).contains("provided IP is already allocated"),
        "{}",
        brief(&refused)
    );
}

#[tokio::test]
async fn huge_grace_period_is_capped_at_the_last_rfc3339_second() {
    let world = ApiFixture::begin().await;
    for (name, of_pod, asked) in [
        ("asked", 30, Some(i64::MAX)),
        ("of-pod", i64::MAX, None),
        ("enough", 30, Some(1 << 40)),
    ] {
        let pod = json!({"metadata": {"name": name}, "spec": {
            "nodeName": "n", "terminationGracePeriodSeconds": of_pod,
            "containers": [{"name": "c", "image": "i"}]}});
        world.make(PODS, &pod).await;
        let path = format!("{PODS}/{name}");
        let options = json!({"gracePeriodSeconds": asked});
        let (_, marked) = world.send(Method::DELETE, &path, &options).await;
        let end = &marked["metadata"]["deletionTimestamp"];
        assert_eq!(end, "9999-12-31T23:59:59Z", "{name}");
        // The deletion can be shortened from there.
        let options = json!({"gracePeriodSeconds": 5});
        let (_, cut) = world.send(Method::DELETE, &path, &options).await;
        let end = cut["metadata"]["deletionTimestamp"].as_str().unwrap();
        assert!(
            !end.starts_with("9999") && !end.starts_with("0000"),
            "{end}"
        );
        assert_eq!(cut["metadata"]["deletionGracePeriodSeconds"], 5);
    }
}
