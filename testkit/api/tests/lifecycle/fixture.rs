//! A server with its controllers, and helpers for objects with owners.

use optik_api_testkit::bulk_objects::BulkObjects;
use optik_api_testkit::{Client, Target};
use optik_server_testkit::{TestEngine, TestServer};
use serde_json::{Value, json};
use std::time::Duration;

/// Timeout for all waits, also on a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct LifecycleFixture {
    pub(crate) server: TestServer,
    pub(crate) client: Client,
}

impl LifecycleFixture {
    pub(crate) async fn start() -> Self {
        let all = optik_controllers::EnabledControllers::default();
        Self::with_server(TestServer::start_with(TestEngine::Memory, &all).await)
    }

    pub(crate) fn with_server(server: TestServer) -> Self {
        let target = Target::parse(&server.url, None).unwrap();
        let client = Client::new(target);
        Self { server, client }
    }

    /// For many objects at a time.
    pub(crate) fn bulk_objects(&self) -> BulkObjects {
        BulkObjects::new(self.client.with_new_connections())
    }

    pub(crate) async fn make(&self, path: &str, object: &Value) -> Value {
        let answer = self.client.post(path, object).await.unwrap();
        answer.expect_json(201).unwrap()
    }

    pub(crate) async fn namespace(&self, name: &str) {
        let object = json!({"metadata": {"name": name}});
        self.make("/api/v1/namespaces", &object).await;
    }

    pub(crate) async fn config_map(&self, namespace: &str, name: &str, owners: Value) -> Value {
        let object = json!({"metadata": {"name": name, "ownerReferences": owners}});
        self.make(&maps(namespace), &object).await
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        let answer = self.client.get(path).await.unwrap();
        // A path that is not served yet is answered in plain text.
        if answer.status == 404 {
            return None;
        }
        match answer.json().unwrap() {
            status if status["kind"] == "Status" => None,
            object => Some(object),
        }
    }

    pub(crate) async fn delete(&self, path: &str, policy: &str) -> Value {
        let options = json!({"propagationPolicy": policy});
        let answer = self.client.delete_with(path, &options).await.unwrap();
        answer.expect_json(200).unwrap()
    }

    pub(crate) async fn patch(&self, path: &str, patch: Value) -> Value {
        let media_type = "application/merge-patch+json";
        let answer = self
            .client
            .patch_as(media_type, path, &patch)
            .await
            .unwrap();
        answer.expect_json(200).unwrap()
    }

    /// Waits until a condition holds.
    pub(crate) async fn wait_until(
        &self,
        what: &str,
        path: &str,
        so: impl Fn(Option<&Value>) -> bool,
    ) {
        let waiting = async {
            let mut pulse = tokio::time::interval(Duration::from_millis(10));
            while !so(self.get(path).await.as_ref()) {
                pulse.tick().await;
            }
        };
        let done = tokio::time::timeout(WAIT_TIMEOUT, waiting).await;
        assert!(done.is_ok(), "waited in vain for {what}");
    }

    pub(crate) async fn wait_until_gone(&self, path: &str) {
        self.wait_until(&format!("the end of {path}"), path, |found| found.is_none())
            .await;
    }

    /// The names in a list.
    pub(crate) async fn names(&self, path: &str) -> Vec<String> {
        let list = self.get(path).await.unwrap_or_default();
        let items = list["items"].as_array().into_iter().flatten();
        items
            .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }
}

pub(crate) use optik_api_testkit::bulk_objects::maps;

pub(crate) fn config_map_path(namespace: &str, name: &str) -> String {
    format!("{}/{name}", maps(namespace))
}

/// A reference to a config map.
pub(crate) fn owned_by(owner: &Value, block: bool) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": block,
    })
}
