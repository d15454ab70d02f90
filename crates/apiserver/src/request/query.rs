//! Parser of query parameters.
//!
//! Unknown parameters are ignored. Of a repeated parameter, the first counts.

use optik_object::Status;
use std::borrow::Cow;

/// Longer queries are rejected.
const QUERY_BYTES_MAX: usize = 512 * 1024;

/// Decoded parameters.
#[derive(Debug, Default)]
pub(crate) struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, Status> {
        if text.len() > QUERY_BYTES_MAX {
            return Err(Status::bad_request("query string too long"));
        }
        Ok(Self(form_urlencoded::parse(text.as_bytes()).collect()))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_ref())
    }

    /// The value, empty if the parameter is absent.
    pub(crate) fn get_or_empty(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    pub(crate) fn all<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s str> {
        let matching = self.0.iter().filter(move |(key, _)| key == name);
        matching.map(|(_, value)| value.as_ref())
    }

    /// Only `0` and `false` are false; an empty value is true.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        let value = self.get(name)?;
        Some(!(value == "0" || value.eq_ignore_ascii_case("false")))
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        parse_int(text).map(Some).map_err(|what| {
            let quoted = optik_object::quote(text);
            Status::bad_request(format!("strconv.ParseInt: parsing {quoted}: {what}"))
        })
    }
}

/// Digits with an optional sign, as Go parses them.
fn parse_int(text: &str) -> Result<i64, &'static str> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("invalid syntax");
    }
    text.parse().map_err(|_| "value out of range")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_flag_is_true_unless_0_or_false() {
        for (query, expected) in [
            ("", None),
            ("watch", Some(true)),
            ("watch=", Some(true)),
            ("watch=yes", Some(true)),
            ("watch=1", Some(true)),
            ("watch=0", Some(false)),
            ("watch=FALSE", Some(false)),
            ("watch=0&watch=1", Some(false)),
        ] {
            assert_eq!(
                Query::parse(query).unwrap().flag("watch"),
                expected,
                "{query}"
            );
        }
    }

    #[test]
    fn query_numbers_report_go_strconv_errors() {
        let number = |text: &str| Query::parse(text).unwrap().number("limit");
        assert_eq!(number(""), Ok(None));
        assert_eq!(number("limit=-5"), Ok(Some(-5)));
        assert_eq!(
            number("limit=abc").unwrap_err().message(),
            "strconv.ParseInt: parsing \"abc\": invalid syntax"
        );
        assert_eq!(
            number("limit=9999999999999999999").unwrap_err().message(),
            "strconv.ParseInt: parsing \"9999999999999999999\": value out of range"
        );
    }
}
