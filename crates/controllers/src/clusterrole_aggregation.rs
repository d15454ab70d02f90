//! The ClusterRole aggregation controller.

use crate::loopback_client::{LoopbackClient, log_failure};
use http::Method;
use optik_apiserver::{ApiServer, key_prefix};
use optik_auth::{PolicyRule, Role, aggregated_rules};
use optik_control_loop::{Outcome, reconcile_on_change};
use optik_store::{KeyRange, Store};

const DIRECTORY: &str = key_prefix("rbac.authorization.k8s.io", "clusterroles");
const PATH: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

/// Runs the controller until the future is dropped or the store stops.
pub async fn run_clusterrole_aggregation_controller(api: ApiServer, store: Store) {
    let client = LoopbackClient::new(api, "clusterrole-aggregation-controller");
    let reconcile = || reconcile(client.clone(), store.clone());
    reconcile_on_change(&store, &[DIRECTORY], reconcile).await;
}

/// Updates aggregated roles whose rules differ. Other roles may aggregate these in turn, so the
/// updates trigger another reconciliation.
async fn reconcile(client: LoopbackClient, store: Store) -> Outcome<()> {
    let state = store.snapshot();
    let entries = state.entries(&KeyRange::prefix(DIRECTORY));
    let roles: Vec<Role> = entries
        .filter_map(|entry| Role::from_json(entry.value()).ok())
        .collect();
    let mut settled = true;
    for role in roles.iter().filter(|role| role.is_aggregated()) {
        let rules = aggregated_rules(role, &roles);
        if rules != role.rules {
            settled &= write_rules(&client, &role.name, &rules).await;
        }
    }
    Outcome::done_if(settled)
}

async fn write_rules(client: &LoopbackClient, name: &str, rules: &[PolicyRule]) -> bool {
    let path = format!("{PATH}/{name}");
    let found = client.send(Method::GET, &path, None).await;
    if found.code == 404 {
        return true;
    }
    let mut object = found.body;
    object["rules"] = serde_json::json!(rules);
    let done = client.send(Method::PUT, &path, Some(&object)).await;
    match done.code {
        200 | 404 => true,
        // A conflict: the watch delivers the role again.
        409 => false,
        code => {
            log_failure(
                format_args!("cannot gather the rules of {name}"),
                code,
                &done.body,
            );
            false
        }
    }
}
