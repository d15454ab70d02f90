//! Parsing of the `caBundle` of webhook client configurations.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use optik_object::Value;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// The error for an invalid CA bundle.
pub(crate) const INVALID_CA_BUNDLE: &str =
    "unable to load root certificates: unable to parse bytes as PEM block";

/// Whether a `caBundle` holds a certificate; an empty one is valid. The certificates are verified
/// when they are used.
pub(crate) fn is_valid_ca_bundle(bundle: &Value) -> bool {
    let Some(text) = bundle.as_str().filter(|text| !text.is_empty()) else {
        return true;
    };
    let pem = STANDARD.decode(text).unwrap_or_default();
    let pem = String::from_utf8_lossy(&pem);
    pem.split(BEGIN).skip(1).any(|rest| {
        let body = rest.split_once(END).map(|(body, _)| body);
        let letters = body.map(|body| body.split_ascii_whitespace().collect::<String>());
        letters.is_some_and(|letters| STANDARD.decode(letters).is_ok_and(|der| !der.is_empty()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ca_bundle_must_be_base64_pem_or_empty() {
        let good = format!("# mine\n{BEGIN}\nMAA=\n{END}\n");
        for (text, expected) in [
            ("", true),
            (&*STANDARD.encode(&good), true),
            (&*STANDARD.encode("nonsense"), false),
            (&*STANDARD.encode(format!("{BEGIN}\n")), false),
            ("?", false),
        ] {
            assert_eq!(is_valid_ca_bundle(&text.into()), expected, "{text}");
        }
        assert!(is_valid_ca_bundle(&Value::Null));
    }
}
