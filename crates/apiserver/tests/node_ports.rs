//! Ports that an earlier version gave away are found, and not given away again.

use http::{HeaderMap, HeaderValue, Method};
use optik_apiserver::{ApiServer, Request};
use optik_store::{KeyRange, Options, Origin, Put, Store, Txn};
use serde_json::json;

/// Where kube-apiserver keeps its map of bits; nothing of ours may lie there or below.
const THEIRS: &str = "/registry/ranges/servicenodeports";

async fn create_service(api: &ApiServer, name: &str, port: u32) -> u16 {
    let service = json!({
        "metadata": {"name": name},
        "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]},
    });
    let mut headers = HeaderMap::new();
    let json = HeaderValue::from_static("application/json");
    headers.insert("content-type", json);
    let request = Request {
        headers,
        body: service.to_string().into(),
        ..Request::new(&Method::POST, "/api/v1/namespaces/default/services")
    };
    api.handle(request).await.status.as_u16()
}

fn below(store: &Store) -> usize {
    let state = store.snapshot();
    state.entries(&KeyRange::prefix(THEIRS)).count()
}

#[tokio::test]
async fn ports_are_kept_where_nobody_else_keeps_anything() {
    let store = Store::open(Options::ephemeral()).unwrap();
    for port in 30_000..30_100 {
        let put = Put::new(format!("{THEIRS}/{port}"), "default/old");
        let done = store.commit(Txn::put(put), Origin::default()).await;
        done.unwrap();
    }
    let api = ApiServer::new(store.clone());
    api.bootstrap().await.unwrap();
    assert_eq!(below(&store), 0);
    for port in [30_000, 30_042, 30_099] {
        assert_eq!(create_service(&api, "taken", port).await, 422, "{port}");
    }
    assert_eq!(create_service(&api, "free", 30_100).await, 201);
    assert_eq!(create_service(&api, "again", 30_100).await, 422);
    assert_eq!(below(&store), 0);
    let before = store.snapshot().revision();
    api.bootstrap().await.unwrap();
    assert_eq!(store.snapshot().revision(), before, "nothing is left to do");
}
