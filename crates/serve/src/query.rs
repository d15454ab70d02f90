//! Query strings: the few parameters that matter outside the handler.

use std::borrow::Cow;

/// The first value of a parameter; empty if it is there without one.
pub(crate) fn value<'a>(query: &'a str, name: &str) -> Option<Cow<'a, str>> {
    values(query, name).next()
}

pub(crate) fn values<'a>(query: &'a str, name: &str) -> impl Iterator<Item = Cow<'a, str>> {
    // Almost every query lacks the name asked for: looking for it is cheaper than
    // decoding. A name in percent signs is still found, by the slow way.
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
