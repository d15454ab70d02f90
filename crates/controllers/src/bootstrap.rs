//! What a cluster begins with.

use crate::loopback_client::{LoopbackClient, log_failure, path_segment};
use futures::StreamExt;
use http::Method;
use optik_apiserver::ApiServer;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// A path and an object for each line; made by `cargo xtask bootstrap`.
const BOOTSTRAP_TABLE: &str = include_str!("bootstrap.txt");
const CONCURRENCY_MAX: usize = 16;

/// Makes what every cluster has, beside its namespaces. What exists is left alone; what
/// cannot be made is told, and made by the next start.
pub async fn create_bootstrap_objects(api: ApiServer, address: SocketAddr) {
    let network = api.service_network();
    let client = LoopbackClient::new(api, "bootstrap");
    let lines = BOOTSTRAP_TABLE.lines().filter_map(|line| {
        let (path, object) = line.split_once(' ')?;
        Some((path.to_owned(), serde_json::from_str(object).ok()?))
    });
    let all: Vec<(String, Value)> = lines.chain(kubernetes_service(address, network)).collect();
    let client = &client;
    let made = futures::stream::iter(all)
        .map(|(path, object)| async move { create_if_absent(client, &path, &object).await });
    made.buffer_unordered(CONCURRENCY_MAX)
        .collect::<Vec<()>>()
        .await;
}

/// Looks first: what exists may be refused for more reasons than that, because its own
/// address is taken.
async fn create_if_absent(client: &LoopbackClient, path: &str, object: &Value) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let place = format!("{path}/{}", path_segment(name));
    if client.send(Method::GET, &place, None).await.code == 200 {
        return;
    }
    let answer = client.send(Method::POST, path, Some(object)).await;
    if !matches!(answer.code, 201 | 409) {
        log_failure(
            format_args!("cannot make {object}"),
            answer.code,
            &answer.body,
        );
    }
}

/// The API as a service of the cluster, and where it leads.
fn kubernetes_service(
    address: SocketAddr,
    (network, first): (String, String),
) -> [(String, Value); 4] {
    let port = address.port();
    // Endpoints must be reachable from elsewhere, which loopback is not.
    let ip = match address.ip() {
        ip if ip.is_loopback() || ip.is_unspecified() => "192.0.2.2".to_owned(),
        ip => ip.to_string(),
    };
    let kind = if ip.contains(':') { "IPv6" } else { "IPv4" };
    let metadata = |labels: Value| json!({"name": "kubernetes", "labels": labels});
    let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
    [
        (
            "/apis/networking.k8s.io/v1/servicecidrs".into(),
            json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": [network]}}),
        ),
        (
            "/api/v1/namespaces/default/services".into(),
            json!({
                "metadata": metadata(json!({"component": "apiserver", "provider": "kubernetes"})),
                "spec": {
                    "clusterIP": first,
                    "ports": [{"name": "https", "port": 443, "targetPort": port, "protocol": "TCP"}],
                },
            }),
        ),
        (
            "/api/v1/namespaces/default/endpoints".into(),
            json!({
                "metadata": metadata(json!({"endpointslice.kubernetes.io/skip-mirror": "true"})),
                "subsets": [{"addresses": [{"ip": ip}], "ports": ports}],
            }),
        ),
        (
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices".into(),
            json!({
                "metadata": metadata(json!({"kubernetes.io/service-name": "kubernetes"})),
                "addressType": kind, "ports": ports,
                "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
            }),
        ),
    ]
}
