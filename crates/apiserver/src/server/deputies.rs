//! Kinds of which nothing is kept, because they stand for something else.

use super::{Asked, Shared};
use crate::documents::line;
use crate::exchange::Response;
use crate::selection::Selection;
use crate::trouble::read_failed;
use http::{Method, StatusCode};
use optik_catalog::Deputy;
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
    pub(super) async fn stand_in(
        &self,
        deputy: Deputy,
        asked: Asked<'_>,
    ) -> Result<Response, Status> {
        match deputy {
            Deputy::Binding => Box::pin(self.bind_named(asked)).await,
            Deputy::Component => self.components(&asked).await,
        }
    }

    /// `POST` to `bindings`, where the body names the pod.
    async fn bind_named(&self, asked: Asked<'_>) -> Result<Response, Status> {
        if asked.target.name.is_some() || asked.target.namespace.is_none() {
            return Err(Status::resource_not_found());
        }
        if asked.request.method != Method::POST {
            return Err(Status::method_not_allowed());
        }
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
    async fn components(&self, asked: &Asked<'_>) -> Result<Response, Status> {
        let target = asked.target;
        if target.subresource.is_some() || target.watch {
            return Err(Status::resource_not_found());
        }
        if asked.request.method != Method::GET {
            return Err(Status::method_not_allowed());
        }
        let kind = asked.kind;
        if let Some(name) = &target.name {
            let form = asked.form()?;
            if name != STORE {
                return Err(Status::not_found(COMPONENT, name));
            }
            let mut component = self.store_component().await;
            component["kind"] = kind.resource.kind.to_string().into();
            component["apiVersion"] = kind.api_version.to_string().into();
            return self.formed(form, kind, StatusCode::OK, line(&component).into());
        }
        if asked.query.flag("watch") == Some(true) {
            let resource = kind.resource.name();
            return Err(Status::method_not_supported(resource, "watch"));
        }
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
