//! A fault-injecting HTTP proxy that records requests.

use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1::handshake;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

type Body = BoxBody<Bytes, io::Error>;

/// Dropping it ends all connections.
#[derive(Debug)]
pub struct FaultProxy {
    /// The URL that clients connect to.
    pub url: String,
    shared: Arc<FaultProxyShared>,
    _tasks: JoinSet<()>,
}

#[derive(Debug)]
struct FaultProxyShared {
    target: Mutex<String>,
    plans: Mutex<Vec<PlannedFault>>,
    asked: watch::Sender<Vec<RecordedRequest>>,
    cuts: watch::Sender<u64>,
    /// Watches whose path contains this text deliver no events.
    held: watch::Sender<Option<&'static str>>,
}

/// A request and its outcome.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    pub method: Method,
    /// With its query.
    pub path: String,
    /// The status of the server's response; none if the request was not forwarded, or the server
    /// cannot be reached.
    pub status: Option<StatusCode>,
    /// The fault that the client got instead, if any.
    pub fault: Option<FaultAction>,
}

impl RecordedRequest {
    #[must_use]
    pub fn is_write(&self) -> bool {
        self.method != Method::GET
    }
}

/// A fault for the next requests of a kind.
#[derive(Clone, Debug)]
pub struct PlannedFault {
    pub method: Method,
    /// In the path or the query.
    pub path_with: &'static str,
    /// To how many of them.
    pub times: usize,
    pub action: FaultAction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultAction {
    /// The request is not forwarded.
    Refuse {
        code: u16,
        reason: &'static str,
        retry_after_seconds: Option<u64>,
    },
    /// The request is not forwarded. A watch starts with an ERROR event: its resourceVersion is
    /// expired.
    Expire,
    /// The request is forwarded, and the response is dropped.
    LoseAnswer,
}

impl FaultProxy {
    /// In front of the server at `url`.
    ///
    /// # Panics
    /// If there is no free port.
    pub async fn start(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a free port can be had");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(FaultProxyShared {
            target: Mutex::new(String::new()),
            plans: Mutex::default(),
            asked: watch::Sender::default(),
            cuts: watch::Sender::new(0),
            held: watch::Sender::new(None),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&shared)));
        let faults = Self {
            url: format!("http://{address}"),
            shared,
            _tasks: tasks,
        };
        faults.set_target(url);
        faults
    }

    /// Another server is behind it from now on.
    pub fn set_target(&self, url: &str) {
        *lock(&self.shared.target) = url.trim_start_matches("http://").to_owned();
    }

    pub fn plan(&self, plan: PlannedFault) {
        lock(&self.shared.plans).push(plan);
    }

    /// Whether a planned fault is still pending.
    #[must_use]
    pub fn is_planning(&self) -> bool {
        !lock(&self.shared.plans).is_empty()
    }

    /// Aborts all responses in progress.
    pub fn cut(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Watches of such paths deliver no events until they are released.
    pub fn hold_watches(&self, path_with: &'static str) {
        self.shared.held.send_replace(Some(path_with));
    }

    pub fn release_watches(&self) {
        self.shared.held.send_replace(None);
    }

    /// All requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.asked.borrow().clone()
    }

    /// The writes that reached the server.
    #[must_use]
    pub fn writes(&self) -> Vec<RecordedRequest> {
        let mut asked = self.requests();
        asked.retain(|asked| asked.is_write() && asked.status.is_some());
        asked
    }

    /// Waits for requests of a kind.
    ///
    /// # Panics
    /// Never: the sender lives as long as this.
    pub async fn wait_for_requests(&self, enough: impl Fn(&[RecordedRequest]) -> bool) {
        let mut asked = self.shared.asked.subscribe();
        drop(asked.wait_for(|asked| enough(asked)).await);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, shared: Arc<FaultProxyShared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(move |request| answer(request, Arc::clone(&shared)));
            let connection = hyper::server::conn::http1::Builder::new();
            // An error here is a closed connection, or a planned fault.
            let _ = connection
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

impl FaultProxyShared {
    fn take_fault(&self, method: &Method, path: &str) -> Option<FaultAction> {
        let mut plans = lock(&self.plans);
        let is_meant =
            |plan: &PlannedFault| plan.method == *method && path.contains(plan.path_with);
        let at = plans.iter().position(is_meant)?;
        let plan = &mut plans[at];
        plan.times -= 1;
        let deed = plan.action;
        if plan.times == 0 {
            plans.remove(at);
        }
        Some(deed)
    }
}

async fn answer(
    request: Request<Incoming>,
    shared: Arc<FaultProxyShared>,
) -> Result<Response<Body>, io::Error> {
    let method = request.method().clone();
    let path = request.uri().to_string();
    let deed = shared.take_fault(&method, &path);
    let watched = path.contains("watch=true").then(|| path.clone());
    let answered = match deed {
        Some(FaultAction::Refuse { .. } | FaultAction::Expire) => None,
        _ => Some(forward(request, &shared).await),
    };
    let status = match &answered {
        Some(Ok(answer)) => Some(answer.status()),
        _ => None,
    };
    shared.asked.send_modify(|asked| {
        asked.push(RecordedRequest {
            method,
            path,
            status,
            fault: deed,
        });
    });
    match (deed, answered) {
        (
            Some(FaultAction::Refuse {
                code,
                reason,
                retry_after_seconds,
            }),
            _,
        ) => Ok(refusal_response(code, reason, retry_after_seconds)),
        (Some(FaultAction::Expire), _) => Ok(expired_watch()),
        (Some(FaultAction::LoseAnswer), Some(Ok(answer))) => {
            // The server has done it all.
            drop(answer.into_body().collect().await);
            Err(io::Error::other("lost as planned"))
        }
        (_, Some(answer)) => Ok(answer?.map(|body| breakable(body, &shared, watched))),
        (_, None) => Err(io::Error::other("there is no answer")),
    }
}

fn status(code: u16, reason: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "as planned", "reason": reason, "code": code,
    })
}

fn json_response(text: String) -> Response<Body> {
    let body = Full::new(Bytes::from(text));
    let mut answer = Response::new(body.map_err(|never| match never {}).boxed());
    let json = header::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}

fn expired_watch() -> Response<Body> {
    let event = json!({"type": "ERROR", "object": status(410, "Expired")});
    json_response(format!("{event}\n"))
}

fn refusal_response(code: u16, reason: &str, retry_after: Option<u64>) -> Response<Body> {
    let mut answer = json_response(status(code, reason).to_string());
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::IM_A_TEAPOT);
    if let Some(seconds) = retry_after {
        answer
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    answer
}

async fn forward(
    mut request: Request<Incoming>,
    shared: &FaultProxyShared,
) -> Result<Response<Incoming>, io::Error> {
    let target = lock(&shared.target).clone();
    let stream = TcpStream::connect(&target).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    tokio::spawn(connection);
    let host = header::HeaderValue::from_str(&target).map_err(io::Error::other)?;
    request.headers_mut().insert(header::HOST, host);
    sender.send_request(request).await.map_err(io::Error::other)
}

/// A body that can be cut, and held if it is that of a watch.
fn breakable(body: Incoming, shared: &Arc<FaultProxyShared>, watched: Option<String>) -> Body {
    let cuts = shared.cuts.subscribe();
    let held = shared.held.subscribe();
    let born = *cuts.borrow();
    let frames = stream::unfold(Some((body, cuts, held, watched)), move |state| async move {
        let (mut body, mut cuts, mut held, watched) = state?;
        let next = async {
            let frame = body.frame().await?;
            if let Some(path) = &watched {
                let is_free = |held: &Option<&str>| !held.is_some_and(|with| path.contains(with));
                drop(held.wait_for(is_free).await);
            }
            Some(frame.map_err(io::Error::other))
        };
        let next: Option<Result<Frame<Bytes>, io::Error>> = tokio::select! {
            next = next => next,
            _ = cuts.wait_for(|cuts| *cuts > born) => Some(Err(io::Error::other("cut as planned"))),
        };
        let frame = next?;
        let rest = frame.is_ok().then_some((body, cuts, held, watched));
        Some((frame, rest))
    });
    StreamBody::new(Box::pin(frames)).boxed()
}
