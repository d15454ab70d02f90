//! One HTTP connection, with explicit errors for requests whose outcome is unknown.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// Why there is no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpRequestError {
    /// The request was not sent.
    NotSent,
    /// The request may have arrived, and the response did not.
    Cut,
}

#[derive(Clone, Debug)]
pub struct JsonResponse {
    pub status: StatusCode,
    pub body: Value,
}

/// A connection that is opened on demand, and reopened after an error.
#[derive(Debug)]
pub struct Connection {
    authority: String,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Connection {
    #[must_use]
    pub fn new(url: &str) -> Self {
        Self {
            authority: url.trim_start_matches("http://").to_owned(),
            sender: None,
        }
    }

    /// # Errors
    /// If the connection breaks.
    ///
    /// # Panics
    /// If the answer is no JSON.
    pub async fn request(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<JsonResponse, HttpRequestError> {
        let response = self.send(method, path, body).await?;
        let status = response.status();
        let body = response.into_body().collect().await;
        let Ok(body) = body else {
            self.sender = None;
            return Err(HttpRequestError::Cut);
        };
        let body = serde_json::from_slice(&body.to_bytes());
        let body = body.unwrap_or_else(|error| panic!("{path} answers {status}: {error}"));
        Ok(JsonResponse { status, body })
    }

    /// Asks for a stream. The connection is of no use for anything else then.
    ///
    /// # Errors
    /// If the connection breaks.
    ///
    /// # Panics
    /// If the server refuses.
    pub async fn stream(mut self, path: &str) -> Result<JsonLineStream, HttpRequestError> {
        let response = self.send(Method::GET, path, None).await?;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        Ok(JsonLineStream {
            body: response.into_body(),
            buffer: Vec::new(),
            _connection: self,
        })
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<http::Response<Incoming>, HttpRequestError> {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.authority)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(body))
            .expect("a request that makes sense");
        let mut sender = self.sender().await.map_err(|_| HttpRequestError::NotSent)?;
        let response = sender.send_request(request).await;
        let response = response.map_err(|_| HttpRequestError::Cut)?;
        self.sender = Some(sender);
        Ok(response)
    }

    async fn sender(&mut self) -> Result<SendRequest<Full<Bytes>>, hyper::Error> {
        if let Some(mut sender) = self.sender.take()
            && sender.ready().await.is_ok()
        {
            return Ok(sender);
        }
        let stream = TcpStream::connect(&self.authority).await;
        let stream = stream.expect("a listener outlives its clients");
        // An order to go without delay cannot fail on a connection that exists.
        drop(stream.set_nodelay(true));
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        sender.ready().await?;
        Ok(sender)
    }
}

/// A stream of JSON documents, one on each line.
#[derive(Debug)]
pub struct JsonLineStream {
    body: Incoming,
    buffer: Vec<u8>,
    /// A connection whose sender is gone ends.
    _connection: Connection,
}

impl JsonLineStream {
    /// The next line; `None` when the stream is over, or was cut. Half a line counts
    /// as nothing.
    ///
    /// # Panics
    /// If a line is no JSON.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("a line is a document"));
            }
            let frame = self.body.frame().await?.ok()?;
            if let Ok(data) = frame.into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }
}
