//! Asking somebody outside: a JSON document goes out over HTTPS, another one comes back.
//!
//! This crate knows no sockets. It says where a call goes and what an answer means; a
//! [`Caller`] that it is given carries it there.

mod answer;
mod bundle;
mod check;
mod destination;
mod service;

pub(crate) use bundle::{NO_BUNDLE, is_bundle};
pub(crate) use check::{check_port, check_service_path, check_url};
pub(crate) use destination::Destination;

use answer::document;
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt, ready};
use http::StatusCode;
use optik_object::Value;
use optik_platform::Entropy;
use optik_store::Store;
use std::sync::Arc;
use std::time::Duration;

/// A `POST` of JSON.
#[derive(Clone, Debug)]
pub struct Call {
    /// `https://host:port/path?timeout=10s`
    pub url: String,
    /// `host:port` to connect to if it is not that of the URL.
    pub address: Option<String>,
    /// Who may vouch for the other end, as PEM; empty for those the machine trusts.
    pub authorities: Bytes,
    pub agent: &'static str,
    pub body: Bytes,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: StatusCode,
    /// Empty if it is not told.
    pub content_type: String,
    pub body: Bytes,
}

/// Why nothing came back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The call could not even be begun.
    #[error("could not get REST client: {0}")]
    Unusable(String),
    /// In the words of a Go client.
    #[error("{0}")]
    Unanswered(String),
}

/// Whoever can reach the outside. Dropping the future gives the call up.
pub trait Caller: Send + Sync + 'static {
    fn call(&self, call: Call) -> BoxFuture<'static, Result<Reply, CallError>>;
}

/// Reaches nobody.
pub(crate) struct Nobody;

impl Caller for Nobody {
    fn call(&self, _: Call) -> BoxFuture<'static, Result<Reply, CallError>> {
        let error = "this server calls nobody".to_owned();
        ready(Err(CallError::Unanswered(error))).boxed()
    }
}

/// Why there is no document, in the words that clients of upstream know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PostError {
    #[error("could not get REST client: {0}")]
    Unusable(String),
    #[error("{text}")]
    Failed {
        text: String,
        /// The status that came back; zero if none did.
        code: u16,
    },
}

impl PostError {
    fn failed(text: impl Into<String>) -> Self {
        Self::Failed {
            text: text.into(),
            code: 0,
        }
    }
}

/// How to reach the outside.
#[derive(Clone)]
pub(crate) struct Outside {
    pub(crate) caller: Arc<dyn Caller>,
    pub(crate) store: Store,
    pub(crate) entropy: Arc<dyn Entropy>,
}

/// What is sent where, by whom, and how long the answer is waited for.
pub(crate) struct Posting<'a> {
    pub(crate) destination: &'a Destination,
    pub(crate) agent: &'static str,
    pub(crate) timeout: Duration,
    pub(crate) body: Bytes,
}

impl Outside {
    /// Sends a document and reads the one that comes back.
    pub(crate) async fn post(&self, posting: Posting<'_>) -> Result<Value, PostError> {
        let Posting {
            destination,
            agent,
            timeout,
            body,
        } = posting;
        let url = destination.url(timeout).map_err(PostError::Unusable)?;
        let lost = |text: &str| PostError::failed(format!("Post \"{url}\": {text}"));
        let address = destination.address(&self.store);
        let call = Call {
            url: url.clone(),
            address: address.map_err(|error| lost(&error))?,
            authorities: destination.authorities.clone(),
            agent,
            body,
        };
        let reply = match tokio::time::timeout(timeout, self.caller.call(call)).await {
            Err(_) => return Err(lost("context deadline exceeded")),
            Ok(Err(CallError::Unusable(text))) => return Err(PostError::Unusable(text)),
            Ok(Err(CallError::Unanswered(text))) => return Err(lost(&text)),
            Ok(Ok(reply)) => reply,
        };
        let code = reply.status.as_u16();
        document(&reply).map_err(|text| PostError::Failed { text, code })
    }
}
