//! Query parameters that this crate reads itself.

use std::borrow::Cow;

/// The first value of a parameter; empty if it is present without a value.
pub(crate) fn value<'a>(query: &'a str, name: &str) -> Option<Cow<'a, str>> {
    values(query, name).next()
}

pub(crate) fn values<'a>(query: &'a str, name: &str) -> impl Iterator<Item = Cow<'a, str>> {
    // Almost every query lacks the parameter, and a substring search is cheaper than decoding. A
    // percent-encoded name is still found, by decoding.
    let may_have = query.contains(name) || query.contains('%');
    let query = if may_have { query } else { "" };
    form_urlencoded::parse(query.as_bytes())
        .filter(move |(key, _)| key == name)
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_value_is_the_first_of_repeated_parameters() {
        let query = "a=1&b&a=2&c=x%2Fy&%64=3";
        assert_eq!(value(query, "a").as_deref(), Some("1"));
        assert_eq!(value(query, "b").as_deref(), Some(""));
        assert_eq!(value(query, "c").as_deref(), Some("x/y"));
        assert_eq!(value(query, "d").as_deref(), Some("3"));
        assert_eq!(value(query, "e"), None);
        assert_eq!(value("", "a"), None);
        assert_eq!(values(query, "a").count(), 2);
    }
}
