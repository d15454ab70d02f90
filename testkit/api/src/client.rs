//! The HTTP client of the suite.

use crate::connection::Pool;
use crate::watch::WatchStream;
use crate::{ApiResponse, Failure, Outcome, Target};
use bytes::{Bytes, BytesMut};
use http::Method;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Request timeout, longer than any response takes on a busy machine.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(40);

/// Requests of one user agent; connections are reused.
#[derive(Clone, Debug)]
pub struct Client(Arc<Pool>);

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    /// The path with the query, as sent.
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Bytes,
}

impl Request {
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            headers: Vec::new(),
            body: Bytes::new(),
        }
    }

    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    #[must_use]
    pub fn accept(self, media_type: &str) -> Self {
        self.header("accept", media_type)
    }

    #[must_use]
    pub fn body(mut self, media_type: &str, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self.header("content-type", media_type)
    }

    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }

    /// How it is named in failures.
    fn request_line(&self) -> String {
        const BODY_CHARS_MAX: usize = 300;
        let body = String::from_utf8_lossy(&self.body[..self.body.len().min(BODY_CHARS_MAX)]);
        let dots = if self.body.len() > BODY_CHARS_MAX {
            "…"
        } else {
            ""
        };
        format!("{} {} {body}{dots}", self.method, self.path)
            .trim_end()
            .to_owned()
    }

    fn into_http(self, target: &Target) -> Result<http::Request<Full<Bytes>>, http::Error> {
        let mut request = http::Request::builder()
            .method(self.method)
            .uri(self.path)
            .header(HOST, &target.authority);
        let given = |name: &str| self.headers.iter().any(|(header, _)| *header == name);
        if !given("user-agent") {
            request = request.header(USER_AGENT, "optik-api-testkit/1");
        }
        if let (Some(token), false) = (&target.token, given("authorization")) {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if !given(ACCEPT.as_str()) {
            request = request.header(ACCEPT, "application/json");
        }
        for (name, value) in &self.headers {
            // An empty type means: none at all.
            if !(*name == CONTENT_TYPE.as_str() && value.is_empty()) {
                request = request.header(*name, value);
            }
        }
        request.body(Full::new(self.body))
    }
}

impl Client {
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self(Pool::new(target, false))
    }

    /// Host and port of the server.
    pub(crate) fn authority(&self) -> &str {
        &self.0.target().authority
    }

    /// A client of this server with connections of its own.
    #[must_use]
    pub fn with_new_connections(&self) -> Self {
        Self::new(self.0.target().clone())
    }

    /// As [`Self::with_new_connections`], but with a small receive buffer, so that unread data soon
    /// blocks the server.
    pub(crate) fn with_small_receive_buffer(&self) -> Self {
        Self(Pool::new(self.0.target().clone(), true))
    }

    /// # Errors
    /// If the server does not respond; an error status is a response.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: Bytes,
    ) -> Outcome<ApiResponse> {
        let mut request = Request::new(method, path);
        request.body = body;
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        self.execute(request).await
    }

    /// # Errors
    /// As [`Self::send`].
    pub async fn execute(&self, request: Request) -> Outcome<ApiResponse> {
        let line = request.request_line();
        match tokio::time::timeout(
            REQUEST_TIMEOUT,
            self.execute_unbounded(request, line.clone()),
        )
        .await
        {
            Ok(answer) => answer.map_err(|failure| failure.with_step(line)),
            Err(_) => Err(Failure::new(format!(
                "{line}: no answer in {REQUEST_TIMEOUT:?}"
            ))),
        }
    }

    /// As [`Self::send`], but of an endless response only as much is read as is enough.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub async fn execute_until(
        &self,
        request: Request,
        enough: impl Fn(&[u8]) -> bool,
    ) -> Outcome<ApiResponse> {
        let line = request.request_line();
        let exchange = self.execute_unbounded_until(request, line.clone(), enough);
        match tokio::time::timeout(REQUEST_TIMEOUT, exchange).await {
            Ok(answer) => answer.map_err(|failure| failure.with_step(line)),
            Err(_) => Err(Failure::new(format!(
                "{line}: no answer in {REQUEST_TIMEOUT:?}"
            ))),
        }
    }

    async fn execute_unbounded(&self, request: Request, asked: String) -> Outcome<ApiResponse> {
        self.execute_unbounded_until(request, asked, |_| false)
            .await
    }

    async fn execute_unbounded_until(
        &self,
        request: Request,
        asked: String,
        enough: impl Fn(&[u8]) -> bool,
    ) -> Outcome<ApiResponse> {
        let request = request
            .into_http(self.0.target())
            .map_err(|cause| Failure::new(cause.to_string()))?;
        let (response, connection) = self.0.send(request).await?;
        let (head, mut incoming) = response.into_parts();
        let mut body = BytesMut::new();
        let ended = loop {
            match incoming.frame().await {
                None => break true,
                Some(Err(cause)) => {
                    return Err(Failure::new(format!("response body ended early: {cause}")));
                }
                Some(Ok(frame)) => body.extend(frame.into_data().ok()),
            }
            if enough(&body) {
                break false;
            }
        };
        // A connection with an unread response cannot be reused.
        if ended {
            self.0.give_back(connection);
        }
        let body = body.freeze();
        Ok(ApiResponse {
            asked,
            status: head.status.as_u16(),
            headers: head.headers,
            body,
        })
    }

    /// # Errors
    /// As [`Self::send`].
    pub async fn get(&self, path: &str) -> Outcome<ApiResponse> {
        self.execute(Request::get(path)).await
    }

    /// # Errors
    /// As [`Self::send`].
    pub async fn post(&self, path: &str, body: &Value) -> Outcome<ApiResponse> {
        self.execute(Request::new(Method::POST, path).json(body))
            .await
    }

    /// # Errors
    /// As [`Self::send`].
    pub async fn put(&self, path: &str, body: &Value) -> Outcome<ApiResponse> {
        self.execute(Request::new(Method::PUT, path).json(body))
            .await
    }

    /// # Errors
    /// As [`Self::send`].
    pub async fn delete(&self, path: &str) -> Outcome<ApiResponse> {
        self.execute(Request::new(Method::DELETE, path)).await
    }

    /// A delete with options in its body.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub async fn delete_with(&self, path: &str, options: &Value) -> Outcome<ApiResponse> {
        self.execute(Request::new(Method::DELETE, path).json(options))
            .await
    }

    /// A JSON merge patch.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub async fn patch(&self, path: &str, patch: &Value) -> Outcome<ApiResponse> {
        self.patch_as("application/merge-patch+json", path, patch)
            .await
    }

    /// # Errors
    /// As [`Self::send`].
    pub async fn patch_as(
        &self,
        media_type: &str,
        path: &str,
        patch: &Value,
    ) -> Outcome<ApiResponse> {
        let request = Request::new(Method::PATCH, path).body(media_type, patch.to_string());
        self.execute(request).await
    }

    /// Opens a watch. The headers must arrive immediately, with status 200.
    ///
    /// # Errors
    /// If they do not.
    pub async fn watch(&self, path: &str) -> Outcome<WatchStream> {
        self.watch_as(Request::get(path)).await
    }

    /// As [`Self::watch`], with headers.
    ///
    /// # Errors
    /// As [`Self::watch`].
    pub async fn watch_as(&self, request: Request) -> Outcome<WatchStream> {
        let line = request.request_line();
        let response = self.open(request).await?;
        let (head, body) = response.into_parts();
        if head.status != http::StatusCode::OK {
            let body = body.collect().await.map(|body| body.to_bytes());
            return Err(Failure::new(format!(
                "{line}\n  expected 200 and a stream\n  got      {} {}",
                head.status.as_u16(),
                String::from_utf8_lossy(&body.unwrap_or_default())
            )));
        }
        Ok(WatchStream::new(line, head.headers, body))
    }

    /// The response with its body still unread; the connection is not reused.
    pub(crate) async fn open(
        &self,
        request: Request,
    ) -> Outcome<http::Response<hyper::body::Incoming>> {
        let line = request.request_line();
        let request = request
            .into_http(self.0.target())
            .map_err(|cause| Failure::new(cause.to_string()))?;
        match tokio::time::timeout(REQUEST_TIMEOUT, self.0.send(request)).await {
            Ok(Ok((response, _))) => Ok(response),
            Ok(Err(failure)) => Err(failure.with_step(line)),
            Err(_) => Err(Failure::new(format!(
                "{line}: no headers in {REQUEST_TIMEOUT:?}"
            ))),
        }
    }
}

/// A path with a query; values are encoded.
pub(crate) fn query(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut text = path.to_owned();
    for (at, (name, value)) in parameters.iter().enumerate() {
        text.push(if at == 0 { '?' } else { '&' });
        text.push_str(name);
        text.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
                text.push(char::from(byte));
            } else {
                text.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    text
}
