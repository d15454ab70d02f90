//! The text form of certificates and keys.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const LINE_CHARS: usize = 64;

pub(super) fn certificate(der: &[u8]) -> String {
    text("CERTIFICATE", der)
}

pub(super) fn key(der: &[u8]) -> String {
    text("PRIVATE KEY", der)
}

fn text(what: &str, der: &[u8]) -> String {
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
