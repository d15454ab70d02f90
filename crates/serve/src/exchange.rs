//! One request and its answer.
//!
//! Everything runs where hyper calls us, without a task of its own. A write whose client
//! goes away is carried on with (see `carry`); a read is given up.

use crate::access::{Asked, Identity, authenticate, authorize, is_foreign};
use crate::answer::{AUDIT_ID, AuditIds, Body, Content, Form, sealed};
use crate::carry::Carried;
use crate::deadline;
use crate::handler::Handler;
use crate::metrics;
use crate::pages;
use crate::peers::Peer;
use crate::server::Shared;
use crate::upload;
use crate::websocket;
use futures::FutureExt;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use hyper::body::Incoming;
use optik_apiserver::{Request, Response};
use optik_object::Status;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Nothing takes less.
const TIME_MIN: Duration = Duration::from_micros(1);

/// The other end of a connection.
pub(crate) struct Caller {
    pub(crate) peer: Arc<Peer>,
    pub(crate) identity: Identity,
    pub(crate) audit_ids: AuditIds,
}

/// Answers one request. There is always an answer.
pub(crate) async fn answer<H: Handler>(
    shared: Arc<Shared<H>>,
    caller: Arc<Caller>,
    mut request: http::Request<Incoming>,
) -> Result<http::Response<Body>, Infallible> {
    let in_flight = caller.peer.begin();
    let socket = websocket::asked(&mut request);
    let (head, body) = request.into_parts();
    let sent_id = head.headers.get(&AUDIT_ID).cloned();
    let form = Form::of(asked(&head), &head.headers);
    let (method, uri) = (head.method.clone(), head.uri.clone());
    let about = Asked {
        method: &method,
        path: uri.path(),
        query: uri.query().unwrap_or_default(),
    };
    let counted = shared.metrics.begin(about, form.long_running);
    let began = shared.options.clock.monotonic();
    let mut response = in_time(&shared, &caller.identity, form, head, body).await;
    drop(counted);
    let took = shared.options.clock.monotonic().since(began);
    let took = Some(took).filter(|_| !form.long_running);
    shared.metrics.note(about, response.status().as_u16(), took);
    if let Some(socket) = socket.filter(|_| form.long_running) {
        response = socket.switch(response, &shared.tasks);
    }
    let id = sent_id.unwrap_or_else(|| caller.audit_ids.next());
    response.headers_mut().insert(AUDIT_ID, id);
    Ok(sealed(response, in_flight))
}

fn asked(head: &Parts) -> Asked<'_> {
    Asked {
        method: &head.method,
        path: head.uri.path(),
        query: head.uri.query().unwrap_or_default(),
    }
}

async fn in_time<H: Handler>(
    shared: &Arc<Shared<H>>,
    identity: &Identity,
    form: Form,
    head: Parts,
    body: Incoming,
) -> http::Response<Content> {
    let limit = shared.options.limits.request_max;
    let limit = if form.long_running {
        None
    } else {
        match deadline::of_request(asked(&head).query, limit) {
            Ok(limit) => Some(limit),
            Err(status) => return form.apply(status.into(), &shared.stop).await,
        }
    };
    let accept = head.headers.get(ACCEPT).cloned();
    let work = async {
        let response = respond(shared, identity, head, body).await;
        let response = response.unwrap_or_else(|status| refused(&status, accept));
        form.apply(response, &shared.stop).await
    };
    match limit {
        None => work.await,
        // What is due at once is late, however fast we are.
        Some(limit) if limit < TIME_MIN => form.apply(too_late(), &shared.stop).await,
        Some(limit) => match timeout(limit, work).await {
            Ok(response) => response,
            Err(_) => form.apply(too_late(), &shared.stop).await,
        },
    }
}

/// What the server counts, and what its handler does.
async fn metrics_page<H: Handler>(shared: &Shared<H>) -> Response {
    let text = metrics::page(&shared.metrics) + &shared.handler.metrics().await;
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Response::text(StatusCode::OK, text).with_header(CONTENT_TYPE, kind)
}

/// A refusal, in what the client reads.
fn refused(status: &Status, accept: Option<HeaderValue>) -> Response {
    let headers = accept.map(|accept| (ACCEPT, accept));
    Response::refused(status, &headers.into_iter().collect())
}

/// As upstream has it, this one is not called JSON.
fn too_late() -> Response {
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    Response::from(Status::deadline_exceeded()).with_header(CONTENT_TYPE, plain)
}

async fn respond<H: Handler>(
    shared: &Arc<Shared<H>>,
    identity: &Identity,
    mut head: Parts,
    body: Incoming,
) -> Result<Response, Status> {
    let limits = &shared.options.limits;
    if matches!(identity, Identity::Local(_)) && is_foreign(&head) {
        let text = "this port is for programs on this machine, not for web pages";
        return Err(Status::forbidden_path(
            "a browser",
            "open",
            head.uri.path(),
            text,
        ));
    }
    let options = &shared.options;
    let user = authenticate(identity, &head.headers, &options.tokens, &*options.clock)?;
    authorize(&user, asked(&head))?;
    if let Some(page) = pages::find(&shared.health, asked(&head)).await {
        return Ok(page);
    }
    if head.uri.path() == "/metrics" {
        return Ok(metrics_page(shared).await);
    }
    // Nothing behind this point needs credentials, so nothing there can leak them.
    head.headers.remove(AUTHORIZATION);
    let Ok(body) = timeout(limits.request_max, upload::read(body)).await else {
        return Ok(too_late());
    };
    let request = Request {
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        method: head.method,
        headers: head.headers,
        user,
        body: body?,
    };
    let behind = Arc::clone(shared);
    let reads = matches!(request.method, Method::GET | Method::HEAD | Method::OPTIONS);
    let work = async move { behind.handler.handle(request).await };
    let done = if reads {
        let work = AssertUnwindSafe(work).catch_unwind().await;
        work.map_err(|_| "a read panicked".to_owned())
    } else {
        let work = Carried::new(work, &shared.tasks).await;
        work.map_err(|panicked| panicked.to_string())
    };
    done.map_err(|error| {
        tracing::error!(%error, "a request failed unexpectedly");
        Status::internal("the request could not be carried out")
    })
}
