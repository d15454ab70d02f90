//! Virtual resources: kinds that are not stored, such as bindings and component statuses.

use crate::handlers::discovery_handler::json_line;
use crate::request::http_types::ApiResponse;
use crate::request::selection_predicate::SelectionPredicate;
use crate::server::store_errors::read_failed;
use crate::server::{ApiServerInner, RequestScope};
use http::StatusCode;
use optik_object::{ResourceName, Status, Value};
use serde_json::json;

/// The resource name in the NotFound error of a component.
const COMPONENT_STATUS: ResourceName<'static> = ResourceName {
    group: "",
    plural: "componentstatus",
    kind: "ComponentStatus",
};
/// The store, by the component name that clients know.
const STORE_COMPONENT: &str = "etcd-0";

impl ApiServerInner {
    /// `POST` to `bindings`, where the body names the pod.
    pub(super) async fn bind_by_body(
        &self,
        asked: RequestScope<'_>,
    ) -> Result<ApiResponse, Status> {
        let pods = asked.registry.find("", "v1", "pods");
        let pods = pods.ok_or_else(Status::resource_not_found)?;
        let asked = RequestScope {
            kind: pods,
            ..asked
        };
        self.bind(asked, None).await
    }

    /// Only the store has a status: the scheduler and controllers run elsewhere or are part of this
    /// server.
    pub(super) async fn get_component(
        &self,
        asked: &RequestScope<'_>,
        name: &str,
    ) -> Result<ApiResponse, Status> {
        let form = asked.representation()?;
        if name != STORE_COMPONENT {
            return Err(Status::not_found(COMPONENT_STATUS, name));
        }
        let kind = asked.kind;
        let mut component = self.store_component().await;
        component["kind"] = kind.resource.kind.to_string().into();
        component["apiVersion"] = kind.api_version.to_string().into();
        self.serialize_response(form, kind, StatusCode::OK, json_line(&component).into())
    }

    pub(super) async fn list_components(
        &self,
        asked: &RequestScope<'_>,
    ) -> Result<ApiResponse, Status> {
        let kind = asked.kind;
        let form = asked.list_representation()?;
        let selection = SelectionPredicate::read(&asked.query, kind)?;
        let mut items = Vec::new();
        if selection.matches_name_only(STORE_COMPONENT) {
            items.push(self.store_component().await);
        }
        let list = json!({
            "kind": kind.resource.list_kind, "apiVersion": kind.api_version,
            "metadata": {}, "items": items,
        });
        self.serialize_response(form, kind, StatusCode::OK, json_line(&list).into())
    }

    async fn store_component(&self) -> Value {
        let condition = match self.store.latest().await {
            Ok(_) => json!({"type": "Healthy", "status": "True", "message": "ok"}),
            Err(error) => {
                let message = read_failed(error).message().to_owned();
                json!({"type": "Healthy", "status": "False", "message": message})
            }
        };
        json!({"metadata": {"name": STORE_COMPONENT}, "conditions": [condition]})
    }
}
