//! Insertion of `resourceVersion` into stored bytes when they are read.
//!
//! The revision of an object is known only once it is stored, so it is not part of the stored
//! bytes. A read finds the end of the identifying members by stepping over a few strings, and
//! writes the two halves with `"resourceVersion":"N"` between them.

use crate::canonical::{NAME_MEMBERS, TYPE_MEMBERS};

/// The bytes were not written by [`encode_canonical`](crate::encode_canonical).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stored object is corrupt at byte {at}: not canonical JSON")]
pub struct CorruptBytes {
    pub at: usize,
}

/// The number of digits of `u64::MAX`.
const DIGITS_MAX: usize = 20;
/// The number of pieces of a spliced document.
const PIECE_COUNT: usize = 6;

/// A stored object with its revision, in pieces to be written one after the other.
#[derive(Clone, Debug)]
pub struct SplicedObject<'a> {
    stored: &'a [u8],
    /// The offset of `"metadata"`.
    metadata_offset: usize,
    /// The offset where `resourceVersion` is inserted.
    revision_offset: usize,
    before: &'static [u8],
    digits: [u8; DIGITS_MAX],
    digits_start: usize,
    after: &'static [u8],
    with_type: bool,
}

/// Splices the revision into canonical bytes. Looks only at about the first hundred bytes and at
/// the last, whatever the size of the object.
pub fn splice(stored: &[u8], revision: u64) -> Result<SplicedObject<'_>, CorruptBytes> {
    let mut scanner = CanonicalScanner {
        bytes: stored,
        at: 0,
    };
    scanner.expect(b"{")?;
    for name in TYPE_MEMBERS {
        if scanner.skip_member(name)? {
            scanner.expect(b",")?;
        }
    }
    let metadata = scanner.at;
    scanner.expect(b"\"metadata\":{")?;
    let gap = find_revision_offset(&mut scanner)?;
    let (before, after): (&[u8], &[u8]) = match (stored.get(gap), stored.get(gap.wrapping_sub(1))) {
        (Some(b'}'), Some(b'{')) => (b"\"resourceVersion\":\"", b"\""),
        (Some(b'"'), Some(b'{')) => (b"\"resourceVersion\":\"", b"\","),
        (Some(b',' | b'}'), Some(b'"')) => (b",\"resourceVersion\":\"", b"\""),
        _ => return Err(CorruptBytes { at: gap }),
    };
    if !stored.ends_with(b"}") {
        return Err(CorruptBytes { at: stored.len() });
    }
    let (digits, digits_start) = decimal(revision);
    Ok(SplicedObject {
        stored,
        metadata_offset: metadata,
        revision_offset: gap,
        before,
        digits,
        digits_start,
        after,
        with_type: true,
    })
}

/// The offset after the last identifying member, or after the opening brace of `metadata`.
fn find_revision_offset(scanner: &mut CanonicalScanner<'_>) -> Result<usize, CorruptBytes> {
    let mut gap = scanner.at;
    for name in NAME_MEMBERS {
        if scanner.skip_member(name)? {
            gap = scanner.at;
            if !scanner.skip(b",") {
                break;
            }
        }
    }
    Ok(gap)
}

fn decimal(mut number: u64) -> ([u8; DIGITS_MAX], usize) {
    let mut digits = [b'0'; DIGITS_MAX];
    let mut start = DIGITS_MAX;
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return (digits, start);
        }
    }
}

impl SplicedObject<'_> {
    /// Leaves out `kind` and `apiVersion`, as the items of a list of a built-in kind do.
    #[must_use]
    pub fn without_type(mut self) -> Self {
        self.with_type = false;
        self
    }

    /// The pieces of the document, in order.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let start = if self.with_type {
            1
        } else {
            self.metadata_offset
        };
        let pieces: [&[u8]; PIECE_COUNT] = [
            b"{",
            &self.stored[start..self.revision_offset],
            self.before,
            &self.digits[self.digits_start..],
            self.after,
            &self.stored[self.revision_offset..],
        ];
        pieces.into_iter()
    }

    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a document is never empty")]
    pub fn len(&self) -> usize {
        self.pieces().map(<[u8]>::len).sum()
    }

    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.reserve(self.len());
        for piece in self.pieces() {
            out.extend_from_slice(piece);
        }
    }

    /// The offset in the stored bytes where the last piece begins. It extends to their end.
    #[must_use]
    pub fn tail_offset(&self) -> usize {
        self.revision_offset
    }

    /// Everything before the last piece.
    pub fn write_head_to(&self, out: &mut Vec<u8>) {
        let pieces = self.pieces().take(PIECE_COUNT - 1);
        pieces.for_each(|piece| out.extend_from_slice(piece));
    }

    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_to(&mut out);
        out
    }
}

struct CanonicalScanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl CanonicalScanner<'_> {
    fn skip(&mut self, text: &[u8]) -> bool {
        let found = self.bytes[self.at..].starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    fn expect(&mut self, text: &[u8]) -> Result<(), CorruptBytes> {
        if self.skip(text) {
            Ok(())
        } else {
            Err(CorruptBytes { at: self.at })
        }
    }

    /// Skips `"name":"…"` if it is next.
    fn skip_member(&mut self, name: &str) -> Result<bool, CorruptBytes> {
        let start = self.at;
        if self.skip(b"\"") && self.skip(name.as_bytes()) && self.skip(b"\":\"") {
            self.skip_rest_of_string()?;
            return Ok(true);
        }
        self.at = start;
        Ok(false)
    }

    fn skip_rest_of_string(&mut self) -> Result<(), CorruptBytes> {
        while let Some(byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'"' => return Ok(()),
                b'\\' if self.at < self.bytes.len() => self.at += 1,
                _ => {}
            }
        }
        Err(CorruptBytes { at: self.at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::{encode_canonical, tests::any_object};
    use crate::json::{Value, parse};
    use proptest::prelude::*;
    use serde_json::json;

    fn check(value: &Value, whole: &str, item: &str) {
        let bytes = encode_canonical(value).unwrap();
        let spliced = splice(&bytes, 42).unwrap();
        assert_eq!(String::from_utf8(spliced.to_vec()).unwrap(), whole);
        assert_eq!(
            String::from_utf8(spliced.without_type().to_vec()).unwrap(),
            item
        );
    }

    #[test]
    fn splice_puts_resource_version_after_uid() {
        check(
            &json!({"kind": "K", "apiVersion": "v1",
                    "metadata": {"name": "a\"}", "uid": "u", "labels": {}}, "spec": 1}),
            r#"{"kind":"K","apiVersion":"v1","metadata":{"name":"a\"}","uid":"u","resourceVersion":"42","labels":{}},"spec":1}"#,
            r#"{"metadata":{"name":"a\"}","uid":"u","resourceVersion":"42","labels":{}},"spec":1}"#,
        );
    }

    #[test]
    fn splice_without_uid_puts_resource_version_in_place() {
        let only = r#"{"metadata":{"resourceVersion":"42"}}"#;
        check(&json!({}), only, only);
        let labels = r#"{"metadata":{"resourceVersion":"42","labels":{}}}"#;
        check(&json!({"metadata": {"labels": {}}}), labels, labels);
        let name = r#"{"metadata":{"name":"n","resourceVersion":"42"}}"#;
        check(&json!({"metadata": {"name": "n"}}), name, name);
        let both = r#"{"metadata":{"name":"n","namespace":"s","resourceVersion":"42","a":1}}"#;
        check(
            &json!({"metadata": {"a": 1, "namespace": "s", "name": "n"}}),
            both,
            both,
        );
    }

    #[test]
    fn splice_rejects_non_canonical_bytes() {
        for bytes in [
            "",
            "{",
            "{}",
            "[]",
            r#"{"kind":"a"#,
            r#"{"kind":"a\"#,
            r#"{"metadata":{"#,
            r#"{"metadata":{"name":"#,
            r#"{"metadata":{"name":"a""#,
            r#"{"metadata": {}}"#,
            r#"{"metadata":{"name":"a" }}"#,
        ] {
            assert!(splice(bytes.as_bytes(), 1).is_err(), "{bytes}");
        }
    }

    proptest! {
        #[test]
        fn splice_sets_only_the_resource_version(object in any_object(), revision: u64) {
            let bytes = encode_canonical(&object).unwrap();
            let spliced = splice(&bytes, revision).unwrap();
            let mut expected = object;
            expected["metadata"]["resourceVersion"] = revision.to_string().into();
            let whole = spliced.to_vec();
            prop_assert_eq!(whole.len(), spliced.len());
            prop_assert_eq!(&parse(&whole).unwrap().value, &expected);
            // The output can be parsed and encoded again.
            prop_assert_eq!(encode_canonical(&expected).unwrap(), bytes.clone());

            let item = parse(&spliced.without_type().to_vec()).unwrap().value;
            let map = expected.as_object_mut().unwrap();
            map.remove("kind");
            map.remove("apiVersion");
            prop_assert_eq!(item, expected);
        }

        #[test]
        fn splice_never_panics_on_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = splice(&bytes, 1);
        }

        #[test]
        fn splice_never_panics_on_truncated_objects(object in any_object(), cut in 0..400_usize) {
            let bytes = encode_canonical(&object).unwrap();
            if let Ok(spliced) = splice(&bytes[..cut.min(bytes.len())], 1) {
                let _ = spliced.to_vec();
            }
        }
    }
}
