//! PKCS#10 certificate requests: parsing, signature verification, and the subject's organizations.

use super::blocks;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use x509_parser::asn1_rs::{Any, Tag};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::error::X509Error;
use x509_parser::oid_registry::{OID_PKCS1_SHA1WITHRSA, OID_SHA1_WITH_RSA};
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;

const LABEL: &str = "CERTIFICATE REQUEST";

/// Why a certificate request is invalid, with Go's error texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsrError {
    Label,
    Structure,
    TrailingData,
    /// The signature does not match the public key in the request.
    Signature(&'static str),
}

impl fmt::Display for CsrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Label => "PEM block type must be CERTIFICATE REQUEST",
            Self::Structure => "asn1: structure error: tags don't match",
            Self::TrailingData => "asn1: syntax error: trailing data",
            Self::Signature(text) => text,
        })
    }
}

impl std::error::Error for CsrError {}

/// The DER of a valid request, from the base64 value of `spec.request`.
pub(crate) fn parse(encoded: &str) -> Result<Vec<u8>, CsrError> {
    let document = STANDARD.decode(encoded).unwrap_or_default();
    let document = String::from_utf8_lossy(&document);
    // Parsers differ in which block they take if there are several. With exactly one block they all
    // agree, so a signer signs what was validated here.
    if document.matches("-----BEGIN").count() != 1 {
        return Err(CsrError::Label);
    }
    let first = blocks(&document).into_iter().next();
    let block = first.filter(|block| block.label == LABEL);
    let der = block.ok_or(CsrError::Label)?.der;
    match X509CertificationRequest::from_der(&der) {
        Err(_) => Err(CsrError::Structure),
        Ok((rest, _)) if !rest.is_empty() => Err(CsrError::TrailingData),
        Ok(_) => Ok(der),
    }
}

/// Verifies that the request is signed with its own key. Signatures of unsupported key types, such
/// as rare curves, are accepted and left to the signer.
pub(crate) fn verify(encoded: &str) -> Result<(), CsrError> {
    let der = parse(encoded)?;
    let read = X509CertificationRequest::from_der(&der);
    let (_, request) = read.map_err(|_| CsrError::Structure)?;
    let algorithm = &request.signature_algorithm.algorithm;
    if *algorithm == OID_PKCS1_SHA1WITHRSA || *algorithm == OID_SHA1_WITH_RSA {
        let text = "x509: cannot verify signature: insecure algorithm SHA1-RSA";
        return Err(CsrError::Signature(text));
    }
    let key = request.certification_request_info.subject_pki.parsed();
    let text = match key {
        Ok(PublicKey::RSA(key)) if key.key_size() < RSA_BITS_MIN => return Ok(()),
        Ok(PublicKey::RSA(_)) => "crypto/rsa: verification error",
        Ok(PublicKey::EC(_)) => "x509: ECDSA verification failure",
        _ => "x509: Ed25519 verification failure",
    };
    match request.verify_signature() {
        Err(X509Error::SignatureVerificationError) => Err(CsrError::Signature(text)),
        _ => Ok(()),
    }
}

/// RSA signatures with smaller keys cannot be verified here.
const RSA_BITS_MIN: usize = 2048;

/// The organizations of the subject; they become the groups of the certificate's user.
///
/// # Errors
/// If it is not a valid certificate request.
pub fn organizations(encoded: &str) -> Result<Vec<String>, CsrError> {
    let der = parse(encoded)?;
    let read = X509CertificationRequest::from_der(&der);
    let (_, request) = read.map_err(|_| CsrError::Structure)?;
    let subject = &request.certification_request_info.subject;
    let all = subject.iter_organization();
    Ok(all.map(|one| text(one.attr_value())).collect())
}

/// Decodes an ASN.1 string of any type that a signer may accept.
fn text(value: &Any<'_>) -> String {
    let bytes: &[u8] = value.data;
    match value.tag() {
        Tag::BmpString => {
            let pairs = bytes.chunks_exact(2);
            let units = pairs.map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            char::decode_utf16(units)
                .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
                .collect()
        }
        Tag::UniversalString => {
            let units = bytes.chunks_exact(4);
            let units = units.map(|unit| u32::from_be_bytes([unit[0], unit[1], unit[2], unit[3]]));
            units
                .map(|unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER))
                .collect()
        }
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}
