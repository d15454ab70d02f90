//! Requests that write.

use super::{Asked, Shared};
use crate::body;
use crate::exchange::Response;
use crate::form::{Form, Ink};
use crate::kinds::Kind;
use crate::list::Listing;
use crate::press::Share;
use crate::write::{
    self, Change, Configuration, FieldValidation, OptionsKind, Ownership, Part, PatchType, Way,
    WriteOptions, Written,
};
use http::StatusCode;
use optik_object::Status;
use std::sync::Arc;

impl Shared {
    pub(super) async fn create(&self, asked: Asked<'_>) -> Result<Response, Status> {
        let form = asked.form()?;
        let options = WriteOptions::read(&asked.query, OptionsKind::Create)?;
        let object = asked.decode(Part::Main, &options)?;
        let writing = asked.writing(self, options, "create");
        let written = write::create(&writing, object).await?;
        self.respond(form, asked.kind, written)
    }

    pub(super) async fn update(
        &self,
        asked: Asked<'_>,
        name: &str,
        part: Part,
    ) -> Result<Response, Status> {
        let form = asked.form()?;
        let options = WriteOptions::read(&asked.query, OptionsKind::Update)?;
        let object = asked.decode(part, &options)?;
        let mut writing = asked.writing(self, options, "update");
        writing.creation = self.may_create(&asked, name);
        let written = write::update(&writing, name, part, object).await?;
        self.respond(form, part.kind(asked.kind), written)
    }

    pub(super) async fn patch(
        &self,
        asked: Asked<'_>,
        name: &str,
        part: Part,
    ) -> Result<Response, Status> {
        let (headers, body) = (&asked.request.headers, &asked.request.body);
        let patch_type = PatchType::of(asked.kind, headers)?;
        let form = asked.form()?;
        if patch_type == PatchType::Apply {
            return self.apply(asked, name, part, form).await;
        }
        let options = WriteOptions::read(&asked.query, OptionsKind::Patch)?;
        let validation = options.validation;
        let writing = asked.writing(self, options, "patch");
        let change = match Change::read(asked.kind, headers, body, validation) {
            Ok(change) => change,
            Err(why) => return Err(writing.unreadable(name, why).await),
        };
        let written = write::patch(&writing, name, part, &change).await?;
        self.respond(form, part.kind(asked.kind), written)
    }

    async fn apply(
        &self,
        asked: Asked<'_>,
        name: &str,
        part: Part,
        form: Form,
    ) -> Result<Response, Status> {
        let options = WriteOptions::read(&asked.query, OptionsKind::Apply)?;
        let force = asked.query.flag("force").unwrap_or(false);
        let kind = part.kind(asked.kind);
        let validation = options.validation;
        let mut writing = asked.writing(self, options, "apply");
        let config = match Configuration::read(kind, &asked.request.body, force) {
            Ok(config) => config,
            // Of what is not there, no part is made.
            Err(why) if part != Part::Main => return Err(writing.unreadable(name, why).await),
            Err(why) => return Err(why),
        };
        if validation != FieldValidation::Ignore {
            asked.told.warn(config.duplicates.iter().cloned());
        }
        writing.ownership = Ownership::Recorded;
        writing.creation = self.may_create(&asked, name);
        let written = write::apply(&writing, name, part, &config).await?;
        self.respond(form, kind, written)
    }

    /// A pod that the path names, or the body.
    pub(super) async fn bind(
        &self,
        asked: Asked<'_>,
        pod: Option<&str>,
    ) -> Result<Response, Status> {
        let options = WriteOptions::read(&asked.query, OptionsKind::Create)?;
        let (headers, body) = (&asked.request.headers, &asked.request.body);
        let binding = body::decode_as("v1", "Binding", headers, body)?;
        let (way, name) = match pod {
            Some(name) => (Way::Subresource, name.to_owned()),
            None => (Way::Collection, binding.name().to_owned()),
        };
        if name.is_empty() {
            return Err(Status::bad_request("Name parameter required."));
        }
        let writing = asked.writing(self, options, "create");
        write::bind(&writing, way, &name, binding).await?;
        Ok(Response::from(Status::success(201)))
    }

    pub(super) async fn evict(&self, asked: Asked<'_>, name: &str) -> Result<Response, Status> {
        let options = WriteOptions::read(&asked.query, OptionsKind::Create)?;
        let (headers, body) = (&asked.request.headers, &asked.request.body);
        let eviction = body::decode_as("policy/v1", "Eviction", headers, body)?;
        let writing = asked.writing(self, options, "create");
        write::evict(&writing, name, eviction).await?;
        Ok(Response::from(Status::success(201)))
    }

    pub(super) async fn delete(&self, asked: Asked<'_>, name: &str) -> Result<Response, Status> {
        let form = asked.form()?;
        let options = asked.delete_options()?;
        asked.warn_of_orphans(&options);
        let writing = asked.writing(self, WriteOptions::default(), "delete");
        let deleted = write::delete(&writing, name, &options).await?;
        let status = if deleted.pending && options.orphan == Some(false) {
            StatusCode::ACCEPTED
        } else {
            StatusCode::OK
        };
        self.formed(form, asked.kind, status, deleted.body)
    }

    pub(super) async fn delete_collection(&self, asked: Asked<'_>) -> Result<Response, Status> {
        let form = asked.form()?;
        let (meant, selection) = asked.meant(None)?;
        let options = asked.delete_options()?;
        asked.warn_of_orphans(&options);
        let listing = Listing {
            plan: meant.deletion(asked.kind)?,
            kind: Arc::clone(asked.kind),
            namespace: asked.target.namespace.clone(),
            selection,
            ink: Ink::of(form, &*self.clock),
            share: Share::Unbounded,
        };
        let writing = asked.writing(self, WriteOptions::default(), "deletecollection");
        let body = write::delete_all(&writing, &self.press, &listing, &options).await?;
        self.formed(form, asked.kind, StatusCode::OK, body)
    }

    fn respond(&self, form: Form, kind: &Kind, written: Written) -> Result<Response, Status> {
        let status = if written.created {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        self.formed(form, kind, status, written.body)
    }
}
