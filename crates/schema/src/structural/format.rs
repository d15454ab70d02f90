//! The string formats that a CRD schema can require.

use super::node::SchemaTypeName;
use optik_cel::GoRegex;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

/// The formats, without hyphens.
const STRING_FORMATS: &[&str] = &[
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// Whether a format is checked for a type; other formats are ignored.
#[must_use]
pub fn is_known_format(type_name: &SchemaTypeName, format: &str) -> bool {
    match type_name {
        SchemaTypeName::Unset | SchemaTypeName::String => is_string_format(format),
        SchemaTypeName::Integer => matches!(format, "int32" | "int64"),
        SchemaTypeName::Number => matches!(format, "float" | "double"),
        _ => false,
    }
}

pub(super) fn is_string_format(format: &str) -> bool {
    STRING_FORMATS.contains(&without_hyphens(format).as_str())
}

/// Removes hyphens, which are ignored in format names.
fn without_hyphens(format: &str) -> String {
    format.chars().filter(|c| *c != '-').collect()
}

pub(super) fn matches(format: &str, text: &str) -> bool {
    match without_hyphens(format).as_str() {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "uri" => is_request_uri(text),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => PATTERNS.uuid.matches(text),
        "uuid3" => PATTERNS.uuid3.matches(text),
        "uuid4" => PATTERNS.uuid4.matches(text),
        "uuid5" => PATTERNS.uuid5.matches(text),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => text.len() == 11 && PATTERNS.ssn.matches(text),
        "hexcolor" => PATTERNS.hex_color.matches(text),
        "rgbcolor" => PATTERNS.rgb_color.matches(text),
        "byte" => PATTERNS.base64.matches(text),
        "date" => is_date(text),
        "duration" => is_duration(text),
        "datetime" => is_date_time(text),
        "k8sshortname" => text.len() <= 63 && PATTERNS.short_name.matches(text),
        "k8slongname" => text.len() <= 253 && PATTERNS.long_name.matches(text),
        // `password` accepts any string, and so do unknown formats.
        _ => true,
    }
}

struct Patterns {
    uuid: GoRegex,
    uuid3: GoRegex,
    uuid4: GoRegex,
    uuid5: GoRegex,
    label: GoRegex,
    lone_label: GoRegex,
    top_label: GoRegex,
    ssn: GoRegex,
    hex_color: GoRegex,
    rgb_color: GoRegex,
    base64: GoRegex,
    credit_card: GoRegex,
    short_name: GoRegex,
    long_name: GoRegex,
    time: GoRegex,
    human_duration: GoRegex,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| {
    let uuid = |third: &str, fourth: &str| {
        let (start, end) = ("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?", "-?[0-9a-f]{12}$");
        GoRegex::new(&format!("{start}{third}-?{fourth}{end}"))
    };
    let part = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*";
    let name = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
    let letter = r"a-zA-Z0-9\p{S}\p{L}";
    Patterns {
        uuid: uuid("[0-9a-f]{4}", "[0-9a-f]{4}"),
        uuid3: uuid("3[0-9a-f]{3}", "[0-9a-f]{4}"),
        uuid4: uuid("4[0-9a-f]{3}", "[89ab][0-9a-f]{3}"),
        uuid5: uuid("5[0-9a-f]{3}", "[89ab][0-9a-f]{3}"),
        label: GoRegex::new(&format!("^[{letter}]([-{letter}]*[{letter}])?$")),
        lone_label: GoRegex::new(&format!("^[{letter}]-?[{letter}]*$")),
        top_label: GoRegex::new(r"^[a-zA-Z\p{L}]+$"),
        ssn: GoRegex::new(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$"),
        hex_color: GoRegex::new("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
        rgb_color: GoRegex::new(&format!(r"^rgb\({part},{part},{part}\)$")),
        base64: GoRegex::new(
            "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$",
        ),
        credit_card: GoRegex::new(
            "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|\
             3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$",
        ),
        short_name: GoRegex::new(&format!("^{name}$")),
        long_name: GoRegex::new(&format!(r"^{name}(\.{name})*$")),
        time: GoRegex::new(
            r"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$",
        ),
        human_duration: GoRegex::new(
            r"(?i)\d+\s*(ns|nano[a-z]*|us|µs|micro[a-z]*|ms|milli[a-z]*|s|sec[a-z]*|m|min[a-z]*|h|hr[a-z]*|hour[a-z]*|d|day[a-z]*|w|wk[a-z]*|week[a-z]*)([^A-Za-zµ]|$)",
        ),
    }
});

/// An absolute path, or anything after a scheme.
fn is_request_uri(text: &str) -> bool {
    let clean = !text.bytes().any(|b| b.is_ascii_control());
    let escaped = text.split('%').skip(1).all(|rest| {
        let bytes = rest.as_bytes();
        bytes.len() >= 2 && bytes[..2].iter().all(u8::is_ascii_hexdigit)
    });
    if !clean || !escaped {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let mut letters = scheme.bytes();
    let named = letters.next().is_some_and(|b| b.is_ascii_alphabetic())
        && letters.all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    let host = rest.strip_prefix("//").map(|rest| {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        &rest[..end]
    });
    named && !host.unwrap_or_default().contains([' ', '<', '>', '"'])
}

fn is_email(text: &str) -> bool {
    let address = match text.split_once('<') {
        Some((_, rest)) => rest.strip_suffix('>').unwrap_or(""),
        None => text.trim(),
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let atom = |text: &str| {
        let odd = |c: char| c.is_whitespace() || "()<>[]:;@\\,\"".contains(c);
        !text.is_empty() && !text.contains(odd)
    };
    let dotted = |text: &str| text.split('.').all(atom);
    dotted(local) && dotted(domain)
}

fn is_hostname(text: &str) -> bool {
    let (labels, top) = match text.rsplit_once('.') {
        Some(both) => both,
        None => return text.len() <= 63 && PATTERNS.lone_label.matches(text),
    };
    text.len() <= 255
        && (2..=63).contains(&top.len())
        && PATTERNS.top_label.matches(top)
        && labels
            .split('.')
            .all(|label| label.len() <= 63 && PATTERNS.label.matches(label))
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let digits = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
    match (address.parse(), bits.parse::<u8>()) {
        (Ok(IpAddr::V4(_)), Ok(bits)) => digits && bits <= 32,
        (Ok(IpAddr::V6(_)), Ok(bits)) => digits && bits <= 128,
        _ => false,
    }
}

fn is_mac(text: &str) -> bool {
    let groups = |separator: char, digits: usize| {
        let parts: Vec<&str> = text.split(separator).collect();
        let well = parts
            .iter()
            .all(|part| part.len() == digits && part.bytes().all(|b| b.is_ascii_hexdigit()));
        let bytes = parts.len() * digits / 2;
        well && matches!(bytes, 6 | 8 | 20)
    };
    groups(':', 2) || groups('-', 2) || groups('.', 4)
}

fn digits_of(text: &str) -> Vec<u32> {
    text.chars().filter_map(|c| c.to_digit(10)).collect()
}

fn is_isbn10(text: &str) -> bool {
    let plain: String = text.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
    if plain.len() != 10 || !plain.is_ascii() {
        return false;
    }
    let mut sum = 0;
    for (at, c) in (1..).zip(plain.chars()) {
        let value = match c {
            'X' if at == 10 => 10,
            c => match c.to_digit(10) {
                Some(digit) => digit,
                None => return false,
            },
        };
        sum += at * value;
    }
    sum % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let plain: String = text.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
    let digits = digits_of(&plain);
    if plain.len() != 13 || digits.len() != 13 {
        return false;
    }
    let weights = [1, 3].iter().cycle();
    let sum: u32 = digits.iter().zip(weights).map(|(d, w)| d * w).sum();
    sum.is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let digits = digits_of(text);
    let plain: String = digits.iter().map(ToString::to_string).collect();
    if !PATTERNS.credit_card.matches(&plain) {
        return false;
    }
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| match (at % 2, digit * 2) {
            (0, _) => *digit,
            (_, double) if double > 9 => double - 9,
            (_, double) => double,
        })
        .sum();
    sum.is_multiple_of(10)
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else {
        return false;
    };
    let number = |text: &str, digits: usize| {
        let well = text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<u32>().ok().filter(|_| well)
    };
    let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2))
    else {
        return false;
    };
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    match lower.split_once('t') {
        Some((date, time)) => is_date(date) && PATTERNS.time.matches(time),
        None => false,
    }
}

/// A duration as Go writes it (`1h30m`), or in words (`3 days`).
fn is_duration(text: &str) -> bool {
    is_go_duration(text) || PATTERNS.human_duration.matches(text)
}

fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let number = rest.len()
            - rest
                .trim_start_matches(|c: char| c.is_ascii_digit() || c == '.')
                .len();
        let (digits, after) = rest.split_at(number);
        let well = digits.bytes().any(|b| b.is_ascii_digit())
            && digits.bytes().filter(|b| *b == b'.').count() <= 1;
        let unit = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"]
            .iter()
            .filter_map(|unit| after.strip_prefix(unit))
            .min_by_key(|rest| rest.len());
        match unit {
            Some(after) if well => rest = after,
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_formats_match_examples() {
        for (format, yes, no) in [
            ("date", "2024-02-29", "2023-02-29"),
            (
                "date-time",
                "2024-02-29T23:59:59.5Z",
                "2024-02-29 10:00:00Z",
            ),
            (
                "date-time",
                "2024-02-29t10:00:00+01:00",
                "2024-02-29T24:00:00Z",
            ),
            ("duration", "1h30m", "soon"),
            ("duration", "3 days", "3 parsecs"),
            ("ipv4", "10.0.0.1", "10.0.0.256"),
            ("ipv6", "::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "00:00:5e:00:53:01", "00:00:5e:00:53"),
            ("uri", "https://example.com/a?b", "example.com"),
            ("uri", "/path", "http://a b/"),
            ("email", "a@example.com", "a@"),
            ("email", "Some Body <a@example.com>", "a b@example.com"),
            ("hostname", "a.example.com", "-a.example.com"),
            ("uuid", "6BA7B810-9dad-11d1-80b4-00c04fd430c8", "6ba7b810"),
            (
                "uuid4",
                "f47ac10b-58cc-4372-a567-0e02b2c3d479",
                "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
            ),
            ("isbn10", "0321751043", "0321751044"),
            ("isbn13", "978-0321751041", "978-0321751042"),
            ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
            ("ssn", "111-11-1111", "111111111"),
            ("hexcolor", "#fFf", "#ffff"),
            ("rgbcolor", "rgb(0, 100, 255)", "rgb(0, 100, 256)"),
            ("byte", "YWI=", "YWI"),
            ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
            ("k8s-short-name", "a-b", "a.b"),
            ("k8s-long-name", "a.b", "A.b"),
        ] {
            assert!(is_known_format(&SchemaTypeName::String, format), "{format}");
            assert!(matches(format, yes), "{format} {yes}");
            assert!(!matches(format, no), "{format} {no}");
        }
        assert!(!is_known_format(&SchemaTypeName::String, "int32"));
        assert!(is_known_format(&SchemaTypeName::Integer, "int32"));
        assert!(!is_known_format(&SchemaTypeName::Object, "date"));
    }
}
