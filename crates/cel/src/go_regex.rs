//! Go's regular expression syntax (RE2), translated to that of the `regex` crate.

use regex::{Regex, RegexBuilder};
use std::sync::OnceLock;

/// Memory limit of one compiled pattern.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// A pattern that is compiled at its first use.
#[derive(Clone, Debug)]
pub struct GoRegex {
    source: Box<str>,
    compiled: OnceLock<Option<Box<Regex>>>,
}

impl GoRegex {
    pub fn new(source: &str) -> Self {
        Self {
            source: source.into(),
            compiled: OnceLock::new(),
        }
    }

    /// The pattern as the schema spells it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The error message of a pattern that does not compile.
    pub fn problem(&self) -> Option<String> {
        compile(&self.source).err().map(|error| error.to_string())
    }

    /// Whether the pattern matches somewhere in `text`. A pattern that does not compile matches
    /// nothing.
    pub fn matches(&self, text: &str) -> bool {
        let compiled = self
            .compiled
            .get_or_init(|| compile(&self.source).ok().map(Box::new));
        compiled.as_ref().is_some_and(|regex| regex.is_match(text))
    }
}

pub(crate) fn compile(source: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(&go_to_rust_syntax(source))
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX)
        .build()
}

/// Translates the syntax in which Go and the `regex` crate differ: classes such as `\d` are ASCII
/// in Go; `[`, `&&`, `--` and `~~` are literals inside Go's classes; a brace that is no repetition
/// is a literal; `\Q…\E` quotes.
fn go_to_rust_syntax(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 16);
    let mut rest = source;
    let mut class = CharClassState::Outside;
    while let Some(c) = rest.chars().next() {
        let (_, after) = rest.split_at(c.len_utf8());
        rest = match c {
            '\\' => escape(after, class, &mut out),
            '[' if class == CharClassState::Outside => {
                class = CharClassState::First;
                out.push('[');
                match after.strip_prefix('^') {
                    Some(after) => {
                        out.push('^');
                        after
                    }
                    None => after,
                }
            }
            ']' if class == CharClassState::First => {
                class = CharClassState::Inside;
                out.push_str("\\]");
                after
            }
            ']' if class == CharClassState::Inside => {
                class = CharClassState::Outside;
                out.push(']');
                after
            }
            '[' => {
                class = CharClassState::Inside;
                inside_bracket(rest, after, &mut out)
            }
            '&' | '~' if class != CharClassState::Outside => {
                class = CharClassState::Inside;
                out.push('\\');
                out.push(c);
                after
            }
            '{' if class == CharClassState::Outside && !is_repetition(after) => {
                out.push_str("\\{");
                after
            }
            c => {
                if class == CharClassState::First {
                    class = CharClassState::Inside;
                }
                // `--` would be the set difference of the `regex` crate.
                if c == '-' && class == CharClassState::Inside && out.ends_with('-') {
                    out.push('\\');
                }
                out.push(c);
                after
            }
        };
        if class == CharClassState::First && c != '[' {
            class = CharClassState::Inside;
        }
    }
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CharClassState {
    Outside,
    /// Just behind the opening bracket, where `]` is a literal.
    First,
    Inside,
}

/// Keeps `[:alpha:]`; escapes every other bracket inside a class as a literal.
fn inside_bracket<'s>(rest: &'s str, after: &'s str, out: &mut String) -> &'s str {
    if let Some(named) = rest.strip_prefix("[:")
        && let Some(end) = named.find(":]")
        && named[..end]
            .trim_start_matches('^')
            .chars()
            .all(|c| c.is_ascii_lowercase())
    {
        let (name, rest) = rest.split_at(2 + end + 2);
        out.push_str(name);
        return rest;
    }
    out.push_str("\\[");
    after
}

fn escape<'s>(after: &'s str, class: CharClassState, out: &mut String) -> &'s str {
    let Some(c) = after.chars().next() else {
        out.push('\\');
        return after;
    };
    let rest = &after[c.len_utf8()..];
    let text = match (c, class == CharClassState::Outside) {
        ('d', true) => "[0-9]",
        ('d', false) => "0-9",
        ('D', _) => "[^0-9]",
        ('w', true) => "[0-9A-Za-z_]",
        ('w', false) => "0-9A-Za-z_",
        ('W', _) => "[^0-9A-Za-z_]",
        ('s', true) => "[\\t\\n\\f\\r ]",
        ('s', false) => "\\t\\n\\f\\r ",
        ('S', _) => "[^\\t\\n\\f\\r ]",
        ('b', true) => "(?-u:\\b)",
        ('B', true) => "(?-u:\\B)",
        ('Q', _) => {
            let (quoted, rest) = rest.split_once("\\E").unwrap_or((rest, ""));
            out.push_str(&regex::escape(quoted));
            return rest;
        }
        _ => {
            out.push('\\');
            out.push(c);
            return rest;
        }
    };
    out.push_str(text);
    rest
}

/// `2}`, `2,}`, `2,5}`
fn is_repetition(after: &str) -> bool {
    let Some((inside, _)) = after.split_once('}') else {
        return false;
    };
    let (low, high) = inside.split_once(',').unwrap_or((inside, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    !low.is_empty() && digits(low) && digits(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_regex_syntax_is_translated() {
        for (pattern, yes, no) in [
            ("^a", "abc", "ba"),
            (r"^\d+$", "12", "١٢"),
            (r"^\w$", "a", "ä"),
            (r"^[\w.]+$", "a.b", "ä"),
            ("^[]a]+$", "]a", "b"),
            ("^[^]a]+$", "b", "]"),
            ("^[[a]+$", "[a", "b"),
            ("^[a&&b]+$", "&", "c"),
            ("^[+--]+$", "-,", "a"),
            ("^[[:alpha:]-]+$", "a-b", "1"),
            ("^a{,2}$", "a{,2}", "aa"),
            ("^a{2,3}$", "aa", "a"),
            (r"^\Qa.b\E$", "a.b", "axb"),
            (r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "a-b", "-a"),
            (r"^\S+\s\D$", "a b", "a 1"),
        ] {
            let compiled = GoRegex::new(pattern);
            assert_eq!(compiled.problem(), None, "{pattern}");
            assert!(compiled.matches(yes), "{pattern} on {yes}");
            assert!(!compiled.matches(no), "{pattern} on {no}");
        }
    }

    #[test]
    fn invalid_go_regex_reports_error_and_matches_nothing() {
        for pattern in ["(", "[z-a]", "(?=a)", r"\1", "a{2,1}"] {
            assert!(GoRegex::new(pattern).problem().is_some(), "{pattern}");
            assert!(!GoRegex::new(pattern).matches("a"), "{pattern}");
        }
    }
}
