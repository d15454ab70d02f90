//! The objects that exist before the first request of the oracle.

use super::{NAMES, NAMESPACE, OTHER_NAMESPACE, RESOURCES, permissions};
use crate::failure::ensure;
use crate::{Client, Outcome};
use serde_json::{Value, json};
use std::time::Duration;

/// A CRD takes a moment to be served, a role to take effect.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const POLL_ATTEMPTS_MAX: u32 = 500;

/// Makes the objects, and the users' rights.
///
/// # Errors
/// If the server refuses any of it.
pub async fn set_up(client: &Client) -> Outcome {
    for name in [NAMESPACE, OTHER_NAMESPACE] {
        let namespace = json!({"metadata": {"name": name}});
        make(client, "/api/v1/namespaces", &namespace).await?;
        // Pods need the default service account, which a server without controllers does not
        // create.
        let account = json!({"metadata": {"name": "default"}});
        let path = format!("/api/v1/namespaces/{name}/serviceaccounts");
        make(client, &path, &account).await?;
    }
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    make(client, definitions, &definition()).await?;
    for resource in RESOURCES.iter().filter(|resource| resource.stored) {
        let kind = resource.kind();
        let places: &[&str] = match kind.namespaced {
            true => &[NAMESPACE, OTHER_NAMESPACE],
            false => &[""],
        };
        for namespace in places {
            let below = match *namespace {
                "" => String::new(),
                namespace => format!("/namespaces/{namespace}"),
            };
            let path = format!("{}{below}/{}", kind.root(), resource.plural);
            until(client, &path, 200).await?;
            for name in resource.names.existing {
                make(client, &path, &resource.object(namespace, name)).await?;
            }
        }
    }
    for right in permissions() {
        for (path, object) in right.objects() {
            make(client, &path, &object).await?;
        }
    }
    in_force(client).await
}

/// Of the custom kind.
#[must_use]
pub fn definition() -> Value {
    crate::crds::definition("widgets")
}

async fn make(client: &Client, path: &str, object: &Value) -> Outcome {
    let answer = client.post(path, object).await?;
    ensure!(
        matches!(answer.status, 201 | 409),
        "{}: {} {}",
        answer.asked,
        answer.status,
        answer.text()
    );
    Ok(())
}

async fn until(client: &Client, path: &str, status: u16) -> Outcome {
    let mut pulse = tokio::time::interval(POLL_INTERVAL);
    for _ in 0..POLL_ATTEMPTS_MAX {
        pulse.tick().await;
        if client.get(path).await?.status == status {
            return Ok(());
        }
    }
    Err(crate::Failure::new(format!("{path} is not served")))
}

/// Waits until the last permission is in effect; the earlier ones are then, too.
async fn in_force(client: &Client) -> Outcome {
    let Some(right) = permissions().last() else {
        return Ok(());
    };
    let review = json!({"spec": {"user": right.user(), "resourceAttributes": {
        "verb": right.verb, "group": right.resource.kind().group, "namespace": NAMESPACE,
        "resource": right.resource.plural, "name": NAMES[0],
        "subresource": right.subresource.map_or("", |part| part.name),
    }}});
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let mut pulse = tokio::time::interval(POLL_INTERVAL);
    for _ in 0..POLL_ATTEMPTS_MAX {
        pulse.tick().await;
        let answer = client.post(path, &review).await?.expect_json(201)?;
        if answer["status"]["allowed"] == true {
            return Ok(());
        }
    }
    Err(crate::Failure::new(format!(
        "{} has no right",
        right.user()
    )))
}
