//! Go's time layouts: parsing with Go's error messages, and formatting.

use crate::timestamp::{Timestamp, parse_digits};
use std::fmt::Write;

/// The layout of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLayout {
    /// RFC 3339 with seconds; accepts fractional digits when parsing.
    Seconds,
    /// RFC 3339 with exactly six fractional digits.
    Micros,
}

/// Why a text cannot be parsed as a time, with Go's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TimeLayoutError(String);

/// A field of a layout: the text before it, and its reference value.
type LayoutField = (&'static str, &'static str);

const DATE_AND_CLOCK: [LayoutField; 6] = [
    ("", "2006"),
    ("-", "01"),
    ("-", "02"),
    ("T", "15"),
    (":", "04"),
    (":", "05"),
];
const FRACTION: &str = ".000000";
const ZONE: &str = "Z07:00";

impl TimeLayout {
    /// Parses a time.
    ///
    /// # Errors
    /// If the text is not a time in this layout.
    pub fn parse(self, text: &str) -> Result<Timestamp, TimeLayoutError> {
        let mut reading = TimeParser {
            layout: self,
            text,
            rest: text.as_bytes(),
        };
        let mut fields = [0; DATE_AND_CLOCK.len()];
        for (field, (before, part)) in fields.iter_mut().zip(DATE_AND_CLOCK) {
            reading.skip(before)?;
            *field = reading.field(part)?;
        }
        let micros = reading.micros()?;
        let offset = reading.zone()?;
        if !reading.rest.is_empty() {
            let extra = quote(reading.rest);
            return Err(reading.error(&format!(": extra text: {extra}")));
        }
        let [year, month, day, hour, minute, second] = fields;
        let instant = Timestamp::from_date_and_clock(
            [year, month, day],
            [hour, minute, second],
            offset,
            micros,
        );
        instant.ok_or_else(|| reading.error(": day out of range"))
    }

    /// Formats a time in this layout.
    #[must_use]
    pub fn format(self, instant: Timestamp) -> String {
        match self {
            Self::Seconds => instant.to_string(),
            Self::Micros => instant.to_rfc3339_micros(),
        }
    }

    fn go_layout(self) -> String {
        let fraction = match self {
            Self::Seconds => "",
            Self::Micros => FRACTION,
        };
        let parts = DATE_AND_CLOCK.iter();
        let parts: String = parts
            .map(|(before, part)| [*before, *part].concat())
            .collect();
        format!("{parts}{fraction}{ZONE}")
    }
}

struct TimeParser<'t> {
    layout: TimeLayout,
    text: &'t str,
    rest: &'t [u8],
}

impl<'t> TimeParser<'t> {
    fn skip(&mut self, mark: &'static str) -> Result<(), TimeLayoutError> {
        match self.rest.strip_prefix(mark.as_bytes()) {
            Some(rest) => self.rest = rest,
            None => return Err(self.unreadable(self.rest, mark)),
        }
        Ok(())
    }

    fn field(&mut self, part: &'static str) -> Result<i64, TimeLayoutError> {
        let length = match part {
            "2006" => 4,
            "15" if !self.rest.get(1).is_some_and(u8::is_ascii_digit) => 1,
            _ => 2,
        };
        let at = self.rest;
        let Some(number) = self.take(length).and_then(parse_digits) else {
            return Err(self.unreadable(at, part));
        };
        let (name, allowed) = match part {
            "01" => ("month", 1..=12),
            "15" => ("hour", 0..=23),
            "04" => ("minute", 0..=59),
            "05" => ("second", 0..=59),
            _ => return Ok(number),
        };
        if allowed.contains(&number) {
            return Ok(number);
        }
        Err(self.error(&format!(": {name} out of range")))
    }

    /// Parses fractional seconds. Digits below a microsecond are dropped.
    fn micros(&mut self) -> Result<i64, TimeLayoutError> {
        let at = self.rest;
        let digits = at.iter().skip(1);
        let digits = digits.take_while(|byte| byte.is_ascii_digit()).count();
        let is_fraction = matches!(at.first(), Some(b'.' | b','));
        let length = match self.layout {
            TimeLayout::Seconds if is_fraction && digits > 0 => digits,
            TimeLayout::Seconds => return Ok(0),
            TimeLayout::Micros if is_fraction && digits >= 6 => 6,
            TimeLayout::Micros => return Err(self.unreadable(at, FRACTION)),
        };
        let taken = self.take(length + 1).unwrap_or_default();
        let kept = &taken[1..taken.len().min(7)];
        let missing = u32::try_from(6 - kept.len()).unwrap_or_default();
        Ok(parse_digits(kept).unwrap_or_default() * 10_i64.pow(missing))
    }

    /// Parses the zone, in seconds east of UTC.
    fn zone(&mut self) -> Result<i64, TimeLayoutError> {
        let at = self.rest;
        if let Some(rest) = at.strip_prefix(b"Z") {
            self.rest = rest;
            return Ok(0);
        }
        let Some([sign, h1, h2, b':', m1, m2]) = self.take(6) else {
            return Err(self.unreadable(at, ZONE));
        };
        let (hours, minutes) = (parse_digits(&[*h1, *h2]), parse_digits(&[*m1, *m2]));
        let (Some(hours), Some(minutes)) = (hours, minutes) else {
            return Err(self.unreadable(at, ZONE));
        };
        for (name, number, most) in [("hour", hours, 24), ("minute", minutes, 60)] {
            if number > most {
                return Err(self.error(&format!(": time zone offset {name} out of range")));
            }
        }
        match sign {
            b'+' => Ok(hours * 3600 + minutes * 60),
            b'-' => Ok(-(hours * 3600 + minutes * 60)),
            _ => Err(self.unreadable(at, ZONE)),
        }
    }

    fn take(&mut self, length: usize) -> Option<&'t [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn unreadable(&self, at: &[u8], part: &str) -> TimeLayoutError {
        let layout = quote(self.layout.go_layout().as_bytes());
        let (at, part) = (quote(at), quote(part.as_bytes()));
        self.error(&format!(" as {layout}: cannot parse {at} as {part}"))
    }

    fn error(&self, what: &str) -> TimeLayoutError {
        let text = quote(self.text.as_bytes());
        TimeLayoutError(format!("parsing time {text}{what}"))
    }
}

/// Quotes as Go's `time` package does, not as `%q`: bytes that are not ASCII are escaped one by
/// one.
fn quote(bytes: &[u8]) -> String {
    let mut text = String::from('"');
    for byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(*byte)]),
            b' '..=b'~' | 0x7f => text.push(char::from(*byte)),
            _ => {
                // Writing to a string cannot fail.
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Messages recorded from a real server.
    #[test]
    fn invalid_times_get_go_parse_errors() {
        let seconds = r#"as "2006-01-02T15:04:05Z07:00": cannot parse"#;
        let micros = r#"as "2006-01-02T15:04:05.000000Z07:00": cannot parse"#;
        for (layout, text, said) in [
            (
                TimeLayout::Seconds,
                "soon",
                format!(r#"{seconds} "soon" as "2006""#),
            ),
            (
                TimeLayout::Seconds,
                "",
                format!(r#"{seconds} "" as "2006""#),
            ),
            (
                TimeLayout::Seconds,
                "2020-01-01",
                format!(r#"{seconds} "" as "T""#),
            ),
            (
                TimeLayout::Seconds,
                "2020-1-01T00:00:00Z",
                format!(r#"{seconds} "1-01T00:00:00Z" as "01""#),
            ),
            (
                TimeLayout::Seconds,
                "2020-01-01T00:00:00",
                format!(r#"{seconds} "" as "Z07:00""#),
            ),
            (
                TimeLayout::Micros,
                "2020-01-01T00:00:00Z",
                format!(r#"{micros} "Z" as ".000000""#),
            ),
            (
                TimeLayout::Micros,
                "2020-01-01T00:00:00.5Z",
                format!(r#"{micros} ".5Z" as ".000000""#),
            ),
            (
                TimeLayout::Micros,
                "2020-01-01T00:00:00.1234567+02:00",
                format!(r#"{micros} "7+02:00" as "Z07:00""#),
            ),
        ] {
            let error = layout.parse(text).unwrap_err().to_string();
            assert_eq!(error, format!(r#"parsing time "{text}" {said}"#));
        }
        for (text, said) in [
            ("2020-13-01T00:00:00Z", ": month out of range"),
            ("2020-02-30T00:00:00Z", ": day out of range"),
            ("2020-02-03T24:00:00Z", ": hour out of range"),
            ("2020-02-03T00:00:00Zx", r#": extra text: "x""#),
        ] {
            let error = TimeLayout::Seconds.parse(text).unwrap_err().to_string();
            assert_eq!(error, format!(r#"parsing time "{text}"{said}"#));
        }
    }

    #[test]
    fn times_are_formatted_in_one_way() {
        for (layout, text, expected) in [
            (
                TimeLayout::Seconds,
                "2020-01-01T01:02:03+01:00",
                "2020-01-01T00:02:03Z",
            ),
            (
                TimeLayout::Seconds,
                "2020-01-01T00:02:03.999Z",
                "2020-01-01T00:02:03Z",
            ),
            (
                TimeLayout::Seconds,
                "2020-01-01T1:02:03Z",
                "2020-01-01T01:02:03Z",
            ),
            (
                TimeLayout::Micros,
                "2020-01-01T00:02:03.500000-01:00",
                "2020-01-01T01:02:03.500000Z",
            ),
        ] {
            assert_eq!(
                layout.format(layout.parse(text).unwrap()),
                expected,
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn time_parse_never_panics(text: String) {
            let _ = TimeLayout::Seconds.parse(&text);
            let _ = TimeLayout::Micros.parse(&text);
        }

        #[test]
        fn times_round_trip(micros: i64) {
            let instant = Timestamp::from_micros(micros);
            prop_assert_eq!(TimeLayout::Micros.parse(&instant.to_rfc3339_micros()), Ok(instant));
            prop_assert_eq!(
                TimeLayout::Seconds.parse(&instant.to_string()).map(Timestamp::seconds),
                Ok(instant.seconds())
            );
        }
    }
}
