//! Requests and responses of the API server, independent of the HTTP implementation.

use crate::encoding::byte_rope::ByteRope;
use crate::encoding::representation;
use crate::request::negotiation::negotiate_error;
use bytes::Bytes;
use futures::stream::BoxStream;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use optik_auth::RequestInfo;
pub use optik_auth::User;
use optik_object::Status;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An authenticated request with its body.
#[derive(Clone, Debug)]
pub struct ApiRequest {
    /// The authorized request attributes. The handler is chosen from them.
    pub info: Arc<RequestInfo>,
    /// As sent, without the `?`; empty if there is none.
    pub query: String,
    pub headers: HeaderMap,
    pub user: Arc<User>,
    /// At most [`BODY_BYTES_MAX`] bytes.
    pub body: Bytes,
}

impl ApiRequest {
    /// An anonymous request without headers and body. The URL is path and query as sent.
    #[must_use]
    pub fn new(method: &Method, url: &str) -> Self {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        Self {
            info: Arc::new(RequestInfo::new(method.as_str(), path, query)),
            query: query.to_owned(),
            headers: HeaderMap::new(),
            user: Arc::default(),
            body: Bytes::new(),
        }
    }
}

/// Longer bodies are rejected with [`Status::body_too_large`] before they are read.
pub const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// A response. Headers common to all responses (dates, ids, caching) are added by the caller.
pub struct ApiResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: ResponseBody,
    /// Audit annotations added by admission.
    pub audit_annotations: BTreeMap<String, String>,
}

pub enum ResponseBody {
    Whole(Bytes),
    /// Chunks to send as they come. The end of the stream is a clean end.
    Stream(BoxStream<'static, ByteRope>),
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

impl ApiResponse {
    /// A JSON document, sent verbatim: no trailing newline is added.
    #[must_use]
    pub fn json(status: StatusCode, body: impl Into<Bytes>) -> Self {
        let mut response = Self::empty(status);
        response.headers.insert(http::header::CONTENT_TYPE, JSON);
        response.body = ResponseBody::Whole(body.into());
        response
    }

    /// A JSON document sent in chunks.
    #[must_use]
    pub fn json_stream(pieces: BoxStream<'static, ByteRope>) -> Self {
        let mut response = Self::json(StatusCode::OK, Bytes::new());
        response.body = ResponseBody::Stream(pieces);
        response
    }

    #[must_use]
    pub fn empty(status: StatusCode) -> Self {
        Self {
            status,
            headers: HeaderMap::new(),
            body: ResponseBody::Whole(Bytes::new()),
            audit_annotations: BTreeMap::new(),
        }
    }

    #[must_use]
    pub fn text(status: StatusCode, text: impl Into<Bytes>) -> Self {
        let mut response = Self::empty(status);
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers.insert(http::header::CONTENT_TYPE, plain);
        response.body = ResponseBody::Whole(text.into());
        response
    }

    /// An error, in an encoding that the client accepts.
    #[must_use]
    pub fn from_status(status: &Status, headers: &HeaderMap) -> Self {
        representation::error_response(status, negotiate_error(headers))
    }

    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }
}

impl From<Status> for ApiResponse {
    fn from(status: Status) -> Self {
        representation::error_response(&status, representation::Encoding::Json)
    }
}
