//! The two users and their roles.

use super::super::api::access::ServerAccess;
use super::super::api::connector::{BenchConnector, JSON, Protocol};
use super::attacks;
use crate::error::BenchError;
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;

const NAMESPACE: &str = "optik-hostile";
/// Of a kind with a list by key and a rule that compares all with all.
const GROUP: &str = "hostile.optik.dev";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const STREAMS_PER_CONNECTION: usize = 100;
/// The service account of a new namespace and the effect of a new role may take a moment.
const ATTEMPTS: usize = 50;
const PAUSE: Duration = Duration::from_millis(100);

/// A user with a client.
pub(super) struct HostileBenchUser {
    pub(super) connector: BenchConnector,
    /// The same over HTTP/2, with as many streams on a connection as servers usually allow.
    pub(super) streams: BenchConnector,
    /// The namespace in which the user has rights.
    pub(super) namespace: &'static str,
}

pub(super) struct HostileBenchTarget {
    admin: BenchConnector,
    pub(super) attacker: HostileBenchUser,
    pub(super) bystander: HostileBenchUser,
}

impl HostileBenchTarget {
    pub(super) async fn make(access: &ServerAccess) -> Result<Self, BenchError> {
        let admin = BenchConnector::new(access, Protocol::Http1)?;
        let core = format!("/api/v1/namespaces/{NAMESPACE}");
        let namespace = json!({"metadata": {"name": NAMESPACE}});
        send(&admin, Method::POST, "/api/v1/namespaces", &namespace).await?;
        let small = json!({"metadata": {"name": "small"}, "data": {"k": "v".repeat(1000)}});
        send(&admin, Method::POST, &format!("{core}/configmaps"), &small).await?;
        let all = json!(["get", "list", "create", "update", "patch"]);
        let attacker = json!([
            {"apiGroups": [""], "resources": ["configmaps", "pods"], "verbs": all},
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": all},
            {"apiGroups": [GROUP], "resources": ["lists"], "verbs": all},
        ]);
        let bystander = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]);
        let world = Self {
            attacker: user(&admin, access, "attacker", attacker).await?,
            bystander: user(&admin, access, "bystander", bystander).await?,
            admin,
        };
        send(&world.admin, Method::POST, DEFINITIONS, &definition()).await?;
        let lists = custom_place();
        send(
            &world.attacker.connector,
            Method::POST,
            &lists,
            &attacks::custom_object(),
        )
        .await?;
        for object in attacks::objects() {
            let place = format!("{core}/configmaps");
            send(&world.attacker.connector, Method::POST, &place, &object).await?;
        }
        Ok(world)
    }

    pub(super) async fn remove(&self) -> Result<(), BenchError> {
        let definition = format!("{DEFINITIONS}/lists.{GROUP}");
        let namespace = format!("/api/v1/namespaces/{NAMESPACE}");
        for place in [definition, namespace] {
            send(&self.admin, Method::DELETE, &place, &json!({})).await?;
        }
        Ok(())
    }
}

/// Where custom objects are.
pub(super) fn custom_place() -> String {
    format!("/apis/{GROUP}/v1/namespaces/{NAMESPACE}/lists")
}

fn definition() -> Value {
    let item = json!({"type": "object", "properties": {
        "type": {"type": "string"}, "value": {"type": "string"}}, "required": ["type"]});
    let by_key = json!({"type": "array", "items": item, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"]});
    let compared = json!({"type": "array", "maxItems": 1000, "items": {"type": "integer"},
        "x-kubernetes-validations": [{"rule": "self.all(a, self.all(b, a + b >= a))"}]});
    let spec = json!({"type": "object", "properties": {"byKey": by_key, "compared": compared}});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({"metadata": {"name": format!("lists.{GROUP}")}, "spec": {
        "group": GROUP, "scope": "Namespaced",
        "names": {"plural": "lists", "singular": "list", "kind": "List", "listKind": "ListList"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": schema}}]}})
}

/// A service account with a role of its own.
async fn user(
    admin: &BenchConnector,
    access: &ServerAccess,
    name: &str,
    rules: Value,
) -> Result<HostileBenchUser, BenchError> {
    let core = format!("/api/v1/namespaces/{NAMESPACE}");
    let roles = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}");
    let metadata = json!({"name": name});
    let role = json!({"metadata": metadata, "rules": rules});
    let binding = json!({
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
    });
    let account = json!({"metadata": metadata});
    send(
        admin,
        Method::POST,
        &format!("{core}/serviceaccounts"),
        &account,
    )
    .await?;
    send(admin, Method::POST, &format!("{roles}/roles"), &role).await?;
    send(
        admin,
        Method::POST,
        &format!("{roles}/rolebindings"),
        &binding,
    )
    .await?;
    let place = format!("{core}/serviceaccounts/{name}/token");
    let issued = send(admin, Method::POST, &place, &json!({"spec": {}})).await?;
    let token = issued["status"]["token"].as_str();
    let token = token.ok_or_else(|| BenchError::from_message("there was no token"))?;
    let access = ServerAccess {
        server: access.server.clone(),
        authority: access.authority.clone(),
        certificate_name: access.certificate_name.clone(),
        insecure: access.insecure,
        token: Some(token.to_owned()),
        identity: None,
    };
    Ok(HostileBenchUser {
        connector: BenchConnector::new(&access, Protocol::Http1)?,
        streams: BenchConnector::new(
            &access,
            Protocol::Http2 {
                streams: STREAMS_PER_CONNECTION,
            },
        )?,
        namespace: NAMESPACE,
    })
}

/// Sends a request that must succeed, with retries.
async fn send(
    by: &BenchConnector,
    method: Method,
    place: &str,
    body: &Value,
) -> Result<Value, BenchError> {
    let mut connection = by.connection().await?;
    let mut told = String::new();
    for _ in 0..ATTEMPTS {
        let bytes = Bytes::from(body.to_string());
        let request = by.request(method.clone(), by.uri(place), Some(JSON), bytes);
        let answer = connection.exchange(request).await;
        let answer = answer.map_err(|cause| BenchError::new(format!("{method} {place}"), cause))?;
        if answer.status.is_success() {
            return Ok(serde_json::from_slice(connection.kept()).unwrap_or_default());
        }
        told = String::from_utf8_lossy(connection.kept()).into_owned();
        tokio::time::sleep(PAUSE).await;
    }
    Err(BenchError::from_message(format!(
        "{method} {place}: {told}"
    )))
}
