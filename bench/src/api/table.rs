//! The result table for people.

use super::measurement::Measurement;
use super::report::{ApiBenchReport, Ratio, WorkloadResult};
use std::fmt::Write;

const COLUMNS: [&str; 6] = ["per second", "p50", "p90", "p99", "p99.9", "max"];
const NAME_WIDTH: usize = 28;
const WIDTH: usize = 11;

pub(crate) fn table(report: &ApiBenchReport) -> String {
    let mut text = format!("{}\n", report.machine);
    for server in &report.systems {
        text += &format!("{}: {}\n", server.name, server.version());
    }
    report
        .results
        .iter()
        .for_each(|series| text += &block(series));
    text
}

fn block(series: &WorkloadResult) -> String {
    let heads = COLUMNS.map(|head| format!("{head:>WIDTH$}")).concat();
    let mut text = format!("\n{}\n{:NAME_WIDTH$}{heads}\n", series.what, "");
    for of in &series.systems {
        text += &format!("{}\n", row(&of.system, &of.median));
    }
    if let (Some(ratio), [one, two]) = (&series.ratio, series.systems.as_slice()) {
        let name = format!("{} ÷ {}", one.system, two.system);
        text += &format!("{}\n", ratio_row(&name, ratio));
    }
    for of in &series.systems {
        let violations = of
            .median
            .violations
            .iter()
            .map(|text| format!("WRONG: {text}"));
        let faults = of.median.faults.0.values();
        let faults = faults.map(|kind| format!("{} errors, such as {}", kind.count, kind.sample));
        for line in violations.chain(faults) {
            text += &format!("  {}: {line}\n", of.system);
        }
    }
    text
}

fn row(name: &str, of: &Measurement) -> String {
    let mut text = format!("  {name:<0$}", NAME_WIDTH - 2);
    if let Some(why) = &of.refused {
        return format!("{text}  refused: {why}");
    }
    let _ = write!(text, "{:>WIDTH$}", rate(of.per_second));
    let latency = of.latency.map(|latency| latency.columns().map(micros));
    let cells = latency.unwrap_or(std::array::from_fn(|_| "-".to_owned()));
    cells
        .iter()
        .for_each(|cell| text += &format!("{cell:>WIDTH$}"));
    let figures = of.figures.iter().map(|(figure, value)| figure.text(*value));
    text + &figures
        .map(|figure| format!("   {figure}"))
        .collect::<String>()
}

fn ratio_row(name: &str, ratio: &Ratio) -> String {
    let mut text = format!("  {name:<0$}", NAME_WIDTH - 2);
    let latency = ratio.latency.into_iter().flatten();
    for value in std::iter::once(ratio.per_second).chain(latency) {
        let _ = write!(text, "{:>WIDTH$}", times(value));
    }
    text
}

fn times(ratio: f64) -> String {
    match ratio {
        small if small < 0.1 => format!("{small:.3}×"),
        middle if middle < 10.0 => format!("{middle:.2}×"),
        large => format!("{large:.1}×"),
    }
}

fn rate(per_second: f64) -> String {
    if per_second < 100.0 {
        return format!("{per_second:.2}");
    }
    let digits = format!("{per_second:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn micros(of: u64) -> String {
    match of {
        0..1000 => format!("{of} µs"),
        1000..1_000_000 => format!("{:.1} ms", of as f64 / 1e3),
        _ => format!("{:.2} s", of as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::example;
    use super::*;

    #[test]
    fn the_table_names_systems_ratios_errors_and_refusals() {
        let text = table(&example());
        for part in [
            "optik: v1.36.0+optik\n",
            "create, 64 connections\n",
            "  optik                           2,000     200 µs",
            "  other                          200.00     2.0 ms",
            "  optik ÷ other                   10.0×",
            "  other: 1 errors, such as the connection failed: reset\n",
            "  other                       refused: status 415: no\n",
        ] {
            let part = part.replace("200.00", "   200");
            assert!(text.contains(&part), "{text}\nlacks {part:?}");
        }
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(rate(1.5), "1.50");
        assert_eq!(rate(999.6), "1,000");
        assert_eq!(rate(1_234_567.0), "1,234,567");
        assert_eq!(
            (micros(999), micros(1500)),
            ("999 µs".to_owned(), "1.5 ms".to_owned())
        );
        assert_eq!(
            (times(0.05), times(12.0)),
            ("0.050×".to_owned(), "12.0×".to_owned())
        );
    }
}
