//! Authentication: client certificates, bearer tokens and anonymous requests (the authenticators of
//! this crate).

use crate::handler::Handler;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use optik_auth::{TokenFile, User};
use optik_object::Status;
use optik_platform::{Clock, UnixMillis};
use sha2::{Digest, Sha256};
use std::sync::{Arc, LazyLock};
use tokio_rustls::rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The key of the user's extra field that identifies the client certificate.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The identity that the connection itself provides.
#[derive(Debug)]
pub(crate) enum ConnectionIdentity {
    Unknown,
    /// A certificate signed by one of our client certificate authorities.
    Certificate {
        user: Arc<User>,
        expires: UnixMillis,
    },
    /// A certificate of an unknown authority, or none where anonymous requests are not allowed:
    /// only a bearer token can authenticate the request.
    Rejected,
    /// A client on this machine, on the port without TLS and authentication.
    Local(Arc<User>),
}

impl ConnectionIdentity {
    pub(crate) fn local() -> Self {
        Self::Local(Arc::new(User::admin()))
    }

    /// The identity under the given setting for anonymous requests.
    pub(crate) fn with_anonymous(self, allowed: bool) -> Self {
        match self {
            Self::Unknown if !allowed => Self::Rejected,
            other => other,
        }
    }
}

/// The credential by which a request was authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credential<'a> {
    /// A credential that cannot expire while the server runs: the port, the token file, or no
    /// credential.
    Permanent,
    /// A client certificate, valid until this time.
    Certificate(UnixMillis),
    /// A token that the handler verified.
    Token(&'a [u8]),
}

/// Authenticates with the client certificate first, then with the bearer token. A request without
/// credentials is anonymous; a request with invalid credentials gets 401, so that a typing error
/// does not look like missing permissions.
pub(crate) fn authenticate<'a, H: Handler>(
    identity: &ConnectionIdentity,
    headers: &'a HeaderMap,
    tokens: &TokenFile,
    handler: &H,
    clock: &dyn Clock,
) -> Result<(Arc<User>, Credential<'a>), Status> {
    match identity {
        // On the loopback port, a bearer token takes precedence over the identity of the port.
        ConnectionIdentity::Local(user) if bearer_token(headers).is_none() => {
            return Ok((Arc::clone(user), Credential::Permanent));
        }
        // A connection may outlive the certificate it was opened with.
        ConnectionIdentity::Certificate { user, expires } if clock.wall() <= *expires => {
            return Ok((Arc::clone(user), Credential::Certificate(*expires)));
        }
        ConnectionIdentity::Local(_)
        | ConnectionIdentity::Certificate { .. }
        | ConnectionIdentity::Rejected
        | ConnectionIdentity::Unknown => {}
    }
    let Some(token) = bearer_token(headers) else {
        return match identity {
            ConnectionIdentity::Unknown => Ok((anonymous(), Credential::Permanent)),
            _ => Err(Status::unauthorized()),
        };
    };
    if let Some(user) = tokens.user_for(token) {
        return Ok((Arc::clone(user), Credential::Permanent));
    }
    // A revoked token must be rejected even if the revocation has not reached this server yet.
    handler.ensure_tokens_current()?;
    let user = handler.authenticate(token);
    let user = user.ok_or_else(Status::unauthorized)?;
    Ok((user, Credential::Token(token)))
}

fn anonymous() -> Arc<User> {
    static NOBODY: LazyLock<Arc<User>> = LazyLock::new(|| Arc::new(User::anonymous()));
    Arc::clone(&NOBODY)
}

/// The token of `Authorization: Bearer …`; other schemes are ignored.
fn bearer_token(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes().trim_ascii();
    let mut words = value.split(|byte| *byte == b' ');
    let bearer = words.next()?.eq_ignore_ascii_case(b"bearer");
    let token = words.next().filter(|token| !token.is_empty())?;
    bearer.then_some(token)
}

/// Whether the header has extra space before the token, for which the token is ignored.
pub(crate) fn has_ignored_token(headers: &HeaderMap) -> bool {
    let value = headers
        .get(AUTHORIZATION)
        .map_or(&b""[..], |value| value.as_bytes());
    let mut words = value.trim_ascii().split(|byte| *byte == b' ');
    let bearer = words
        .next()
        .is_some_and(|word| word.eq_ignore_ascii_case(b"bearer"));
    bearer && words.next().is_some_and(<[u8]>::is_empty) && words.any(|word| !word.is_empty())
}

/// The user of a certificate whose signatures have been verified: the common name is the user name,
/// the organizations are the groups.
pub(crate) fn identity_from_certificate(certificate: &CertificateDer<'_>) -> ConnectionIdentity {
    let fingerprint = Sha256::digest(certificate);
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else {
        return ConnectionIdentity::Rejected;
    };
    let subject = certificate.subject();
    let text = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
        attribute.as_str().map(str::to_owned).ok()
    };
    let Some(name) = subject.iter_common_name().filter_map(text).last() else {
        return ConnectionIdentity::Unknown;
    };
    if name.is_empty() {
        return ConnectionIdentity::Unknown;
    }
    let groups = subject.iter_organization().filter_map(text).collect();
    let expires = certificate.validity().not_after.timestamp();
    let fingerprint: String = fingerprint
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let id = format!("X509SHA256={fingerprint}");
    let user = User {
        name,
        groups,
        extra: [(CREDENTIAL_ID.to_owned(), vec![id])].into(),
        ..User::default()
    };
    ConnectionIdentity::Certificate {
        user: Arc::new(user.authenticated()),
        expires: UnixMillis(u64::try_from(expires).unwrap_or(0).saturating_mul(1000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use optik_apiserver::{ApiRequest, ApiResponse};
    use optik_platform::ManualClock;

    /// A handler that accepts one token.
    struct OneTokenHandler;

    impl Handler for OneTokenHandler {
        async fn handle(&self, _: ApiRequest) -> ApiResponse {
            ApiResponse::empty(http::StatusCode::OK)
        }

        fn authenticate(&self, token: &[u8]) -> Option<Arc<User>> {
            let robot = User {
                name: "robot".into(),
                ..User::default()
            };
            (token == b"signed").then(|| Arc::new(robot.authenticated()))
        }
    }

    fn try_with(identity: &ConnectionIdentity, authorization: &str) -> Result<String, u16> {
        let mut headers = HeaderMap::new();
        if !authorization.is_empty() {
            let value = HeaderValue::from_str(authorization).unwrap();
            headers.insert(AUTHORIZATION, value);
        }
        let tokens = TokenFile::parse("secret,kim,7,\"a,b\"\n".as_bytes()).unwrap();
        let clock = ManualClock::new(UnixMillis(1_000));
        let user = authenticate(identity, &headers, &tokens, &OneTokenHandler, &clock);
        let (user, _) = user.map_err(|status| status.code())?;
        Ok(format!("{} {}", user.name, user.groups.join(" ")))
    }

    /// IDENT-1, IDENT-2.
    #[test]
    fn authentication_prefers_certificate_then_bearer_token() {
        let by_certificate = |expires| ConnectionIdentity::Certificate {
            user: Arc::new(
                User {
                    name: "eve".into(),
                    ..User::default()
                }
                .authenticated(),
            ),
            expires: UnixMillis(expires),
        };
        let kim = Ok("kim a b system:authenticated".to_owned());
        let eve = Ok("eve system:authenticated".to_owned());
        let nobody = Ok("system:anonymous system:unauthenticated".to_owned());
        for (identity, authorization, expected) in [
            (ConnectionIdentity::Unknown, "", nobody.clone()),
            (ConnectionIdentity::Unknown, "Basic a2lt", nobody.clone()),
            (ConnectionIdentity::Unknown, "Bearer", nobody),
            (ConnectionIdentity::Unknown, "Bearer secret", kim.clone()),
            (
                ConnectionIdentity::Unknown,
                "bearer secret more",
                kim.clone(),
            ),
            (
                ConnectionIdentity::Unknown,
                "Bearer signed",
                Ok("robot system:authenticated".to_owned()),
            ),
            (ConnectionIdentity::Unknown, "Bearer secre", Err(401)),
            (by_certificate(1_000), "", eve.clone()),
            (by_certificate(1_000), "Bearer wrong", eve),
            (by_certificate(999), "", Err(401)),
            (by_certificate(999), "Bearer secret", kim.clone()),
            (ConnectionIdentity::Rejected, "", Err(401)),
            (ConnectionIdentity::Rejected, "Bearer secret", kim.clone()),
        ] {
            let found = try_with(&identity, authorization);
            assert_eq!(found, expected, "{identity:?} {authorization}");
        }
        let stranger = || ConnectionIdentity::Unknown.with_anonymous(false);
        assert_eq!(try_with(&stranger(), ""), Err(401));
        assert_eq!(try_with(&stranger(), "Basic a2lt"), Err(401));
        assert_eq!(try_with(&stranger(), "Bearer secret"), kim);
        let eve = by_certificate(1_000).with_anonymous(false);
        assert!(try_with(&eve, "").is_ok());
        let local = try_with(&ConnectionIdentity::local(), "").unwrap();
        assert_eq!(local, "system:admin system:masters system:authenticated");
        assert_eq!(try_with(&ConnectionIdentity::local(), "Bearer secret"), kim);
        assert_eq!(
            try_with(&ConnectionIdentity::local(), "Bearer wrong"),
            Err(401)
        );
    }
}
