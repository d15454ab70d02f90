//! What comes in and what goes out, without the wire around it.

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

/// A request whose sender is known and whose body has been read.
#[derive(Clone, Debug)]
pub struct ApiRequest {
    /// What was authorized. The handler is chosen from it.
    pub info: Arc<RequestInfo>,
    /// As sent, without the `?`; empty if there is none.
    pub query: String,
    pub headers: HeaderMap,
    pub user: Arc<User>,
    /// At most [`BODY_BYTES_MAX`] bytes.
    pub body: Bytes,
}

impl ApiRequest {
    /// A request without headers and body, by nobody. The URL is a path and a query, as
    /// they are sent.
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

/// Longer bodies are refused with [`Status::body_too_large`] before they are read.
pub const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// An answer. Headers that every answer has (dates, ids, caching) are added outside.
pub struct ApiResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: ResponseBody,
    /// What those who had a say in it note for the audit.
    pub audit_annotations: BTreeMap<String, String>,
}

pub enum ResponseBody {
    Whole(Bytes),
    /// Pieces to send as they come. The end of the stream is a clean end.
    Stream(BoxStream<'static, ByteRope>),
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

impl ApiResponse {
    /// A JSON document; a newline is added by nobody.
    #[must_use]
    pub fn json(status: StatusCode, body: impl Into<Bytes>) -> Self {
        let mut response = Self::empty(status);
        response.headers.insert(http::header::CONTENT_TYPE, JSON);
        response.body = ResponseBody::Whole(body.into());
        response
    }

    /// JSON in pieces.
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

    /// A refusal, in what the client reads.
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
