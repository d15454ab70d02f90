//! TLS server verification for webhooks: CA bundles, system roots, and Go's rules.

use std::sync::{Arc, OnceLock};
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::verify_server_name,
};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Locations of the system's CA certificates.
const SYSTEM_CA_FILES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(ring::default_provider())))
}

/// A TLS client configuration that trusts a CA bundle; an empty bundle means the system roots.
pub(crate) fn client_config(authorities: &[u8]) -> Result<Arc<ClientConfig>, String> {
    let roots = match authorities {
        [] => system_roots().to_vec(),
        bundle => certificates(bundle),
    };
    if roots.is_empty() && !authorities.is_empty() {
        return Err("unable to load root certificates: unable to parse bytes as PEM block".into());
    }
    let builder = ClientConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    let mut config = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(GoCertVerifier::new(roots)?))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn certificates(bundle: &[u8]) -> Vec<CertificateDer<'static>> {
    let certificates = CertificateDer::pem_slice_iter(bundle);
    certificates.filter_map(Result::ok).collect()
}

/// The system's CA certificates, read once: they change only with the system's packages.
fn system_roots() -> &'static [CertificateDer<'static>] {
    static ROOTS: OnceLock<Vec<CertificateDer<'static>>> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let named = std::env::var_os("SSL_CERT_FILE").map(std::path::PathBuf::from);
        let known = SYSTEM_CA_FILES.iter().map(std::path::PathBuf::from);
        let files = named.into_iter().chain(known);
        let mut found = files.filter_map(|file| std::fs::read(file).ok());
        found.next().map_or(Vec::new(), |file| certificates(&file))
    })
}

/// The standard verifier with one exception of Go's: a certificate that is in the bundle itself is
/// trusted, even if it is a CA certificate. Simple self-signed certificates are such.
#[derive(Debug)]
struct GoCertVerifier {
    webpki: Option<Arc<WebPkiServerVerifier>>,
    roots: Vec<CertificateDer<'static>>,
}

impl GoCertVerifier {
    fn new(roots: Vec<CertificateDer<'static>>) -> Result<Self, String> {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(roots.iter().cloned());
        let usual = match store.is_empty() {
            true => None,
            false => {
                let usual =
                    WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider());
                Some(usual.build().map_err(|error| error.to_string())?)
            }
        };
        Ok(Self {
            webpki: usual,
            roots,
        })
    }

    fn verify_with_webpki(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.webpki {
            Some(usual) => usual.verify_server_cert(certificate, between, name, &[], now),
            None => Err(CertificateError::UnknownIssuer.into()),
        }
    }
}

impl ServerCertVerifier for GoCertVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.verify_with_webpki(certificate, between, name, now);
        let is_root = self.roots.iter().any(|root| root == certificate);
        if verified.is_ok() || !is_root {
            return verified;
        }
        check_time(certificate, now)?;
        verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &provider().signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &provider().signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

fn check_time(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let (_, parsed) = X509Certificate::from_der(certificate)
        .map_err(|_| Error::from(CertificateError::BadEncoding))?;
    let (from, to) = (parsed.validity().not_before, parsed.validity().not_after);
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    match (now < from.timestamp(), now > to.timestamp()) {
        (true, _) => Err(CertificateError::NotValidYet.into()),
        (_, true) => Err(CertificateError::Expired.into()),
        _ => Ok(()),
    }
}
