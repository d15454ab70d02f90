//! Node ports allocated by an earlier version are found and not allocated again.

use http::{HeaderMap, HeaderValue, Method};
use optik_apiserver::{ApiRequest, ApiServer};
use optik_store::{KeyRange, Options, Origin, Put, Store, Txn};
use serde_json::json;

/// Where kube-apiserver keeps its port bitmap; this server stores nothing there or below.
const KUBE_APISERVER_NODE_PORTS: &str = "/registry/ranges/servicenodeports";

async fn create_service(api: &ApiServer, name: &str, port: u32) -> u16 {
    let service = json!({
        "metadata": {"name": name},
        "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]},
    });
    let mut headers = HeaderMap::new();
    let json = HeaderValue::from_static("application/json");
    headers.insert("content-type", json);
    let request = ApiRequest {
        headers,
        body: service.to_string().into(),
        ..ApiRequest::new(&Method::POST, "/api/v1/namespaces/default/services")
    };
    api.handle(request).await.status.as_u16()
}

fn count_foreign_keys(store: &Store) -> usize {
    let state = store.snapshot();
    state
        .entries(&KeyRange::prefix(KUBE_APISERVER_NODE_PORTS))
        .count()
}

#[tokio::test]
async fn node_ports_of_an_earlier_version_are_migrated_and_stay_allocated() {
    let store = Store::open(Options::ephemeral()).unwrap();
    for port in 30_000..30_100 {
        let put = Put::new(format!("{KUBE_APISERVER_NODE_PORTS}/{port}"), "default/old");
        let done = store.commit(Txn::put(put), Origin::default()).await;
        done.unwrap();
    }
    let api = ApiServer::new(store.clone());
    api.bootstrap().await.unwrap();
    assert_eq!(count_foreign_keys(&store), 0);
    for port in [30_000, 30_042, 30_099] {
        assert_eq!(create_service(&api, "taken", port).await, 422, "{port}");
    }
    assert_eq!(create_service(&api, "free", 30_100).await, 201);
    assert_eq!(create_service(&api, "again", 30_100).await, 422);
    assert_eq!(count_foreign_keys(&store), 0);
    let before = store.snapshot().revision();
    api.bootstrap().await.unwrap();
    assert_eq!(store.snapshot().revision(), before, "nothing is left to do");
}
