//! Parsing of durations and sizes: `5m`, `90s`, `256MiB`.

use std::time::Duration;

pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split_unit(text)?;
    let seconds = match unit {
        "s" | "" => number,
        "m" => number.saturating_mul(60),
        "h" => number.saturating_mul(3600),
        _ => return Err(format!("{unit:?} is not s, m or h")),
    };
    Ok(Duration::from_secs(seconds))
}

pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text)?;
    let shift = match unit {
        "" | "B" => 0,
        "KiB" | "K" => 10,
        "MiB" | "M" => 20,
        "GiB" | "G" => 30,
        _ => return Err(format!("{unit:?} is not KiB, MiB or GiB")),
    };
    let bytes = number.checked_mul(1 << shift);
    bytes.ok_or_else(|| "that is too much".to_owned())
}

fn split_unit(text: &str) -> Result<(u64, &str), String> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number = number
        .parse()
        .map_err(|_| "it must begin with a number".to_owned())?;
    Ok((number, unit.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_parse_units() {
        assert_eq!(parse_duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(parse_duration("7"), Ok(Duration::from_secs(7)));
        assert_eq!(parse_bytes("256MiB"), Ok(256 << 20));
        assert_eq!(parse_bytes("1 GiB"), Ok(1 << 30));
        for wrong in ["", "m", "5 days", "-1s"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "MiB", "1TB", "99999999999GiB"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }
}
