//! Handlers of get, list and watch requests.

use crate::encoding::representation::{self, ListEncoder, Representation, Serializer};
use crate::handlers::get::{GetView, get};
use crate::handlers::list::{ListBody, ListRequest, list};
use crate::handlers::watch::{self as watches, WatchRequest};
use crate::handlers::write::SubresourceTarget;
use crate::registry::served_resource::ServedResource;
use crate::request::http_types::ApiResponse;
use crate::request::list_options::WatchForm;
use crate::server::{ApiServerInner, RequestScope};
use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use optik_object::{Status, Tape};
use std::sync::Arc;

impl ApiServerInner {
    pub(super) async fn list(&self, asked: RequestScope<'_>) -> Result<ApiResponse, Status> {
        let wanted = asked.list_representation()?;
        let (options, selection) = asked.selected_objects(None)?;
        let kind = Arc::clone(asked.kind);
        let plan = options.plan_list(&kind)?;
        representation::check_list_transform(wanted, &kind)?;
        let listing = ListRequest {
            kind,
            namespace: asked.target.namespace.clone(),
            selection,
            plan,
            encoder: ListEncoder::for_representation(wanted, &*self.clock),
            buffer_quota: self.encode_pool.quota_for(&asked.request.user),
        };
        let response = match list(&self.webhook_client, &self.encode_pool, listing).await? {
            ListBody::Whole(body) => ApiResponse::json(StatusCode::OK, body),
            ListBody::Stream(pieces) => ApiResponse::json_stream(pieces),
        };
        Ok(response.with_header(CONTENT_TYPE, wanted.encoding.media_type()))
    }

    pub(super) async fn watch(&self, asked: RequestScope<'_>) -> Result<ApiResponse, Status> {
        let form = watch_form(&asked);
        let wanted = asked.watch_representation()?;
        let (options, selection) = asked.selected_objects(Some(form))?;
        let watching = WatchRequest {
            kind: Arc::clone(asked.kind),
            namespace: asked.target.namespace.clone(),
            selection,
            plan: options.plan_watch(form)?,
            representation: wanted,
        };
        Ok(self.watch_response(watching).await)
    }

    async fn watch_response(&self, watching: WatchRequest) -> ApiResponse {
        let media_type = watching.representation.encoding.stream_type();
        let pieces = watches::watch(&self.watch_deps, watching).await;
        ApiResponse::json_stream(pieces).with_header(CONTENT_TYPE, media_type)
    }

    pub(super) async fn get(
        &self,
        asked: RequestScope<'_>,
        name: &str,
        part: SubresourceTarget,
    ) -> Result<ApiResponse, Status> {
        let form = asked.representation()?;
        let object = asked.object_name(name);
        let revision = asked.query.get_or_empty("resourceVersion");
        let shape = match part {
            SubresourceTarget::Scale => GetView::Scale,
            SubresourceTarget::Main
            | SubresourceTarget::Status
            | SubresourceTarget::Approval
            | SubresourceTarget::Finalize
            | SubresourceTarget::PodSubresource(_) => GetView::Object,
        };
        let body = get(&self.webhook_client, asked.kind, object, shape, revision).await?;
        self.serialize_response(form, part.kind(asked.kind), StatusCode::OK, body)
    }

    /// The deprecated `/watch/…/{name}`.
    pub(super) async fn watch_object(
        &self,
        asked: &RequestScope<'_>,
        name: &str,
    ) -> Result<ApiResponse, Status> {
        let form = asked.watch_representation()?;
        let asked_by = watch_form(asked);
        let (options, selection) = asked.selected_objects(Some(asked_by))?;
        let selection = selection.with_name(name)?;
        let plan = options.plan_watch(asked_by)?;
        let watching = WatchRequest {
            kind: Arc::clone(asked.kind),
            namespace: asked.target.namespace.clone(),
            selection,
            plan,
            representation: form,
        };
        Ok(self.watch_response(watching).await)
    }

    /// A response in the negotiated representation.
    pub(crate) fn serialize_response(
        &self,
        form: Representation,
        kind: &ServedResource,
        status: StatusCode,
        body: Bytes,
    ) -> Result<ApiResponse, Status> {
        if form.is_stored_form() {
            return Ok(ApiResponse::json(status, body));
        }
        let mut tape = Tape::default();
        let body = Serializer::new(form, kind, &*self.clock, &mut tape).serialize(&body)?;
        let response = ApiResponse::json(status, body);
        Ok(response.with_header(CONTENT_TYPE, form.encoding.media_type()))
    }
}

/// How a watch was requested; if both the path and the query do, the query counts.
fn watch_form(asked: &RequestScope<'_>) -> WatchForm {
    match asked.query.flag("watch") {
        Some(true) => WatchForm::Query,
        Some(false) | None => WatchForm::Path,
    }
}
