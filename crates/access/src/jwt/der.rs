//! The little of DER that public keys need.

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;

/// `SEQUENCE { OID ecPublicKey, OID prime256v1 }`
const EC_P256: &[u8] = &[
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
    0xce, 0x3d, 0x03, 0x01, 0x07,
];
/// `SEQUENCE { OID rsaEncryption, NULL }`
const RSA: &[u8] = &[
    0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
];

/// What kind of key, and the key as its algorithm writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key<'a> {
    P256(&'a [u8]),
    Rsa(&'a [u8]),
}

/// The `SubjectPublicKeyInfo` of a key.
pub(super) fn wrap(key: Key<'_>) -> Vec<u8> {
    let (algorithm, bits) = match key {
        Key::P256(bits) => (EC_P256, bits),
        Key::Rsa(bits) => (RSA, bits),
    };
    let mut string = vec![0];
    string.extend_from_slice(bits);
    let mut inner = algorithm.to_vec();
    inner.extend(tagged(BIT_STRING, &string));
    tagged(SEQUENCE, &inner)
}

fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len();
    if length < 0x80 {
        out.push(length as u8);
    } else {
        let bytes = length.to_be_bytes();
        let bytes = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
        out.push(0x80 | bytes.len() as u8);
        out.extend_from_slice(bytes);
    }
    out.extend_from_slice(content);
    out
}

/// The key in a `SubjectPublicKeyInfo`.
pub(super) fn unwrap(info: &[u8]) -> Option<Key<'_>> {
    let (inner, rest) = read(SEQUENCE, info)?;
    if !rest.is_empty() {
        return None;
    }
    let (of, after) = match (inner.strip_prefix(EC_P256), inner.strip_prefix(RSA)) {
        (Some(after), _) => (Key::P256 as fn(_) -> _, after),
        (_, Some(after)) => (Key::Rsa as fn(_) -> _, after),
        _ => return None,
    };
    let (bits, rest) = read(BIT_STRING, after)?;
    match bits {
        [0, bits @ ..] if rest.is_empty() => Some(of(bits)),
        _ => None,
    }
}

/// Modulus and exponent of an RSA key, without leading zeros.
pub(super) fn rsa_numbers(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let (inner, _) = read(SEQUENCE, key)?;
    let (modulus, rest) = read(INTEGER, inner)?;
    let (exponent, _) = read(INTEGER, rest)?;
    let trim = |number: &'_ [u8]| number.iter().take_while(|byte| **byte == 0).count();
    Some((&modulus[trim(modulus)..], &exponent[trim(exponent)..]))
}

/// The `SubjectPublicKeyInfo` in a certificate.
pub(super) fn of_certificate(certificate: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = read(SEQUENCE, certificate)?;
    let (mut fields, _) = read(SEQUENCE, certificate)?;
    // A version may stand before the number, the algorithm, the issuer, the validity and
    // the subject.
    let before = if fields.first() == Some(&0xa0) { 6 } else { 5 };
    for _ in 0..before {
        (_, fields) = any(fields)?;
    }
    let (_, rest) = any(fields)?;
    fields.get(..fields.len() - rest.len())
}

/// The content of the first value, and what follows it.
fn read(tag: u8, from: &[u8]) -> Option<(&[u8], &[u8])> {
    any(from).filter(|_| from.first() == Some(&tag))
}

/// The same for a value of any kind.
fn any(from: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_, rest) = from.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        let count = usize::from(first & 0x7f);
        if count == 0 || count > 4 || rest.len() < count {
            return None;
        }
        let (bytes, after) = rest.split_at(count);
        length = bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        rest = after;
    }
    (rest.len() >= length).then(|| rest.split_at(length))
}
