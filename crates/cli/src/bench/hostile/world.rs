//! Two users and what they may do.

use super::super::api::access::Access;
use super::super::api::connector::{Connector, JSON, Protocol};
use super::attacks;
use crate::failure::Failure;
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;

const NAMESPACE: &str = "optik-hostile";
/// A new namespace gets its account soon, and a new role counts at once.
const ATTEMPTS: usize = 50;
const PAUSE: Duration = Duration::from_millis(100);

/// Somebody who asks.
pub(super) struct User {
    pub(super) connector: Connector,
    /// Where they may do something.
    pub(super) namespace: &'static str,
}

pub(super) struct World {
    admin: Connector,
    pub(super) attacker: User,
    pub(super) bystander: User,
}

impl World {
    pub(super) async fn make(access: &Access) -> Result<Self, Failure> {
        let admin = Connector::new(access, Protocol::Http1)?;
        let core = format!("/api/v1/namespaces/{NAMESPACE}");
        let namespace = json!({"metadata": {"name": NAMESPACE}});
        send(&admin, Method::POST, "/api/v1/namespaces", &namespace).await?;
        let small = json!({"metadata": {"name": "small"}, "data": {"k": "v".repeat(1000)}});
        send(&admin, Method::POST, &format!("{core}/configmaps"), &small).await?;
        let all = json!(["get", "list", "create", "update", "patch"]);
        let attacker = json!([
            {"apiGroups": [""], "resources": ["configmaps", "pods"], "verbs": all},
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": all},
        ]);
        let bystander = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]);
        let world = Self {
            attacker: user(&admin, access, "attacker", attacker).await?,
            bystander: user(&admin, access, "bystander", bystander).await?,
            admin,
        };
        for object in attacks::objects() {
            let place = format!("{core}/configmaps");
            send(&world.attacker.connector, Method::POST, &place, &object).await?;
        }
        Ok(world)
    }

    pub(super) async fn remove(&self) -> Result<(), Failure> {
        let place = format!("/api/v1/namespaces/{NAMESPACE}");
        send(&self.admin, Method::DELETE, &place, &json!({}))
            .await
            .map(drop)
    }
}

/// A service account with a role of its own.
async fn user(
    admin: &Connector,
    access: &Access,
    name: &str,
    rules: Value,
) -> Result<User, Failure> {
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
    let token = token.ok_or_else(|| Failure::text("there was no token"))?;
    let access = Access {
        server: access.server.clone(),
        authority: access.authority.clone(),
        certificate_name: access.certificate_name.clone(),
        insecure: access.insecure,
        token: Some(token.to_owned()),
        identity: None,
    };
    Ok(User {
        connector: Connector::new(&access, Protocol::Http1)?,
        namespace: NAMESPACE,
    })
}

/// Sends something that must succeed, in the end.
async fn send(by: &Connector, method: Method, place: &str, body: &Value) -> Result<Value, Failure> {
    let mut connection = by.connection().await?;
    let mut told = String::new();
    for _ in 0..ATTEMPTS {
        let bytes = Bytes::from(body.to_string());
        let request = by.request(method.clone(), by.uri(place), Some(JSON), bytes);
        let answer = connection.exchange(request).await;
        let answer = answer.map_err(|cause| Failure::new(format!("{method} {place}"), cause))?;
        if answer.status.is_success() {
            return Ok(serde_json::from_slice(connection.kept()).unwrap_or_default());
        }
        told = String::from_utf8_lossy(connection.kept()).into_owned();
        tokio::time::sleep(PAUSE).await;
    }
    Err(Failure::text(format!("{method} {place}: {told}")))
}
