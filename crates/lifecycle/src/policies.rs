//! What policies say of themselves: that they were looked at, and what is odd about them.

use crate::client::{Client, note_refusal, segment};
use crate::settling::keep_settled;
use optik_apiserver::ApiServer;
use optik_store::{KeyRange, Store};
use serde_json::{Value, json};

const DIRECTORY: &str = "/registry/validatingadmissionpolicies/";
const PATH: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
/// Whom clients know from the fields it owns.
const MANAGER: &str = "validatingadmissionpolicy-status";

/// Keeps the status of policies for as long as it is polled, or until the store stops.
pub async fn keep_policies_checked(api: ApiServer, store: Store) {
    let client = Client::new(api, "validatingadmissionpolicy-status-controller");
    let settle = || settle(client.clone(), store.clone());
    keep_settled(&store, DIRECTORY, settle).await;
}

/// Looks at policies whose status is about something older.
async fn settle(client: Client, store: Store) -> bool {
    let mut settled = true;
    for policy in unsettled(&store) {
        settled &= write(&client, policy).await;
    }
    settled
}

fn unsettled(store: &Store) -> Vec<Value> {
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

async fn write(client: &Client, policy: Value) -> bool {
    let name = policy["metadata"]["name"].as_str().unwrap_or_default();
    let path = format!(
        "{PATH}/{}/status?force=true&fieldManager={MANAGER}",
        segment(name)
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
        // One that was made anew meanwhile is another one.
        "metadata": {"name": name, "uid": uid},
        "status": {"observedGeneration": generation, "typeChecking": checked},
    });
    let done = client.apply(&path, &status).await;
    match done.code {
        // Somebody else wrote or deleted it: it comes again.
        200 | 404 | 409 => true,
        code => {
            let what = format_args!("cannot say what the policy {name} is about");
            note_refusal(what, code, &done.body);
            false
        }
    }
}
