//! The JSON syntax checker, with Go's error messages.
//!
//! Walks the document without recursion, so that no request can exhaust the stack, and stops at the
//! first invalid byte. Clients and tests match on these messages.

use super::{DEPTH_MAX, SyntaxError};
use crate::go;

/// Checks the syntax and depth of one document.
pub(super) fn check_syntax(bytes: &[u8]) -> Result<(), SyntaxError> {
    let mut walker = SyntaxChecker { bytes, at: 0 };
    walker.document()
}

struct SyntaxChecker<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The type of the innermost open bracket.
#[derive(Clone, Copy, PartialEq)]
enum OpenBracket {
    Object,
    Array,
}

type SyntaxResult = Result<(), SyntaxError>;

impl SyntaxChecker<'_> {
    fn document(&mut self) -> SyntaxResult {
        let mut open = Vec::new();
        loop {
            // A value is expected here.
            self.skip_space();
            match self.peek() {
                Some(b'{') => {
                    self.at += 1;
                    self.skip_space();
                    if self.peek() != Some(b'}') {
                        push(&mut open, OpenBracket::Object)?;
                        self.key()?;
                        continue;
                    }
                    check_depth(&open)?;
                    self.at += 1;
                }
                Some(b'[') => {
                    self.at += 1;
                    self.skip_space();
                    if self.peek() != Some(b']') {
                        push(&mut open, OpenBracket::Array)?;
                        continue;
                    }
                    check_depth(&open)?;
                    self.at += 1;
                }
                _ => self.scalar()?,
            }
            if self.after_value(&mut open)? {
                return Ok(());
            }
        }
    }

    /// Closes the containers that end here. Returns true at the end of the document, false where
    /// another value is expected.
    fn after_value(&mut self, open: &mut Vec<OpenBracket>) -> Result<bool, SyntaxError> {
        loop {
            self.skip_space();
            let Some(innermost) = open.last() else {
                return match self.peek() {
                    None => Ok(true),
                    Some(_) => Err(self.unexpected("after top-level value")),
                };
            };
            match (innermost, self.peek()) {
                (OpenBracket::Object, Some(b'}')) | (OpenBracket::Array, Some(b']')) => {
                    open.pop();
                    self.at += 1;
                }
                (OpenBracket::Object, Some(b',')) => {
                    self.at += 1;
                    self.skip_space();
                    self.key()?;
                    return Ok(false);
                }
                (OpenBracket::Array, Some(b',')) => {
                    self.at += 1;
                    return Ok(false);
                }
                (OpenBracket::Object, _) => {
                    return Err(self.unexpected("after object key:value pair"));
                }
                (OpenBracket::Array, _) => return Err(self.unexpected("after array element")),
            }
        }
    }

    fn key(&mut self) -> SyntaxResult {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("looking for beginning of object key string"));
        }
        self.string()?;
        self.skip_space();
        self.expect(|byte| byte == b':', "after object key")
    }

    fn scalar(&mut self) -> SyntaxResult {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn string(&mut self) -> SyntaxResult {
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape()?;
                }
                Some(0x20..) => self.at += 1,
                _ => return Err(self.unexpected("in string literal")),
            }
        }
    }

    fn escape(&mut self) -> SyntaxResult {
        let is_hex = self.peek() == Some(b'u');
        self.expect(
            |byte| b"bfnrt\\/\"u".contains(&byte),
            "in string escape code",
        )?;
        for _ in 0..if is_hex { 4 } else { 0 } {
            self.expect(
                |byte| byte.is_ascii_hexdigit(),
                "in \\u hexadecimal character escape",
            )?;
        }
        Ok(())
    }

    fn number(&mut self) -> SyntaxResult {
        self.skip(b"-");
        if !self.skip(b"0") {
            self.digits("in numeric literal")?;
        }
        if self.skip(b".") {
            self.digits("after decimal point in numeric literal")?;
        }
        if self.skip(b"eE") {
            self.skip(b"+-");
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn digits(&mut self, place: &str) -> SyntaxResult {
        self.expect(|byte| byte.is_ascii_digit(), place)?;
        while self.skip(b"0123456789") {}
        Ok(())
    }

    fn literal(&mut self, word: &str) -> SyntaxResult {
        for expected in word.bytes() {
            let place = format!("in literal {word} (expecting '{}')", char::from(expected));
            self.expect(|byte| byte == expected, &place)?;
        }
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Skips one byte if it is in `any_of`.
    fn skip(&mut self, any_of: &[u8]) -> bool {
        let found = self.peek().is_some_and(|byte| any_of.contains(&byte));
        self.at += usize::from(found);
        found
    }

    fn skip_space(&mut self) {
        while self.skip(b" \t\r\n") {}
    }

    fn expect(&mut self, fits: impl Fn(u8) -> bool, place: &str) -> SyntaxResult {
        if self.peek().is_some_and(fits) {
            self.at += 1;
            Ok(())
        } else {
            Err(self.unexpected(place))
        }
    }

    fn unexpected(&self, place: &str) -> SyntaxError {
        SyntaxError::Malformed(match self.peek() {
            None => "unexpected end of JSON input".into(),
            Some(byte) => format!("invalid character {} {place}", quote_byte(byte)),
        })
    }
}

fn push(open: &mut Vec<OpenBracket>, bracket: OpenBracket) -> SyntaxResult {
    check_depth(open)?;
    open.push(bracket);
    Ok(())
}

fn check_depth(open: &[OpenBracket]) -> SyntaxResult {
    if open.len() < DEPTH_MAX {
        Ok(())
    } else {
        Err(SyntaxError::TooDeep)
    }
}

/// Quotes a byte, not a character: Go looks at one byte only.
fn quote_byte(byte: u8) -> String {
    let mut quoted = String::from("'");
    match byte {
        b'\'' => quoted.push_str("\\'"),
        b'"' => quoted.push('"'),
        _ => go::quote_char(char::from(byte), &mut quoted),
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_syntax_errors_match_go() {
        for (text, expected) in [
            ("", "unexpected end of JSON input"),
            ("  ", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("{\"a\":1", "unexpected end of JSON input"),
            ("\"abc", "unexpected end of JSON input"),
            ("tru", "unexpected end of JSON input"),
            ("-", "unexpected end of JSON input"),
            (
                "garbage",
                "invalid character 'g' looking for beginning of value",
            ),
            (
                "'",
                "invalid character '\\'' looking for beginning of value",
            ),
            (
                "\u{81}",
                "invalid character 'Â' looking for beginning of value",
            ),
            (
                "[1,]",
                "invalid character ']' looking for beginning of value",
            ),
            (
                "{a",
                "invalid character 'a' looking for beginning of object key string",
            ),
            (
                "{\"a\":1,}",
                "invalid character '}' looking for beginning of object key string",
            ),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            (
                "{\"a\":1 \"b\"",
                "invalid character '\"' after object key:value pair",
            ),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1}", "invalid character '}' after array element"),
            ("{} {}", "invalid character '{' after top-level value"),
            ("01", "invalid character '1' after top-level value"),
            ("\"\n\"", "invalid character '\\n' in string literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            (
                "\"\\u00g0\"",
                "invalid character 'g' in \\u hexadecimal character escape",
            ),
            ("-a", "invalid character 'a' in numeric literal"),
            (
                "1.a",
                "invalid character 'a' after decimal point in numeric literal",
            ),
            (
                "1ea",
                "invalid character 'a' in exponent of numeric literal",
            ),
            (
                "trux",
                "invalid character 'x' in literal true (expecting 'e')",
            ),
            (
                "nil",
                "invalid character 'i' in literal null (expecting 'u')",
            ),
        ] {
            let error = SyntaxError::Malformed(expected.into());
            assert_eq!(check_syntax(text.as_bytes()), Err(error), "{text}");
        }
    }

    #[test]
    fn json_syntax_check_accepts_valid_documents() {
        for text in [
            "{}",
            "[]",
            " [ ] ",
            "[[],{}]",
            "{\"a\":{\"b\":[1,2]},\"c\":null}",
            "0",
            "-0.5e+10",
            "1E5",
            "\"\\u00e9\\n\\/\"",
            "true",
            "false",
            "null",
            "\"é\"",
        ] {
            assert_eq!(check_syntax(text.as_bytes()), Ok(()), "{text}");
        }
    }
}
