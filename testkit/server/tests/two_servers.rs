//! Two servers on one etcd: a CRD created on one is served by the other (G35).

use http::Method;
use optik_apiserver::{ApiRequest, ResponseBody, User};
use optik_etcd_facade::Facade;
use optik_server_testkit::{TestEngine, TestServer};
use optik_store::{Options, Store};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

async fn send(server: &TestServer, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let request = ApiRequest {
        user: Arc::new(User {
            name: "test".into(),
            groups: vec!["system:masters".into()],
            ..User::default()
        }),
        body: match body {
            Value::Null => Default::default(),
            body => body.to_string().into(),
        },
        ..ApiRequest::new(&method, path)
    };
    let response = server.api.handle(request).await;
    let body = match response.body {
        ResponseBody::Whole(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
        ResponseBody::Stream(_) => Value::Null,
    };
    (response.status.as_u16(), body)
}

fn definition(maximum: i64) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.optik.test"}, "spec": {
            "group": "optik.test", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "properties": {
                    "n": {"type": "integer", "maximum": maximum}}}}}],
        },
    })
}

fn thing(name: &str, n: i64) -> Value {
    json!({"apiVersion": "optik.test/v1", "kind": "Thing", "metadata": {"name": name}, "n": n})
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.optik.test";
const THINGS: &str = "/apis/optik.test/v1/things";

/// Retries until the response is as expected.
async fn until(
    server: &TestServer,
    (method, path, body): (Method, &str, &Value),
    wanted: impl Fn(u16, &Value) -> bool,
) -> Value {
    let waited = tokio::time::timeout(Duration::from_secs(30), async {
        loop {
            let (code, answer) = send(server, method.clone(), path, body).await;
            if wanted(code, &answer) {
                return answer;
            }
            tokio::task::yield_now().await;
        }
    });
    waited.await.expect("it comes to pass")
}

fn is_established(definition: &Value) -> bool {
    let list = definition["status"]["conditions"].as_array();
    let mut list = list.into_iter().flatten();
    list.any(|one| one["type"] == "Established" && one["status"] == "True")
}

/// Shows G35.
#[tokio::test(flavor = "multi_thread")]
async fn crd_created_on_one_server_is_served_by_the_other() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let below = Store::open(Options::ephemeral()).unwrap();
    let facade = Facade::new(below, optik_etcd_facade::FacadeOptions::default());
    let facade = tokio::spawn(async move {
        facade.serve(listener, std::future::pending()).await;
    });
    let one = TestServer::start_bare(TestEngine::Etcd { url: url.clone() }).await;
    let other = TestServer::start_bare(TestEngine::Etcd { url }).await;

    let (code, _) = send(&one, Method::POST, DEFINITIONS, &definition(5)).await;
    assert_eq!(code, 201);
    let get = (Method::GET, DEFINITION, &Value::Null);
    let made = until(&one, get.clone(), |_, body| is_established(body)).await;
    // Once the CRD is seen as established, every server serves it.
    let (code, body) = send(&other, Method::POST, THINGS, &thing("a", 5)).await;
    assert_eq!(code, 201, "{body}");
    let (code, _) = send(&one, Method::GET, &format!("{THINGS}/a"), &Value::Null).await;
    assert_eq!(code, 200);

    let mut narrower = made;
    narrower["spec"]["versions"] = definition(3)["spec"]["versions"].clone();
    let (code, body) = send(&other, Method::PUT, DEFINITION, &narrower).await;
    assert_eq!(code, 200, "{body}");
    // At once where it was written, soon elsewhere.
    let (code, _) = send(&other, Method::POST, THINGS, &thing("b", 4)).await;
    assert_eq!(code, 422);
    let post = thing("a", 4);
    let post = (Method::POST, THINGS, &post);
    until(&one, post, |code, _| code == 422).await;

    let (code, _) = send(&one, Method::DELETE, DEFINITION, &Value::Null).await;
    assert_eq!(code, 200);
    until(&other, get, |code, _| code == 404).await;
    let (code, _) = send(&other, Method::GET, THINGS, &Value::Null).await;
    assert_eq!(code, 404);
    one.stop().await;
    other.stop().await;
    facade.abort();
}
