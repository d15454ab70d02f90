//! Timestamps of metadata: RFC 3339, in UTC.

use std::fmt;
use std::str::FromStr;

const MICROS: i64 = 1_000_000;
const DAY_SECONDS: i64 = 86_400;
/// The bounds 0000-01-01 and 10000-01-01: RFC 3339 has four digits for the year.
const SECONDS_MIN: i64 = -62_167_219_200;
const SECONDS_END: i64 = 253_402_300_800;

/// Microseconds since 1970. Displays with seconds, as `Time` does in the API;
/// [`Self::to_rfc3339_micros`] is its `MicroTime`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    micros: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid RFC 3339 time")]
pub struct TimestampError;

impl Timestamp {
    /// Clamped to years of four digits.
    #[must_use]
    pub fn from_seconds(seconds: i64) -> Self {
        Self::from_micros(seconds.saturating_mul(MICROS))
    }

    #[must_use]
    pub fn from_millis(millis: i64) -> Self {
        Self::from_micros(millis.saturating_mul(1000))
    }

    #[must_use]
    pub fn from_micros(micros: i64) -> Self {
        Self {
            micros: micros.clamp(SECONDS_MIN * MICROS, SECONDS_END * MICROS - 1),
        }
    }

    fn checked_from_micros(micros: i64) -> Option<Self> {
        let timestamp = Self::from_micros(micros);
        (timestamp.micros == micros).then_some(timestamp)
    }

    /// The instant of a date and a time of day, with an offset in seconds east of UTC. `None` if
    /// the date does not exist.
    pub(crate) fn from_date_and_clock(
        [year, month, day]: [i64; 3],
        [hour, minute, second]: [i64; 3],
        offset: i64,
        micros: i64,
    ) -> Option<Self> {
        let seconds = start_of_day(year, month, day)? + hour * 3600 + minute * 60 + second;
        Self::checked_from_micros((seconds - offset) * MICROS + micros)
    }

    /// Rounded down.
    #[must_use]
    pub fn seconds(self) -> i64 {
        self.micros.div_euclid(MICROS)
    }

    #[must_use]
    pub fn micros(self) -> i64 {
        self.micros
    }

    /// `2026-11-15T09:27:50.000000Z`
    #[must_use]
    pub fn to_rfc3339_micros(self) -> String {
        let mut text = self.to_string();
        text.pop();
        format!("{text}.{:06}Z", self.micros.rem_euclid(MICROS))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.seconds();
        let (year, month, day) = civil_from_days(seconds.div_euclid(DAY_SECONDS));
        let second = seconds.rem_euclid(DAY_SECONDS);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let mut text = *b"0000-00-00T00:00:00Z";
        set_digits(&mut text[..4], year);
        for (at, number) in [(5, month), (8, day), (11, hour), (14, minute), (17, second)] {
            set_digits(&mut text[at..at + 2], number);
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

/// Writes decimal digits. Every write formats several timestamps, and `format!` would take as long
/// as the rest of the write.
fn set_digits(places: &mut [u8], mut number: i64) {
    for place in places.iter_mut().rev() {
        *place = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    /// Takes any offset and any number of fractional digits; digits below a
    /// microsecond are dropped.
    fn from_str(text: &str) -> Result<Self, TimestampError> {
        let bytes = text.as_bytes();
        let seconds = date_and_time(bytes).ok_or(TimestampError)?;
        let (fraction, zone) = fraction(&bytes[19..]).ok_or(TimestampError)?;
        let offset = offset(zone).ok_or(TimestampError)?;
        Self::checked_from_micros((seconds - offset) * MICROS + fraction).ok_or(TimestampError)
    }
}

/// `2026-11-15T09:27:50`, the first 19 bytes.
fn date_and_time(bytes: &[u8]) -> Option<i64> {
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if bytes.len() < 19 || marks.iter().any(|(at, mark)| bytes[*at] != *mark) {
        return None;
    }
    let (year, month) = (parse_digits(&bytes[..4])?, parse_digits(&bytes[5..7])?);
    let (day, hour) = (parse_digits(&bytes[8..10])?, parse_digits(&bytes[11..13])?);
    let (minute, second) = (parse_digits(&bytes[14..16])?, parse_digits(&bytes[17..19])?);
    let midnight = start_of_day(year, month, day)?;
    let on_the_clock = hour < 24 && minute < 60 && second < 60;
    on_the_clock.then_some(midnight + hour * 3600 + minute * 60 + second)
}

/// The first second of a day, if the date exists.
fn start_of_day(year: i64, month: i64, day: i64) -> Option<i64> {
    let days = days_from_civil(year, month, day);
    let exists = (1..=12).contains(&month) && civil_from_days(days) == (year, month, day);
    exists.then_some(days * DAY_SECONDS)
}

/// The microseconds of the fraction, and the bytes after it.
fn fraction(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let Some(rest) = bytes.strip_prefix(b".") else {
        return Some((0, bytes));
    };
    let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, zone) = rest.split_at(length);
    let kept = &digits[..length.min(6)];
    let scale = 10_i64.pow(6 - u32::try_from(kept.len()).ok()?);
    (length > 0).then_some((parse_digits(kept)? * scale, zone))
}

/// `Z`, `+01:00`, in seconds east of UTC.
fn offset(zone: &[u8]) -> Option<i64> {
    let sign = match zone.first()? {
        b'Z' if zone.len() == 1 => return Some(0),
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    if zone.len() != 6 || zone[3] != b':' {
        return None;
    }
    let (hours, minutes) = (parse_digits(&zone[1..3])?, parse_digits(&zone[4..6])?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

pub(crate) fn parse_digits(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |number, byte| {
        byte.is_ascii_digit()
            .then(|| number * 10 + i64::from(byte - b'0'))
    })
}

/// Days since 1970 of a date. Years begin in March here, so that the leap day is the
/// last of its year.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The date of a day number: the inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn timestamps_parse_and_print_known_times() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (SECONDS_MIN, "0000-01-01T00:00:00Z"),
            (SECONDS_END - 1, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(Timestamp::from_seconds(seconds).to_string(), text);
            assert_eq!(text.parse(), Ok(Timestamp::from_seconds(seconds)));
        }
        let micros = Timestamp::from_micros(1_500_000);
        assert_eq!(micros.to_rfc3339_micros(), "1970-01-01T00:00:01.500000Z");
        assert_eq!("1970-01-01T01:00:01.5+01:00".parse(), Ok(micros));
        assert_eq!("1969-12-31T23:30:01.5000009-00:30".parse(), Ok(micros));
    }

    #[test]
    fn timestamp_parse_refuses_invalid_times() {
        for text in [
            "",
            "2023",
            "2023-11-14",
            "2023-11-14T22:13:20",
            "2023-02-29T00:00:00Z",
            "2023-13-01T00:00:00Z",
            "2023-00-01T00:00:00Z",
            "2023-01-01T24:00:00Z",
            "2023-01-01T00:00:00.Z",
            "2023-01-01T00:00:00Zx",
            "2023-01-01 00:00:00Z",
            "2023-01-01T00:00:00+1:00",
            "0000-01-01T00:00:00+01:00",
            "2023-01-01T00:00:0éZ",
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(TimestampError), "{text}");
        }
    }

    proptest! {
        #[test]
        fn timestamps_round_trip(micros: i64) {
            let time = Timestamp::from_micros(micros);
            prop_assert_eq!(time.to_rfc3339_micros().parse(), Ok(time));
            prop_assert_eq!(time.to_string().parse(), Ok(Timestamp::from_seconds(time.seconds())));
        }

        #[test]
        fn timestamp_parse_never_panics(text: String) {
            let _ = text.parse::<Timestamp>();
        }
    }
}
