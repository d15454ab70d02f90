//! Signing keys of service account tokens, and their public halves.

use super::der::{self, SpkiKey};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::rsa::KeyPair as RsaKeyPair;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED,
    ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt;
use thiserror::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    #[error("no PEM-encoded key found")]
    NoPem,
    #[error("unsupported key: must be RSA, P-256 or P-384 in PKCS#8, PKCS#1 or SEC 1 format")]
    Unsupported,
    #[error("a private key is required for signing, found only a public key")]
    PublicOnly,
    #[error("cannot generate a key")]
    Generate,
    #[error("signing failed")]
    Sign,
}

pub struct SigningKey {
    pair: SigningKeyPair,
    public: PublicKey,
}

enum SigningKeyPair {
    Ec(KeyAlgorithm, Box<EcdsaKeyPair>),
    Rsa(Box<RsaKeyPair>),
}

/// A key that verifies tokens. It holds no secret.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    kind: KeyAlgorithm,
    /// The public key in the encoding of its algorithm.
    bits: Vec<u8>,
    id: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyAlgorithm {
    P256,
    P384,
    Rsa,
}

/// The signature algorithms of the supported curves.
const CURVES: [(KeyAlgorithm, &EcdsaSigningAlgorithm); 2] = [
    (KeyAlgorithm::P256, &ECDSA_P256_SHA256_FIXED_SIGNING),
    (KeyAlgorithm::P384, &ECDSA_P384_SHA384_FIXED_SIGNING),
];
/// The PEM block that `openssl ecparam` writes before a key; it is ignored, because the key repeats
/// it.
const EC_PARAMETERS_LABEL: &str = "EC PARAMETERS";

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public.id)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.id)
    }
}

impl SigningKey {
    /// Generates a key; returns it with its PEM encoding.
    ///
    /// # Errors
    /// If the system's random number generator fails.
    pub fn generate() -> Result<(Self, String), KeyError> {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        let made = made.map_err(|_| KeyError::Generate)?;
        let text = to_pem("PRIVATE KEY", made.as_ref());
        Ok((Self::from_pem(text.as_bytes())?, text))
    }

    /// Reads a private key from a PEM file.
    ///
    /// # Errors
    /// If the file has no usable private key.
    pub fn from_pem(text: &[u8]) -> Result<Self, KeyError> {
        let (label, bytes) = pem_blocks(text).into_iter().next().ok_or(KeyError::NoPem)?;
        Self::from_block(&label, &bytes)
    }

    fn from_block(label: &str, bytes: &[u8]) -> Result<Self, KeyError> {
        let pair = match label {
            "PRIVATE KEY" => ec_from_pkcs8(bytes).or_else(|| {
                let pair = RsaKeyPair::from_pkcs8(bytes).ok()?;
                Some(SigningKeyPair::Rsa(Box::new(pair)))
            }),
            "EC PRIVATE KEY" => ec_from_sec1(bytes),
            "RSA PRIVATE KEY" => RsaKeyPair::from_der(bytes)
                .ok()
                .map(|pair| SigningKeyPair::Rsa(Box::new(pair))),
            "PUBLIC KEY" => return Err(KeyError::PublicOnly),
            _ => return Err(KeyError::Unsupported),
        };
        let pair = pair.ok_or(KeyError::Unsupported)?;
        let public = match &pair {
            SigningKeyPair::Ec(kind, pair) => {
                let bits = pair.public_key().as_ref();
                PublicKey::new(match kind {
                    KeyAlgorithm::P384 => SpkiKey::P384(bits),
                    _ => SpkiKey::P256(bits),
                })
            }
            SigningKeyPair::Rsa(pair) => PublicKey::new(SpkiKey::Rsa(pair.public_key().as_ref())),
        };
        Ok(Self { pair, public })
    }

    #[must_use]
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let random = SystemRandom::new();
        match &self.pair {
            SigningKeyPair::Ec(_, pair) => {
                let signature = pair.sign(&random, message).map_err(|_| KeyError::Sign)?;
                Ok(signature.as_ref().to_vec())
            }
            SigningKeyPair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .map_err(|_| KeyError::Sign)?;
                Ok(signature)
            }
        }
    }
}

impl PublicKey {
    fn new(key: SpkiKey<'_>) -> Self {
        let (kind, bits) = match key {
            SpkiKey::P256(bits) => (KeyAlgorithm::P256, bits),
            SpkiKey::P384(bits) => (KeyAlgorithm::P384, bits),
            SpkiKey::Rsa(bits) => (KeyAlgorithm::Rsa, bits),
        };
        Self {
            kind,
            bits: bits.to_vec(),
            id: URL_SAFE_NO_PAD.encode(Sha256::digest(der::to_spki(key))),
        }
    }

    /// All public keys in a PEM file, also those of private keys and certificates.
    ///
    /// # Errors
    /// If there is none, or one of an unsupported type.
    pub fn all_from_pem(text: &[u8]) -> Result<Vec<Self>, KeyError> {
        let blocks = pem_blocks(text);
        if blocks.is_empty() {
            return Err(KeyError::NoPem);
        }
        let read = |(label, bytes): (String, Vec<u8>)| match label.as_str() {
            "PUBLIC KEY" => der::from_spki(&bytes)
                .map(Self::new)
                .ok_or(KeyError::Unsupported),
            "CERTIFICATE" => der::certificate_spki(&bytes)
                .and_then(der::from_spki)
                .map(Self::new)
                .ok_or(KeyError::Unsupported),
            label => SigningKey::from_block(label, &bytes).map(|key| key.public),
        };
        blocks.into_iter().map(read).collect()
    }

    /// The key ID (`kid`): a hash of the public key.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    #[must_use]
    pub fn algorithm(&self) -> &'static str {
        match self.kind {
            KeyAlgorithm::P256 => "ES256",
            KeyAlgorithm::P384 => "ES384",
            KeyAlgorithm::Rsa => "RS256",
        }
    }

    pub(super) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let algorithm: &dyn VerificationAlgorithm = match self.kind {
            KeyAlgorithm::P256 => &ECDSA_P256_SHA256_FIXED,
            KeyAlgorithm::P384 => &ECDSA_P384_SHA384_FIXED,
            KeyAlgorithm::Rsa => &RSA_PKCS1_2048_8192_SHA256,
        };
        let key = UnparsedPublicKey::new(algorithm, &self.bits);
        key.verify(message, signature).is_ok()
    }

    /// The public key as an entry of a JSON Web Key Set.
    #[must_use]
    pub fn jwk(&self) -> Value {
        let number = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self.kind {
            KeyAlgorithm::P256 | KeyAlgorithm::P384 => {
                let curve = match self.kind {
                    KeyAlgorithm::P384 => "P-384",
                    _ => "P-256",
                };
                let point = self.bits.get(1..).unwrap_or_default();
                let (x, y) = point.split_at(point.len() / 2);
                json!({
                    "use": "sig", "kty": "EC", "kid": self.id, "crv": curve, "alg": self.algorithm(),
                    "x": number(x), "y": number(y),
                })
            }
            KeyAlgorithm::Rsa => {
                let (modulus, exponent) = der::rsa_numbers(&self.bits).unwrap_or_default();
                json!({
                    "use": "sig", "kty": "RSA", "kid": self.id, "alg": "RS256",
                    "n": number(modulus), "e": number(exponent),
                })
            }
        }
    }
}

/// Reads a PKCS#8 key on one of the supported curves.
fn ec_from_pkcs8(bytes: &[u8]) -> Option<SigningKeyPair> {
    let random = SystemRandom::new();
    CURVES.into_iter().find_map(|(kind, algorithm)| {
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, bytes, &random).ok()?;
        Some(SigningKeyPair::Ec(kind, Box::new(pair)))
    })
}

/// Reads a SEC 1 key.
fn ec_from_sec1(bytes: &[u8]) -> Option<SigningKeyPair> {
    let key = der::parse_sec1(bytes)?;
    let (kind, public) = match key.public {
        SpkiKey::P256(bits) => (KeyAlgorithm::P256, bits),
        SpkiKey::P384(bits) => (KeyAlgorithm::P384, bits),
        SpkiKey::Rsa(_) => return None,
    };
    let (_, algorithm) = CURVES.into_iter().find(|(curve, _)| *curve == kind)?;
    let random = SystemRandom::new();
    let pair =
        EcdsaKeyPair::from_private_key_and_public_key(algorithm, key.secret, public, &random);
    Some(SigningKeyPair::Ec(kind, Box::new(pair.ok()?)))
}

fn to_pem(label: &str, bytes: &[u8]) -> String {
    let text = STANDARD.encode(bytes);
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out + &format!("-----END {label}-----\n")
}

/// The labels and contents of the PEM blocks that can hold a key; other blocks are skipped.
fn pem_blocks(text: &[u8]) -> Vec<(String, Vec<u8>)> {
    let text = String::from_utf8_lossy(text);
    let mut found = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines().map(str::trim) {
        let label = |edge: &str| {
            line.strip_prefix(edge)?
                .strip_suffix("-----")
                .map(str::to_owned)
        };
        if let Some(label) = label("-----BEGIN ") {
            open = Some((label, String::new()));
        } else if label("-----END ").is_some() {
            if let Some((label, content)) = open.take()
                && label != EC_PARAMETERS_LABEL
                && let Ok(bytes) = STANDARD.decode(content)
            {
                found.push((label, bytes));
            }
        } else if let Some((_, content)) = &mut open {
            content.push_str(line);
        }
    }
    found
}
