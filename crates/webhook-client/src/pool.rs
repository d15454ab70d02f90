//! The HTTP client pool: one client per webhook host, address and CA bundle.

use crate::connect::WebhookConnector;
use crate::go_errors::{CallFailure, from_client_error};
use crate::tls::client_config;
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Request, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use optik_apiserver::{WebhookCallError, WebhookRequest, WebhookResponse, WebhookTransport};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Size limit of a response: several times the largest patch of the largest object.
const RESPONSE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Concurrent calls per host; further calls wait.
const CONCURRENT_CALLS_MAX: usize = 256;
/// Idle connections kept per host.
const IDLE_CONNECTIONS_MAX: usize = 25;
const IDLE_TIME_MAX: Duration = Duration::from_secs(90);
/// Number of cached clients; the least recently used one is evicted.
const CLIENTS_MAX: usize = 256;

/// Calls webhooks over HTTPS.
#[derive(Clone, Debug, Default)]
pub struct HttpsTransport {
    pool: Arc<Mutex<ClientPool>>,
}

#[derive(Debug, Default)]
struct ClientPool {
    known: BTreeMap<PoolKey, PooledClient>,
    clock: u64,
}

#[derive(Debug)]
struct PooledClient {
    host_client: Arc<HostClient>,
    last_called: u64,
}

/// The parameters that distinguish pooled clients.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PoolKey {
    host: String,
    address: Option<String>,
    authorities: Bytes,
}

/// The client of one host, with its open connections.
#[derive(Debug)]
struct HostClient {
    client: Client<WebhookConnector, Full<Bytes>>,
    permits: Arc<Semaphore>,
}

impl HostClient {
    fn new(key: &PoolKey) -> Result<Self, String> {
        let connector =
            WebhookConnector::new(key.address.clone(), client_config(&key.authorities)?);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIME_MAX)
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .build(connector);
        Ok(Self {
            client,
            permits: Arc::new(Semaphore::new(CONCURRENT_CALLS_MAX)),
        })
    }
}

impl ClientPool {
    fn get_or_open(&mut self, key: PoolKey) -> Result<Arc<HostClient>, String> {
        self.clock += 1;
        if let Some(entry) = self.known.get_mut(&key) {
            entry.last_called = self.clock;
            return Ok(Arc::clone(&entry.host_client));
        }
        if self.known.len() >= CLIENTS_MAX {
            let longest = self.known.iter().min_by_key(|(_, entry)| entry.last_called);
            if let Some(key) = longest.map(|(key, _)| key.clone()) {
                self.known.remove(&key);
            }
        }
        let place = Arc::new(HostClient::new(&key)?);
        let entry = PooledClient {
            host_client: Arc::clone(&place),
            last_called: self.clock,
        };
        self.known.insert(key, entry);
        Ok(place)
    }
}

impl WebhookTransport for HttpsTransport {
    fn call(
        &self,
        call: WebhookRequest,
    ) -> BoxFuture<'static, Result<WebhookResponse, WebhookCallError>> {
        let places = Arc::clone(&self.pool);
        async move {
            let uri: Uri = call
                .url
                .parse()
                .map_err(|error| WebhookCallError::Unusable(format!("Unparsable URL: {error}")))?;
            let key = PoolKey {
                host: uri.authority().map(ToString::to_string).unwrap_or_default(),
                address: call.address,
                authorities: call.ca_bundle,
            };
            let place = {
                let mut places = places.lock().unwrap_or_else(PoisonError::into_inner);
                places
                    .get_or_open(key)
                    .map_err(WebhookCallError::Unusable)?
            };
            let unanswered = |error: CallFailure| WebhookCallError::NoResponse(error.to_string());
            let _turn = place.permits.acquire().await;
            let request = request(uri, call.user_agent, call.body).map_err(unanswered)?;
            let answer = place.client.request(request).await;
            let answer = answer.map_err(|error| unanswered(from_client_error(&error)))?;
            read_response(answer).await.map_err(unanswered)
        }
        .boxed()
    }
}

fn request(
    uri: Uri,
    agent: &'static str,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, CallFailure> {
    const JSON: HeaderValue = HeaderValue::from_static("application/json");
    let request = Request::post(uri)
        .header(ACCEPT, JSON)
        .header(CONTENT_TYPE, JSON)
        .header(USER_AGENT, HeaderValue::from_static(agent));
    let request = request.body(Full::new(body));
    request.map_err(|error| CallFailure::Other(error.to_string()))
}

async fn read_response(
    answer: http::Response<hyper::body::Incoming>,
) -> Result<WebhookResponse, CallFailure> {
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, RESPONSE_BYTES_MAX).collect().await;
    let body = body.map_err(|error| match error.downcast::<hyper::Error>() {
        Ok(error) => from_client_error(&*error),
        Err(error) if error.is::<LengthLimitError>() => CallFailure::TooLong {
            max: RESPONSE_BYTES_MAX,
        },
        Err(error) => CallFailure::Other(error.to_string()),
    })?;
    let content_type = head.headers.get(CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    Ok(WebhookResponse {
        status: head.status,
        content_type: content_type.unwrap_or_default().to_owned(),
        body: body.to_bytes(),
    })
}
