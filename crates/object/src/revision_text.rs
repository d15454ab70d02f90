//! Revisions as clients write them (§1.2).
//!
//! Which of several errors a malformed one becomes depends on where it stood:
//! `B1`, `X2` or `X3`. This module only says what is wrong with it, in Go's words.

use crate::go::quote;
use std::fmt;
use std::num::NonZeroU64;

/// What `strconv.ParseUint` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseUintError {
    text: String,
    what: &'static str,
}

impl ParseUintError {
    /// What could not be parsed.
    #[must_use]
    pub fn text(&self) -> &str {
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

/// Which state a read asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing was said: the newest.
    Unset,
    /// `0`, `00`: whatever is at hand.
    Any,
    /// This one, or one not older; other options decide.
    At(NonZeroU64),
}

/// A revision in a query. Absent and empty are the same.
pub fn in_query(text: &str) -> Result<Asked, ParseUintError> {
    if text.is_empty() {
        return Ok(Asked::Unset);
    }
    Ok(NonZeroU64::new(parse_uint(text)?).map_or(Asked::Any, Asked::At))
}

/// A revision in the body of an update: `None` makes it unconditional. Numbers are
/// compared, so `0211` is 211.
pub fn in_body(text: &str) -> Result<Option<NonZeroU64>, ParseUintError> {
    if text.is_empty() {
        return Ok(None);
    }
    parse_uint(text).map(NonZeroU64::new)
}

/// Whether the body of a create carries a revision (`X1`). Nonsense does not count.
#[must_use]
pub fn set_on_create(text: &str) -> bool {
    in_body(text).is_ok_and(|revision| revision.is_some())
}

/// Digits only: no sign, no space, no underscore.
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
        // As Go: what follows an overflow is not looked at.
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

    #[test]
    fn malformed_1_2() {
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
            assert_eq!(in_query(text).unwrap_err().to_string(), expected);
            assert_eq!(in_body(text).unwrap_err().to_string(), expected);
            assert!(!set_on_create(text), "POST ignores {text}");
        }
    }

    #[test]
    fn well_formed_1_2() {
        assert_eq!(in_query(""), Ok(Asked::Unset));
        assert_eq!(in_query("0"), Ok(Asked::Any));
        assert_eq!(in_query("00"), Ok(Asked::Any));
        assert_eq!(in_query("0211"), Ok(Asked::At(at(211))));
        assert_eq!(
            in_query("18446744073709551615"),
            Ok(Asked::At(at(u64::MAX)))
        );
        for absent in ["", "0", "00"] {
            assert_eq!(in_body(absent), Ok(None));
            assert!(!set_on_create(absent));
        }
        assert_eq!(in_body("0211"), Ok(Some(at(211))));
        assert!(set_on_create("5"));
    }

    proptest! {
        #[test]
        fn numbers_come_back(number: u64) {
            prop_assert_eq!(parse_uint(&number.to_string()), Ok(number));
        }

        #[test]
        fn any_text_never_panics(text: String) {
            let _ = in_query(&text).map_err(|error| error.to_string());
        }
    }
}
