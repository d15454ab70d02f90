//! Human-readable durations with two or three digits (upstream: `duration.HumanDuration`).

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Formats a duration in microseconds (WIRE §5).
#[must_use]
pub fn human_duration(micros: i64) -> String {
    let two = |large: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{small_unit}"),
    };
    match micros {
        // Small negative durations are clock skew.
        i64::MIN..=-2_000_000 => "<invalid>".to_owned(),
        -1_999_999..0 => "0s".to_owned(),
        _ if micros < 2 * MINUTE => format!("{}s", micros / SECOND),
        _ if micros < 10 * MINUTE => two(micros / MINUTE, "m", micros / SECOND % 60, "s"),
        _ if micros < 3 * HOUR => format!("{}m", micros / MINUTE),
        _ if micros < 8 * HOUR => two(micros / HOUR, "h", micros / MINUTE % 60, "m"),
        _ if micros < 2 * DAY => format!("{}h", micros / HOUR),
        _ if micros < 8 * DAY => two(micros / DAY, "d", micros / HOUR % 24, "h"),
        _ if micros < 2 * YEAR => format!("{}d", micros / DAY),
        _ if micros < 8 * YEAR => two(micros / YEAR, "y", micros / DAY % 365, "d"),
        _ => format!("{}y", micros / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WIRE §5.
    #[test]
    fn human_duration_matches_kubectl() {
        for (seconds, expected) in [
            (-3, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * 3600 - 1, "179m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (8 * 3600, "8h"),
            (47 * 3600, "47h"),
            (48 * 3600, "2d"),
            (49 * 3600, "2d1h"),
            (8 * 86_400, "8d"),
            (729 * 86_400, "729d"),
            (730 * 86_400, "2y"),
            (731 * 86_400, "2y1d"),
            (8 * 365 * 86_400, "8y"),
            (8 * 365 * 86_400 + 86_400, "8y"),
        ] {
            assert_eq!(human_duration(seconds * SECOND), expected, "{seconds}");
        }
    }
}
