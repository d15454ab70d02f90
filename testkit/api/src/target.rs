//! The address and credentials of the server under test.

use std::sync::Arc;
use tokio_rustls::rustls;

/// A server, and the credentials for it.
#[derive(Clone, Debug)]
pub struct Target {
    /// `host:port`
    pub authority: String,
    /// Absent for plain HTTP.
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
    /// A bearer token.
    pub token: Option<String>,
}

impl Target {
    /// Understands `http://host:port` and `https://host:port`.
    ///
    /// # Errors
    /// If it is neither.
    pub fn parse(url: &str, token: Option<String>) -> Result<Self, String> {
        let (tls, rest) = if let Some(rest) = url.strip_prefix("https://") {
            (Some(Arc::new(any_certificate())), rest)
        } else if let Some(rest) = url.strip_prefix("http://") {
            (None, rest)
        } else {
            return Err(format!("{url}: neither http:// nor https://"));
        };
        Ok(Self {
            authority: rest.trim_end_matches('/').to_owned(),
            tls,
            token,
        })
    }

    /// The server name of the TLS handshake. It is not compared with a certificate.
    pub(crate) fn host(&self) -> &str {
        self.authority
            .rsplit_once(':')
            .map_or(self.authority.as_str(), |(host, _)| host)
    }
}

/// Accepts any certificate: the caller provides the address of a server whose certificate was just
/// created.
fn any_certificate() -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("ring knows the default versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
        .with_no_client_auth()
}

#[derive(Debug)]
struct AcceptAnyCertificate(Arc<rustls::crypto::CryptoProvider>);

impl rustls::client::danger::ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &rustls::pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
