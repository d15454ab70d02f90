//! Kinds of which nothing is kept, because they stand for something else.

use super::{Asked, Shared};
use crate::documents::line;
use crate::exchange::Response;
use crate::selection::Selection;
use crate::trouble::read_failed;
use http::StatusCode;
use optik_object::{ResourceName, Status, Value};
use serde_json::json;

/// What a component is called when it is not there.
const COMPONENT: ResourceName<'static> = ResourceName {
    group: "",
    plural: "componentstatus",
    kind: "ComponentStatus",
};
/// The store, by the name that clients know it by.
const STORE: &str = "etcd-0";

impl Shared {
    /// `POST` to `bindings`, where the body names the pod.
    pub(super) async fn bind_by_body(&self, asked: Asked<'_>) -> Result<Response, Status> {
        let pods = asked.kinds.find("", "v1", "pods");
        let pods = pods.ok_or_else(Status::resource_not_found)?;
        let asked = Asked {
            kind: pods,
            ..asked
        };
        self.bind(asked, None).await
    }

    /// The store is all there is to tell of: whoever schedules or controls does so
    /// elsewhere, or is part of this server.
    pub(super) async fn get_component(
        &self,
        asked: &Asked<'_>,
        name: &str,
    ) -> Result<Response, Status> {
        let form = asked.form()?;
        if name != STORE {
            return Err(Status::not_found(COMPONENT, name));
        }
        let kind = asked.kind;
        let mut component = self.store_component().await;
        component["kind"] = kind.resource.kind.to_string().into();
        component["apiVersion"] = kind.api_version.to_string().into();
        self.formed(form, kind, StatusCode::OK, line(&component).into())
    }

    pub(super) async fn list_components(&self, asked: &Asked<'_>) -> Result<Response, Status> {
        let kind = asked.kind;
        let form = asked.list_form()?;
        let selection = Selection::read(&asked.query, kind)?;
        let mut items = Vec::new();
        if selection.matches_bare(STORE) {
            items.push(self.store_component().await);
        }
        let list = json!({
            "kind": kind.resource.list_kind, "apiVersion": kind.api_version,
            "metadata": {}, "items": items,
        });
        self.formed(form, kind, StatusCode::OK, line(&list).into())
    }

    async fn store_component(&self) -> Value {
        let condition = match self.store.latest().await {
            Ok(_) => json!({"type": "Healthy", "status": "True", "message": "ok"}),
            Err(error) => {
                let message = read_failed(error).message().to_owned();
                json!({"type": "Healthy", "status": "False", "message": message})
            }
        };
        json!({"metadata": {"name": STORE}, "conditions": [condition]})
    }
}
