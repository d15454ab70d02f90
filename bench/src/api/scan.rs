//! Finds the few values that the benchmark needs in a JSON response without parsing it.
//!
//! Responses are kilobytes long and arrive ten thousand times a second, at a client that shares its
//! processors with the server under test.

use memchr::memmem::Finder;
use std::sync::LazyLock;

/// The key of the number that each of our objects carries. In `managedFields` it appears
/// as `f:…`, so that the quoted name is found in `data` only.
pub(crate) const NUMBER: &str = "optik-bench-number";

static NUMBER_KEY: LazyLock<Finder<'static>> =
    LazyLock::new(|| Finder::new("\"optik-bench-number\":"));
static VERSION_KEY: LazyLock<Finder<'static>> =
    LazyLock::new(|| Finder::new("\"resourceVersion\":"));

/// The first resourceVersion: of the object, or of the list rather than of its items.
pub(crate) fn resource_version(json: &[u8]) -> Option<&str> {
    let start = VERSION_KEY.find(json)? + VERSION_KEY.needle().len();
    let text = std::str::from_utf8(string(&json[start..])?).ok()?;
    // The text is inserted into a URL and into JSON without escaping.
    text.bytes()
        .all(|b| b.is_ascii_alphanumeric())
        .then_some(text)
}

/// The number in the first of our objects.
pub(crate) fn number(json: &[u8]) -> Option<u64> {
    numbers(json).next()
}

/// The numbers of all of our objects.
pub(crate) fn numbers(json: &[u8]) -> impl Iterator<Item = u64> {
    NUMBER_KEY.find_iter(json).filter_map(|at| {
        let value = string(&json[at + NUMBER_KEY.needle().len()..])?;
        std::str::from_utf8(value).ok()?.parse().ok()
    })
}

/// The string without escapes at the start of `json`.
fn string(json: &[u8]) -> Option<&[u8]> {
    let rest = json.trim_ascii_start().strip_prefix(b"\"")?;
    let end = memchr::memchr(b'"', rest)?;
    Some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: &[u8] = br#"{"kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"42",
        "managedFields":[{"fieldsV1":{"f:data":{".":{},"f:optik-bench-number":{}}}}]},
        "data":{"optik-bench-number":"7","fill":"x"}}"#;

    #[test]
    fn values_are_found_in_an_object() {
        assert_eq!(resource_version(OBJECT), Some("42"));
        assert_eq!(number(OBJECT), Some(7));
    }

    #[test]
    fn a_space_after_the_colon_does_no_harm() {
        assert_eq!(resource_version(br#""resourceVersion": "9""#), Some("9"));
    }

    #[test]
    fn nothing_is_found_in_what_is_cut_off_or_foreign() {
        for end in 0..OBJECT.len() {
            let _ = (resource_version(&OBJECT[..end]), number(&OBJECT[..end]));
        }
        assert_eq!(resource_version(br#""resourceVersion":"4"#), None);
        assert_eq!(resource_version(br#""resourceVersion":"4&a=b""#), None);
        assert_eq!(resource_version(br#""resourceVersion":4"#), None);
        assert_eq!(number(br#""optik-bench-number":"x""#), None);
        assert_eq!(number(b""), None);
    }

    #[test]
    fn all_numbers_of_a_batch_are_found() {
        let twice = [OBJECT, b"\n", OBJECT].concat();
        assert_eq!(numbers(&twice).collect::<Vec<_>>(), [7, 7]);
    }
}
