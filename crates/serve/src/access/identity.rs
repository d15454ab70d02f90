//! From credentials to a user.

use super::Tokens;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use optik_apiserver::User;
use optik_object::Status;
use optik_platform::{Clock, UnixMillis};
use tokio_rustls::rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

const AUTHENTICATED: &str = "system:authenticated";

/// What a connection itself says about its client.
#[derive(Debug)]
pub(crate) enum Identity {
    Unknown,
    /// A certificate by one of our authorities.
    Certified {
        user: User,
        expires: UnixMillis,
    },
    /// A certificate by somebody else, or one that has expired.
    Rejected,
    /// Somebody on this machine, on the port that asks for nothing.
    Local(User),
}

impl Identity {
    pub(crate) fn local() -> Self {
        Self::Local(authenticated(User {
            name: "system:admin".into(),
            groups: vec!["system:masters".into()],
            uid: String::new(),
        }))
    }
}

/// The client certificate first, then the bearer token. Nothing at all is anonymous;
/// something that proves nothing is refused, so that a typing error does not look like
/// missing permissions.
pub(crate) fn authenticate(
    identity: &Identity,
    headers: &HeaderMap,
    tokens: &Tokens,
    clock: &dyn Clock,
) -> Result<User, Status> {
    match identity {
        Identity::Local(user) => return Ok(user.clone()),
        // A connection may outlive the certificate it was opened with.
        Identity::Certified { user, expires } if clock.wall() <= *expires => {
            return Ok(user.clone());
        }
        Identity::Certified { .. } | Identity::Rejected | Identity::Unknown => {}
    }
    match bearer_token(headers) {
        Some(token) => match tokens.find(token) {
            Some(user) => Ok(authenticated(user.clone())),
            None => Err(Status::unauthorized()),
        },
        None if matches!(identity, Identity::Unknown) => Ok(User::anonymous()),
        None => Err(Status::unauthorized()),
    }
}

/// The token of `Authorization: Bearer …`; other schemes are as good as nothing.
fn bearer_token(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes().trim_ascii();
    let mut words = value.split(|byte| *byte == b' ');
    let bearer = words.next()?.eq_ignore_ascii_case(b"bearer");
    let token = words.next().filter(|token| !token.is_empty())?;
    bearer.then_some(token)
}

fn authenticated(mut user: User) -> User {
    if !user.groups.iter().any(|group| group == AUTHENTICATED) {
        user.groups.push(AUTHENTICATED.into());
    }
    user
}

/// The user in a certificate whose signatures have been checked: the common name, in
/// the groups that its organizations name.
pub(crate) fn certified(certificate: &CertificateDer<'_>) -> Identity {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else {
        return Identity::Rejected;
    };
    let subject = certificate.subject();
    let text = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
        attribute.as_str().map(str::to_owned).ok()
    };
    let Some(name) = subject.iter_common_name().filter_map(text).last() else {
        return Identity::Unknown;
    };
    if name.is_empty() {
        return Identity::Unknown;
    }
    let groups = subject.iter_organization().filter_map(text).collect();
    let expires = certificate.validity().not_after.timestamp();
    let uid = String::new();
    Identity::Certified {
        user: authenticated(User { name, groups, uid }),
        expires: UnixMillis(u64::try_from(expires).unwrap_or(0).saturating_mul(1000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use optik_platform::ManualClock;

    fn try_with(identity: &Identity, authorization: &str) -> Result<String, u16> {
        let mut headers = HeaderMap::new();
        if !authorization.is_empty() {
            let value = HeaderValue::from_str(authorization).unwrap();
            headers.insert(AUTHORIZATION, value);
        }
        let tokens = Tokens::parse("secret,kim,7,\"a,b\"\n".as_bytes()).unwrap();
        let clock = ManualClock::new(UnixMillis(1_000));
        let user = authenticate(identity, &headers, &tokens, &clock);
        let user = user.map_err(|status| status.code())?;
        Ok(format!("{} {}", user.name, user.groups.join(" ")))
    }

    #[test]
    fn credentials() {
        let by_certificate = |expires| Identity::Certified {
            user: authenticated(User {
                name: "eve".into(),
                ..User::default()
            }),
            expires: UnixMillis(expires),
        };
        let kim = Ok("kim a b system:authenticated".to_owned());
        let eve = Ok("eve system:authenticated".to_owned());
        let nobody = Ok("system:anonymous system:unauthenticated".to_owned());
        for (identity, authorization, expected) in [
            (Identity::Unknown, "", nobody.clone()),
            (Identity::Unknown, "Basic a2lt", nobody.clone()),
            (Identity::Unknown, "Bearer", nobody),
            (Identity::Unknown, "Bearer secret", kim.clone()),
            (Identity::Unknown, "bearer secret more", kim.clone()),
            (Identity::Unknown, "Bearer secre", Err(401)),
            (by_certificate(1_000), "", eve.clone()),
            (by_certificate(1_000), "Bearer wrong", eve),
            (by_certificate(999), "", Err(401)),
            (by_certificate(999), "Bearer secret", kim.clone()),
            (Identity::Rejected, "", Err(401)),
            (Identity::Rejected, "Bearer secret", kim),
        ] {
            let found = try_with(&identity, authorization);
            assert_eq!(found, expected, "{identity:?} {authorization}");
        }
        let local = try_with(&Identity::local(), "Bearer wrong").unwrap();
        assert_eq!(local, "system:admin system:masters system:authenticated");
    }
}
