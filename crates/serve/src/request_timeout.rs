//! Request timeouts: the server's limit and the query parameter `timeout`.

use crate::query;
use optik_object::{Status, quote};
use std::time::Duration;

/// The server's limit, or `?timeout=` if that is less. Zero and negative values count as absent.
pub(crate) fn from_query(query: &str, max: Duration) -> Result<Duration, Status> {
    let Some(text) = query::value(query, "timeout").filter(|text| !text.is_empty()) else {
        return Ok(max);
    };
    match parse_go_duration(&text) {
        Ok(asked) if asked.is_zero() => Ok(max),
        Ok(asked) => Ok(asked.min(max)),
        Err(problem) => Err(Status::bad_request(format!(
            "invalid timeout specified in the request URL - {problem}"
        ))),
    }
}

/// Parses a duration in Go's format: `300ms`, `1.5h`, `2h45m`, `0`. Negative ones are zero.
fn parse_go_duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("time: invalid duration {}", quote(text));
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned == "0" {
        return Ok(Duration::ZERO);
    }
    if unsigned.is_empty() {
        return Err(invalid());
    }
    let (mut total, mut rest) = (0_u64, unsigned);
    while !rest.is_empty() {
        let number_end = rest
            .find(|c: char| c != '.' && !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (number, behind) = rest.split_at(number_end);
        let unit_end = behind
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(unit_end);
        let digits = number.replacen('.', "", 1);
        if digits.is_empty() || digits.contains('.') {
            return Err(invalid());
        }
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quote(text)));
        }
        let nanos = unit_nanos(unit).ok_or_else(|| {
            format!(
                "time: unknown unit {} in duration {}",
                quote(unit),
                quote(text)
            )
        })?;
        let part = scale(number, nanos).ok_or_else(invalid)?;
        total = total.checked_add(part).ok_or_else(invalid)?;
        rest = behind;
    }
    // Go stores nanoseconds in 63 bits.
    if total > i64::MAX as u64 {
        return Err(invalid());
    }
    let negative = text.starts_with('-');
    Ok(Duration::from_nanos(if negative { 0 } else { total }))
}

fn unit_nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3600 * 1_000_000_000,
        _ => return None,
    })
}

/// `number` times `nanos`; fractions of a nanosecond are dropped.
fn scale(number: &str, nanos: u64) -> Option<u64> {
    /// Further digits of a fraction are below a nanosecond even in hours.
    const FRACTION_DIGITS_MAX: usize = 15;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let fraction = &fraction[..fraction.len().min(FRACTION_DIGITS_MAX)];
    let digits: u128 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().ok()?
    };
    let divisor = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = u64::try_from(digits * u128::from(nanos) / divisor).ok()?;
    whole.checked_mul(nanos)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_parameter_parses_go_durations() {
        for (text, nanos) in [
            ("0", 0),
            ("-0", 0),
            ("+5s", 5_000_000_000),
            ("-5s", 0),
            ("1ns", 1),
            ("300ms", 300_000_000),
            ("1.5h", 5_400_000_000_000),
            ("2h45m", 9_900_000_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("10us", 10_000),
            ("10µs", 10_000),
            ("1h1m1s1ms1us1ns", 3_661_001_001_001),
            ("0.3333333333333333333h", 1_199_999_999_999),
            ("9223372036854775807ns", i64::MAX as u64),
        ] {
            assert_eq!(
                parse_go_duration(text),
                Ok(Duration::from_nanos(nanos)),
                "{text}"
            );
        }
        for (text, problem) in [
            ("", r#"invalid duration """#),
            ("-", r#"invalid duration "-""#),
            ("abc", r#"invalid duration "abc""#),
            (".s", r#"invalid duration ".s""#),
            ("1..5s", r#"invalid duration "1..5s""#),
            ("5", r#"missing unit in duration "5""#),
            ("1s5", r#"missing unit in duration "1s5""#),
            ("5d", r#"unknown unit "d" in duration "5d""#),
            (
                "9223372036854775808ns",
                r#"invalid duration "9223372036854775808ns""#,
            ),
            (
                "99999999999999999999s",
                r#"invalid duration "99999999999999999999s""#,
            ),
        ] {
            assert_eq!(
                parse_go_duration(text),
                Err(format!("time: {problem}")),
                "{text}"
            );
        }
    }

    #[test]
    fn timeout_parameter_can_only_shorten_the_server_limit() {
        let max = Duration::from_secs(60);
        for (query, seconds) in [
            ("", 60),
            ("timeout=", 60),
            ("timeout=0", 60),
            ("timeout=-1s", 60),
            ("timeout=2m", 60),
            ("timeoutSeconds=5", 60),
            ("a=b&timeout=5s", 5),
        ] {
            let found = from_query(query, max).ok();
            assert_eq!(found, Some(Duration::from_secs(seconds)), "{query}");
        }
        let refused = from_query("timeout=soon", max).unwrap_err();
        assert_eq!(
            (refused.code(), refused.message()),
            (
                400,
                r#"invalid timeout specified in the request URL - time: invalid duration "soon""#
            )
        );
    }
}
