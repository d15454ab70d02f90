//! The certificate authority: issues certificates, and decides whether existing ones are still
//! usable.

use super::{CertKeyPair, IssuanceContext, PkiError, pem};
use optik_platform::UnixMillis;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData,
};
use std::net::IpAddr;
use std::time::Duration;
use time::OffsetDateTime;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const AUTHORITY_AGE_MAX: Duration = DAY.saturating_mul(3650);
/// Some platforms reject server certificates that are valid for more than 825 days.
const LEAF_AGE_MAX: Duration = DAY.saturating_mul(730);
const RENEW_BEFORE_END: Duration = DAY.saturating_mul(30);
/// Clocks differ, so certificates are valid from shortly before they are issued.
const NOT_BEFORE_BACKDATE: Duration = Duration::from_secs(60 * 60);
/// The prefix of an authority's name; a random number follows, so that two authorities never have
/// the same name.
const NAME_PREFIX: &str = "optik-ca@";

/// The purpose of a certificate.
#[derive(Clone, Debug)]
pub(super) enum Leaf {
    Server { names: Vec<String> },
    Admin,
}

/// The state of a pair that was read from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CertificateStatus {
    Valid,
    /// Issued by this authority but unusable, or broken: to be replaced.
    Outdated,
    /// Issued by another authority.
    Foreign,
}

pub(super) struct CertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    /// The subject, as issued certificates name it.
    subject: Vec<u8>,
}

impl CertificateAuthority {
    pub(super) fn create(at: IssuanceContext<'_>) -> Result<(Self, CertKeyPair), PkiError> {
        let key = KeyPair::generate().map_err(PkiError::Generate)?;
        let name = format!("{NAME_PREFIX}{:016x}", at.entropy.next_u64());
        let mut params = certificate_params(Vec::new(), at.now, AUTHORITY_AGE_MAX)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
        ];
        let certificate = params.self_signed(&key).map_err(PkiError::Generate)?;
        let pair = to_pem_pair(certificate.der(), &key);
        let authority = Self::load(&pair).expect("what was just made can be read");
        Ok((authority, pair))
    }

    /// Loads the authority from a pair. The error is a sentence.
    pub(super) fn load(pair: &CertKeyPair) -> Result<Self, String> {
        let (certificate, key) = parse(pair)?;
        let (_, parsed) = x509(&certificate)?;
        if parsed.public_key().raw != key.subject_public_key_info() {
            return Err("it does not belong to the key beside it".into());
        }
        let subject = parsed.subject().as_raw().to_vec();
        let issuer = Issuer::from_ca_cert_der(&certificate, key).map_err(|e| e.to_string())?;
        Ok(Self { issuer, subject })
    }

    pub(super) fn issue(&self, leaf: &Leaf, now: UnixMillis) -> Result<CertKeyPair, PkiError> {
        let (names, usage) = match leaf {
            Leaf::Server { names } => (names.clone(), ExtendedKeyUsagePurpose::ServerAuth),
            Leaf::Admin => (Vec::new(), ExtendedKeyUsagePurpose::ClientAuth),
        };
        let mut params = certificate_params(names, now, LEAF_AGE_MAX)?;
        let subject = &mut params.distinguished_name;
        match leaf {
            Leaf::Server { .. } => subject.push(DnType::CommonName, "optik"),
            Leaf::Admin => {
                subject.push(DnType::OrganizationName, "system:masters");
                subject.push(DnType::CommonName, "optik-admin");
            }
        }
        params.extended_key_usages = vec![usage];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(PkiError::Generate)?;
        let certificate = params.signed_by(&key, &self.issuer);
        let certificate = certificate.map_err(PkiError::Generate)?;
        Ok(to_pem_pair(certificate.der(), &key))
    }

    pub(super) fn evaluate(
        &self,
        pair: &CertKeyPair,
        leaf: &Leaf,
        now: UnixMillis,
    ) -> CertificateStatus {
        let Ok(certificate) = CertificateDer::from_pem_slice(pair.certificate.as_bytes()) else {
            return CertificateStatus::Foreign;
        };
        let Ok((_, certificate)) = x509(&certificate) else {
            return CertificateStatus::Foreign;
        };
        if certificate.issuer().as_raw() != self.subject {
            let ours = |name: &str| name.starts_with(NAME_PREFIX);
            let mut issuer = certificate.issuer().iter_common_name();
            let once_ours = issuer.any(|name| name.as_str().is_ok_and(ours));
            return if once_ours {
                CertificateStatus::Outdated
            } else {
                CertificateStatus::Foreign
            };
        }
        let end = unix_seconds(now, RENEW_BEFORE_END);
        let lasts = certificate.validity().not_after.timestamp() >= end;
        let matches = parse(pair)
            .is_ok_and(|(_, key)| certificate.public_key().raw == key.subject_public_key_info());
        if lasts && matches && has_names(&certificate, leaf) {
            CertificateStatus::Valid
        } else {
            CertificateStatus::Outdated
        }
    }

    /// Whether a certificate names this authority as its issuer.
    pub(super) fn issued(&self, pair: &CertKeyPair) -> bool {
        let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes());
        certificate.is_ok_and(|certificate| {
            x509(&certificate).is_ok_and(|(_, parsed)| parsed.issuer().as_raw() == self.subject)
        })
    }
}

/// When a certificate expires.
pub(super) fn not_after(certificate: &str) -> Option<UnixMillis> {
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).ok()?;
    let (_, parsed) = x509(&certificate).ok()?;
    let seconds = u64::try_from(parsed.validity().not_after.timestamp()).ok()?;
    Some(UnixMillis(seconds.saturating_mul(1000)))
}

fn certificate_params(
    names: Vec<String>,
    now: UnixMillis,
    age_max: Duration,
) -> Result<CertificateParams, PkiError> {
    let mut params = CertificateParams::new(names).map_err(PkiError::Generate)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.not_before = to_datetime(unix_seconds(now.minus(NOT_BEFORE_BACKDATE), Duration::ZERO));
    params.not_after = to_datetime(unix_seconds(now, age_max));
    Ok(params)
}

/// Seconds since 1970 of the time `after` later than `at`.
fn unix_seconds(at: UnixMillis, after: Duration) -> i64 {
    i64::try_from((at.0 / 1000).saturating_add(after.as_secs())).unwrap_or(i64::MAX)
}

fn to_datetime(seconds: i64) -> OffsetDateTime {
    /// The last second that a certificate can express.
    const LAST: i64 = 253_402_300_799;
    OffsetDateTime::from_unix_timestamp(seconds.min(LAST)).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

fn has_names(certificate: &X509Certificate<'_>, leaf: &Leaf) -> bool {
    let Leaf::Server { names } = leaf else {
        return true;
    };
    let Ok(Some(found)) = certificate.subject_alternative_name() else {
        return names.is_empty();
    };
    let found = &found.value.general_names;
    names
        .iter()
        .all(|name| found.iter().any(|found| is_name(found, name)))
}

fn is_name(found: &GeneralName<'_>, name: &str) -> bool {
    match (found, name.parse::<IpAddr>()) {
        (GeneralName::IPAddress(bytes), Ok(IpAddr::V4(ip))) => **bytes == ip.octets(),
        (GeneralName::IPAddress(bytes), Ok(IpAddr::V6(ip))) => **bytes == ip.octets(),
        (GeneralName::DNSName(found), Err(_)) => *found == name,
        _ => false,
    }
}

fn to_pem_pair(certificate: &CertificateDer<'_>, key: &KeyPair) -> CertKeyPair {
    CertKeyPair {
        certificate: pem::encode_certificate(certificate),
        key: pem::encode_key(&key.serialize_der()),
    }
}

fn parse(pair: &CertKeyPair) -> Result<(CertificateDer<'static>, KeyPair), String> {
    let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes());
    let certificate = certificate.map_err(|error| format!("no certificate: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes());
    let key = key.map_err(|error| format!("no key: {error}"))?;
    let key = KeyPair::try_from(&key).map_err(|error| format!("no usable key: {error}"))?;
    Ok((certificate, key))
}

fn x509<'a>(der: &'a CertificateDer<'_>) -> Result<(&'a [u8], X509Certificate<'a>), String> {
    X509Certificate::from_der(der).map_err(|error| format!("not a certificate: {error}"))
}
