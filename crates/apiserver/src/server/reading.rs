//! Requests that read.

use super::{Asked, Shared};
use crate::exchange::Response;
use crate::form::{self, Form, Ink, Painter};
use crate::kinds::Kind;
use crate::list::{Listed, Listing, list};
use crate::options::WatchForm;
use crate::read::{Shape, get};
use crate::watch::{self as watches, Watching};
use crate::write::Part;
use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use optik_object::{Status, Tape};
use std::sync::Arc;

impl Shared {
    pub(super) async fn list(&self, asked: Asked<'_>) -> Result<Response, Status> {
        let wanted = asked.list_form()?;
        let (options, selection) = asked.meant(None)?;
        let kind = Arc::clone(asked.kind);
        let plan = options.list(&kind)?;
        form::check_list(wanted, &kind)?;
        let listing = Listing {
            kind,
            namespace: asked.target.namespace.clone(),
            selection,
            plan,
            ink: Ink::of(wanted, &*self.clock),
            share: self.press.share_of(&asked.request.user),
        };
        let response = match list(&self.outside, &self.press, listing).await? {
            Listed::Whole(body) => Response::json(StatusCode::OK, body),
            Listed::Pieces(pieces) => Response::json_stream(pieces),
        };
        Ok(response.with_header(CONTENT_TYPE, wanted.encoding.media_type()))
    }

    pub(super) async fn watch(&self, asked: Asked<'_>) -> Result<Response, Status> {
        let form = watch_form(&asked);
        let wanted = asked.stream_form()?;
        let (options, selection) = asked.meant(Some(form))?;
        let watching = Watching {
            kind: Arc::clone(asked.kind),
            namespace: asked.target.namespace.clone(),
            selection,
            plan: options.watch(form)?,
            form: wanted,
        };
        Ok(self.watching(watching).await)
    }

    async fn watching(&self, watching: Watching) -> Response {
        let media_type = watching.form.encoding.stream_type();
        let pieces = watches::watch(&self.around_watches, watching).await;
        Response::json_stream(pieces).with_header(CONTENT_TYPE, media_type)
    }

    pub(super) async fn get(
        &self,
        asked: Asked<'_>,
        name: &str,
        part: Part,
    ) -> Result<Response, Status> {
        let form = asked.form()?;
        let object = asked.object_name(name);
        let revision = asked.query.text("resourceVersion");
        let shape = match part {
            Part::Scale => Shape::Scale,
            Part::Main | Part::Status | Part::Approval | Part::Finalize | Part::Aspect(_) => {
                Shape::Whole
            }
        };
        let body = get(&self.outside, asked.kind, object, shape, revision).await?;
        self.formed(form, part.kind(asked.kind), StatusCode::OK, body)
    }

    /// The deprecated `/watch/…/{name}`.
    pub(super) async fn watch_one(
        &self,
        asked: &Asked<'_>,
        name: &str,
    ) -> Result<Response, Status> {
        let form = asked.stream_form()?;
        let asked_by = watch_form(asked);
        let (options, selection) = asked.meant(Some(asked_by))?;
        let selection = selection.named(name)?;
        let plan = options.watch(asked_by)?;
        let watching = Watching {
            kind: Arc::clone(asked.kind),
            namespace: asked.target.namespace.clone(),
            selection,
            plan,
            form,
        };
        Ok(self.watching(watching).await)
    }

    /// An answer in the form that was asked for.
    pub(crate) fn formed(
        &self,
        form: Form,
        kind: &Kind,
        status: StatusCode,
        body: Bytes,
    ) -> Result<Response, Status> {
        if form.is_plain() {
            return Ok(Response::json(status, body));
        }
        let mut tape = Tape::default();
        let body = Painter::new(form, kind, &*self.clock, &mut tape).answer(&body)?;
        let response = Response::json(status, body);
        Ok(response.with_header(CONTENT_TYPE, form.encoding.media_type()))
    }
}

/// How a watch is asked for; who says so twice is judged by the query.
fn watch_form(asked: &Asked<'_>) -> WatchForm {
    match asked.query.flag("watch") {
        Some(true) => WatchForm::Query,
        Some(false) | None => WatchForm::Path,
    }
}
