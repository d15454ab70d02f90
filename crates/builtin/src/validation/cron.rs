//! The cron schedule syntax.

const DESCRIPTORS: &[&str] = &[
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];
const MONTHS: &[&str] = &[
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

struct CronField {
    least: u64,
    most: u64,
    /// Names of the values; the first is that of the smallest value.
    names: &'static [&'static str],
}

const FIELDS: &[CronField] = &[
    cron_field(0, 59, &[]),
    cron_field(0, 23, &[]),
    cron_field(1, 31, &[]),
    cron_field(1, 12, MONTHS),
    cron_field(0, 6, DAYS),
];

const fn cron_field(least: u64, most: u64, names: &'static [&'static str]) -> CronField {
    CronField { least, most, names }
}

/// Checks a cron schedule; the messages are upstream's.
pub(crate) fn validate_schedule(schedule: &str) -> Result<(), String> {
    if schedule.is_empty() {
        return Err("empty spec string".into());
    }
    if schedule.starts_with('@') {
        return descriptor(schedule);
    }
    let words: Vec<&str> = schedule.split_whitespace().collect();
    if words.len() != FIELDS.len() {
        let (count, shown) = (words.len(), words.join(" "));
        return Err(format!(
            "expected exactly 5 fields, found {count}: [{shown}]"
        ));
    }
    for (word, bounds) in words.iter().zip(FIELDS) {
        for part in word.split(',').filter(|part| !part.is_empty()) {
            range(part, bounds)?;
        }
    }
    Ok(())
}

fn descriptor(schedule: &str) -> Result<(), String> {
    if let Some(duration) = schedule.strip_prefix("@every ") {
        let ends_in_unit = duration.ends_with(['s', 'm', 'h']);
        if duration.starts_with(|c: char| c.is_ascii_digit()) && ends_in_unit {
            return Ok(());
        }
        let quoted = optik_object::quote(duration);
        return Err(format!(
            "failed to parse duration {schedule}: time: invalid duration {quoted}"
        ));
    }
    if DESCRIPTORS.contains(&schedule) {
        return Ok(());
    }
    Err(format!("unrecognized descriptor: {schedule}"))
}

fn range(text: &str, bounds: &CronField) -> Result<(), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let (start, mut end) = match ends[..] {
        ["*" | "?", ..] => (bounds.least, bounds.most),
        [start] => {
            let start = number_or_name(start, bounds)?;
            (start, start)
        }
        [start, end] => (number_or_name(start, bounds)?, number_or_name(end, bounds)?),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    let step = match parts[..] {
        [_] => 1,
        [_, step] => {
            if ends.len() == 1 {
                end = bounds.most;
            }
            number(step)?
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    let CronField { least, most, .. } = *bounds;
    if start < least {
        return Err(format!(
            "beginning of range ({start}) below minimum ({least}): {text}"
        ));
    }
    if end > most {
        return Err(format!(
            "end of range ({end}) above maximum ({most}): {text}"
        ));
    }
    if start > end {
        return Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {text}"
        ));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn number_or_name(text: &str, bounds: &CronField) -> Result<u64, String> {
    let lower = text.to_lowercase();
    let named = bounds.names.iter().position(|name| *name == lower);
    match named {
        Some(at) => Ok(bounds.least + u64::try_from(at).unwrap_or(0)),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    match text.parse::<i64>() {
        Ok(number) => u64::try_from(number)
            .map_err(|_| format!("negative number ({number}) not allowed: {text}")),
        Err(_) => {
            let quoted = optik_object::quote(text);
            Err(format!(
                "failed to parse int from {text}: strconv.Atoi: parsing {quoted}: invalid syntax"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cron_schedules_are_validated() {
        for good in [
            "* * * * *",
            "*/5 0-6,12 1 jan-MAR Sun",
            "@daily",
            "@every 5m",
            "5/15 * * * ?",
        ] {
            assert_eq!(validate_schedule(good), Ok(()), "{good}");
        }
        for (bad, expected) in [
            ("bad", "expected exactly 5 fields, found 1: [bad]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            (
                "5-1 * * * *",
                "beginning of range (5) beyond end of range (1): 5-1",
            ),
            (
                "*/0 * * * *",
                "step of range should be a positive number: */0",
            ),
            (
                "x * * * *",
                "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax",
            ),
            ("@x", "unrecognized descriptor: @x"),
        ] {
            assert_eq!(validate_schedule(bad), Err(expected.into()), "{bad}");
        }
    }
}
