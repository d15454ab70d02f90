//! Type checking of ValidatingAdmissionPolicies: the status that the controller writes.
//!
//! `typing.json` has policies and the results of a real kube-controller-manager. Type names in it
//! contained their creation time; here the time is removed.

use crate::fixture::LifecycleFixture;
use serde_json::{Value, json};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The policy, once its status has observed the current generation.
async fn settled(world: &LifecycleFixture, name: &str, generation: i64) -> Value {
    let path = format!("{POLICIES}/{name}");
    let is_settled = |policy: Option<&Value>| {
        policy.is_some_and(|policy| policy["status"]["observedGeneration"] == generation)
    };
    world.wait_until("a look at it", &path, is_settled).await;
    world.get(&path).await.unwrap()
}

fn widgets() -> Value {
    let spec = json!({"type": "object", "properties": {
        "size": {"type": "integer"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "either": {"x-kubernetes-int-or-string": true}}});
    json!({"metadata": {"name": "widgets.cel.example.com"}, "spec": {
        "group": "cel.example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}]}})
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_status_reports_type_check_warnings() {
    let world = LifecycleFixture::start().await;
    world.make(DEFINITIONS, &widgets()).await;
    let served = "/apis/cel.example.com/v1/namespaces/default/widgets";
    world
        .wait_until("widgets", served, |list| list.is_some())
        .await;
    let cases: Vec<Value> = serde_json::from_str(include_str!("typing.json")).unwrap();
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let policy = json!({"metadata": {"name": name}, "spec": case["spec"]});
        world.make(POLICIES, &policy).await;
        let policy = settled(&world, name, 1).await;
        let wanted = match case["warnings"].as_array().unwrap().as_slice() {
            [] => json!({}),
            warnings => json!({"expressionWarnings": warnings}),
        };
        assert_eq!(policy["status"]["typeChecking"], wanted, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_policy_is_type_checked_again() {
    let world = LifecycleFixture::start().await;
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"],
            "resources": ["deployments"], "operations": ["*"]}]},
        "validations": [{"expression": "object.spec.replicas > 1"}]}});
    world.make(POLICIES, &policy).await;
    let mut policy = settled(&world, "p", 1).await;
    assert_eq!(policy["status"]["typeChecking"], json!({}));
    let owner = &policy["metadata"]["managedFields"]
        .as_array()
        .and_then(|all| all.iter().find(|one| one["subresource"] == "status"))
        .cloned()
        .unwrap_or_default();
    assert_eq!(owner["manager"], "validatingadmissionpolicy-status");
    assert_eq!(owner["operation"], "Apply");
    policy["spec"]["validations"][0]["expression"] = "object.spec.nope > 1".into();
    let changed = world.client.put(&format!("{POLICIES}/p"), &policy).await;
    changed.unwrap().expect_json(200).unwrap();
    let policy = settled(&world, "p", 2).await;
    let warnings = &policy["status"]["typeChecking"]["expressionWarnings"];
    assert_eq!(warnings[0]["fieldRef"], "spec.validations[0].expression");
}
