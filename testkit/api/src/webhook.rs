//! A webhook server: a TLS server of the suite, which the server under test calls.
//!
//! It replies as a check configures, and records the reviews.

use crate::{Failure, Outcome};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// A review that the webhook received.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedReview {
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) agent: String,
    /// The whole review.
    pub(crate) review: Value,
    /// Which connection it came over.
    pub(crate) connection: usize,
}

impl ReceivedReview {
    pub(crate) fn request(&self) -> &Value {
        &self.review["request"]
    }
}

/// The reply of the webhook.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A review with this `response`; the uid is that of the question if it names none.
    Review(Value),
    Raw {
        status: u16,
        content_type: &'static str,
        body: Bytes,
    },
    /// Nothing, for ever.
    Hang,
    /// Ends the connection.
    HangUp,
}

impl Reply {
    pub(crate) fn allow() -> Self {
        Self::Review(json!({"allowed": true}))
    }

    /// A JSON patch.
    pub(crate) fn patch(operations: &Value) -> Self {
        let patch = STANDARD.encode(operations.to_string());
        Self::Review(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
    }
}

type Answering = dyn Fn(&ReceivedReview) -> Reply + Send + Sync;

/// A running webhook. Dropping it stops it.
pub(crate) struct Webhook {
    address: SocketAddr,
    /// Of its authority, as a `caBundle` has it.
    pub(crate) bundle: String,
    asked: Arc<Mutex<Vec<ReceivedReview>>>,
    _tasks: JoinSet<()>,
}

impl Webhook {
    pub(crate) async fn start(
        answering: impl Fn(&ReceivedReview) -> Reply + Send + Sync + 'static,
    ) -> Outcome<Self> {
        Self::start_for(
            vec![SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST))],
            answering,
        )
        .await
    }

    /// Starts it with a certificate for other names.
    pub(crate) async fn start_for(
        names: Vec<SanType>,
        answering: impl Fn(&ReceivedReview) -> Reply + Send + Sync + 'static,
    ) -> Outcome<Self> {
        let failed = |cause: &dyn std::fmt::Display| {
            Failure::new(format!("cannot start test webhook: {cause}"))
        };
        let (config, authority) = tls_config(names).map_err(|cause| failed(&cause))?;
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.map_err(|cause| failed(&cause))?;
        let address = listener.local_addr().map_err(|cause| failed(&cause))?;
        let asked = Arc::default();
        let serving = WebhookServer {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            asked: Arc::clone(&asked),
            answering: Arc::new(answering),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(serving.run(listener));
        Ok(Self {
            address,
            bundle: STANDARD.encode(authority),
            asked,
            _tasks: tasks,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }

    /// The `clientConfig` for a call at a path.
    pub(crate) fn client(&self, path: &str) -> Value {
        json!({"url": self.url(path), "caBundle": self.bundle})
    }

    /// All reviews received so far.
    pub(crate) fn received(&self) -> Vec<ReceivedReview> {
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The reviews received at a path.
    pub(crate) fn received_at(&self, path: &str) -> Vec<ReceivedReview> {
        let asked = self.received().into_iter();
        asked.filter(|asked| asked.path == path).collect()
    }

    pub(crate) fn clear_received(&self) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.clear();
    }
}

/// A server certificate and its CA, as PEM.
fn tls_config(names: Vec<SanType>) -> Result<(ServerConfig, String), Box<dyn std::error::Error>> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.subject_alt_names = names;
    let certificate = params.signed_by(&key, &authority)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    let lines = STANDARD.encode(authority.der());
    let pem = format!("-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n");
    Ok((config, pem))
}

#[derive(Clone)]
struct WebhookServer {
    acceptor: TlsAcceptor,
    asked: Arc<Mutex<Vec<ReceivedReview>>>,
    answering: Arc<Answering>,
}

impl WebhookServer {
    async fn run(self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        let mut number = 0;
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(self.clone().connection(stream, number));
            number += 1;
        }
    }

    async fn connection(self, stream: TcpStream, number: usize) {
        let Ok(stream) = self.acceptor.clone().accept(stream).await else {
            return;
        };
        let serve = service_fn(move |request| self.clone().answer(request, number));
        let connection = hyper::server::conn::http1::Builder::new();
        // An error here is a closed connection.
        let _ = connection
            .serve_connection(TokioIo::new(stream), serve)
            .await;
    }

    async fn answer(
        self,
        request: Request<Incoming>,
        connection: usize,
    ) -> Result<Response<Full<Bytes>>, Failure> {
        let (head, body) = request.into_parts();
        let body = body.collect().await;
        let body = body.map_err(|cause| Failure::new(cause.to_string()))?;
        let agent = head.headers.get("user-agent");
        let asked = ReceivedReview {
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            agent: agent
                .and_then(|agent| agent.to_str().ok())
                .unwrap_or_default()
                .to_owned(),
            review: serde_json::from_slice(&body.to_bytes()).unwrap_or_default(),
            connection,
        };
        let reply = (self.answering)(&asked);
        let review = asked.review.clone();
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(asked);
        let (status, content_type, body) = match reply {
            Reply::Review(mut response) => {
                if response.is_object() && response.get("uid").is_none() {
                    response["uid"] = review["request"]["uid"].clone();
                }
                let answer = json!({
                    "kind": review["kind"], "apiVersion": review["apiVersion"],
                    "response": response,
                });
                (200, "application/json", Bytes::from(answer.to_string()))
            }
            Reply::Raw {
                status,
                content_type,
                body,
            } => (status, content_type, body),
            Reply::Hang => std::future::pending().await,
            Reply::HangUp => return Err(Failure::new("hung up")),
        };
        Response::builder()
            .status(status)
            .header("content-type", content_type)
            .body(Full::new(body))
            .map_err(|cause| Failure::new(cause.to_string()))
    }
}
