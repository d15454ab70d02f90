//! Webhook client: posts a JSON document over HTTPS and reads the JSON response.
//!
//! This crate opens no sockets. It determines the address of a call and interprets the response; a
//! [`WebhookTransport`] given to it makes the call.

mod ca_bundle;
mod client_config;
mod client_config_validation;
mod service_resolver;
mod webhook_response;

pub(crate) use crate::server::webhook_client::ca_bundle::{INVALID_CA_BUNDLE, is_valid_ca_bundle};
pub(crate) use crate::server::webhook_client::client_config::WebhookClientConfig;
pub(crate) use crate::server::webhook_client::client_config_validation::{
    check_port, check_service_path, check_url,
};

use crate::server::webhook_client::webhook_response::response_document;
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt, ready};
use http::StatusCode;
use optik_object::Value;
use optik_platform::Entropy;
use optik_store::Store;
use std::sync::Arc;
use std::time::Duration;

/// A `POST` request with a JSON body.
#[derive(Clone, Debug)]
pub struct WebhookRequest {
    /// `https://host:port/path?timeout=10s`
    pub url: String,
    /// `host:port` to connect to if it differs from that of the URL.
    pub address: Option<String>,
    /// CA certificates of the server as PEM; empty for the system's trust store.
    pub ca_bundle: Bytes,
    pub user_agent: &'static str,
    pub body: Bytes,
}

/// The response of a webhook.
#[derive(Clone, Debug)]
pub struct WebhookResponse {
    pub status: StatusCode,
    /// Empty if there was no Content-Type.
    pub content_type: String,
    pub body: Bytes,
}

/// Why there was no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookCallError {
    /// The call could not be started.
    #[error("could not get REST client: {0}")]
    Unusable(String),
    /// In the words of a Go client.
    #[error("{0}")]
    NoResponse(String),
}

/// Makes webhook calls. Dropping the future cancels the call.
pub trait WebhookTransport: Send + Sync + 'static {
    fn call(
        &self,
        call: WebhookRequest,
    ) -> BoxFuture<'static, Result<WebhookResponse, WebhookCallError>>;
}

/// A transport whose calls all fail.
pub(crate) struct NoTransport;

impl WebhookTransport for NoTransport {
    fn call(
        &self,
        _: WebhookRequest,
    ) -> BoxFuture<'static, Result<WebhookResponse, WebhookCallError>> {
        let error = "webhook calls are not configured on this server".to_owned();
        ready(Err(WebhookCallError::NoResponse(error))).boxed()
    }
}

/// Why a call gave no document, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PostError {
    #[error("could not get REST client: {0}")]
    Unusable(String),
    #[error("{text}")]
    Failed {
        text: String,
        /// The HTTP status; zero if there was no response.
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

/// Calls webhooks through a transport.
#[derive(Clone)]
pub(crate) struct WebhookClient {
    pub(crate) transport: Arc<dyn WebhookTransport>,
    pub(crate) store: Store,
    pub(crate) entropy: Arc<dyn Entropy>,
}

/// The document, target, user and timeout of a call.
pub(crate) struct WebhookPost<'a> {
    pub(crate) client_config: &'a WebhookClientConfig,
    pub(crate) user_agent: &'static str,
    pub(crate) timeout: Duration,
    pub(crate) body: Bytes,
}

impl WebhookClient {
    /// Posts a document and returns the response document.
    pub(crate) async fn post(&self, posting: WebhookPost<'_>) -> Result<Value, PostError> {
        let WebhookPost {
            client_config: destination,
            user_agent: agent,
            timeout,
            body,
        } = posting;
        let url = destination.url(timeout).map_err(PostError::Unusable)?;
        let lost = |text: &str| PostError::failed(format!("Post \"{url}\": {text}"));
        let address = destination.connect_address(&self.store);
        let call = WebhookRequest {
            url: url.clone(),
            address: address.map_err(|error| lost(&error))?,
            ca_bundle: destination.ca_bundle.clone(),
            user_agent: agent,
            body,
        };
        let reply = match tokio::time::timeout(timeout, self.transport.call(call)).await {
            Err(_) => return Err(lost("context deadline exceeded")),
            Ok(Err(WebhookCallError::Unusable(text))) => return Err(PostError::Unusable(text)),
            Ok(Err(WebhookCallError::NoResponse(text))) => return Err(lost(&text)),
            Ok(Ok(reply)) => reply,
        };
        let code = reply.status.as_u16();
        response_document(&reply).map_err(|text| PostError::Failed { text, code })
    }
}
