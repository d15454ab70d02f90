//! What a policy says of itself once it is understood.

use super::book::VALIDATING;
use crate::admission::Told;
use crate::exchange::User;
use crate::kinds::parse_stored;
use crate::server::ApiServer;
use crate::write::{self, Part};
use optik_object::{Object, Value};
use optik_store::{KeyRange, Origin, Snapshot};
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
        for mut object in open {
            let generation = object.generation();
            let status = json!({"observedGeneration": generation, "typeChecking": {}});
            object.members_mut().insert("status".into(), status);
            let name = object.name().to_owned();
            let mut origin = Origin::system("update");
            origin.manager = "kube-controller-manager".into();
            let nobody = (&User::default(), &Told::default());
            let writing = self.shared.own_writing(&kinds, kind, origin, nobody);
            match write::update(&writing, &name, Part::Status, object).await {
                Ok(_) => {}
                // Somebody else wrote or deleted it: it comes again through the watch.
                Err(status) if matches!(status.code(), 404 | 409) => {}
                Err(status) => {
                    tracing::warn!("cannot settle the policy {name}: {}", status.message());
                }
            }
        }
    }
}
