//! PEM encoding of certificates and keys.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const LINE_CHARS: usize = 64;

pub(super) fn encode_certificate(der: &[u8]) -> String {
    encode("CERTIFICATE", der)
}

pub(super) fn encode_key(der: &[u8]) -> String {
    encode("PRIVATE KEY", der)
}

fn encode(what: &str, der: &[u8]) -> String {
    let encoded = STANDARD.encode(der);
    let mut text = format!("-----BEGIN {what}-----\n");
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, behind) = rest.split_at(rest.len().min(LINE_CHARS));
        text.push_str(line);
        text.push('\n');
        rest = behind;
    }
    text.push_str(&format!("-----END {what}-----\n"));
    text
}

/// The DER of a P-256 key in PKCS #8 up to the SEC 1 structure in it, without the header of that
/// structure: version, key algorithm, curve.
const PKCS8_P256_PREFIX: [u8; 29] = [
    0x30, 0x81, 0x87, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02,
    0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x04, 0x6d,
];
/// The offsets of the SEC 1 structure: its header, its version and secret, and the public key.
const SEC1_OFFSET: usize = PKCS8_P256_PREFIX.len();
const SECRET_OFFSET: usize = SEC1_OFFSET + 2;
const PUBLIC_OFFSET: usize = SECRET_OFFSET + 37;
/// The curve parameters, which SEC 1 places between the secret and the public key.
const SEC1_P256_PARAMETERS: [u8; 12] = [
    0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07,
];

/// Converts a key from PKCS #8 to SEC 1 (`EC PRIVATE KEY`), because some clients take every PKCS #8
/// key for RSA. `None` if it is not a key that this crate generates.
pub(crate) fn to_sec1(key: &str) -> Option<String> {
    let lines = key.lines().filter(|line| !line.starts_with("-----"));
    let der = STANDARD.decode(lines.collect::<String>()).ok()?;
    let (secret, public) = (
        der.get(SECRET_OFFSET..PUBLIC_OFFSET)?,
        der.get(PUBLIC_OFFSET..)?,
    );
    if !der.starts_with(&PKCS8_P256_PREFIX) || der.get(SEC1_OFFSET) != Some(&0x30) {
        return None;
    }
    let length = u8::try_from(secret.len() + SEC1_P256_PARAMETERS.len() + public.len()).ok()?;
    let sec1 = [&[0x30, length], secret, &SEC1_P256_PARAMETERS, public].concat();
    (length < 0x80).then(|| encode("EC PRIVATE KEY", &sec1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_rustls::rustls::crypto::ring::sign::any_ecdsa_type;
    use tokio_rustls::rustls::pki_types::PrivateKeyDer;
    use tokio_rustls::rustls::pki_types::pem::PemObject;

    #[test]
    fn sec1_encoding_keeps_the_p256_key() {
        let made = rcgen::KeyPair::generate().unwrap();
        let pem = encode_key(&made.serialize_der());
        let older = to_sec1(&pem).unwrap();
        assert!(older.starts_with("-----BEGIN EC PRIVATE KEY-----\n"));
        let public = |pem: &str| {
            let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap();
            any_ecdsa_type(&key).unwrap().public_key().unwrap().to_vec()
        };
        assert_eq!(public(&older), public(&pem));
        assert_eq!(to_sec1("nonsense"), None);
        assert_eq!(to_sec1(&older), None);
    }
}
