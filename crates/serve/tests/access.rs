//! Tests of authentication and impersonation over HTTP/1.1 and HTTP/2.

mod support;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use http::header::AUTHORIZATION;
use http_body_util::BodyExt;
use optik_platform::SystemEntropy;
use optik_serve::pki::{CertKeyPair, IssuanceContext, Pki, server_names};
use serde_json::json;
use support::client::{Client, HttpVersion, VERSIONS, request, tls};
use support::{Port, ScriptedServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

const GOOD: &str = "Bearer secret";

#[tokio::test]
async fn client_certificate_authenticates_its_common_name() {
    let running = ScriptedServer::start(Port::Tls).await;
    for version in VERSIONS {
        let mut client = Client::certified(&running, version, &running.pki.admin).await;
        let answer = client.get("/who", &[(AUTHORIZATION, "Bearer wrong")]).await;
        assert_eq!(answer.status, 200, "{version:?}");
        let who = answer.json();
        assert_eq!(who["name"], "optik-admin");
        let groups = json!(["system:masters", "system:authenticated"]);
        assert_eq!(who["groups"], groups);
        assert_eq!(who["credentials"], false, "they are nobody else's business");
    }
}

fn pem(what: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    format!("-----BEGIN {what}-----\n{text}\n-----END {what}-----\n")
}

/// EXT-96.
#[tokio::test]
async fn client_certificate_gives_name_and_groups() {
    let directory = tempfile::tempdir().unwrap();
    let at = IssuanceContext {
        now: support::now(),
        entropy: &SystemEntropy,
    };
    let names = server_names(support::LOCALHOST, None);
    let pki = Pki::in_directory(directory.path(), names, at).unwrap();
    let file = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    let signer = PrivateKeyDer::from_pem_slice(file("ca.key").as_bytes()).unwrap();
    let signer = rcgen::KeyPair::try_from(&signer).unwrap();
    let authority = CertificateDer::from_pem_slice(file("ca.crt").as_bytes()).unwrap();
    let signer = rcgen::Issuer::from_ca_cert_der(&authority, signer).unwrap();
    let alice = |names: &[(rcgen::DnType, &str)]| {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind.clone(), *name);
        }
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &signer).unwrap();
        CertKeyPair {
            certificate: pem("CERTIFICATE", certificate.der()),
            key: pem("PRIVATE KEY", &key.serialize_der()),
        }
    };
    let running = ScriptedServer::start_with_pki(pki).await;
    let devs = alice(&[
        (rcgen::DnType::OrganizationName, "devs"),
        (rcgen::DnType::CommonName, "alice"),
    ]);
    let mut client = Client::certified(&running, HttpVersion::Http2, &devs).await;
    let who = client.get("/who", &[]).await.json();
    assert_eq!(who["name"], "alice");
    assert_eq!(who["groups"], json!(["devs", "system:authenticated"]));
    let id = who["extra"]["authentication.kubernetes.io/credential-id"][0].as_str();
    let id = id.unwrap_or_default().strip_prefix("X509SHA256=").unwrap();
    assert_eq!(id.len(), 64, "{id}");
    // A certificate without a common name gives no user.
    let nameless = alice(&[(rcgen::DnType::OrganizationName, "system:masters")]);
    let mut client = Client::certified(&running, HttpVersion::Http2, &nameless).await;
    assert_eq!(client.get("/who", &[]).await.status, 403);
}

#[tokio::test]
async fn client_certificate_of_unknown_authority_gets_401() {
    let running = ScriptedServer::start(Port::Tls).await;
    let stranger: Pki = support::pki();
    for version in VERSIONS {
        let mut client = Client::certified(&running, version, &stranger.admin).await;
        let answer = client.get("/who", &[]).await;
        assert_eq!(answer.status, 401, "{version:?}");
        assert_eq!(answer.json()["reason"], "Unauthorized");
        let answer = client.get("/healthz", &[]).await;
        assert_eq!(answer.status, 401, "wrong credentials are worse than none");
        let answer = client.get("/who", &[(AUTHORIZATION, GOOD)]).await;
        assert_eq!(answer.json()["name"], "kim", "a token is a second chance");
    }
}

/// `--anonymous-auth=false`
#[tokio::test]
async fn anonymous_auth_false_gives_401_everywhere() {
    let options = optik_serve::ServeOptions {
        anonymous: false,
        ..support::options()
    };
    let running = ScriptedServer::start_with(Port::Tls, options).await;
    for version in VERSIONS {
        let mut client = Client::new(&running, version).await;
        for path in ["/who", "/healthz", "/livez", "/version", "/metrics"] {
            let answer = client.get(path, &[]).await;
            assert_eq!(answer.status, 401, "{path}");
            assert_eq!(answer.json()["reason"], "Unauthorized");
        }
        let known = client.get("/who", &[(AUTHORIZATION, GOOD)]).await;
        assert_eq!(known.json()["name"], "kim");
        let mut client = Client::certified(&running, version, &running.pki.admin).await;
        assert_eq!(client.get("/healthz", &[]).await.status, 200);
    }
}

/// IDENT-2.
#[tokio::test]
async fn bearer_token_authenticates_and_bad_token_gets_401() {
    let running = ScriptedServer::start(Port::Tls).await;
    for version in VERSIONS {
        let mut client = Client::new(&running, version).await;
        let who = client.get("/who", &[(AUTHORIZATION, GOOD)]).await.json();
        assert_eq!((&who["name"], &who["uid"]), (&json!("kim"), &json!("7")));
        let groups = json!(["writers", "readers", "system:authenticated"]);
        assert_eq!(who["groups"], groups);
        assert_eq!(who["credentials"], false);
        for path in ["/who", "/healthz"] {
            let answer = client.get(path, &[(AUTHORIZATION, "Bearer nope")]).await;
            assert_eq!(answer.status, 401, "{path}");
            assert_eq!(answer.json()["message"], "Unauthorized");
        }
    }
}

#[tokio::test]
async fn anonymous_user_sees_only_health_and_version() {
    let running = ScriptedServer::start(Port::Tls).await;
    for version in VERSIONS {
        let mut client = Client::new(&running, version).await;
        for path in ["/healthz", "/livez", "/readyz", "/readyz/ping", "/version"] {
            assert_eq!(client.get(path, &[]).await.status, 200, "{path}");
        }
        for (path, message) in [
            (
                "/metrics",
                r#"forbidden: User "system:anonymous" cannot get path "/metrics""#,
            ),
            (
                "/apis/apps/v1/namespaces/x/deployments/d?watch=1",
                r#"deployments.apps "d" is forbidden: User "system:anonymous" cannot get resource "deployments" in API group "apps" in the namespace "x""#,
            ),
        ] {
            let answer = client.get(path, &[]).await;
            assert_eq!(answer.status, 403);
            assert_eq!(answer.json()["message"], message);
            assert_eq!(answer.header("x-content-type-options"), "nosniff");
        }
        let write = request(Method::POST, "/healthz", &[], "{}");
        assert_eq!(client.send(write).await.status, 403);
    }
}

/// A client whose token is ignored for extra space before it gets a warning.
#[tokio::test]
async fn bearer_token_with_extra_space_gets_a_warning() {
    let running = ScriptedServer::start(Port::Tls).await;
    let mut client = Client::new(&running, HttpVersion::Http2).await;
    let warning = "299 - \"the provided Authorization header contains extra space before the \
                   bearer token, and is ignored\"";
    for (sent, told) in [
        ("Bearer  secret", warning),
        ("bearer   x", warning),
        ("Bearer", ""),
        ("Bearer  ", ""),
        ("Basic  x", ""),
    ] {
        let answer = client.get("/version", &[(AUTHORIZATION, sent)]).await;
        assert_eq!(answer.status, 200, "{sent}");
        assert_eq!(answer.header("warning"), told, "{sent}");
    }
}

/// The response to HEAD has the headers of the response to GET.
#[tokio::test]
async fn head_requests_get_headers_without_a_body() {
    let running = ScriptedServer::start(Port::Tls).await;
    for version in VERSIONS {
        let mut client = Client::new(&running, version).await;
        for path in ["/whole/4000", "/stream/4000", "/nothing"] {
            let credentials = [(AUTHORIZATION, GOOD)];
            let whole = client.get(path, &credentials).await;
            let head = client
                .send(request(Method::HEAD, path, &credentials, ""))
                .await;
            assert_eq!(head.status, whole.status, "{version:?} {path}");
            assert_eq!(head.text(), "");
            let length = head.header("content-length");
            let known = whole.headers.contains_key("content-length");
            let expected = known.then(|| whole.body.len().to_string());
            assert_eq!(length, expected.unwrap_or_default(), "{version:?} {path}");
        }
    }
}

#[tokio::test]
async fn plain_http_port_makes_clients_admin_except_web_pages() {
    let running = ScriptedServer::start(Port::Plain).await;
    for version in VERSIONS {
        let mut client = Client::plain(&running, version).await;
        let who = client.get("/who", &[]).await.json();
        assert_eq!(who["name"], "system:admin");
        let page = [(http::header::ORIGIN, "https://example.com")];
        assert_eq!(client.get("/who", &page).await.status, 403);
    }
}

#[tokio::test]
async fn plain_http_on_the_tls_port_gets_400() {
    let running = ScriptedServer::start(Port::Tls).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(
        answer,
        "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
    );
}

/// HTTP/2 SETTINGS as in the first frame. WIRE-79.
#[tokio::test]
async fn http2_settings_frame_has_upstream_limits() {
    let running = ScriptedServer::start(Port::Tls).await;
    let mut stream = tls(&running, HttpVersion::Http2, None).await;
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await
        .unwrap();
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(head[3], 4, "SETTINGS");
    let mut payload = vec![0; usize::from(head[2])];
    stream.read_exact(&mut payload).await.unwrap();
    let setting = |id: u8| {
        let found = payload.chunks(6).find(|setting| setting[1] == id).unwrap();
        u32::from_be_bytes(found[2..6].try_into().unwrap())
    };
    assert!(setting(3) >= 100, "streams");
    assert_eq!(setting(4), 256 * 1024, "window");
    assert_eq!(setting(5), 256 * 1024, "frame");
    assert_eq!(setting(6), 1024 * 1024, "headers");
}

#[tokio::test]
async fn http2_connection_carries_many_streams() {
    let running = ScriptedServer::start(Port::Tls).await;
    let mut client = Client::new(&running, HttpVersion::Http2).await;
    let mut watches = Vec::new();
    for _ in 0..99 {
        let watch = request(
            Method::GET,
            "/api/v1/pods?watch=1",
            &[(AUTHORIZATION, GOOD)],
            "",
        );
        let mut answer = client.begin(watch).await;
        let event = answer.body_mut().frame().await.unwrap().unwrap();
        assert_eq!(event.into_data().unwrap(), "{\"type\":\"ADDED\"}\n");
        watches.push(answer);
    }
    assert_eq!(client.get("/healthz", &[]).await.status, 200);
}
