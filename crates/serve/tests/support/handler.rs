//! A scripted handler whose behaviour depends on the path.

use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use http::StatusCode;
use optik_apiserver::{ApiRequest, ApiResponse, ByteRope, ResponseBody};
use optik_auth::{AuthorizationAttributes, User, authorize_without_rbac};
use optik_object::Status;
use optik_serve::{Handler, TokenValidity};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use tokio::sync::{Notify, watch};

#[derive(Clone)]
pub(crate) struct ScriptedHandler {
    /// Requests to `/gate` wait for it.
    pub(crate) gate: Arc<Notify>,
    /// The number of requests to `/gate` that have begun, and that have finished.
    pub(crate) begun: Arc<watch::Sender<u32>>,
    pub(crate) finished: Arc<watch::Sender<u32>>,
    /// Whether the robot's token `signed` is valid.
    pub(crate) robot_token_valid: Arc<AtomicBool>,
    /// Users without any permission.
    pub(crate) banned: Arc<watch::Sender<Vec<&'static str>>>,
    /// Blocks the thread that renders `/metrics`, if set.
    pub(crate) metrics_gate: Arc<Mutex<Option<mpsc::Receiver<()>>>>,
}

impl Default for ScriptedHandler {
    fn default() -> Self {
        Self {
            gate: Arc::new(Notify::new()),
            begun: Arc::new(watch::channel(0).0),
            finished: Arc::new(watch::channel(0).0),
            robot_token_valid: Arc::new(AtomicBool::new(true)),
            banned: Arc::new(watch::channel(Vec::new()).0),
            metrics_gate: Arc::default(),
        }
    }
}

pub(crate) async fn reaches(counter: &watch::Sender<u32>, count: u32) {
    let mut seen = counter.subscribe();
    seen.wait_for(|seen| *seen >= count).await.expect("kept");
}

impl ScriptedHandler {
    fn is_banned(&self, user: &User) -> bool {
        self.banned.borrow().contains(&user.name.as_str())
    }
}

impl Handler for ScriptedHandler {
    async fn handle(&self, request: ApiRequest) -> ApiResponse {
        let core = request.info.resource().is_none_or(|of| of.group.is_empty());
        let objects = if core { "/api" } else { "/apis" };
        let path = request.info.non_resource_path().unwrap_or(objects);
        let (kind, rest) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
        match kind {
            "who" => describe_user(&request),
            "whole" => ApiResponse::json(StatusCode::OK, numbers(bytes_of(rest))),
            "stream" => {
                let whole = Bytes::from(numbers(bytes_of(rest)));
                let pieces = (0..whole.len()).step_by(1000);
                let pieces: Vec<_> = pieces
                    .map(|at| ByteRope::from(whole.slice(at..whole.len().min(at + 1000))))
                    .collect();
                ApiResponse::json_stream(stream::iter(pieces).boxed())
            }
            "stuck" => std::future::pending().await,
            "gate" => {
                self.begun.send_modify(|count| *count += 1);
                self.gate.notified().await;
                self.finished.send_modify(|count| *count += 1);
                ApiResponse::json(StatusCode::CREATED, "{}\n")
            }
            // A watch: one event, then silence.
            "api" => {
                let first = ByteRope::from(Bytes::from_static(b"{\"type\":\"ADDED\"}\n"));
                let events = stream::iter([first]).chain(stream::pending());
                let mut response = ApiResponse::json(StatusCode::OK, "");
                response.body = ResponseBody::Stream(events.boxed());
                response
            }
            // The body is returned as created, or quoted in an error if it is not JSON.
            "apis" if !request.body.starts_with(b"{") => {
                let sent = String::from_utf8_lossy(&request.body).into_owned();
                ApiResponse::from_status(&Status::bad_request(sent), &request.headers)
            }
            "apis" => {
                let mut made = request.body.to_vec();
                made.push(b'\n');
                ApiResponse::json(StatusCode::CREATED, made)
            }
            "panic" => panic!("as asked"),
            _ => ApiResponse::text(StatusCode::NOT_FOUND, "404 page not found\n"),
        }
    }

    async fn metrics(&self) -> String {
        if let Some(done) = self.metrics_gate.lock().expect("kept").take() {
            let waited = done.recv_timeout(Duration::from_secs(20));
            waited.expect("others are served while this thread is busy");
        }
        "counted 1\n".to_owned()
    }

    fn authenticate(&self, token: &[u8]) -> Option<Arc<User>> {
        let robot = User {
            name: "robot".into(),
            ..User::default()
        };
        let good = token == b"signed" && self.robot_token_valid.load(Ordering::Acquire);
        good.then(|| Arc::new(robot.authenticated()))
    }

    fn token_validity(&self, token: &[u8]) -> TokenValidity {
        assert_eq!(token, b"signed");
        let robot = Arc::clone(&self.robot_token_valid);
        Box::new(move || robot.load(Ordering::Acquire))
    }

    fn authorize(&self, user: &User, asked: &AuthorizationAttributes<'_>) -> Result<(), Status> {
        match authorize_without_rbac(user, asked) && !self.is_banned(user) {
            true => Ok(()),
            false => Err(asked.forbidden(user, "")),
        }
    }

    /// `kim` may impersonate the robot.
    fn impersonate(
        &self,
        caller: &User,
        wanted: &User,
        asked: &AuthorizationAttributes<'_>,
    ) -> Result<User, Status> {
        let may = caller.name == "kim" && wanted.name == "robot" && !self.is_banned(caller);
        match may {
            true => Ok(wanted.clone()),
            false => Err(asked.forbidden(caller, "")),
        }
    }

    fn access_changed(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut changes = self.banned.subscribe();
        async move {
            let _ = changes.changed().await;
        }
    }
}

fn describe_user(request: &ApiRequest) -> ApiResponse {
    let user = &request.user;
    let credentials = request.headers.contains_key(http::header::AUTHORIZATION);
    let body = serde_json::json!({
        "name": user.name,
        "groups": user.groups,
        "uid": user.uid,
        "extra": user.extra,
        "body": request.body.len(),
        "query": request.query,
        "credentials": credentials,
    });
    ApiResponse::json(StatusCode::OK, format!("{body}\n"))
}

fn bytes_of(rest: &str) -> usize {
    rest.parse().expect("a number")
}

/// A JSON array of exactly `bytes` bytes.
pub(crate) fn numbers(bytes: usize) -> String {
    let mut text = String::from("[1");
    while text.len() + 3 < bytes {
        text.push_str(",2");
    }
    if text.len() + 2 < bytes {
        text.push('0');
    }
    text.push_str("]\n");
    assert_eq!(text.len(), bytes);
    text
}
