//! Options of authentication and authorization.

use optik_auth::TokenFile;
use optik_auth::jwt::{PublicKey, SigningKey};
use std::sync::Arc;

/// The authorizer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthorizationMode {
    /// RBAC: roles and their bindings.
    #[default]
    Rbac,
    /// Every authenticated request is allowed.
    AlwaysAllow,
}

#[derive(Clone, Debug, Default)]
pub struct AuthOptions {
    pub authorization: AuthorizationMode,
    /// Static tokens that a TokenReview accepts, besides service account tokens.
    pub tokens: TokenFile,
    /// `None`: no service account tokens are issued.
    pub service_accounts: Option<Arc<ServiceAccountOptions>>,
}

/// Options of service account tokens.
#[derive(Debug)]
pub struct ServiceAccountOptions {
    pub signing_key: SigningKey,
    /// Further keys whose signatures are accepted.
    pub verification_keys: Vec<PublicKey>,
    /// The issuer of tokens: a URL.
    pub issuer: String,
    /// Audiences of tokens that request none; the issuer if empty.
    pub audiences: Vec<String>,
    /// URL of the JWKS; below the issuer if empty.
    pub jwks_uri: String,
    /// The longest lifetime of a token.
    pub expiration_seconds_max: i64,
}

impl ServiceAccountOptions {
    #[must_use]
    pub fn new(signing: SigningKey, issuer: impl Into<String>) -> Self {
        Self {
            signing_key: signing,
            verification_keys: Vec::new(),
            issuer: issuer.into(),
            audiences: Vec::new(),
            jwks_uri: String::new(),
            expiration_seconds_max: 1 << 32,
        }
    }

    pub(super) fn audiences(&self) -> &[String] {
        match self.audiences.is_empty() {
            true => std::slice::from_ref(&self.issuer),
            false => &self.audiences,
        }
    }
}
