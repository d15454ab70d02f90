//! The API client: sends requests and reads responses and watches. It never retries: only the
//! caller knows whether a retry is safe.

use crate::metrics::ManagerMetrics;
use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// The timeout of a request, after which its response counts as lost. Watches have timeouts of
/// their own.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum size of a response, and of one event of a watch.
const RESPONSE_BYTES_MAX: usize = 256 << 20;

#[derive(Clone)]
pub(crate) struct ApiClient {
    client: Client,
    pub(crate) metrics: Arc<ManagerMetrics>,
}

/// Why there is no usable response.
#[derive(Debug, Error)]
pub(crate) enum SendError {
    #[error("{0}")]
    Refused(StatusError),
    /// It is unknown whether the server executed the request.
    #[error("no answer: {0}")]
    Lost(String),
    #[error("not a request: {0}")]
    InvalidRequest(String),
    #[error("this process does not lead any more")]
    NotLeader,
}

#[derive(Clone, Debug, Error)]
#[error("{code} {reason}: {message}")]
pub(crate) struct StatusError {
    pub(crate) code: u16,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
}

impl StatusError {
    /// The server did not execute the request, and asks to retry later.
    pub(crate) fn is_overload(&self) -> bool {
        self.code == 429 || (self.code == 503 && self.retry_after.is_some())
    }

    /// The path is unknown, as opposed to a missing object.
    pub(crate) fn is_unknown_path(&self) -> bool {
        let unknown = "the server could not find the requested resource";
        self.code == 404 && self.message.starts_with(unknown)
    }

    /// The resourceVersion or continue token of the list or watch has expired.
    pub(crate) fn is_expired(&self) -> bool {
        self.code == 410
    }
}

/// A request to the API server.
#[derive(Debug)]
pub(crate) struct ClientRequest<'a> {
    pub(crate) method: Method,
    pub(crate) path: &'a str,
    pub(crate) query: Vec<(&'a str, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) content_type: &'a str,
    pub(crate) accept: &'a str,
}

pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// The `Accept` header for a kind: for objects and events, or for lists.
pub(crate) fn accept(metadata_only: bool, list: bool) -> &'static str {
    match (metadata_only, list) {
        (false, _) => JSON,
        (true, false) => METADATA,
        (true, true) => METADATA_LIST,
    }
}

impl<'a> ClientRequest<'a> {
    pub(crate) fn get(path: &'a str) -> Self {
        Self {
            method: Method::GET,
            path,
            query: Vec::new(),
            body: Vec::new(),
            content_type: JSON,
            accept: JSON,
        }
    }

    pub(crate) fn with_body(method: Method, path: &'a str, body: &serde_json::Value) -> Self {
        Self {
            method,
            // A JSON value can always be serialized.
            body: serde_json::to_vec(body).unwrap_or_default(),
            ..Self::get(path)
        }
    }

    fn request(self) -> Result<Request<Body>, SendError> {
        let mut uri = self.path.to_owned();
        if !self.query.is_empty() {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.extend_pairs(self.query);
            uri.push('?');
            uri.push_str(&query.finish());
        }
        let mut request = Request::builder()
            .method(self.method)
            .uri(uri)
            .header(header::ACCEPT, self.accept);
        if !self.body.is_empty() {
            request = request.header(header::CONTENT_TYPE, self.content_type);
        }
        let request = request.body(Body::from(self.body));
        request.map_err(|cause| SendError::InvalidRequest(cause.to_string()))
    }
}

impl ApiClient {
    pub(crate) fn new(client: Client, metrics: Arc<ManagerMetrics>) -> Self {
        Self { client, metrics }
    }

    /// Sends a request and returns the whole response body.
    pub(crate) async fn send(&self, request: ClientRequest<'_>) -> Result<Bytes, SendError> {
        let asking = async {
            let answer = self.open(request).await?;
            read_body(answer.into_body()).await
        };
        let answered = tokio::time::timeout(RESPONSE_TIMEOUT, asking).await;
        answered.unwrap_or_else(|_| Err(SendError::Lost("it took too long".into())))
    }

    /// Sends a request and returns its response line by line.
    pub(crate) async fn stream(&self, request: ClientRequest<'_>) -> Result<WatchLines, SendError> {
        let opened = tokio::time::timeout(RESPONSE_TIMEOUT, self.open(request)).await;
        let answer = opened.unwrap_or_else(|_| Err(SendError::Lost("it took too long".into())))?;
        Ok(WatchLines::new(answer.into_body()))
    }

    async fn open(&self, api_request: ClientRequest<'_>) -> Result<Response<Body>, SendError> {
        let method = api_request.method.clone();
        let request = api_request.request()?;
        let answered = self.client.send(request).await;
        let code = answered
            .as_ref()
            .map_or(0, |answer| answer.status().as_u16());
        self.metrics.count_request(&method, code);
        let answer = answered.map_err(|cause| SendError::Lost(error_chain(&cause)))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let (status, retry_after) = (answer.status(), retry_after(&answer));
        let body = read_body(answer.into_body()).await.unwrap_or_default();
        Err(SendError::Refused(status_error(status, retry_after, &body)))
    }
}

/// The message of an error, with the messages of its causes.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}

fn retry_after(answer: &Response<Body>) -> Option<Duration> {
    let header = answer.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    header.trim().parse().ok().map(Duration::from_secs)
}

fn status_error(status: StatusCode, retry_after: Option<Duration>, body: &[u8]) -> StatusError {
    let said: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |field: &str| said[field].as_str().unwrap_or_default().to_owned();
    let in_details = said["details"]["retryAfterSeconds"].as_u64();
    StatusError {
        code: status.as_u16(),
        reason: text("reason"),
        message: text("message"),
        retry_after: retry_after.or(in_details.map(Duration::from_secs)),
    }
}

async fn read_body(mut body: Body) -> Result<Bytes, SendError> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|cause| SendError::Lost(error_chain(&cause)))?;
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() > RESPONSE_BYTES_MAX {
            return Err(SendError::Lost("the answer is too long".into()));
        }
    }
    Ok(bytes.freeze())
}

/// The lines of a watch response.
pub(crate) struct WatchLines {
    body: Body,
    buffer: BytesMut,
    /// The length of the buffer's prefix that contains no line end.
    searched: usize,
}

impl WatchLines {
    fn new(body: Body) -> Self {
        Self {
            body,
            buffer: BytesMut::new(),
            searched: 0,
        }
    }

    /// Returns the next line, or `None` when the server ends the response. An incomplete line at
    /// the end is dropped: the watch resumes from the last complete one.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, SendError>> {
        loop {
            if let Some(line) = self.buffered() {
                return Some(Ok(line));
            }
            match self.body.frame().await? {
                Ok(frame) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Err(cause) => return Some(Err(SendError::Lost(error_chain(&cause)))),
            }
            if self.buffer.len() > RESPONSE_BYTES_MAX {
                return Some(Err(SendError::Lost("a line is too long".into())));
            }
        }
    }

    fn buffered(&mut self) -> Option<Bytes> {
        let unsearched = self.buffer.get(self.searched..)?;
        let Some(found) = memchr::memchr(b'\n', unsearched) else {
            self.searched = self.buffer.len();
            return None;
        };
        let line = self.buffer.split_to(self.searched + found + 1).freeze();
        self.searched = 0;
        Some(line.slice(..line.len() - 1))
    }
}
