//! A server with a constant response over TLS, as the baseline of benchmarks: `responder bare` uses
//! hyper and rustls only, `responder served` uses this crate as well. The difference is the cost of
//! this crate; `optik bench api get` measures it. The response is small, unless its size is given:
//! `responder bare 46000000` is the lower bound for a large list.
//!
//! It prints its address and a kubeconfig.

use bytes::Bytes;
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

#[tokio::main]
async fn main() {
    let how = std::env::args().nth(1).unwrap_or_default();
    let at = IssuanceContext {
        now: SystemClock::default().wall(),
        entropy: &SystemEntropy,
    };
    let pki = Pki::in_memory(server_names(LOCALHOST, None), at).expect("certificates");
    let listener = TcpListener::bind((LOCALHOST, 0)).await.expect("a port");
    announce(&listener, &pki);
    match how.as_str() {
        "bare" => bare(&listener, &pki).await,
        "served" => served(listener, &pki).await,
        _ => panic!("say bare or served"),
    }
}

#[expect(clippy::print_stdout, reason = "this is what was asked for")]
fn announce(listener: &TcpListener, pki: &Pki) {
    let server = format!("https://{}", listener.local_addr().expect("an address"));
    let config = Kubeconfig {
        server: &server,
        authority: &pki.server_authority,
        user: &pki.admin,
    };
    let file = std::env::temp_dir().join(format!("responder-{}.kubeconfig", std::process::id()));
    write_private(Path::new(&file), config.to_yaml().as_bytes()).expect("written");
    println!("{server} {}", file.display());
}

fn body() -> Bytes {
    let beginning = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"7"},"data":{"a":""#;
    let bytes = std::env::args().nth(2).map(|bytes| bytes.parse());
    let bytes: usize = bytes.map_or(BODY_BYTES, |bytes| bytes.expect("a number of bytes"));
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

async fn served(listener: TcpListener, pki: &Pki) {
    let (certificate, key) = (&pki.server.certificate, &pki.server.key);
    let tls = TlsMaterial::new(
        certificate.as_bytes(),
        key.as_bytes(),
        pki.authority.as_bytes(),
    );
    let server = Server::new(FixedResponse(body()), ServeOptions::default());
    server.set_ready();
    let forever = std::future::pending();
    server
        .serve(listener, Some(tls.expect("fits")), forever)
        .await;
}

async fn bare(listener: &TcpListener, pki: &Pki) {
    let certificate = CertificateDer::from_pem_slice(pki.server.certificate.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(pki.server.key.as_bytes()).expect("PEM");
    // AES-128 comes first, as in this crate.
    let mut provider = ring::default_provider();
    provider
        .cipher_suites
        .sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.expect("PEM")], key)
        .expect("fits");
    config.ignore_client_order = true;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let body = body();
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("an option");
        let (acceptor, body) = (acceptor.clone(), body.clone());
        tokio::spawn(async move {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                return;
            };
            // Writes of one packet, as in this crate.
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
