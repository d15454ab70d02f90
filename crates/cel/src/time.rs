//! Timestamps and durations, with the ranges and text formats of Go.

use std::fmt;

const NANOS: i64 = 1_000_000_000;
const DAY: i64 = 86_400;
/// Unix seconds of the years 1 to 9999.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// An instant between the years 1 and 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CelTimestamp {
    seconds: i64,
    nanos: u32,
}

impl CelTimestamp {
    pub(crate) fn new(seconds: i64, nanos: u32) -> Option<Self> {
        SECONDS
            .contains(&seconds)
            .then_some(Self { seconds, nanos })
    }

    pub(crate) const fn seconds(self) -> i64 {
        self.seconds
    }

    fn total(self) -> i128 {
        i128::from(self.seconds) * i128::from(NANOS) + i128::from(self.nanos)
    }

    pub(crate) fn plus(self, nanos: i64) -> Option<Self> {
        let total = self.total() + i128::from(nanos);
        let seconds = i64::try_from(total.div_euclid(i128::from(NANOS))).ok()?;
        let nanos = u32::try_from(total.rem_euclid(i128::from(NANOS))).ok()?;
        Self::new(seconds, nanos)
    }

    /// The difference in nanoseconds; `None` if it does not fit a duration.
    pub(crate) fn minus(self, other: Self) -> Option<i64> {
        i64::try_from(self.total() - other.total()).ok()
    }

    /// A field of the timestamp in a time zone (UTC by default).
    pub(crate) fn field(self, part: TimestampField, zone: Option<&str>) -> Result<i64, String> {
        let offset = zone.map_or(Ok(0), |zone| offset(zone, self.seconds))?;
        let local = self.seconds + offset;
        let (days, second) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let (year, month, day) = civil(days);
        Ok(match part {
            TimestampField::Year => year,
            TimestampField::Month => month - 1,
            TimestampField::DayOfYear => days - days_of(year, 1, 1),
            TimestampField::DayOfMonth => day - 1,
            TimestampField::Date => day,
            TimestampField::DayOfWeek => (days + 4).rem_euclid(7),
            TimestampField::Hours => second / 3600,
            TimestampField::Minutes => second / 60 % 60,
            TimestampField::Seconds => second % 60,
            TimestampField::Milliseconds => i64::from(self.nanos) / 1_000_000,
        })
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum TimestampField {
    Year,
    Month,
    DayOfYear,
    DayOfMonth,
    Date,
    DayOfWeek,
    Hours,
    Minutes,
    Seconds,
    Milliseconds,
}

impl fmt::Display for CelTimestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil(self.seconds.div_euclid(DAY));
        let second = self.seconds.rem_euclid(DAY);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
        )?;
        if self.nanos > 0 {
            let digits = format!("{:09}", self.nanos);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

/// The UTC offset in seconds, east positive, of a zone such as `+02:00` or `Europe/Berlin`.
fn offset(zone: &str, at: i64) -> Result<i64, String> {
    let fixed = |zone: &str| {
        let (sign, rest) = match zone.as_bytes().first()? {
            b'-' => (-1, &zone[1..]),
            b'+' => (1, &zone[1..]),
            _ => (1, zone),
        };
        let (hours, minutes) = rest.split_once(':')?;
        let (hours, minutes) = (hours.parse::<i64>().ok()?, minutes.parse::<i64>().ok()?);
        Some(sign * (hours * 3600 + minutes * 60))
    };
    if zone.contains(':') {
        let offset = fixed(zone).filter(|offset| offset.abs() <= 2 * DAY);
        return offset.ok_or_else(|| format!("unknown time zone {zone}"));
    }
    if matches!(zone, "" | "UTC") {
        return Ok(0);
    }
    let unknown = |_| format!("unknown time zone {zone}");
    let zone = jiff::tz::TimeZone::get(zone).map_err(unknown)?;
    let at = jiff::Timestamp::from_second(at).unwrap_or_default();
    Ok(i64::from(zone.to_offset(at).seconds()))
}

/// The number of days from 1970-01-01 to a date.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let day = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    era * 146_097 + day - 719_468
}

/// The date (year, month, day) of a number of days since 1970-01-01.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

fn number(text: &str) -> Option<i64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Parses a date such as `2006-01-02`.
pub(crate) fn parse_date(text: &str) -> Option<CelTimestamp> {
    if text.len() != 10 || !text.is_ascii() || &text[4..5] != "-" || &text[7..8] != "-" {
        return None;
    }
    let (year, month, day) = (
        number(&text[..4])?,
        number(&text[5..7])?,
        number(&text[8..])?,
    );
    let days = days_of(year, month, day);
    let exists = (1..=12).contains(&month) && civil(days) == (year, month, day);
    exists.then(|| CelTimestamp::new(days * DAY, 0)).flatten()
}

/// Parses an RFC 3339 timestamp.
pub(crate) fn parse_instant(text: &str) -> Option<CelTimestamp> {
    if !text.is_ascii() || text.len() < 20 || !matches!(&text[10..11], "T" | "t") {
        return None;
    }
    let date = parse_date(&text[..10])?;
    let time = &text[11..];
    if &time[2..3] != ":" || &time[5..6] != ":" {
        return None;
    }
    let (hour, minute, second) = (
        number(&time[..2])?,
        number(&time[3..5])?,
        number(&time[6..8])?,
    );
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let rest = &time[8..];
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => {
            let end = rest.find(|c: char| !c.is_ascii_digit())?;
            (&rest[..end], &rest[end..])
        }
        None => ("", rest),
    };
    if rest.starts_with('.') && fraction.is_empty() {
        return None;
    }
    let digits: String = fraction
        .chars()
        .chain("000000000".chars())
        .take(9)
        .collect();
    let offset = match zone {
        "Z" | "z" => 0,
        zone => {
            let sign = match zone.as_bytes().first()? {
                b'+' => 1,
                b'-' => -1,
                _ => return None,
            };
            let (hours, minutes) = zone[1..].split_once(':')?;
            if hours.len() != 2 || minutes.len() != 2 {
                return None;
            }
            sign * (number(hours)? * 3600 + number(minutes)? * 60)
        }
    };
    let seconds = date.seconds + hour * 3600 + minute * 60 + second - offset;
    CelTimestamp::new(seconds, digits.parse().ok()?)
}

/// Parses a duration such as `1h30m` like Go's `time.ParseDuration`; returns nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (digits, after) = rest.split_at(end);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if (whole.is_empty() && fraction.is_empty()) || whole.len() > 19 {
            return None;
        }
        let end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let whole: i128 = if whole.is_empty() {
            0
        } else {
            whole.parse().ok()?
        };
        total += whole * unit;
        let mut scale = unit;
        for digit in fraction.bytes().take(18) {
            if !digit.is_ascii_digit() {
                return None;
            }
            // Exact as long as the unit has digits left.
            total += i128::from(digit - b'0') * scale / 10;
            scale /= 10;
        }
        rest = after;
        if total > i128::from(i64::MAX) + 1 {
            return None;
        }
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// Parses a value of the schema format `duration`: Go's syntax, or words such as `3 days`.
pub(crate) fn parse_duration_format(text: &str) -> Option<i64> {
    if let Some(nanos) = parse_duration(text) {
        return Some(nanos);
    }
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let count: i64 = text[..end].parse().ok()?;
    let unit = text[end..].trim();
    let unit = match unit.strip_suffix('s').filter(|unit| unit.len() > 1) {
        Some(unit) if !matches!(unit, "m" | "n" | "u" | "µ") => unit,
        _ => unit,
    };
    let unit = match unit {
        "ns" | "nano" | "nanosecond" => 1,
        "us" | "µs" | "micro" | "microsecond" => 1_000,
        "ms" | "milli" | "millisecond" => 1_000_000,
        "s" | "sec" | "second" => NANOS,
        "m" | "min" | "minute" => 60 * NANOS,
        "h" | "hr" | "hour" => 3600 * NANOS,
        "d" | "day" => DAY * NANOS,
        "w" | "wk" | "week" => 7 * DAY * NANOS,
        _ => return None,
    };
    count.checked_mul(unit)
}

/// Formats a duration as seconds, with as many digits as needed: `5400s`.
pub(crate) fn duration_text(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    if rest == 0 {
        return format!("{sign}{seconds}s");
    }
    let digits = format!("{rest:09}");
    format!("{sign}{seconds}.{}s", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_parse_and_format() {
        for (text, shown) in [
            ("2023-08-26T12:39:00Z", Some("2023-08-26T12:39:00Z")),
            (
                "2023-08-26T12:39:00.120+02:00",
                Some("2023-08-26T10:39:00.12Z"),
            ),
            ("0001-01-01T00:00:00Z", Some("0001-01-01T00:00:00Z")),
            (
                "9999-12-31T23:59:59.999999999Z",
                Some("9999-12-31T23:59:59.999999999Z"),
            ),
            ("2023-02-29T00:00:00Z", None),
            ("2023-08-26T24:00:00Z", None),
            ("2023-08-26", None),
            ("2023-08-26T12:39:00", None),
            ("2023-08-26T12:39:00.Z", None),
        ] {
            let read = parse_instant(text).map(|at| at.to_string());
            assert_eq!(read.as_deref(), shown, "{text}");
        }
    }

    #[test]
    fn durations_parse_and_format() {
        for (text, shown) in [
            ("1h30m", Some("5400s")),
            ("-1.5s", Some("-1.5s")),
            ("1ns", Some("0.000000001s")),
            ("0", Some("0s")),
            ("2562047h47m16.854775807s", Some("9223372036.854775807s")),
            ("2562047h47m16.854775808s", None),
            ("1d", None),
            ("h", None),
            ("", None),
        ] {
            let read = parse_duration(text).map(duration_text);
            assert_eq!(read.as_deref(), shown, "{text}");
        }
        assert_eq!(
            parse_duration_format("3 days")
                .map(duration_text)
                .as_deref(),
            Some("259200s")
        );
    }

    #[test]
    fn timestamp_fields_respect_time_zone() {
        let at = parse_instant("2023-01-01T00:30:15.250Z").unwrap();
        assert_eq!(at.field(TimestampField::DayOfWeek, None), Ok(0));
        assert_eq!(at.field(TimestampField::DayOfYear, None), Ok(0));
        assert_eq!(at.field(TimestampField::Milliseconds, None), Ok(250));
        assert_eq!(
            at.field(TimestampField::Year, Some("America/New_York")),
            Ok(2022)
        );
        assert_eq!(at.field(TimestampField::Hours, Some("-02:30")), Ok(22));
        assert_eq!(at.field(TimestampField::Minutes, Some("+05:45")), Ok(15));
        assert!(
            at.field(TimestampField::Hours, Some("Nowhere/Land"))
                .is_err()
        );
    }
}
