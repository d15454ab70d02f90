//! Serializer of trees and strings, with Go's escaping, straight into memory.
//!
//! Every stored object is serialized here, so strings are scanned once, many bytes at a time.

use super::{Map, Value, write};

/// The number of bytes checked together.
const CHUNK_BYTES: usize = 32;

pub(crate) fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write(number, out),
        Value::String(text) => write_string(text, out),
        Value::Array(items) => write_items(items, out),
        Value::Object(members) => write_members(members, out),
    }
}

fn write_items(items: &[Value], out: &mut Vec<u8>) {
    out.push(b'[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_value(item, out);
    }
    out.push(b']');
}

fn write_members(members: &Map, out: &mut Vec<u8>) {
    out.push(b'{');
    for (at, (name, value)) in members.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_string(name, out);
        out.push(b':');
        write_value(value, out);
    }
    out.push(b'}');
}

/// Appends a string with its quotes.
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, odd) = rest.split_at(unescaped_len(rest));
        out.extend_from_slice(plain);
        if odd.is_empty() {
            break;
        }
        rest = &odd[write_escaped(odd, out)..];
    }
    out.push(b'"');
}

/// The length of the prefix that needs no escaping.
fn unescaped_len(bytes: &[u8]) -> usize {
    let chunks = bytes.chunks_exact(CHUNK_BYTES);
    // Without an early exit, the check of a chunk compiles to a few vector instructions.
    let whole = chunks
        .take_while(|chunk| {
            !chunk
                .iter()
                .fold(false, |any, byte| any | needs_escape(*byte))
        })
        .count();
    let plain = whole * CHUNK_BYTES;
    let rest = bytes[plain..].iter();
    plain + rest.take_while(|byte| !needs_escape(**byte)).count()
}

/// Whether a byte may need escaping: the bytes JSON escapes, those Go escapes so that JSON can be
/// embedded in a script element, and the first byte of both line separators.
fn needs_escape(byte: u8) -> bool {
    (byte < 0x20)
        | (byte == b'"')
        | (byte == b'\\')
        | (byte == b'<')
        | (byte == b'>')
        | (byte == b'&')
        | (byte == 0xe2)
}

/// Appends the escape of the first character and returns the number of bytes it replaces.
fn write_escaped(bytes: &[u8], out: &mut Vec<u8>) -> usize {
    let escape: &[u8] = match bytes {
        [b'"', ..] => b"\\\"",
        [b'\\', ..] => b"\\\\",
        [b'\n', ..] => b"\\n",
        [b'\r', ..] => b"\\r",
        [b'\t', ..] => b"\\t",
        [0x08, ..] => b"\\b",
        [0x0c, ..] => b"\\f",
        [0xe2, 0x80, 0xa8, ..] => {
            out.extend_from_slice(b"\\u2028");
            return 3;
        }
        [0xe2, 0x80, 0xa9, ..] => {
            out.extend_from_slice(b"\\u2029");
            return 3;
        }
        [0xe2, ..] => &[0xe2],
        [byte, ..] => {
            let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[digit(byte >> 4), digit(byte & 0xf)]);
            return 1;
        }
        [] => return 0,
    };
    out.extend_from_slice(escape);
    1
}

#[cfg(test)]
mod tests {
    use super::super::to_bytes;
    use super::*;
    use proptest::prelude::*;

    /// Bytes that need escaping, at every offset where a chunk may begin or end.
    #[test]
    fn json_escapes_at_every_chunk_offset() {
        for odd in (0..0x20_u8)
            .chain(*b"\"\\<>&\x7f")
            .map(|byte| char::from(byte).to_string())
            .chain(["\u{2028}", "\u{2029}", "\u{2027}", "é", "\u{10ffff}"].map(String::from))
        {
            for before in 0..2 * CHUNK_BYTES + 2 {
                let text = ["a".repeat(before), odd.clone(), "b".repeat(40)].concat();
                let mut out = Vec::new();
                write_string(&text, &mut out);
                assert_eq!(out, to_bytes(&text), "{text:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn json_write_value_agrees_with_serde(value in crate::canonical::tests::any_value()) {
            let mut out = Vec::new();
            write_value(&value, &mut out);
            prop_assert_eq!(out, to_bytes(&value));
        }
    }
}
