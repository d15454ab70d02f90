//! The report of the controller benchmark for people.

use std::collections::BTreeMap;

/// The numbers of one measurement, by name.
pub(crate) type Numbers = BTreeMap<String, f64>;

/// All measurements by program name, in the order in which they were made.
#[derive(Default)]
pub(crate) struct BenchReport {
    rows: Vec<(String, Vec<Numbers>)>,
}

impl BenchReport {
    pub(crate) fn add(&mut self, row: &str, numbers: Numbers) {
        match self.rows.iter_mut().find(|(name, _)| name == row) {
            Some((_, all)) => all.push(numbers),
            None => self.rows.push((row.to_owned(), vec![numbers])),
        }
    }

    /// The median of a measurement.
    pub(crate) fn median(&self, row: &str, column: &str) -> Option<f64> {
        let (_, all) = self.rows.iter().find(|(name, _)| name == row)?;
        let mut values: Vec<f64> = all
            .iter()
            .filter_map(|numbers| numbers.get(column).copied())
            .collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }

    /// As a table, one line for each row.
    pub(crate) fn print(&self, columns: &[String]) {
        println!("\n| | {} |", columns.join(" | "));
        println!("|---|{}", "---|".repeat(columns.len()));
        for (row, _) in &self.rows {
            let cells: Vec<String> = columns
                .iter()
                .map(|column| {
                    self.median(row, column)
                        .map_or("–".to_owned(), format_value)
                })
                .collect();
            println!("| {row} | {} |", cells.join(" | "));
        }
    }

    /// Prints the ratio of `ours` to the best other runtime.
    pub(crate) fn print_ratio(&self, ours: &str, column: &str, more_is_better: bool) {
        let others = self.rows.iter().filter(|(name, _)| name != ours);
        let others = others.filter_map(|(name, _)| self.median(name, column));
        let best = if more_is_better {
            others.reduce(f64::max)
        } else {
            others.reduce(f64::min)
        };
        if let (Some(own), Some(best)) = (self.median(ours, column), best) {
            println!("{column}: {:.2} of the better of the others", own / best);
        }
    }
}

fn format_value(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}
