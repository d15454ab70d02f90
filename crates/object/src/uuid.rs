//! UUIDs of objects and requests.

/// The text of a version 4 UUID with these random bits. Every write makes one, so it does not use
/// `format!`, which is slower.
#[must_use]
pub fn uuid(high: u64, low: u64) -> [u8; 36] {
    let high = high & !0xf000 | 0x4000;
    let low = low & !(0b11 << 62) | 0b10 << 62;
    let mut text = [b'-'; 36];
    let places = (0..text.len()).filter(|at| !matches!(at, 8 | 13 | 18 | 23));
    for (nibble, at) in places.enumerate() {
        let half = if nibble < 16 { high } else { low };
        let digit = half >> (60 - 4 * (nibble % 16)) & 0xf;
        text[at] = b"0123456789abcdef"[digit as usize];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_has_version_4_and_variant_bits() {
        for (high, low, expected) in [
            (0, 0, "00000000-0000-4000-8000-000000000000"),
            (!0, !0, "ffffffff-ffff-4fff-bfff-ffffffffffff"),
            (
                0x0123_4567_89ab_cdef,
                0x0123_4567_89ab_cdef,
                "01234567-89ab-4def-8123-456789abcdef",
            ),
        ] {
            assert_eq!(std::str::from_utf8(&uuid(high, low)), Ok(expected));
        }
    }
}
