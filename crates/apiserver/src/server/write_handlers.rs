//! Handlers of create, update, patch, apply and delete requests.

use crate::encoding::encode_pool::BufferQuota;
use crate::encoding::representation::{ListEncoder, Representation};
use crate::handlers::list::ListRequest;
use crate::handlers::write::{
    self, ApplyConfiguration, BindingEndpoint, FieldValidation, ManagedFieldsState, OptionsKind,
    PatchBody, PatchType, SubresourceTarget, WriteOptions, WriteOutcome,
};
use crate::registry::served_resource::ServedResource;
use crate::request::body;
use crate::request::http_types::ApiResponse;
use crate::server::{ApiServerInner, RequestScope};
use http::StatusCode;
use optik_object::Status;
use std::sync::Arc;

impl ApiServerInner {
    pub(super) async fn create(&self, asked: RequestScope<'_>) -> Result<ApiResponse, Status> {
        let form = asked.representation()?;
        let options = WriteOptions::read(&asked.query, OptionsKind::Create)?;
        let object = asked.decode(SubresourceTarget::Main, &options)?;
        let writing = asked.write_context(self, options, "create");
        let written = write::create(&writing, object).await?;
        self.write_response(form, asked.kind, written)
    }

    pub(super) async fn update(
        &self,
        asked: RequestScope<'_>,
        name: &str,
        part: SubresourceTarget,
    ) -> Result<ApiResponse, Status> {
        let form = asked.representation()?;
        let options = WriteOptions::read(&asked.query, OptionsKind::Update)?;
        let object = asked.decode(part, &options)?;
        let mut writing = asked.write_context(self, options, "update");
        writing.create_permission = self.authorize_create(&asked, name);
        let written = write::update(&writing, name, part, object).await?;
        self.write_response(form, part.kind(asked.kind), written)
    }

    pub(super) async fn patch(
        &self,
        asked: RequestScope<'_>,
        name: &str,
        part: SubresourceTarget,
    ) -> Result<ApiResponse, Status> {
        let (headers, body) = (&asked.request.headers, &asked.request.body);
        let patch_type = PatchType::from_headers(asked.kind, headers)?;
        let form = asked.representation()?;
        if patch_type == PatchType::Apply {
            return self.apply(asked, name, part, form).await;
        }
        let options = WriteOptions::read(&asked.query, OptionsKind::Patch)?;
        let validation = options.field_validation;
        let writing = asked.write_context(self, options, "patch");
        let change = match PatchBody::read(asked.kind, headers, body, validation) {
            Ok(change) => change,
            Err(why) => return Err(writing.unreadable_error(name, why).await),
        };
        let written = write::patch(&writing, name, part, &change).await?;
        self.write_response(form, part.kind(asked.kind), written)
    }

    async fn apply(
        &self,
        asked: RequestScope<'_>,
        name: &str,
        part: SubresourceTarget,
        form: Representation,
    ) -> Result<ApiResponse, Status> {
        let options = WriteOptions::read(&asked.query, OptionsKind::Apply)?;
        let force = asked.query.flag("force").unwrap_or(false);
        let kind = part.kind(asked.kind);
        let validation = options.field_validation;
        let mut writing = asked.write_context(self, options, "apply");
        let config = match ApplyConfiguration::read(kind, &asked.request.body, force) {
            Ok(config) => config,
            // A subresource of a missing object is not created.
            Err(why) if part != SubresourceTarget::Main => {
                return Err(writing.unreadable_error(name, why).await);
            }
            Err(why) => return Err(why),
        };
        if validation != FieldValidation::Ignore {
            asked.recorder.warn(config.duplicates.iter().cloned());
        }
        writing.managed_fields = ManagedFieldsState::Recorded;
        writing.create_permission = self.authorize_create(&asked, name);
        let written = write::apply(&writing, name, part, &config).await?;
        self.write_response(form, kind, written)
    }

    /// Binds the pod named by the path or by the body.
    pub(super) async fn bind(
        &self,
        asked: RequestScope<'_>,
        pod: Option<&str>,
    ) -> Result<ApiResponse, Status> {
        let options = WriteOptions::read(&asked.query, OptionsKind::Create)?;
        let (headers, body) = (&asked.request.headers, &asked.request.body);
        let binding = body::decode_as("v1", "Binding", headers, body)?;
        let (way, name) = match pod {
            Some(name) => (BindingEndpoint::Subresource, name.to_owned()),
            None => (BindingEndpoint::Collection, binding.name().to_owned()),
        };
        if name.is_empty() {
            return Err(Status::bad_request("Name parameter required."));
        }
        let writing = asked.write_context(self, options, "create");
        write::bind(&writing, way, &name, binding).await?;
        Ok(ApiResponse::from(Status::success(201)))
    }

    pub(super) async fn evict(
        &self,
        asked: RequestScope<'_>,
        name: &str,
    ) -> Result<ApiResponse, Status> {
        let options = WriteOptions::read(&asked.query, OptionsKind::Create)?;
        let (headers, body) = (&asked.request.headers, &asked.request.body);
        let eviction = body::decode_as("policy/v1", "Eviction", headers, body)?;
        let writing = asked.write_context(self, options, "create");
        write::evict(&writing, name, eviction).await?;
        Ok(ApiResponse::from(Status::success(201)))
    }

    pub(super) async fn delete(
        &self,
        asked: RequestScope<'_>,
        name: &str,
    ) -> Result<ApiResponse, Status> {
        let form = asked.representation()?;
        let options = asked.delete_options()?;
        asked.warn_about_orphans(&options);
        let writing = asked.write_context(self, WriteOptions::default(), "delete");
        let deleted = write::delete(&writing, name, &options).await?;
        let status = if deleted.pending && options.given_orphan_dependents == Some(false) {
            StatusCode::ACCEPTED
        } else {
            StatusCode::OK
        };
        self.serialize_response(form, asked.kind, status, deleted.body)
    }

    pub(super) async fn delete_collection(
        &self,
        asked: RequestScope<'_>,
    ) -> Result<ApiResponse, Status> {
        let form = asked.representation()?;
        let (meant, selection) = asked.selected_objects(None)?;
        let options = asked.delete_options()?;
        asked.warn_about_orphans(&options);
        let listing = ListRequest {
            plan: meant.plan_delete_collection(asked.kind)?,
            kind: Arc::clone(asked.kind),
            namespace: asked.target.namespace.clone(),
            selection,
            encoder: ListEncoder::for_representation(form, &*self.clock),
            buffer_quota: BufferQuota::Unbounded,
        };
        let writing = asked.write_context(self, WriteOptions::default(), "deletecollection");
        let body =
            write::delete_collection(&writing, &self.encode_pool, &listing, &options).await?;
        self.serialize_response(form, asked.kind, StatusCode::OK, body)
    }

    fn write_response(
        &self,
        form: Representation,
        kind: &ServedResource,
        written: WriteOutcome,
    ) -> Result<ApiResponse, Status> {
        let status = if written.created {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        self.serialize_response(form, kind, status, written.body)
    }
}
