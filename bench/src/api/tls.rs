//! TLS configuration of the client: server verification and client certificate.

use super::access::{ClientKeyPair, ServerAccess};
use crate::error::BenchError;
use std::sync::Arc;
use tokio_rustls::rustls;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// `protocol` is the ALPN protocol to offer: `h2` or `http/1.1`.
pub(crate) fn config(access: &ServerAccess, protocol: &str) -> Result<ClientConfig, BenchError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|cause| BenchError::new("cannot speak TLS", cause))?;
    let builder = if access.insecure {
        let anyone = Arc::new(TrustAnyCertificate(provider));
        builder.dangerous().with_custom_certificate_verifier(anyone)
    } else {
        builder.with_root_certificates(roots(access)?)
    };
    let mut config = match &access.identity {
        Some(identity) => {
            let (certificates, key) = decode(identity)?;
            builder
                .with_client_auth_cert(certificates, key)
                .map_err(|cause| BenchError::new("cannot use the client certificate", cause))?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    Ok(config)
}

fn roots(access: &ServerAccess) -> Result<RootCertStore, BenchError> {
    let pem = access.authority.as_deref().ok_or_else(|| {
        BenchError::from_message(format!(
            "cannot trust {}: no authority was given",
            access.server
        ))
        .with_hint("Give its certificate with --ca FILE, or --insecure-skip-tls-verify.")
    })?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots
            .add(certificate)
            .map_err(|cause| BenchError::new("cannot use the certificate authority", cause))?;
    }
    Ok(roots)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, BenchError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if all.is_empty() => Err(BenchError::from_message(
            "there is no certificate in the PEM text",
        )),
        Ok(all) => Ok(all),
        Err(cause) => Err(BenchError::new("cannot read a certificate", cause)),
    }
}

fn decode(
    identity: &ClientKeyPair,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), BenchError> {
    let key = PrivateKeyDer::from_pem_slice(&identity.key)
        .map_err(|cause| BenchError::new("cannot read the client key", cause))?;
    Ok((certificates(&identity.certificate)?, key))
}

/// Trusts any certificate, but still checks that the server holds its private key.
#[derive(Debug)]
struct TrustAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
