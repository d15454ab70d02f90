//! URL-safe base64 without padding, for continue tokens. Decoding errors carry Go's text, which
//! clients see when they mangle a continue token.

use std::fmt::Write;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = (0..3).fold(0_u32, |word, at| {
            word << 8 | u32::from(chunk.get(at).copied().unwrap_or(0))
        });
        for at in 0..=chunk.len() {
            let index = word >> (18 - 6 * at) & 63;
            out.push(char::from(ALPHABET[index as usize]));
        }
    }
    out
}

/// Skips line ends and ignores spare bits, as Go does.
pub(crate) fn decode(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut word, mut bits, mut symbols) = (0_u32, 0, 0_usize);
    for (at, byte) in text.bytes().enumerate() {
        if byte == b'\n' || byte == b'\r' {
            continue;
        }
        word = word << 6 | value_of(byte).ok_or_else(|| corrupt(at))?;
        bits += 6;
        symbols += 1;
        if bits >= 8 {
            bits -= 8;
            out.push((word >> bits & 0xff) as u8);
        }
    }
    if symbols % 4 == 1 {
        return Err(corrupt(text.len() - 1));
    }
    Ok(out)
}

fn value_of(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

fn corrupt(at: usize) -> String {
    let mut text = String::from("illegal base64 data at input byte ");
    write!(text, "{at}").expect("writing to a String cannot fail");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn base64url_encodes_and_decodes_known_pairs() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg"),
            (b"fo", "Zm8"),
            (b"foo", "Zm9v"),
            (b"foobar", "Zm9vYmFy"),
            (b"\xff\xef\xbe", "_---"),
        ] {
            assert_eq!(encode(bytes), text);
            assert_eq!(decode(text).unwrap(), bytes);
        }
        assert_eq!(decode("Zm\n9v\r").unwrap(), b"foo");
    }

    #[test]
    fn base64url_error_names_the_corrupt_byte() {
        for (text, at) in [("Zg==", 2), ("Zm9v!", 4), ("a", 0), ("Zm9vY", 4), ("é", 0)] {
            assert_eq!(
                decode(text),
                Err(format!("illegal base64 data at input byte {at}"))
            );
        }
    }

    proptest! {
        #[test]
        fn base64url_round_trips_any_bytes(bytes: Vec<u8>) {
            prop_assert_eq!(decode(&encode(&bytes)).unwrap(), bytes);
        }

        #[test]
        fn base64url_decode_never_panics(text: String) {
            let _ = decode(&text);
        }
    }
}
