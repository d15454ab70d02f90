//! What a policy says of itself once it is understood.

use super::book::VALIDATING;
use crate::kinds::parse_stored;
use crate::server::{ApiServer, Own};
use optik_object::{Object, Value};
use optik_store::{KeyRange, Snapshot};
use serde_json::json;

/// Policies whose status is about something older.
fn unsettled(state: &Snapshot) -> Vec<Object> {
    let stored = state.entries(&KeyRange::prefix(VALIDATING));
    let policies = stored.filter_map(|stored| {
        let mut object = parse_stored(stored.value()).ok()?;
        object.set_resource_version(stored.mod_revision().get());
        Some(object)
    });
    let is_open = |object: &Object| {
        let status = object.get("status");
        let seen = status.and_then(|status| status.get("observedGeneration"));
        seen.and_then(Value::as_i64) != Some(object.generation())
    };
    policies.filter(is_open).collect()
}

impl ApiServer {
    /// Says of every policy that refuses that it was looked at.
    pub(crate) async fn settle_policies(&self) {
        let kinds = self.shared.kinds.current();
        let group = "admissionregistration.k8s.io";
        let Some(kind) = kinds.find(group, "v1", "validatingadmissionpolicies") else {
            return;
        };
        let open = unsettled(&self.shared.store.snapshot());
        let own = Own {
            kinds: &kinds,
            kind,
            manager: "kube-controller-manager",
        };
        for mut object in open {
            let generation = object.generation();
            let status = json!({"observedGeneration": generation, "typeChecking": {}});
            object.members_mut().insert("status".into(), status);
            self.shared.settle(own, object).await;
        }
    }
}
