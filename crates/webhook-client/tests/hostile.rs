//! Misbehaving webhook servers: none can block a call for ever or make the client hold unbounded
//! memory.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use optik_apiserver::{WebhookCallError, WebhookRequest, WebhookResponse, WebhookTransport};
use optik_webhook_client::HttpsTransport;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::server::TlsStream;

/// The issuer of a server certificate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CertIssuer {
    Authority,
    /// The certificate is self-signed.
    Itself,
}

/// A server configuration with a certificate for a name, and the CA bundle that trusts it.
fn certified(name: SanType, issuer: CertIssuer) -> (ServerConfig, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![name];
    let (certificate, authority) = match issuer {
        CertIssuer::Authority => {
            let mut own = CertificateParams::default();
            own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let authority =
                CertifiedIssuer::self_signed(own, KeyPair::generate().unwrap()).unwrap();
            let certificate = params.signed_by(&key, &authority).unwrap();
            (certificate.der().clone(), authority.der().clone())
        }
        CertIssuer::Itself => {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let certificate = params.self_signed(&key).unwrap();
            (certificate.der().clone(), certificate.der().clone())
        }
    };
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    (config, pem(&authority))
}

fn pem(certificate: &CertificateDer<'_>) -> String {
    let text = STANDARD.encode(certificate);
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
}

/// Starts a server that handles every connection alike; returns its address and CA bundle.
async fn serve<F>(
    name: SanType,
    issuer: CertIssuer,
    act: impl Fn(TlsStream<TcpStream>) -> F + Send + 'static,
) -> (String, Bytes)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (config, authority) = certified(name, issuer);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(stream).await {
                tokio::spawn(act(stream));
            }
        }
    });
    (address.to_string(), authority.into())
}

fn localhost() -> SanType {
    SanType::IpAddress(Ipv4Addr::LOCALHOST.into())
}

async fn call(
    caller: &HttpsTransport,
    address: &str,
    authorities: &Bytes,
) -> Result<WebhookResponse, WebhookCallError> {
    let call = WebhookRequest {
        url: format!("https://{address}/x?timeout=10s"),
        address: None,
        ca_bundle: authorities.clone(),
        user_agent: "test",
        body: Bytes::from_static(b"{}"),
    };
    let patience = Duration::from_secs(30);
    let answered = tokio::time::timeout(patience, caller.call(call)).await;
    answered.expect("an end, one way or the other")
}

/// Reads until the end of the request head, which is enough for these request bodies.
async fn read_request(stream: &mut TlsStream<TcpStream>) {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    while !seen.windows(4).any(|four| four == b"\r\n\r\n") {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(read) => seen.extend_from_slice(&buffer[..read]),
        }
    }
}

async fn answer(mut stream: TlsStream<TcpStream>, text: &str) {
    read_request(&mut stream).await;
    // The client may have closed the connection.
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
}

const FINE: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";

#[tokio::test]
async fn webhook_response_over_size_limit_fails() {
    let endless = |mut stream: TlsStream<TcpStream>| async move {
        read_request(&mut stream).await;
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let _ = stream.write_all(head).await;
        let piece = format!("{:x}\r\n{}\r\n", 1 << 16, "x".repeat(1 << 16));
        while stream.write_all(piece.as_bytes()).await.is_ok() {}
    };
    let (address, authority) = serve(localhost(), CertIssuer::Authority, endless).await;
    let lost = call(&HttpsTransport::default(), &address, &authority).await;
    let expected = format!("response body exceeds {} bytes", 16 << 20);
    assert_eq!(lost.unwrap_err(), WebhookCallError::NoResponse(expected));
}

#[tokio::test]
async fn webhook_non_http_response_error_matches_go() {
    for (text, expected) in [
        ("", "EOF"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "EOF"),
        (
            "SSH-2.0-OpenSSH\r\n\r\n",
            "net/http: HTTP/1.x transport connection broken: malformed HTTP response",
        ),
    ] {
        let act = move |stream| answer(stream, text);
        let (address, authority) = serve(localhost(), CertIssuer::Authority, act).await;
        let lost = call(&HttpsTransport::default(), &address, &authority).await;
        let expected = WebhookCallError::NoResponse(expected.into());
        assert_eq!(lost.unwrap_err(), expected, "{text:?}");
    }
}

#[tokio::test]
async fn webhook_certificate_verification_matches_go() {
    let act = |stream| answer(stream, FINE);
    let caller = HttpsTransport::default();
    for issuer in [CertIssuer::Authority, CertIssuer::Itself] {
        let (address, authority) = serve(localhost(), issuer, act).await;
        let reply = call(&caller, &address, &authority).await.unwrap();
        assert_eq!(&reply.body[..], b"{}");
    }
    let other = SanType::DnsName("other.test".try_into().unwrap());
    for issuer in [CertIssuer::Authority, CertIssuer::Itself] {
        let (address, authority) = serve(other.clone(), issuer, act).await;
        let lost = call(&caller, &address, &authority).await.unwrap_err();
        assert!(lost.to_string().contains("x509: certificate is"), "{lost}");
    }
    let (address, _) = serve(localhost(), CertIssuer::Authority, act).await;
    let (_, stranger) = certified(localhost(), CertIssuer::Authority);
    let lost = call(&caller, &address, &stranger.into()).await.unwrap_err();
    let unknown =
        "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    assert_eq!(lost, WebhookCallError::NoResponse(unknown.into()));
    let nonsense = Bytes::from_static(b"no certificate");
    let lost = call(&caller, &address, &nonsense).await.unwrap_err();
    let text = "unable to load root certificates: unable to parse bytes as PEM block";
    assert_eq!(lost, WebhookCallError::Unusable(text.into()));
}

/// A pooled connection that the server closed in the meantime does not fail the call.
#[tokio::test]
async fn webhook_call_reopens_closed_idle_connection() {
    let act = |stream| answer(stream, FINE);
    let (address, authority) = serve(localhost(), CertIssuer::Authority, act).await;
    let caller = HttpsTransport::default();
    for _ in 0..20 {
        call(&caller, &address, &authority).await.unwrap();
    }
}

#[tokio::test]
async fn webhook_dial_and_tls_errors_match_go() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (_, authority) = certified(localhost(), CertIssuer::Authority);
    let authority = Bytes::from(authority);
    let plain = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _ = stream.read(&mut [0; 1024]).await;
    });
    let caller = HttpsTransport::default();
    let lost = call(&caller, &address, &authority).await.unwrap_err();
    let text = "tls: first record does not look like a TLS handshake";
    assert_eq!(lost, WebhookCallError::NoResponse(text.into()));
    plain.await.unwrap();
    let lost = call(&caller, &address, &authority).await.unwrap_err();
    let text = format!("dial tcp {address}: connect: connection refused");
    assert_eq!(lost, WebhookCallError::NoResponse(text));
}
