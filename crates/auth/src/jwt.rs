//! Service account tokens as signed JWTs: signing and signature verification.
//!
//! The algorithm follows from the key and never from the token: ES256 for generated keys;
//! configured keys may be RSA (RS256) or P-384 (ES384) too.

mod der;
mod key;

pub use key::{KeyError, PublicKey, SigningKey};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

/// Longer tokens are rejected unread.
const TOKEN_BYTES_MAX: usize = 32 * 1024;
/// Tolerated clock skew, in seconds.
const LEEWAY_SECONDS: i64 = 60;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JwtClaims {
    pub aud: Audiences,
    pub exp: i64,
    pub iat: i64,
    pub iss: String,
    #[serde(default)]
    pub jti: String,
    #[serde(rename = "kubernetes.io", default)]
    pub kubernetes: KubernetesClaims,
    pub nbf: i64,
    pub sub: String,
}

/// The `aud` claim: one string or several; always serialized as a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StringOrList")]
pub struct Audiences(pub Vec<String>);

#[derive(Deserialize)]
#[serde(untagged)]
enum StringOrList {
    One(String),
    More(Vec<String>),
}

impl From<StringOrList> for Audiences {
    fn from(audiences: StringOrList) -> Self {
        Self(match audiences {
            StringOrList::One(one) => vec![one],
            StringOrList::More(more) => more,
        })
    }
}

/// The objects that the token is bound to (claim `kubernetes.io`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubernetesClaims {
    pub namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<BoundObjectReference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<BoundObjectReference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<BoundObjectReference>,
    pub serviceaccount: BoundObjectReference,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnafter: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundObjectReference {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// Why a token is rejected. API clients see only 401; the messages, in upstream's words, appear in
/// the status of a TokenReview.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum JwtError {
    #[error("not a token issued by this server")]
    NotOurs,
    #[error("invalid signature, no keys found")]
    UnknownKey,
    #[error("go-jose/go-jose: error in cryptographic primitive")]
    Signature,
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is not valid yet")]
    NotYetValid,
    #[error("service account token is issued in the future")]
    IssuedInFuture,
    #[error("service account token claims could not be validated")]
    Claims,
}

impl JwtClaims {
    /// Checks `exp`, `nbf` and `iat` against the current time.
    ///
    /// # Errors
    /// If the time is before or after the validity of the token.
    pub fn check_times(&self, now_seconds: i64) -> Result<(), JwtError> {
        let (early, late) = (
            now_seconds.saturating_sub(LEEWAY_SECONDS),
            now_seconds.saturating_add(LEEWAY_SECONDS),
        );
        if late < self.nbf {
            Err(JwtError::NotYetValid)
        } else if early > self.exp {
            Err(JwtError::Expired)
        } else if late < self.iat {
            Err(JwtError::IssuedInFuture)
        } else {
            Ok(())
        }
    }
}

#[derive(Serialize, Deserialize)]
struct JwtHeader {
    alg: String,
    #[serde(default)]
    kid: String,
}

/// Signs claims as a compact JWT.
///
/// # Errors
/// If signing failed.
pub fn sign(key: &SigningKey, claims: &JwtClaims) -> Result<String, KeyError> {
    let header = JwtHeader {
        alg: key.public().algorithm().into(),
        kid: key.public().id().into(),
    };
    let part = |bytes: Vec<u8>| URL_SAFE_NO_PAD.encode(bytes);
    let header = part(serde_json::to_vec(&header).unwrap_or_default());
    let claims = part(serde_json::to_vec(claims).unwrap_or_default());
    let message = format!("{header}.{claims}");
    let signature = URL_SAFE_NO_PAD.encode(key.sign(message.as_bytes())?);
    Ok(format!("{message}.{signature}"))
}

/// Whether a token claims this issuer. The signature is not verified.
#[must_use]
pub fn has_issuer(token: &[u8], issuer: &str) -> bool {
    #[derive(Deserialize)]
    struct IssuerClaim {
        iss: String,
    }
    let Some(parts) = split_parts(token) else {
        return false;
    };
    let claims = URL_SAFE_NO_PAD.decode(parts.claims).unwrap_or_default();
    serde_json::from_slice::<IssuerClaim>(&claims).is_ok_and(|claims| claims.iss == issuer)
}

/// The three parts of a JWT.
struct JwtParts<'a> {
    header: &'a [u8],
    claims: &'a [u8],
    signature: &'a [u8],
}

fn split_parts(token: &[u8]) -> Option<JwtParts<'_>> {
    if token.len() > TOKEN_BYTES_MAX {
        return None;
    }
    let mut parts = token.split(|byte| *byte == b'.');
    let (header, claims, signature) = (parts.next()?, parts.next()?, parts.next()?);
    parts.next().is_none().then_some(JwtParts {
        header,
        claims,
        signature,
    })
}

/// Verifies the signature and the issuer of a token and returns its claims. The caller checks times
/// and audiences.
///
/// # Errors
/// See [`JwtError`].
pub fn verify(token: &[u8], keys: &[PublicKey], issuer: &str) -> Result<JwtClaims, JwtError> {
    let JwtParts {
        header,
        claims,
        signature,
    } = split_parts(token).ok_or(JwtError::NotOurs)?;
    if !has_issuer(token, issuer) {
        return Err(JwtError::NotOurs);
    }
    let decode = |part: &[u8]| URL_SAFE_NO_PAD.decode(part).map_err(|_| JwtError::NotOurs);
    let head: Value = serde_json::from_slice(&decode(header)?).map_err(|_| JwtError::NotOurs)?;
    // `crit` lists header parameters that must be understood; none are supported.
    if head.get("crit").is_some() {
        return Err(JwtError::Signature);
    }
    let word = |member: &str| head.get(member).and_then(Value::as_str).unwrap_or_default();
    let (algorithm, id) = (word("alg"), word("kid"));
    let signature = decode(signature)?;
    let message = &token[..header.len() + 1 + claims.len()];
    let mut named = keys
        .iter()
        .filter(|key| id.is_empty() || id == key.id())
        .peekable();
    if named.peek().is_none() {
        return Err(JwtError::UnknownKey);
    }
    let believed = named.any(|key| key.algorithm() == algorithm && key.verify(message, &signature));
    if !believed {
        return Err(JwtError::Signature);
    }
    let claims: JwtClaims =
        serde_json::from_slice(&decode(claims)?).map_err(|_| JwtError::Claims)?;
    let account = &claims.kubernetes;
    let subject = crate::service_account_name(&account.namespace, &account.serviceaccount.name);
    if claims.sub != subject || account.serviceaccount.uid.is_empty() {
        return Err(JwtError::Claims);
    }
    Ok(claims)
}

#[cfg(test)]
mod tests;
