//! Parsing of resourceVersions sent by clients (CONC §1.2).
//!
//! The error for a malformed one depends on where it was sent: `CONC-B1`, `CONC-X2` or
//! `CONC-X3`. This module only returns Go's parse error.

use crate::go::quote;
use std::fmt;
use std::num::NonZeroU64;

/// The error of Go's `strconv.ParseUint`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseUintError {
    text: String,
    what: &'static str,
}

impl ParseUintError {
    /// The text that could not be parsed.
    #[must_use]
    pub fn input(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for ParseUintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = quote(&self.text);
        write!(f, "strconv.ParseUint: parsing {text}: {}", self.what)
    }
}

impl std::error::Error for ParseUintError {}

/// The revision a read requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedResourceVersion {
    /// Not set: the latest revision.
    Unset,
    /// `0`, `00`: any available revision.
    Any,
    /// This revision, or one not older, depending on `resourceVersionMatch`.
    At(NonZeroU64),
}

/// Parses the resourceVersion of a query. Absent and empty are equal.
pub fn parse_query_resource_version(
    text: &str,
) -> Result<RequestedResourceVersion, ParseUintError> {
    if text.is_empty() {
        return Ok(RequestedResourceVersion::Unset);
    }
    Ok(NonZeroU64::new(parse_uint(text)?)
        .map_or(RequestedResourceVersion::Any, RequestedResourceVersion::At))
}

/// Parses the resourceVersion in the body of an update: `None` makes the update unconditional.
/// Numbers are compared, so `0211` is 211.
pub fn parse_body_resource_version(text: &str) -> Result<Option<NonZeroU64>, ParseUintError> {
    if text.is_empty() {
        return Ok(None);
    }
    parse_uint(text).map(NonZeroU64::new)
}

/// Whether the body of a create has a resourceVersion (`CONC-X1`). A malformed one does not count.
#[must_use]
pub fn create_sets_resource_version(text: &str) -> bool {
    parse_body_resource_version(text).is_ok_and(|revision| revision.is_some())
}

/// Parses an unsigned integer of digits only: no sign, no space, no underscore.
pub fn parse_uint(text: &str) -> Result<u64, ParseUintError> {
    let error = |what| ParseUintError {
        text: text.to_owned(),
        what,
    };
    if text.is_empty() {
        return Err(error("invalid syntax"));
    }
    let mut number = 0_u64;
    for byte in text.bytes() {
        if !byte.is_ascii_digit() {
            return Err(error("invalid syntax"));
        }
        // As in Go, digits after an overflow are not checked.
        number = number
            .checked_mul(10)
            .and_then(|number| number.checked_add(u64::from(byte - b'0')))
            .ok_or_else(|| error("value out of range"))?;
    }
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(number: u64) -> NonZeroU64 {
        NonZeroU64::new(number).unwrap()
    }

    /// CONC §1.2.
    #[test]
    fn malformed_resource_versions_are_refused() {
        for (text, what) in [
            ("abc", "invalid syntax"),
            ("-1", "invalid syntax"),
            ("+1", "invalid syntax"),
            (" 1", "invalid syntax"),
            ("1_0", "invalid syntax"),
            ("0x1", "invalid syntax"),
            ("18446744073709551616", "value out of range"),
            ("99999999999999999999x", "value out of range"),
            ("1x999999999999999999999", "invalid syntax"),
        ] {
            let expected = format!("strconv.ParseUint: parsing \"{text}\": {what}");
            assert_eq!(
                parse_query_resource_version(text).unwrap_err().to_string(),
                expected
            );
            assert_eq!(
                parse_body_resource_version(text).unwrap_err().to_string(),
                expected
            );
            assert!(!create_sets_resource_version(text), "POST ignores {text}");
        }
    }

    /// CONC §1.2.
    #[test]
    fn resource_versions_are_parsed() {
        assert_eq!(
            parse_query_resource_version(""),
            Ok(RequestedResourceVersion::Unset)
        );
        assert_eq!(
            parse_query_resource_version("0"),
            Ok(RequestedResourceVersion::Any)
        );
        assert_eq!(
            parse_query_resource_version("00"),
            Ok(RequestedResourceVersion::Any)
        );
        assert_eq!(
            parse_query_resource_version("0211"),
            Ok(RequestedResourceVersion::At(at(211)))
        );
        assert_eq!(
            parse_query_resource_version("18446744073709551615"),
            Ok(RequestedResourceVersion::At(at(u64::MAX)))
        );
        for absent in ["", "0", "00"] {
            assert_eq!(parse_body_resource_version(absent), Ok(None));
            assert!(!create_sets_resource_version(absent));
        }
        assert_eq!(parse_body_resource_version("0211"), Ok(Some(at(211))));
        assert!(create_sets_resource_version("5"));
    }

    proptest! {
        #[test]
        fn resource_versions_round_trip(number: u64) {
            prop_assert_eq!(parse_uint(&number.to_string()), Ok(number));
        }

        #[test]
        fn resource_version_parse_never_panics(text: String) {
            let _ = parse_query_resource_version(&text).map_err(|error| error.to_string());
        }
    }
}
