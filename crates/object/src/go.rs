//! Go's formatting of strings and numbers. Messages and JSON numbers are part of the protocol, and
//! upstream writes them with Go.

use std::fmt::Write;

/// Quotes a string as `%q` does.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        quote_char(c, &mut out);
    }
    out.push('"');
    out
}

/// Appends one character as `%q` escapes it.
pub(crate) fn quote_char(c: char, out: &mut String) {
    let short = match c {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\x07' => "\\a",
        '\x08' => "\\b",
        '\x0c' => "\\f",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\x0b' => "\\v",
        _ => return quote_long(c, out),
    };
    out.push_str(short);
}

fn quote_long(c: char, out: &mut String) {
    let code = u32::from(c);
    let written = match code {
        _ if is_printable(c) => {
            out.push(c);
            Ok(())
        }
        0..=0x7f => write!(out, "\\x{code:02x}"),
        0x80..=0xffff => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
    written.expect("writing to a String cannot fail");
}

/// Rust escapes the same categories in `{:?}`, and also a combining mark at the start of a string.
/// The letter before the character avoids that.
fn is_printable(c: char) -> bool {
    (' '..='~').contains(&c)
        || (!c.is_ascii() && ['a', c].iter().collect::<String>().escape_debug().count() == 2)
}

/// Prints a list of strings as `%#v` does: `[]string{"a", "b"}`.
pub(crate) fn string_slice(items: &[&str]) -> String {
    let quoted: Vec<String> = items.iter().map(|item| quote(item)).collect();
    format!("[]string{{{}}}", quoted.join(", "))
}

/// Prints a float as `encoding/json` does: `1`, `0.5`, `1e+21`, `1e-7`.
pub(crate) fn json_float(value: f64) -> String {
    let (digits, exponent) = shortest(value);
    let text = if value != 0.0 && !(-6..21).contains(&exponent) {
        scientific(&digits, exponent, 1)
    } else {
        positional(&digits, exponent)
    };
    sign(value, text)
}

/// Prints a float as `%v` does: as in JSON, but `1e-05` and `1e+06`.
#[must_use]
pub fn plain_float(value: f64) -> String {
    let (digits, exponent) = shortest(value);
    let text = if value != 0.0 && !(-4..6).contains(&exponent) {
        scientific(&digits, exponent, 2)
    } else {
        positional(&digits, exponent)
    };
    sign(value, text)
}

fn sign(value: f64, text: String) -> String {
    if value.is_sign_negative() {
        format!("-{text}")
    } else {
        text
    }
}

/// The shortest digits that read back as `value`, and the exponent of the first digit.
fn shortest(value: f64) -> (String, i32) {
    let text = format!("{:e}", value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = mantissa.chars().filter(char::is_ascii_digit).collect();
    (digits, exponent.parse().unwrap_or(0))
}

fn scientific(digits: &str, exponent: i32, exponent_digits_min: usize) -> String {
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    let size = exponent.unsigned_abs();
    format!("{first}{point}{rest}e{sign}{size:0exponent_digits_min$}")
}

fn positional(digits: &str, exponent: i32) -> String {
    let Ok(whole) = usize::try_from(exponent + 1) else {
        let zeros = usize::try_from(-1 - exponent).unwrap_or(0);
        return format!("0.{}{digits}", "0".repeat(zeros));
    };
    if whole == 0 {
        format!("0.{digits}")
    } else if whole >= digits.len() {
        format!("{digits}{}", "0".repeat(whole - digits.len()))
    } else {
        format!("{}.{}", &digits[..whole], &digits[whole..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_quote_matches_percent_q() {
        for (text, expected) in [
            ("abc", r#""abc""#),
            ("a\"b\\", r#""a\"b\\""#),
            ("\n\t\r\u{7}\u{8}\u{b}\u{c}", r#""\n\t\r\a\b\v\f""#),
            ("\0\u{1f}\u{7f}", r#""\x00\x1f\x7f""#),
            ("é日本", r#""é日本""#),
            ("\u{a0}\u{81}\u{2028}", r#""\u00a0\u0081\u2028""#),
            ("\u{301}", "\"\u{301}\""),
            ("\u{e0001}", r#""\U000e0001""#),
        ] {
            assert_eq!(quote(text), expected);
        }
        assert_eq!(string_slice(&["f", "g"]), r#"[]string{"f", "g"}"#);
    }

    #[test]
    fn go_floats_match_json_and_percent_v() {
        for (value, json, plain) in [
            (0.0, "0", "0"),
            (-0.0, "-0", "-0"),
            (1.0, "1", "1"),
            (-2.5, "-2.5", "-2.5"),
            (0.1, "0.1", "0.1"),
            (0.001_25, "0.00125", "0.00125"),
            (100.0, "100", "100"),
            (123.456, "123.456", "123.456"),
            (999_999.0, "999999", "999999"),
            (1e6, "1000000", "1e+06"),
            (1_234_567.5, "1234567.5", "1.2345675e+06"),
            (1e20, "100000000000000000000", "1e+20"),
            (1e21, "1e+21", "1e+21"),
            (1.5e-7, "1.5e-7", "1.5e-07"),
            (1e-5, "0.00001", "1e-05"),
            (
                1.797_693_134_862_315_7e308,
                "1.7976931348623157e+308",
                "1.7976931348623157e+308",
            ),
        ] {
            assert_eq!(json_float(value), json);
            assert_eq!(plain_float(value), plain);
        }
    }
}
