//! The controller that writes the status of ValidatingAdmissionPolicies: `observedGeneration` and
//! type-checking warnings.

use crate::loopback_client::{LoopbackClient, log_failure, path_segment};
use optik_apiserver::{ApiServer, key_prefix};
use optik_control_loop::{Outcome, reconcile_on_change};
use optik_store::{KeyRange, Store};
use serde_json::{Value, json};

const DIRECTORY: &str = key_prefix(
    "admissionregistration.k8s.io",
    "validatingadmissionpolicies",
);
const PATH: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
/// The field manager of the status.
const MANAGER: &str = "validatingadmissionpolicy-status";

/// Runs the controller until the future is dropped or the store stops.
pub async fn run_validating_policy_status_controller(api: ApiServer, store: Store) {
    let client = LoopbackClient::new(api, "validatingadmissionpolicy-status-controller");
    let reconcile = || reconcile(client.clone(), store.clone());
    reconcile_on_change(&store, &[DIRECTORY], reconcile).await;
}

/// Updates policies whose status is of an older generation.
async fn reconcile(client: LoopbackClient, store: Store) -> Outcome<()> {
    let mut settled = true;
    for policy in outdated_policies(&store) {
        settled &= check_and_write_status(&client, policy).await;
    }
    Outcome::done_if(settled)
}

fn outdated_policies(store: &Store) -> Vec<Value> {
    let state = store.snapshot();
    let entries = state.entries(&KeyRange::prefix(DIRECTORY));
    let policies = entries.filter_map(|entry| serde_json::from_slice(entry.value()).ok());
    policies
        .filter(|policy: &Value| {
            let seen = &policy["status"]["observedGeneration"];
            *seen != policy["metadata"]["generation"]
        })
        .collect()
}

async fn check_and_write_status(client: &LoopbackClient, policy: Value) -> bool {
    let name = policy["metadata"]["name"].as_str().unwrap_or_default();
    let path = format!(
        "{PATH}/{}/status?force=true&fieldManager={MANAGER}",
        path_segment(name)
    );
    let name = name.to_owned();
    let (uid, generation) = (
        policy["metadata"]["uid"].clone(),
        policy["metadata"]["generation"].clone(),
    );
    let warnings = client.api().policy_warnings(policy).await;
    let checked = match warnings.is_empty() {
        true => json!({}),
        false => json!({"expressionWarnings": warnings}),
    };
    let status = json!({
        "kind": "ValidatingAdmissionPolicy", "apiVersion": "admissionregistration.k8s.io/v1",
        // The uid guards against a policy that was deleted and created again.
        "metadata": {"name": name, "uid": uid},
        "status": {"observedGeneration": generation, "typeChecking": checked},
    });
    let done = client.apply(&path, &status).await;
    match done.code {
        // Deleted, or a conflicting write: the watch delivers the policy again.
        200 | 404 | 409 => true,
        code => {
            let what = format_args!("cannot say what the policy {name} is about");
            log_failure(what, code, &done.body);
            false
        }
    }
}
