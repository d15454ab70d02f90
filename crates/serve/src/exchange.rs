//! One request and its answer.
//!
//! Everything runs where hyper calls us, without a task of its own. A write whose client
//! goes away is carried on with (see `carry`); a read is given up.

use crate::access::{Asked, Identity, authenticate, has_ignored_token, impersonated};
use crate::answer::{AUDIT_ID, AuditIds, Body, Content, Form, Held, Unsent};
use crate::audit::{Beside, Heard, Record};
use crate::carry::Carried;
use crate::deadline;
use crate::flow::{Lane, Place};
use crate::handler::Handler;
use crate::metrics::{self, Passed};
use crate::pages;
use crate::peers::Peer;
use crate::server::Shared;
use crate::tenure::{self, Claim, Proof};
use crate::upload::{Refusal, Upload};
use crate::websocket;
use bytes::Bytes;
use futures::FutureExt;
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, RETRY_AFTER, WARNING,
    X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use hyper::body::Incoming;
use optik_access::{RequestInfo, Resource, User};
use optik_apiserver::{FlowMarks, Request, Response};
use optik_listener::{Slot, is_foreign};
use optik_object::Status;
use std::convert::Infallible;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

/// Nothing takes less: what is due sooner is late, however fast we are.
const TIME_MIN: Duration = Duration::from_micros(1);

/// By which clients learn which flow their request was of.
const FLOW_SCHEMA: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// For clients that wonder why they are nobody.
const IGNORED_TOKEN: HeaderValue = HeaderValue::from_static(
    "299 - \"the provided Authorization header contains extra space before the bearer token, \
     and is ignored\"",
);

/// The other end of a connection.
pub(crate) struct Caller {
    pub(crate) peer: Arc<Peer>,
    pub(crate) identity: Identity,
    pub(crate) audit_ids: AuditIds,
    /// Where the connection comes from.
    pub(crate) from: Option<IpAddr>,
    /// By which it counts among all connections.
    pub(crate) slot: Slot,
}

/// What is learned about a request on its way.
#[derive(Default)]
struct Trail {
    /// When its answer has to be sent; `None` for streams without end.
    due: Option<Instant>,
    /// By what right it is carried out, if that may take long.
    claim: Option<Claim>,
    /// What its answer is marked with.
    flow: Option<FlowMarks>,
    /// How far it got.
    passed: Passed,
    /// Whether it came with a token that is none, for a space too many.
    ignored: bool,
    /// Its place among the requests that are carried out, and its body's room. While a write
    /// is carried out, they are with that.
    held: Held,
    /// What is written down about it.
    record: Beside<Record>,
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
    let id = caller.audit_ids.of_request(&head.headers);
    let (method, uri) = (head.method.clone(), head.uri.clone());
    let query = uri.query().unwrap_or_default();
    let info = Arc::new(RequestInfo::new(method.as_str(), uri.path(), query));
    let about = Asked {
        method: &method,
        path: uri.path(),
        query,
        info: &info,
    };
    let form = Form::of(about, &head.headers);
    let counted = shared.metrics.begin(about, form.long_running);
    let began = shared.options.clock.monotonic();
    let due = Instant::now() + shared.options.limits.request_max;
    let mut trail = Trail {
        due: Some(due).filter(|_| !form.long_running),
        ..Trail::default()
    };
    let welcome = shared.options.origins.welcome(&head.headers);
    let mut response = match &welcome {
        // Asked before credentials are sent.
        Some(_) if method == Method::OPTIONS => preflight(),
        _ => {
            let exchange = Exchange {
                shared: &shared,
                caller: &caller,
                id: &id,
                about,
                form,
            };
            exchange.in_time(head, body, &mut trail).await
        }
    };
    drop(counted);
    let took = shared.options.clock.monotonic().since(began);
    let took = Some(took).filter(|_| !form.long_running);
    let answered = (response.status().as_u16(), took);
    let serves = |of: &Resource<'_>| shared.handler.serves(of);
    shared.metrics.note(about, trail.passed, answered, serves);
    if let Some(socket) = socket.filter(|_| form.long_running) {
        response = socket.switch(response, &shared.tasks, caller.slot.clone());
    }
    response.headers_mut().insert(AUDIT_ID, id);
    if let Some(FlowMarks { schema, level }) = trail.flow {
        response.headers_mut().insert(FLOW_SCHEMA, schema);
        response.headers_mut().insert(PRIORITY_LEVEL, level);
    }
    if trail.ignored {
        response.headers_mut().append(WARNING, IGNORED_TOKEN);
    }
    response.headers_mut().extend(welcome.unwrap_or_default());
    if method == Method::HEAD {
        response = without_body(response);
    }
    let code = response.status().as_u16();
    let record = trail.record.ended(code, form.long_running).await;
    let unsent = Unsent::new(in_flight, trail.held);
    Ok(response.map(|content| Body::new(content, unsent, trail.due, record)))
}

fn preflight() -> http::Response<Content> {
    let mut response = http::Response::new(Content::Whole(Bytes::new()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// One request, and what is around it.
struct Exchange<'a, H> {
    shared: &'a Arc<Shared<H>>,
    caller: &'a Caller,
    /// By which the request is known in logs.
    id: &'a HeaderValue,
    about: Asked<'a>,
    form: Form,
}

impl<H: Handler> Exchange<'_, H> {
    async fn in_time(
        &self,
        head: Parts,
        body: Incoming,
        trail: &mut Trail,
    ) -> http::Response<Content> {
        let form = self.form;
        let limit = match self.limit() {
            Ok(limit) => limit,
            Err(status) => return self.unheard(&head.headers, status.into(), trail).await,
        };
        if limit.is_some_and(|limit| limit < TIME_MIN) {
            return self.unheard(&head.headers, too_late(), trail).await;
        }
        let due = limit.map(|limit| Instant::now() + limit);
        trail.due = due;
        let accept = accepted(&head.headers);
        let work = async {
            let response = self.respond(head, body, trail).await;
            let response = response.unwrap_or_else(|status| refused(&status, accept));
            trail.record.answered(&response).await;
            let end = || tenure::end(self.shared, trail.claim.take(), self.about.info);
            form.apply(response, end).await
        };
        // In its place: it is large, and would be copied with everything around it.
        let work = pin!(work);
        match due {
            None => work.await,
            Some(due) => match timeout_at(due, work).await {
                Ok(response) => response,
                Err(_) => self.formed(too_late()).await,
            },
        }
    }

    /// How long it may take; `None`: for ever.
    fn limit(&self) -> Result<Option<Duration>, Status> {
        if self.form.long_running {
            return Ok(None);
        }
        let longest = self.shared.options.limits.request_max;
        deadline::of_request(self.about.query, longest).map(Some)
    }

    /// The answer to a request of which nothing but the head is looked at.
    async fn unheard(
        &self,
        headers: &HeaderMap,
        response: Response,
        trail: &mut Trail,
    ) -> http::Response<Content> {
        trail.record = self.begin_record(headers, None);
        trail.record.answered(&response).await;
        self.formed(response).await
    }

    async fn formed(&self, response: Response) -> http::Response<Content> {
        let never = || std::future::pending().boxed();
        self.form.apply(response, never).await
    }

    async fn respond(
        &self,
        mut head: Parts,
        body: Incoming,
        trail: &mut Trail,
    ) -> Result<Response, Status> {
        let (shared, about) = (self.shared, self.about);
        let mut upload = Upload::new(body, &head.headers);
        let user = match self.admit(&mut head, &mut upload, trail).await {
            Ok(user) => user,
            Err(refusal) => {
                trail.held = Held::default();
                let waits = head.headers.contains_key(EXPECT);
                // They may be long, and are of no use any more.
                drop(head);
                upload.forget(waits).await;
                return Ok(*refusal);
            }
        };
        if pages::is_own(about.info) {
            // Nobody reads it, and a page may take a while.
            drop(upload);
            return match pages::find(&shared.health, about).await {
                Some(page) => Ok(page),
                None => metrics_page(shared).await,
            };
        }
        // Nothing behind this point needs credentials, so nothing there can leak them.
        head.headers.remove(AUTHORIZATION);
        let received = self.receive(upload, &head.headers, &user, &mut trail.held);
        let body = match received.await {
            Ok(body) => body,
            Err(Refusal::Full) => return Ok(self.come_again()),
            Err(Refusal::Bad(status)) => return Err(status),
        };
        let request = Request {
            info: Arc::clone(about.info),
            query: about.query.to_owned(),
            headers: head.headers,
            user,
            body,
        };
        trail.record.sent(&request.headers, &request.body).await;
        let done = self.carry_out(request, &mut trail.held).await;
        if let (Err(_), Some(record)) = (&done, trail.record.here()) {
            record.panicked();
        }
        done
    }

    async fn receive(
        &self,
        mut upload: Upload<Incoming>,
        headers: &HeaderMap,
        user: &User,
        held: &mut Held,
    ) -> Result<Bytes, Refusal> {
        let waits = headers.contains_key(EXPECT);
        if self.form.long_running {
            // Streams have no place, so nothing would bound how much they send.
            upload.forget(waits).await;
            return Ok(Bytes::new());
        }
        let taken = upload.take(&self.shared.uploads, user).await;
        if let Err(Refusal::Full) = taken {
            *held = Held::default();
            upload.forget(waits).await;
        }
        let (body, room) = taken?;
        held.room = room;
        Ok(body)
    }

    /// As whom the request is carried out, when it is its turn; or the answer to those for
    /// whom it is not.
    async fn admit(
        &self,
        head: &mut Parts,
        upload: &mut Upload<Incoming>,
        trail: &mut Trail,
    ) -> Result<Arc<User>, Box<Response>> {
        let (shared, about) = (self.shared, self.about);
        let options = &shared.options;
        let identity = &self.caller.identity;
        if matches!(identity, Identity::Local(_)) && is_foreign(&head.uri, &head.headers) {
            trail.record = self.begin_record(&head.headers, None);
            let text = "this port is for programs on this machine, not for web pages";
            let status = Status::forbidden_path("a browser", "open", about.path, text);
            return Err(Box::new(refused(&status, accepted(&head.headers))));
        }
        let handler = &shared.handler;
        let (headers, tokens) = (&mut head.headers, &options.tokens);
        let believed = authenticate(identity, headers, tokens, handler, &*options.clock);
        let caller = believed.as_ref().ok().map(|(user, _)| &**user);
        if caller.is_some_and(|user| !user.is_anonymous()) {
            self.caller.slot.prove();
        }
        trail.record = self.begin_record(headers, caller);
        let (caller, by) = match believed {
            Ok(believed) => believed,
            Err(status) => return Err(Box::new(refused(&status, accepted(headers)))),
        };
        let long = self.form.long_running;
        let proof = long.then(|| Proof::new(by, handler));
        trail.ignored = caller.is_anonymous() && has_ignored_token(headers);
        let asked = about.info.attributes();
        let other = impersonated(handler, &caller, headers, &asked);
        let other = other.map_err(|status| denied(&status, headers))?;
        if let (Some(other), Some(record)) = (&other, trail.record.here()) {
            record.acting_as(&other.user);
        }
        let user = Arc::clone(other.as_ref().map_or(&caller, |other| &other.user));
        // Streams belong to no flow, but for watches.
        if !long || about.info.is_watch() {
            trail.flow = handler.flow(&user, &asked);
        }
        if let Some(lane) = self.lane() {
            let place = self.place(lane, &user, upload).await;
            trail.held.place = place.map_err(|refusal| match refusal {
                Refusal::Full => Box::new(self.come_again()),
                Refusal::Bad(status) => Box::new(refused(&status, accepted(headers))),
            })?;
        }
        let allowed = handler.authorize(&user, &asked);
        if let Some(record) = trail.record.here() {
            record.decided(allowed.is_ok(), handler.reason(&user, &asked));
        }
        allowed.map_err(|status| denied(&status, headers))?;
        trail.passed = Passed::Authorizer;
        trail.claim = proof.map(|proof| match other {
            Some(other) => Claim::acting(proof, caller, other),
            None => Claim::own(proof, caller),
        });
        Ok(user)
    }

    /// A place among the requests that are carried out, after a while if need be.
    async fn place(
        &self,
        lane: Lane,
        user: &User,
        upload: &mut Upload<Incoming>,
    ) -> Result<Option<Place>, Refusal> {
        let flow = &self.shared.flow;
        if let Ok(place) = flow.at_once(lane, user) {
            return Ok(place);
        }
        upload.wait(&self.shared.uploads, user).await?;
        Ok(flow.enter(lane, user).await?)
    }

    /// There is no room for it, nor to wait for that.
    fn come_again(&self) -> Response {
        let now = self.shared.options.clock.monotonic();
        too_many(self.shared.flow.come_again_after(now))
    }

    /// Who failed to prove who they are is nobody.
    fn begin_record(&self, headers: &HeaderMap, user: Option<&User>) -> Beside<Record> {
        let Some(audit) = &self.shared.options.audit else {
            return Beside::Empty;
        };
        let nobody = User::default();
        let heard = Heard {
            id: self.id.to_str().unwrap_or_default(),
            asked: self.about,
            headers,
            from: self.caller.from,
            user: user.unwrap_or(&nobody),
        };
        Record::begin(audit, &heard).map(Box::new).into()
    }

    /// Whose turn it is concerns everything but streams, and questions whether we live.
    fn lane(&self) -> Option<Lane> {
        if self.form.long_running || pages::is_probe(self.about.info) {
            return None;
        }
        Some(match self.about.info.is_read() {
            true => Lane::Reading,
            false => Lane::Writing,
        })
    }

    /// A write that goes on without us keeps what is held for it until its own end.
    async fn carry_out(&self, request: Request, held: &mut Held) -> Result<Response, Status> {
        let behind = Arc::clone(self.shared);
        let done = if request.info.is_read() {
            let work = behind.handler.handle(request);
            let work = AssertUnwindSafe(work).catch_unwind().await;
            work.map_err(|_| "a read panicked".to_owned())
        } else {
            let given = std::mem::take(held);
            let work = async move { (behind.handler.handle(request).await, given) };
            let work = Carried::new(work, &self.shared.tasks).await;
            let back = |(response, given)| {
                *held = given;
                response
            };
            work.map(back).map_err(|panicked| panicked.to_string())
        };
        done.map_err(|error| {
            tracing::error!(%error, "a request failed unexpectedly");
            Status::internal("the request could not be carried out")
        })
    }
}

/// The client is to come again, after so many seconds.
fn too_many(seconds: u64) -> Response {
    let text = "Too many requests, please try again later.\n";
    Response::text(StatusCode::TOO_MANY_REQUESTS, text)
        .with_header(RETRY_AFTER, seconds.into())
        .with_header(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"))
}

/// What the server counts, and what its handler does.
///
/// There may be thousands of lines. One page at a time is written, by a thread that serves no
/// connections, also if those who asked for it have gone.
async fn metrics_page<H: Handler>(shared: &Arc<Shared<H>>) -> Result<Response, Status> {
    let turn = Arc::clone(&shared.scrapes).lock_owned().await;
    let (behind, runtime) = (Arc::clone(shared), Handle::current());
    let text = spawn_blocking(move || {
        let _turn = turn;
        behind.metrics.forget(|of| behind.handler.serves(of));
        let tasks = behind.options.supervisor.metrics();
        let own = metrics::page(&behind.metrics) + &tasks;
        own + &runtime.block_on(behind.handler.metrics())
    });
    let text = text.await.map_err(|error| {
        tracing::error!(%error, "metrics cannot be written");
        Status::internal("the metrics could not be written")
    })?;
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Ok(Response::text(StatusCode::OK, text).with_header(CONTENT_TYPE, kind))
}

/// What somebody may not do.
fn denied(status: &Status, headers: &HeaderMap) -> Box<Response> {
    let nosniff = HeaderValue::from_static("nosniff");
    Box::new(refused(status, accepted(headers)).with_header(X_CONTENT_TYPE_OPTIONS, nosniff))
}

/// Only the head of an answer: over HTTP/2 nobody else takes its body away.
fn without_body(response: http::Response<Content>) -> http::Response<Content> {
    let (mut head, content) = response.into_parts();
    if let Content::Whole(bytes) = content {
        head.headers.insert(CONTENT_LENGTH, bytes.len().into());
    }
    http::Response::from_parts(head, Content::Whole(Bytes::new()))
}

/// What the client reads.
fn accepted(headers: &HeaderMap) -> Option<HeaderValue> {
    headers.get(ACCEPT).cloned()
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
