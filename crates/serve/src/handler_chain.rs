//! The filter chain of one request: authentication, impersonation, authorization, in-flight limits,
//! deadline, audit and response (upstream: `DefaultBuildHandlerChain`).
//!
//! Every filter runs in the task in which hyper polls the request; requests get no task of their
//! own. A write is driven to completion when its client disconnects (see `detach`); a read is
//! cancelled.

use crate::access::{
    ConnectionIdentity, RequestMeta, apply_impersonation, authenticate, has_ignored_token,
};
use crate::audit::{AuditContext, AuditRecord, Offload};
use crate::connection_table::ConnectionHandle;
use crate::detach::DetachOnDrop;
use crate::endpoints;
use crate::handler::Handler;
use crate::max_in_flight::{InflightPermit, RequestClass};
use crate::metrics::{self, RequestPhase};
use crate::request_body::{BodyError, RequestBody};
use crate::request_timeout;
use crate::response::{
    AUDIT_ID, AuditIds, BodyContent, HttpBody, PendingResponse, RequestPermits, ResponseFormat,
};
use crate::server::ServerShared;
use crate::stream_reauth::{self, CredentialValidity, StreamGrant};
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
use optik_apiserver::{ApiRequest, ApiResponse, FlowHeaders};
use optik_auth::{RequestInfo, ResourceAttributes, User};
use optik_listener::{ConnectionSlot, is_cross_origin};
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

/// The shortest deadline that is armed; a shorter one would have passed anyway.
const DEADLINE_MIN: Duration = Duration::from_micros(1);

/// Response headers that name the request's FlowSchema and PriorityLevelConfiguration.
const FLOW_SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// `Warning` header for clients whose token was ignored and who are therefore anonymous.
const IGNORED_TOKEN_WARNING: HeaderValue = HeaderValue::from_static(
    "299 - \"the provided Authorization header contains extra space before the bearer token, \
     and is ignored\"",
);

/// Properties of the connection that a request came on.
pub(crate) struct ConnectionContext {
    pub(crate) peer: Arc<ConnectionHandle>,
    pub(crate) identity: ConnectionIdentity,
    pub(crate) audit_ids: AuditIds,
    /// The client's address.
    pub(crate) client_ip: Option<IpAddr>,
    /// The connection's slot in the connection limiter.
    pub(crate) slot: ConnectionSlot,
}

/// What the filters record about a request.
#[derive(Default)]
struct RequestState {
    /// Deadline for sending the response; `None` for long-running requests.
    due: Option<Instant>,
    /// The authorization of a long-running request, which is checked again while it is served.
    grant: Option<StreamGrant>,
    /// The flow headers of the response.
    flow: Option<FlowHeaders>,
    /// The last filter that the request passed.
    phase: RequestPhase,
    /// Whether a bearer token was ignored because of extra space before it.
    token_ignored: bool,
    /// The request's in-flight permit and the memory budget of its body. While a write runs, the
    /// write holds them.
    permits: RequestPermits,
    /// The request's audit record.
    record: Offload<AuditRecord>,
}

/// Serves one request; always returns a response.
pub(crate) async fn serve_request<H: Handler>(
    shared: Arc<ServerShared<H>>,
    caller: Arc<ConnectionContext>,
    mut request: http::Request<Incoming>,
) -> Result<http::Response<HttpBody>, Infallible> {
    let in_flight = caller.peer.begin_request();
    let socket = websocket::upgrade_request(&mut request);
    let (head, body) = request.into_parts();
    let id = caller.audit_ids.for_request(&head.headers);
    let (method, uri) = (head.method.clone(), head.uri.clone());
    let query = uri.query().unwrap_or_default();
    let info = Arc::new(RequestInfo::new(method.as_str(), uri.path(), query));
    let about = RequestMeta {
        method: &method,
        path: uri.path(),
        query,
        info: &info,
    };
    let form = ResponseFormat::from_request(about, &head.headers);
    let counted = shared.metrics.begin_request(about, form.long_running);
    let began = shared.options.clock.monotonic();
    let due = Instant::now() + shared.options.limits.request_max;
    let mut trail = RequestState {
        due: Some(due).filter(|_| !form.long_running),
        ..RequestState::default()
    };
    let welcome = shared.options.origins.response_headers(&head.headers);
    let mut response = match &welcome {
        // Browsers send a preflight request without credentials.
        Some(_) if method == Method::OPTIONS => preflight_response(),
        _ => {
            let exchange = HandlerChain {
                shared: &shared,
                caller: &caller,
                id: &id,
                meta: about,
                form,
            };
            exchange.respond_with_timeout(head, body, &mut trail).await
        }
    };
    drop(counted);
    let took = shared.options.clock.monotonic().since(began);
    let took = Some(took).filter(|_| !form.long_running);
    let answered = (response.status().as_u16(), took);
    let serves = |of: &ResourceAttributes<'_>| shared.handler.serves(of);
    shared.metrics.record(about, trail.phase, answered, serves);
    if let Some(socket) = socket.filter(|_| form.long_running) {
        response = socket.upgrade_response(response, &shared.tasks, caller.slot.clone());
    }
    response.headers_mut().insert(AUDIT_ID, id);
    if let Some(FlowHeaders {
        flow_schema: schema,
        priority_level: level,
    }) = trail.flow
    {
        response.headers_mut().insert(FLOW_SCHEMA_UID, schema);
        response.headers_mut().insert(PRIORITY_LEVEL_UID, level);
    }
    if trail.token_ignored {
        response
            .headers_mut()
            .append(WARNING, IGNORED_TOKEN_WARNING);
    }
    response.headers_mut().extend(welcome.unwrap_or_default());
    if method == Method::HEAD {
        response = without_body(response);
    }
    let code = response.status().as_u16();
    let record = trail.record.finish(code, form.long_running).await;
    let unsent = PendingResponse::new(in_flight, trail.permits);
    Ok(response.map(|content| HttpBody::new(content, unsent, trail.due, record)))
}

fn preflight_response() -> http::Response<BodyContent> {
    let mut response = http::Response::new(BodyContent::Whole(Bytes::new()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// One request with what its filters need.
struct HandlerChain<'a, H> {
    shared: &'a Arc<ServerShared<H>>,
    caller: &'a ConnectionContext,
    /// The audit id, which identifies the request in logs.
    id: &'a HeaderValue,
    meta: RequestMeta<'a>,
    form: ResponseFormat,
}

impl<H: Handler> HandlerChain<'_, H> {
    async fn respond_with_timeout(
        &self,
        head: Parts,
        body: Incoming,
        trail: &mut RequestState,
    ) -> http::Response<BodyContent> {
        let form = self.form;
        let limit = match self.time_limit() {
            Ok(limit) => limit,
            Err(status) => {
                return self
                    .respond_unread(&head.headers, status.into(), trail)
                    .await;
            }
        };
        if limit.is_some_and(|limit| limit < DEADLINE_MIN) {
            return self
                .respond_unread(&head.headers, timeout_response(), trail)
                .await;
        }
        let due = limit.map(|limit| Instant::now() + limit);
        trail.due = due;
        let accept = accept_header(&head.headers);
        let work = async {
            let response = self.respond(head, body, trail).await;
            let response = response.unwrap_or_else(|status| status_response(&status, accept));
            trail.record.record_response(&response).await;
            let end = || stream_reauth::stream_end(self.shared, trail.grant.take(), self.meta.info);
            form.apply(response, end).await
        };
        // Pinned in place: the future is large, and a move would copy it with everything around it.
        let work = pin!(work);
        match due {
            None => work.await,
            Some(due) => match timeout_at(due, work).await {
                Ok(response) => response,
                Err(_) => self.format_response(timeout_response()).await,
            },
        }
    }

    /// The request's time limit; `None` for long-running requests.
    fn time_limit(&self) -> Result<Option<Duration>, Status> {
        if self.form.long_running {
            return Ok(None);
        }
        let longest = self.shared.options.limits.request_max;
        request_timeout::from_query(self.meta.query, longest).map(Some)
    }

    /// A response to a request of which only the head is used; the body is drained.
    async fn respond_unread(
        &self,
        headers: &HeaderMap,
        response: ApiResponse,
        trail: &mut RequestState,
    ) -> http::Response<BodyContent> {
        trail.record = self.begin_record(headers, None);
        trail.record.record_response(&response).await;
        self.format_response(response).await
    }

    async fn format_response(&self, response: ApiResponse) -> http::Response<BodyContent> {
        let never = || std::future::pending().boxed();
        self.form.apply(response, never).await
    }

    async fn respond(
        &self,
        mut head: Parts,
        body: Incoming,
        trail: &mut RequestState,
    ) -> Result<ApiResponse, Status> {
        let (shared, about) = (self.shared, self.meta);
        let mut upload = RequestBody::new(body, &head.headers);
        let user = match self.authorize_request(&mut head, &mut upload, trail).await {
            Ok(user) => user,
            Err(refusal) => {
                trail.permits = RequestPermits::default();
                let waits = head.headers.contains_key(EXPECT);
                // They may be long, and are not needed any more.
                drop(head);
                upload.drain(waits).await;
                return Ok(*refusal);
            }
        };
        if endpoints::is_endpoint(about.info) {
            // These endpoints ignore the body, and rendering a page may take a while.
            drop(upload);
            return match endpoints::respond(&shared.health, about).await {
                Some(page) => Ok(page),
                None => metrics_page(shared).await,
            };
        }
        // No later filter needs the credentials, so no later filter can leak them.
        head.headers.remove(AUTHORIZATION);
        let received = self.receive_body(upload, &head.headers, &user, &mut trail.permits);
        let body = match received.await {
            Ok(body) => body,
            Err(BodyError::Overloaded) => return Ok(self.reject_overloaded()),
            Err(BodyError::Invalid(status)) => return Err(status),
        };
        let request = ApiRequest {
            info: Arc::clone(about.info),
            query: about.query.to_owned(),
            headers: head.headers,
            user,
            body,
        };
        trail
            .record
            .record_request(&request.headers, &request.body)
            .await;
        let done = self.run_handler(request, &mut trail.permits).await;
        if let (Err(_), Some(record)) = (&done, trail.record.ready_mut()) {
            record.set_panicked();
        }
        done
    }

    async fn receive_body(
        &self,
        mut upload: RequestBody<Incoming>,
        headers: &HeaderMap,
        user: &User,
        held: &mut RequestPermits,
    ) -> Result<Bytes, BodyError> {
        let waits = headers.contains_key(EXPECT);
        if self.form.long_running {
            // Long-running requests hold no permit, so nothing would bound how much they send.
            upload.drain(waits).await;
            return Ok(Bytes::new());
        }
        let taken = upload.receive(&self.shared.body_budgets, user).await;
        if let Err(BodyError::Overloaded) = taken {
            *held = RequestPermits::default();
            upload.drain(waits).await;
        }
        let (body, room) = taken?;
        held.body_bytes = room;
        Ok(body)
    }

    /// Authenticates, impersonates and authorizes the request and waits for its in-flight permit.
    /// Returns the effective user, or the response that rejects the request.
    async fn authorize_request(
        &self,
        head: &mut Parts,
        upload: &mut RequestBody<Incoming>,
        trail: &mut RequestState,
    ) -> Result<Arc<User>, Box<ApiResponse>> {
        let (shared, about) = (self.shared, self.meta);
        let options = &shared.options;
        let identity = &self.caller.identity;
        if matches!(identity, ConnectionIdentity::Local(_))
            && is_cross_origin(&head.uri, &head.headers)
        {
            trail.record = self.begin_record(&head.headers, None);
            let text = "requests from web browsers are not allowed on this port";
            let status = Status::forbidden_path("a browser", "open", about.path, text);
            return Err(Box::new(status_response(
                &status,
                accept_header(&head.headers),
            )));
        }
        let handler = &shared.handler;
        let (headers, tokens) = (&mut head.headers, &options.tokens);
        let believed = authenticate(identity, headers, tokens, handler, &*options.clock);
        let caller = believed.as_ref().ok().map(|(user, _)| &**user);
        if caller.is_some_and(|user| !user.is_anonymous()) {
            self.caller.slot.mark_authenticated();
        }
        trail.record = self.begin_record(headers, caller);
        let (caller, by) = match believed {
            Ok(believed) => believed,
            Err(status) => return Err(Box::new(status_response(&status, accept_header(headers)))),
        };
        let long = self.form.long_running;
        let proof = long.then(|| CredentialValidity::new(by, handler));
        trail.token_ignored = caller.is_anonymous() && has_ignored_token(headers);
        let asked = about.info.attributes();
        let other = apply_impersonation(handler, &caller, headers, &asked);
        let other = other.map_err(|status| forbidden_response(&status, headers))?;
        if let (Some(other), Some(record)) = (&other, trail.record.ready_mut()) {
            record.set_impersonated_user(&other.user);
        }
        let user = Arc::clone(other.as_ref().map_or(&caller, |other| &other.user));
        // Of the long-running requests, only watches are classified into a flow.
        if !long || about.info.is_watch() {
            trail.flow = handler.classify_flow(&user, &asked);
        }
        if let Some(lane) = self.request_class() {
            let place = self.acquire_permit(lane, &user, upload).await;
            trail.permits.inflight = place.map_err(|refusal| match refusal {
                BodyError::Overloaded => Box::new(self.reject_overloaded()),
                BodyError::Invalid(status) => {
                    Box::new(status_response(&status, accept_header(headers)))
                }
            })?;
        }
        let allowed = handler.authorize(&user, &asked);
        if let Some(record) = trail.record.ready_mut() {
            record.set_decision(allowed.is_ok(), handler.authorization_reason(&user, &asked));
        }
        allowed.map_err(|status| forbidden_response(&status, headers))?;
        trail.phase = RequestPhase::Authorized;
        trail.grant = proof.map(|proof| match other {
            Some(other) => StreamGrant::impersonating(proof, caller, other),
            None => StreamGrant::for_user(proof, caller),
        });
        Ok(user)
    }

    /// Acquires an in-flight permit, waiting in the user's queue if the limit is reached.
    async fn acquire_permit(
        &self,
        lane: RequestClass,
        user: &User,
        upload: &mut RequestBody<Incoming>,
    ) -> Result<Option<InflightPermit>, BodyError> {
        let flow = &self.shared.inflight;
        if let Ok(place) = flow.try_acquire(lane, user) {
            return Ok(place);
        }
        upload.buffer(&self.shared.body_budgets, user).await?;
        Ok(flow.acquire(lane, user).await?)
    }

    /// 429 with `Retry-After`: the in-flight limit and the queues are full.
    fn reject_overloaded(&self) -> ApiResponse {
        let now = self.shared.options.clock.monotonic();
        too_many_requests(self.shared.inflight.retry_after_seconds(now))
    }

    /// Begins the audit record. A request that failed authentication has no user in it.
    fn begin_record(&self, headers: &HeaderMap, user: Option<&User>) -> Offload<AuditRecord> {
        let Some(audit) = &self.shared.options.audit else {
            return Offload::Empty;
        };
        let nobody = User::default();
        let heard = AuditContext {
            id: self.id.to_str().unwrap_or_default(),
            meta: self.meta,
            headers,
            client_ip: self.caller.client_ip,
            user: user.unwrap_or(&nobody),
        };
        AuditRecord::begin(audit, &heard).map(Box::new).into()
    }

    /// The in-flight limit that applies to the request; `None` for long-running requests and health
    /// probes.
    fn request_class(&self) -> Option<RequestClass> {
        if self.form.long_running || endpoints::is_probe(self.meta.info) {
            return None;
        }
        Some(match self.meta.info.is_read() {
            true => RequestClass::ReadOnly,
            false => RequestClass::Mutating,
        })
    }

    /// Runs the handler. A write that is detached from its client keeps its permits until it ends.
    async fn run_handler(
        &self,
        request: ApiRequest,
        held: &mut RequestPermits,
    ) -> Result<ApiResponse, Status> {
        let behind = Arc::clone(self.shared);
        let done = if request.info.is_read() {
            let work = behind.handler.handle(request);
            let work = AssertUnwindSafe(work).catch_unwind().await;
            work.map_err(|_| "the handler of a read request panicked".to_owned())
        } else {
            let given = std::mem::take(held);
            let work = async move { (behind.handler.handle(request).await, given) };
            let work = DetachOnDrop::new(work, &self.shared.tasks).await;
            let back = |(response, given)| {
                *held = given;
                response
            };
            work.map(back).map_err(|panicked| panicked.to_string())
        };
        done.map_err(|error| {
            tracing::error!(%error, "request handler failed");
            Status::internal("the request handler failed")
        })
    }
}

/// 429 with `Retry-After` in seconds.
fn too_many_requests(seconds: u64) -> ApiResponse {
    let text = "Too many requests, please try again later.\n";
    ApiResponse::text(StatusCode::TOO_MANY_REQUESTS, text)
        .with_header(RETRY_AFTER, seconds.into())
        .with_header(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"))
}

/// `/metrics`: the metrics of this crate and of the handler.
///
/// There may be thousands of lines. One page at a time is rendered, on a blocking thread that
/// serves no connections; this holds also for a page whose client has disconnected.
async fn metrics_page<H: Handler>(shared: &Arc<ServerShared<H>>) -> Result<ApiResponse, Status> {
    let turn = Arc::clone(&shared.metrics_lock).lock_owned().await;
    let (behind, runtime) = (Arc::clone(shared), Handle::current());
    let text = spawn_blocking(move || {
        let _turn = turn;
        behind.metrics.retain_served(|of| behind.handler.serves(of));
        let tasks = behind.options.supervisor.metrics();
        let own = metrics::render(&behind.metrics) + &tasks;
        own + &runtime.block_on(behind.handler.metrics())
    });
    let text = text.await.map_err(|error| {
        tracing::error!(%error, "cannot render metrics");
        Status::internal("the metrics could not be written")
    })?;
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Ok(ApiResponse::text(StatusCode::OK, text).with_header(CONTENT_TYPE, kind))
}

/// 403 for a user without permission.
fn forbidden_response(status: &Status, headers: &HeaderMap) -> Box<ApiResponse> {
    let nosniff = HeaderValue::from_static("nosniff");
    Box::new(
        status_response(status, accept_header(headers))
            .with_header(X_CONTENT_TYPE_OPTIONS, nosniff),
    )
}

/// The response without its body, with its `Content-Length`; for HTTP/2, where hyper does not
/// remove the body.
fn without_body(response: http::Response<BodyContent>) -> http::Response<BodyContent> {
    let (mut head, content) = response.into_parts();
    if let BodyContent::Whole(bytes) = content {
        head.headers.insert(CONTENT_LENGTH, bytes.len().into());
    }
    http::Response::from_parts(head, BodyContent::Whole(Bytes::new()))
}

/// The `Accept` header of the request.
fn accept_header(headers: &HeaderMap) -> Option<HeaderValue> {
    headers.get(ACCEPT).cloned()
}

/// An error in the media type that the client accepts.
fn status_response(status: &Status, accept: Option<HeaderValue>) -> ApiResponse {
    let headers = accept.map(|accept| (ACCEPT, accept));
    ApiResponse::from_status(status, &headers.into_iter().collect())
}

/// 504 for an exceeded deadline. Like upstream's, its content type is `text/plain`, although the
/// body is JSON.
fn timeout_response() -> ApiResponse {
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    ApiResponse::from(Status::deadline_exceeded()).with_header(CONTENT_TYPE, plain)
}
