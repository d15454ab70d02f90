//! What a server is told about access.

use optik_auth::TokenFile;
use optik_auth::jwt::{PublicKey, SigningKey};
use std::sync::Arc;

/// Who decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthorizationMode {
    /// Roles and their bindings.
    #[default]
    Rbac,
    /// Every authenticated request is allowed.
    AlwaysAllow,
}

#[derive(Clone, Debug, Default)]
pub struct AuthOptions {
    pub authorization: AuthorizationMode,
    /// Tokens that reviews find good, beside those of service accounts.
    pub tokens: TokenFile,
    /// Without them there are no tokens for service accounts.
    pub service_accounts: Option<Arc<ServiceAccountOptions>>,
}

/// How tokens of service accounts are made.
#[derive(Debug)]
pub struct ServiceAccountOptions {
    pub signing_key: SigningKey,
    /// Tokens by these are believed as well.
    pub verification_keys: Vec<PublicKey>,
    /// Whom tokens name as their issuer: a URL.
    pub issuer: String,
    /// Whom tokens are for if nobody says; the issuer if empty.
    pub audiences: Vec<String>,
    /// Where others find the keys; below the issuer if empty.
    pub jwks_uri: String,
    /// The longest that a token may last.
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
