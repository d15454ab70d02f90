//! Webhook configurations: when they take effect, and which address is called.

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt, ready};
use http::{Method, StatusCode};
use optik_apiserver::{
    ApiRequest, ApiServer, ResponseBody, WebhookCallError, WebhookRequest, WebhookResponse,
    WebhookTransport,
};
use optik_store::{KeyRange, Options, Origin, Put, Store, Txn};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// Denies everything and records the requests.
#[derive(Clone, Default)]
struct DenyingWebhook(Arc<Mutex<Vec<WebhookRequest>>>);

impl WebhookTransport for DenyingWebhook {
    fn call(
        &self,
        call: WebhookRequest,
    ) -> BoxFuture<'static, Result<WebhookResponse, WebhookCallError>> {
        let reply = reviewed(&call, false);
        self.0.lock().unwrap().push(call);
        ready(Ok(reply)).boxed()
    }
}

fn reviewed(call: &WebhookRequest, allowed: bool) -> WebhookResponse {
    let review: Value = serde_json::from_slice(&call.body).unwrap();
    let answer = json!({
        "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
        "response": {"uid": review["request"]["uid"], "allowed": allowed},
    });
    WebhookResponse {
        status: StatusCode::OK,
        content_type: "application/json".into(),
        body: answer.to_string().into(),
    }
}

/// Allows everything, but changes the namespace before it responds.
#[derive(Clone)]
struct InterferingWebhook {
    store: Store,
    meanwhile: Txn,
}

impl WebhookTransport for InterferingWebhook {
    fn call(
        &self,
        call: WebhookRequest,
    ) -> BoxFuture<'static, Result<WebhookResponse, WebhookCallError>> {
        let Self { store, meanwhile } = self.clone();
        let reply = reviewed(&call, true);
        async move {
            store.commit(meanwhile, Origin::default()).await.unwrap();
            Ok(reply)
        }
        .boxed()
    }
}

async fn send(api: &ApiServer, method: Method, path: &str, body: &Value) -> u16 {
    let request = ApiRequest {
        body: Bytes::from(body.to_string()),
        ..ApiRequest::new(&method, path)
    };
    let response = api.handle(request).await;
    assert!(matches!(response.body, ResponseBody::Whole(_)));
    response.status.as_u16()
}

const CONFIGURATIONS: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn configuration(client: &Value) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "c"},
        "webhooks": [{
            "name": "a.b.test", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": client,
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["*"],
                       "resources": ["configmaps"]}],
        }],
    })
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

async fn start(store: &Store) -> (ApiServer, DenyingWebhook) {
    let denier = DenyingWebhook::default();
    let api = ApiServer::with_webhook_transport(store.clone(), Arc::new(denier.clone()));
    api.bootstrap().await.unwrap();
    (api, denier)
}

/// Writes only: no background task runs.
#[tokio::test]
async fn webhook_configuration_takes_effect_when_its_write_returns() {
    let store = Store::open(Options::ephemeral()).unwrap();
    let (api, _) = start(&store).await;
    assert_eq!(send(&api, Method::POST, MAPS, &map("a")).await, 201);
    let client = json!({"url": "https://a.test/x"});
    let body = configuration(&client);
    assert_eq!(send(&api, Method::POST, CONFIGURATIONS, &body).await, 201);
    assert_eq!(send(&api, Method::POST, MAPS, &map("b")).await, 400);

    let (restarted, denier) = start(&store).await;
    assert_eq!(send(&restarted, Method::POST, MAPS, &map("b")).await, 400);
    assert_eq!(denier.0.lock().unwrap().len(), 1);

    let path = format!("{CONFIGURATIONS}/c");
    let gone = send(&restarted, Method::DELETE, &path, &json!({})).await;
    assert_eq!(gone, 200);
    assert_eq!(send(&restarted, Method::POST, MAPS, &map("b")).await, 201);
    store.close().await;
}

/// The namespace exists when the write begins, and does not when the object would be stored.
#[tokio::test]
async fn create_fails_when_namespace_is_deleted_during_admission() {
    const KEY: &str = "/registry/namespaces/here";
    let ending = json!({
        "kind": "Namespace", "apiVersion": "v1",
        "metadata": {"name": "here", "deletionTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Terminating"},
    });
    let ending = optik_object::encode_canonical(&ending).unwrap();
    for (meanwhile, answer, made) in [
        (Txn::delete(KeyRange::one(KEY)), 404, 0),
        (Txn::put(Put::new(KEY, ending)), 403, 0),
        // A new version of the namespace with unchanged content.
        (
            Txn::put(Put {
                value: None,
                ..Put::new(KEY, "")
            }),
            201,
            1,
        ),
    ] {
        let store = Store::open(Options::ephemeral()).unwrap();
        let dawdler = InterferingWebhook {
            store: store.clone(),
            meanwhile,
        };
        let api = ApiServer::with_webhook_transport(store.clone(), Arc::new(dawdler));
        api.bootstrap().await.unwrap();
        let place = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "here"}});
        let begun = send(&api, Method::POST, "/api/v1/namespaces", &place).await;
        assert_eq!(begun, 201);
        let body = configuration(&json!({"url": "https://a.test/x"}));
        assert_eq!(send(&api, Method::POST, CONFIGURATIONS, &body).await, 201);
        let maps = "/api/v1/namespaces/here/configmaps";
        assert_eq!(send(&api, Method::POST, maps, &map("a")).await, answer);
        let stored = KeyRange::prefix("/registry/configmaps/here/");
        assert_eq!(store.snapshot().entries(&stored).count(), made, "{answer}");
        store.close().await;
    }
}

/// Ready endpoints first, then the cluster IP.
#[tokio::test]
async fn webhook_service_resolves_to_ready_endpoints_then_cluster_ip() {
    let store = Store::open(Options::ephemeral()).unwrap();
    let (api, denier) = start(&store).await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"clusterIP": "10.96.0.77", "ports": [{"name": "https", "port": 443}]},
    });
    let path = "/api/v1/namespaces/default/services";
    assert_eq!(send(&api, Method::POST, path, &service).await, 201);
    let client = json!({"service": {"name": "s", "namespace": "default", "path": "/p"}});
    let body = configuration(&client);
    assert_eq!(send(&api, Method::POST, CONFIGURATIONS, &body).await, 201);
    assert_eq!(send(&api, Method::POST, MAPS, &map("a")).await, 400);

    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "s-1", "labels": {"kubernetes.io/service-name": "s"}},
        "ports": [{"name": "https", "port": 8443, "protocol": "TCP"}],
        "endpoints": [
            {"addresses": ["10.1.0.8"], "conditions": {"ready": false}},
            {"addresses": ["10.1.0.9"]},
        ],
    });
    let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    assert_eq!(send(&api, Method::POST, path, &slice).await, 201);
    assert_eq!(send(&api, Method::POST, MAPS, &map("a")).await, 400);

    let calls = denier.0.lock().unwrap();
    let seen = calls.iter().map(|call| call.address.clone());
    let seen: Vec<Option<String>> = seen.collect();
    let expected = ["10.96.0.77:443", "10.1.0.9:8443"];
    assert_eq!(seen, expected.map(|address| Some(address.to_owned())));
    assert_eq!(calls[0].url, "https://s.default.svc:443/p?timeout=10s");
}
