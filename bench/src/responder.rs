//! `optik-bench responder`: a server with a constant response over TLS, as the baseline of
//! benchmarks. `bare` uses hyper and rustls only, `served` uses `optik-serve` as well. The
//! difference is the cost of `optik-serve`; `optik-bench api get` measures it. The response is
//! small, unless its size is given: `responder bare 46000000` is the lower bound for a large list.
//!
//! It prints its address and a kubeconfig.

use crate::error::BenchError;
use bytes::Bytes;
use clap::{Args, ValueEnum};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use optik_apiserver::{ApiRequest, ApiResponse};
use optik_platform::{Clock, SystemClock, SystemEntropy};
use optik_serve::pki::{IssuanceContext, Pki, server_names, write_private};
use optik_serve::{Handler, Kubeconfig, ServeOptions, Server, TlsMaterial};
use std::convert::Infallible;
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{CipherSuite, ServerConfig};

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const BODY_BYTES: usize = 1500;
const WRITE_BYTES_MAX: usize = 60 * 1024;

#[derive(Debug, Args)]
pub(crate) struct ResponderBench {
    /// What lies between TLS and the answer
    #[arg(value_enum)]
    stack: ResponderStack,
    /// How large the answer is
    #[arg(value_name = "BYTES", default_value_t = BODY_BYTES)]
    bytes: usize,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ResponderStack {
    /// Nothing but hyper
    Bare,
    /// The HTTP layer of the server, `optik-serve`
    Served,
}

pub(crate) async fn run(options: ResponderBench) -> Result<(), BenchError> {
    let at = IssuanceContext {
        now: SystemClock::default().wall(),
        entropy: &SystemEntropy,
    };
    let pki = Pki::in_memory(server_names(LOCALHOST, None), at)
        .map_err(|cause| BenchError::new("cannot make certificates", cause))?;
    let listener = TcpListener::bind((LOCALHOST, 0))
        .await
        .map_err(|cause| BenchError::new("cannot listen", cause))?;
    announce(&listener, &pki)?;
    let body = body(options.bytes);
    match options.stack {
        ResponderStack::Bare => bare(&listener, &pki, body).await,
        ResponderStack::Served => served(listener, &pki, body).await,
    }
}

#[expect(clippy::print_stdout, reason = "the address is needed to measure")]
fn announce(listener: &TcpListener, pki: &Pki) -> Result<(), BenchError> {
    let address = listener
        .local_addr()
        .map_err(|cause| BenchError::new("no address", cause))?;
    let server = format!("https://{address}");
    let config = Kubeconfig {
        server: &server,
        authority: &pki.server_authority,
        user: &pki.admin,
    };
    let file = std::env::temp_dir().join(format!("responder-{}.kubeconfig", std::process::id()));
    write_private(Path::new(&file), config.to_yaml().as_bytes())
        .map_err(|cause| BenchError::new("cannot write a kubeconfig", cause))?;
    println!("{server} {}", file.display());
    Ok(())
}

fn body(bytes: usize) -> Bytes {
    let beginning = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"7"},"data":{"a":""#;
    let filling = bytes.saturating_sub(beginning.len());
    format!("{beginning}{}\"}}}}\n", "x".repeat(filling)).into()
}

/// The status that a benchmark expects.
fn status(verb: &str) -> StatusCode {
    match verb {
        "create" => StatusCode::CREATED,
        _ => StatusCode::OK,
    }
}

struct FixedResponse(Bytes);

impl Handler for FixedResponse {
    async fn handle(&self, request: ApiRequest) -> ApiResponse {
        ApiResponse::json(status(request.info.verb()), self.0.clone())
    }
}

async fn served(listener: TcpListener, pki: &Pki, body: Bytes) -> Result<(), BenchError> {
    let (certificate, key) = (&pki.server.certificate, &pki.server.key);
    let tls = TlsMaterial::new(
        certificate.as_bytes(),
        key.as_bytes(),
        pki.authority.as_bytes(),
    );
    let tls = tls.map_err(tls_failed)?;
    let server = Server::new(FixedResponse(body), ServeOptions::default());
    server.set_ready();
    let forever = std::future::pending();
    server.serve(listener, Some(tls), forever).await;
    Ok(())
}

fn tls_failed(cause: impl Into<Box<dyn Error + Send + Sync>>) -> BenchError {
    BenchError::new("cannot use the certificates", cause)
}

fn tls_acceptor(pki: &Pki) -> Result<TlsAcceptor, BenchError> {
    let certificate =
        CertificateDer::from_pem_slice(pki.server.certificate.as_bytes()).map_err(tls_failed)?;
    let key = PrivateKeyDer::from_pem_slice(pki.server.key.as_bytes()).map_err(tls_failed)?;
    // AES-128 comes first, as in `optik-serve`.
    let mut provider = ring::default_provider();
    provider
        .cipher_suites
        .sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .map_err(tls_failed)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .map_err(tls_failed)?;
    config.ignore_client_order = true;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn bare(listener: &TcpListener, pki: &Pki, body: Bytes) -> Result<(), BenchError> {
    let acceptor = tls_acceptor(pki)?;
    loop {
        let accepted = listener.accept().await;
        let (stream, _) = accepted.map_err(|cause| BenchError::new("cannot accept", cause))?;
        let _ = stream.set_nodelay(true);
        let (acceptor, body) = (acceptor.clone(), body.clone());
        tokio::spawn(async move {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                return;
            };
            // Writes of one packet, as in `optik-serve`.
            stream.get_mut().1.set_buffer_limit(Some(WRITE_BYTES_MAX));
            let service = service_fn(move |request: http::Request<Incoming>| {
                let mut response = http::Response::new(Full::new(body.clone()));
                *response.status_mut() = status(match *request.method() {
                    Method::POST => "create",
                    _ => "get",
                });
                let json = HeaderValue::from_static("application/json");
                response.headers_mut().insert(CONTENT_TYPE, json);
                async move { Ok::<_, Infallible>(response) }
            });
            let builder = Builder::new(TokioExecutor::new());
            let _ = builder
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
