//! TLS configuration: the server certificate, client certificate verification, and reloading.

use optik_platform::UnixMillis;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use thiserror::Error;
use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{
    self, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme,
};

/// The ALPN protocol id of HTTP/2.
pub(crate) const ALPN_HTTP_2: &[u8] = b"h2";

/// The TLS configuration of a port. Clones share it: a replacement in one applies to all.
#[derive(Clone)]
pub struct TlsMaterial {
    current: Arc<RwLock<Arc<TlsSnapshot>>>,
}

/// The TLS configuration at one moment.
pub(crate) struct TlsSnapshot {
    pub(crate) config: Arc<ServerConfig>,
    client_verifier: Option<Arc<dyn ClientCertVerifier>>,
}

#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    #[error("there is no certificate in the server's certificate file")]
    NoCertificate,
    #[error("cannot read the server's certificate")]
    Certificate(#[source] pem::Error),
    #[error("cannot read the server's key")]
    Key(#[source] pem::Error),
    #[error("cannot use the server's certificate with its key")]
    Pair(#[source] rustls::Error),
    #[error("cannot read the certificate authorities of clients")]
    ClientAuthorities(#[source] pem::Error),
    #[error("a certificate authority of clients is unusable")]
    ClientAuthority(#[source] rustls::Error),
    #[error("the certificate authorities of clients are unusable")]
    ClientVerifier(#[source] VerifierBuilderError),
}

impl TlsMaterial {
    /// Parses PEM: the server certificate with its chain, its key, and the client certificate
    /// authorities. Without authorities, clients are not asked for certificates.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn new(
        certificate: &[u8],
        key: &[u8],
        client_authorities: &[u8],
    ) -> Result<Self, TlsError> {
        let chain = parse_certificates(certificate).map_err(TlsError::Certificate)?;
        if chain.is_empty() {
            return Err(TlsError::NoCertificate);
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(TlsError::Key)?;
        let clients = client_verifier(client_authorities)?;
        // The ring provider supports both TLS versions: this cannot fail.
        let builder = ServerConfig::builder_with_provider(Arc::new(crypto_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Pair)?;
        let builder = match &clients {
            Some(inner) => {
                let inner = Arc::clone(inner);
                builder.with_client_cert_verifier(Arc::new(DeferredClientVerifier { inner }))
            }
            None => builder.with_no_client_auth(),
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(TlsError::Pair)?;
        config.ignore_client_order = true;
        config.alpn_protocols = vec![ALPN_HTTP_2.to_vec(), b"http/1.1".to_vec()];
        let config = Arc::new(config);
        let material = Arc::new(TlsSnapshot {
            config,
            client_verifier: clients,
        });
        Ok(Self {
            current: Arc::new(RwLock::new(material)),
        })
    }

    /// New connections get the certificate of `newer`, and client certificates are verified with
    /// its authorities. Open connections keep theirs.
    pub fn replace(&self, newer: &Self) {
        let newer = newer.current();
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = newer;
    }

    pub(crate) fn current(&self) -> Arc<TlsSnapshot> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current)
    }
}

impl TlsSnapshot {
    /// Verifies a client certificate against the client authorities.
    pub(crate) fn verify_client(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixMillis,
    ) -> Result<(), rustls::Error> {
        let unknown = rustls::CertificateError::UnknownIssuer;
        let clients = self.client_verifier.as_ref().ok_or(unknown)?;
        let now = UnixTime::since_unix_epoch(Duration::from_millis(now.0));
        clients
            .verify_client_cert(certificate, chain, now)
            .map(drop)
    }
}

/// AES-128 comes first, as in Go's servers: it is secure, and a large list costs a quarter less
/// encryption time than with AES-256.
fn crypto_provider() -> CryptoProvider {
    let mut provider = ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| {
        let name = suite.suite().as_str().unwrap_or_default();
        !name.contains("AES_128")
    });
    provider
}

impl fmt::Debug for TlsMaterial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsMaterial").finish_non_exhaustive()
    }
}

fn parse_certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    CertificateDer::pem_slice_iter(pem).collect()
}

fn client_verifier(authorities: &[u8]) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
    let authorities = parse_certificates(authorities).map_err(TlsError::ClientAuthorities)?;
    if authorities.is_empty() {
        return Ok(None);
    }
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority).map_err(TlsError::ClientAuthority)?;
    }
    let provider = Arc::new(ring::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    builder.build().map(Some).map_err(TlsError::ClientVerifier)
}

/// Requests client certificates and accepts every one in the handshake.
///
/// A certificate of an unknown authority must not end the handshake: the client would see a broken
/// connection instead of a 401, and could not use a valid token either. The handshake still proves
/// that the client holds the certificate's key; the chain is verified afterwards, with
/// [`TlsSnapshot::verify_client`].
#[derive(Debug)]
struct DeferredClientVerifier {
    inner: Arc<dyn ClientCertVerifier>,
}

impl ClientCertVerifier for DeferredClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
