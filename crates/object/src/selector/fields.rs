//! Field selectors: `metadata.name=a,status.phase!=Running`.

use super::{SelectorError, check_length};
use crate::go::quote;
use std::fmt;

/// A conjunction of terms. Without terms it matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    /// `status.phase`
    pub field: String,
    pub value: String,
    /// `!=`
    pub negated: bool,
}

/// The error message a kind gives for an unsupported field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsupportedFieldLabel {
    /// The kind has its own selectable fields, or is a custom resource.
    OfOwnFields,
    /// The kind has only the fields name and namespace.
    OfNameOnly,
    /// The message contains the kind: `Job`.
    OfKind(&'static str),
    /// The message contains the full kind: `resource.k8s.io/v1, Kind=ResourceSlice`.
    OfFullKind(&'static str),
}

impl UnsupportedFieldLabel {
    #[must_use]
    pub fn to_error(self, field: &str) -> SelectorError {
        SelectorError::new(match self {
            Self::OfOwnFields => format!("field label not supported: {field}"),
            Self::OfKind(kind) => format!("field label {} not supported for {kind}", quote(field)),
            Self::OfFullKind(kind) => format!("field label not supported for {kind}: {field}"),
            Self::OfNameOnly => format!(
                "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                quote(field)
            ),
        })
    }
}

impl FieldSelector {
    pub fn parse(selector: &str) -> Result<Self, SelectorError> {
        check_length(selector)?;
        let mut parts = split_terms(selector);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let Some((field, operator, value)) = split_term(part) else {
                return Err(SelectorError::new(format!(
                    "invalid selector: '{selector}'; can't understand '{part}'"
                )));
            };
            let value = unescape(value)?;
            if field.is_empty() && value.is_empty() {
                continue;
            }
            terms.push(FieldTerm {
                field: field.to_owned(),
                value,
                negated: operator == "!=",
            });
        }
        Ok(Self { terms })
    }

    /// A selector of one term, `field=value`.
    #[must_use]
    pub fn one_term_equal(field: &str, value: &str) -> Self {
        let term = FieldTerm {
            field: field.to_owned(),
            value: value.to_owned(),
            negated: false,
        };
        Self { terms: vec![term] }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    #[must_use]
    pub fn terms(&self) -> &[FieldTerm] {
        &self.terms
    }

    /// Maps the name of each field to its canonical name, or fails.
    pub fn try_rename<'a, E>(
        mut self,
        rename: impl Fn(&str) -> Result<&'a str, E>,
    ) -> Result<Self, E> {
        for term in &mut self.terms {
            let name = rename(&term.field)?;
            if name != term.field {
                term.field = name.to_owned();
            }
        }
        Ok(self)
    }

    /// The value this field must have, if the selector has such a term. A list that fixes
    /// `metadata.name` reads one key.
    #[must_use]
    pub fn requires_exact_match(&self, field: &str) -> Option<&str> {
        let mut terms = self.terms.iter();
        let term = terms.find(|term| term.field == field && !term.negated)?;
        Some(&term.value)
    }

    /// Whether an object matches. `value` returns the value of a field; that of a missing field is
    /// empty.
    pub fn matches<T: AsRef<str>>(&self, value: impl Fn(&str) -> T) -> bool {
        let mut terms = self.terms.iter();
        terms.all(|term| (value(&term.field).as_ref() == term.value) != term.negated)
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let operator = if term.negated { "!=" } else { "=" };
            write!(f, "{comma}{}{operator}{}", term.field, escape(&term.value))?;
        }
        Ok(())
    }
}

/// Splits at commas that are not escaped with a backslash.
fn split_terms(selector: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, byte) in selector.bytes().enumerate() {
        if escaped {
            escaped = false;
        } else if byte == b'\\' {
            escaped = true;
        } else if byte == b',' {
            terms.push(&selector[start..at]);
            start = at + 1;
        }
    }
    terms.push(&selector[start..]);
    terms
}

/// Splits a term at the first operator.
fn split_term(term: &str) -> Option<(&str, &str, &str)> {
    let at = term
        .bytes()
        .enumerate()
        .position(|(at, byte)| byte == b'=' || term.as_bytes()[at..].starts_with(b"!="))?;
    let rest = &term[at..];
    let operator = ["!=", "==", "="]
        .into_iter()
        .find(|operator| rest.starts_with(operator))?;
    Some((&term[..at], operator, &rest[operator.len()..]))
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let bad_escape = |sequence: String| {
        SelectorError::new(format!(
            "invalid field selector: invalid escape sequence: {sequence}"
        ))
    };
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return Err(bad_escape(format!("\\{c}"))),
                None => return Err(bad_escape("\\".into())),
            },
            // Upstream prints the code of the character.
            ',' | '=' => {
                return Err(SelectorError::new(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                )));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '\\' | ',' | '=') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// CONC §3.5.
    #[test]
    fn field_selectors_round_trip() {
        for (selector, expected) in [
            ("", ""),
            ("a=b", "a=b"),
            ("a==b", "a=b"),
            ("a!=b", "a!=b"),
            ("b=1,a=2", "a=2,b=1"),
            (",,a=b,", "a=b"),
            ("=", ""),
            ("==,!=", ""),
            ("a=", "a="),
            ("=a", "=a"),
            (r"a=b\,c\=d\\", r"a=b\,c\=d\\"),
            ("metadata.name=x", "metadata.name=x"),
            (" a = b ", " a = b "),
        ] {
            let parsed = FieldSelector::parse(selector).unwrap();
            assert_eq!(parsed.to_string(), expected, "{selector}");
        }
    }

    /// CONC §3.5.
    #[test]
    fn malformed_field_selectors_are_refused() {
        for (selector, expected) in [
            ("foo", "invalid selector: 'foo'; can't understand 'foo'"),
            (
                "a=b,foo",
                "invalid selector: 'a=b,foo'; can't understand 'foo'",
            ),
            ("a>1", "invalid selector: 'a>1'; can't understand 'a>1'"),
            (
                r"a=\b",
                r"invalid field selector: invalid escape sequence: \b",
            ),
            (
                r"a=b\",
                r"invalid field selector: invalid escape sequence: \",
            ),
            (
                "a=b=c",
                "invalid field selector: unescaped character in value: 61",
            ),
        ] {
            let error = FieldSelector::parse(selector).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        assert_eq!(
            UnsupportedFieldLabel::OfOwnFields.to_error("x").to_string(),
            "field label not supported: x"
        );
        assert_eq!(
            UnsupportedFieldLabel::OfNameOnly.to_error("x").to_string(),
            r#""x" is not a known field selector: only "metadata.name", "metadata.namespace""#
        );
    }

    #[test]
    fn field_selectors_match_values() {
        let pod = |field: &str| match field {
            "metadata.name" => "p",
            "status.phase" => "Running",
            _ => "",
        };
        for (selector, expected) in [
            ("", true),
            ("metadata.name=p", true),
            ("metadata.name=q", false),
            ("status.phase!=Running", false),
            ("metadata.name=p,status.phase=Running", true),
            ("metadata.name=p,status.phase=Pending", false),
            ("spec.nodeName=", true),
            ("spec.nodeName!=", false),
        ] {
            let parsed = FieldSelector::parse(selector).unwrap();
            assert_eq!(parsed.matches(pod), expected, "{selector}");
        }
        let parsed = FieldSelector::parse("a!=1,a=2,b=3").unwrap();
        assert_eq!(
            (
                parsed.requires_exact_match("a"),
                parsed.requires_exact_match("c")
            ),
            (Some("2"), None)
        );
    }

    #[test]
    fn field_selector_fields_can_be_renamed() {
        let rename = |field: &str| match field {
            "spec.host" => Ok("spec.nodeName"),
            "metadata.name" => Ok("metadata.name"),
            other => Err(UnsupportedFieldLabel::OfOwnFields.to_error(other)),
        };
        let parse = |text| FieldSelector::parse(text).unwrap().try_rename(rename);
        assert_eq!(parse("spec.host=a").unwrap().to_string(), "spec.nodeName=a");
        assert!(parse("spec.other=a").is_err());
    }

    proptest! {
        #[test]
        fn field_selector_parse_never_panics(text: String, likely in r"[a,=!\\é]{0,20}") {
            let _ = FieldSelector::parse(&text);
            let _ = FieldSelector::parse(&likely);
        }

        #[test]
        fn field_selector_values_round_trip(value: String) {
            prop_assume!(!value.is_empty());
            let parsed = FieldSelector::parse(&format!("f={}", escape(&value))).unwrap();
            prop_assert_eq!(parsed.requires_exact_match("f"), Some(value.as_str()));
        }
    }
}
