//! Bytes fields, which are base64 in JSON.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};

/// Go ignores the spare bits of the last symbol.
const GO: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

pub(super) fn to_text(bytes: &[u8]) -> String {
    GO.encode(bytes)
}

/// Decodes base64. Skips line ends, as Go does.
pub(super) fn from_text(text: &str) -> Option<Vec<u8>> {
    if !text.contains(['\n', '\r']) {
        return GO.decode(text).ok();
    }
    let one_line: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    GO.decode(one_line).ok()
}
