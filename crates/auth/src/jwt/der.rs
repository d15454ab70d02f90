//! The subset of DER that signing keys and certificates need.

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
/// Context tags of SEC 1 behind the private key: the curve, and the public key.
const CURVE: u8 = 0xa0;
const PUBLIC: u8 = 0xa1;

/// `SEQUENCE { OID ecPublicKey, OID prime256v1 }`
const EC_P256: &[u8] = &[
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
    0xce, 0x3d, 0x03, 0x01, 0x07,
];
/// `SEQUENCE { OID ecPublicKey, OID secp384r1 }`
const EC_P384: &[u8] = &[
    0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04,
    0x00, 0x22,
];
/// The offset of the curve's OID in the constants above.
const CURVE_OID_OFFSET: usize = 11;
/// `SEQUENCE { OID rsaEncryption, NULL }`
const RSA: &[u8] = &[
    0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
];

/// A public key: its algorithm, and its encoding for that algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpkiKey<'a> {
    P256(&'a [u8]),
    P384(&'a [u8]),
    Rsa(&'a [u8]),
}

/// Encodes a key as `SubjectPublicKeyInfo`.
pub(super) fn to_spki(key: SpkiKey<'_>) -> Vec<u8> {
    let (algorithm, bits) = match key {
        SpkiKey::P256(bits) => (EC_P256, bits),
        SpkiKey::P384(bits) => (EC_P384, bits),
        SpkiKey::Rsa(bits) => (RSA, bits),
    };
    let mut string = vec![0];
    string.extend_from_slice(bits);
    let mut inner = algorithm.to_vec();
    inner.extend(encode_tagged(BIT_STRING, &string));
    encode_tagged(SEQUENCE, &inner)
}

fn encode_tagged(tag: u8, content: &[u8]) -> Vec<u8> {
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

/// Decodes a `SubjectPublicKeyInfo`.
pub(super) fn from_spki(info: &[u8]) -> Option<SpkiKey<'_>> {
    let (inner, rest) = read_tagged(SEQUENCE, info)?;
    if !rest.is_empty() {
        return None;
    }
    let (algorithm, after) = [EC_P256, EC_P384, RSA]
        .into_iter()
        .find_map(|algorithm| Some((algorithm, inner.strip_prefix(algorithm)?)))?;
    let (bits, rest) = read_tagged(BIT_STRING, after)?;
    let bits = bits.strip_prefix(&[0]).filter(|_| rest.is_empty())?;
    Some(match algorithm {
        algorithm if algorithm == EC_P256 => SpkiKey::P256(bits),
        algorithm if algorithm == EC_P384 => SpkiKey::P384(bits),
        _ => SpkiKey::Rsa(bits),
    })
}

/// The modulus and exponent of an RSA key, without leading zeros.
pub(super) fn rsa_numbers(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let (inner, _) = read_tagged(SEQUENCE, key)?;
    let (modulus, rest) = read_tagged(INTEGER, inner)?;
    let (exponent, _) = read_tagged(INTEGER, rest)?;
    let trim = |number: &'_ [u8]| number.iter().take_while(|byte| **byte == 0).count();
    Some((&modulus[trim(modulus)..], &exponent[trim(exponent)..]))
}

/// An EC private key in SEC 1 format (PEM label `EC PRIVATE KEY`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sec1Key<'a> {
    pub(super) secret: &'a [u8],
    pub(super) public: SpkiKey<'a>,
}

/// Parses a SEC 1 private key; `None` as well if it lacks the public key or its curve is
/// unsupported.
pub(super) fn parse_sec1(key: &[u8]) -> Option<Sec1Key<'_>> {
    let (inner, rest) = read_tagged(SEQUENCE, key)?;
    let (version, after) = read_tagged(INTEGER, inner)?;
    let (secret, mut after) = read_tagged(OCTET_STRING, after)?;
    if !rest.is_empty() || version != [1] {
        return None;
    }
    let mut curve = None;
    if let Some((found, behind)) = read_tagged(CURVE, after) {
        (curve, after) = (Some(found), behind);
    }
    let (public, _) = read_tagged(PUBLIC, after)?;
    let (bits, _) = read_tagged(BIT_STRING, public)?;
    let bits = bits.strip_prefix(&[0])?;
    let on = |algorithm: &[u8]| curve.is_none_or(|curve| curve == &algorithm[CURVE_OID_OFFSET..]);
    // The curve is optional in SEC 1; the length of the public key identifies it.
    let public = match bits.len() {
        65 if on(EC_P256) => SpkiKey::P256(bits),
        97 if on(EC_P384) => SpkiKey::P384(bits),
        _ => return None,
    };
    Some(Sec1Key { secret, public })
}

/// The `SubjectPublicKeyInfo` of a certificate.
pub(super) fn certificate_spki(certificate: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = read_tagged(SEQUENCE, certificate)?;
    let (mut fields, _) = read_tagged(SEQUENCE, certificate)?;
    // The optional version, serial number, signature algorithm, issuer, validity and subject come
    // first.
    let before = if fields.first() == Some(&0xa0) { 6 } else { 5 };
    for _ in 0..before {
        (_, fields) = read_any(fields)?;
    }
    let (_, rest) = read_any(fields)?;
    fields.get(..fields.len() - rest.len())
}

/// The content of the first value, if it has this tag, and the bytes behind it.
fn read_tagged(tag: u8, from: &[u8]) -> Option<(&[u8], &[u8])> {
    read_any(from).filter(|_| from.first() == Some(&tag))
}

/// The content of the first value with any tag, and the bytes behind it.
fn read_any(from: &[u8]) -> Option<(&[u8], &[u8])> {
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
