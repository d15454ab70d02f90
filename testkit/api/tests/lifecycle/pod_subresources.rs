//! Subresources of pods: eviction, ephemeral containers, resize.

use crate::fixture::LifecycleFixture;
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

async fn running(world: &LifecycleFixture, name: &str) -> String {
    let pod = json!({"metadata": {"name": name, "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let mut pod = world.make(PODS, &pod).await;
    pod["status"]["phase"] = "Running".into();
    pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    let path = format!("{PODS}/{name}");
    put(world, &format!("{path}/status"), &pod).await;
    path
}

async fn put(world: &LifecycleFixture, path: &str, object: &Value) -> Value {
    let answer = world.client.put(path, object).await.unwrap();
    answer.expect_json(200).unwrap()
}

async fn evict(world: &LifecycleFixture, name: &str) -> Value {
    let path = format!("{PODS}/{name}/eviction");
    let eviction = json!({"kind": "Eviction", "apiVersion": "policy/v1",
        "metadata": {"name": name}});
    world
        .client
        .post(&path, &eviction)
        .await
        .unwrap()
        .json()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn eviction_respects_pod_disruption_budget() {
    let world = LifecycleFixture::start().await;
    let budget = json!({"metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}});
    let mut budget = world.make(BUDGETS, &budget).await;
    for name in ["one", "two"] {
        running(&world, name).await;
    }
    let refused = evict(&world, "one").await;
    assert_eq!(refused["code"], 429);
    assert_eq!(
        refused["details"]["causes"],
        json!([{"reason": "DisruptionBudget",
            "message": "The disruption budget b is still being processed by the server."}])
    );
    budget["status"] = json!({"observedGeneration": 1, "disruptionsAllowed": 1,
        "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2});
    put(&world, &format!("{BUDGETS}/b/status"), &budget).await;
    assert_eq!(evict(&world, "one").await["status"], "Success");
    assert!(world.get(&format!("{PODS}/one")).await.is_none());
    let refused = evict(&world, "two").await;
    assert_eq!(
        refused["message"],
        "Cannot evict pod as it would violate the pod's disruption budget."
    );
    assert_eq!(
        refused["details"]["causes"][0]["message"],
        "The disruption budget b does not allow evicting pods currently"
    );
    let counted = world.get(&format!("{BUDGETS}/b")).await.unwrap();
    assert!(
        counted["status"]["disruptedPods"]["one"].is_string(),
        "{counted}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ephemeral_containers_and_resize_subresources_update_pods() {
    let world = LifecycleFixture::start().await;
    let path = running(&world, "p").await;
    let mut pod = world.get(&path).await.unwrap();
    pod["spec"]["ephemeralContainers"] = json!([{"name": "e", "image": "i"}]);
    let refused = world.client.put(&path, &pod).await.unwrap();
    assert_eq!(refused.json().unwrap()["code"], 422);
    pod["spec"]["nodeName"] = "n".into();
    let changed = put(&world, &format!("{path}/ephemeralcontainers"), &pod).await;
    let spec = &changed["spec"];
    assert_eq!(spec["ephemeralContainers"][0]["name"], "e");
    assert!(spec["nodeName"].is_null(), "nothing else changes: {spec}");
    assert_eq!(changed["metadata"]["generation"], 2);
    let mut pod = changed;
    pod["spec"]["ephemeralContainers"] = json!([]);
    let path = format!("{path}/ephemeralcontainers");
    let refused = world.client.put(&path, &pod).await.unwrap().json().unwrap();
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("existing ephemeral containers \"e\" may not be removed"));
}
