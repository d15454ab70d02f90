//! The report of a run of the suite.

use crate::{Check, Failure, Need};
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// How one check went.
#[derive(Clone, Debug)]
pub enum CheckResult {
    Passed,
    Failed(Failure),
    /// The check was skipped; the missing needs.
    Skipped(Vec<Need>),
}

/// How every check went.
#[derive(Clone, Debug, Default)]
pub struct SuiteReport {
    pub checks: Vec<(Check, CheckResult, Duration)>,
}

impl SuiteReport {
    /// Whether no check failed. Skipped checks are ignored.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.failed().next().is_none()
    }

    pub fn failed(&self) -> impl Iterator<Item = (&Check, &Failure)> {
        self.checks.iter().filter_map(|(check, verdict, _)| {
            if let CheckResult::Failed(failure) = verdict {
                Some((check, failure))
            } else {
                None
            }
        })
    }

    pub fn skipped(&self) -> impl Iterator<Item = (&Check, &[Need])> {
        self.checks.iter().filter_map(|(check, verdict, _)| {
            if let CheckResult::Skipped(needs) = verdict {
                Some((check, needs.as_slice()))
            } else {
                None
            }
        })
    }

    /// The assertions whose id begins with `prefix` and all of whose checks ran and passed.
    #[must_use]
    pub fn proven(&self, prefix: &str) -> BTreeSet<&'static str> {
        self.covered(prefix)
            .difference(&self.unproven(prefix))
            .copied()
            .collect()
    }

    /// The assertions whose id begins with `prefix` and that a check covers that failed or
    /// did not run.
    #[must_use]
    pub fn unproven(&self, prefix: &str) -> BTreeSet<&'static str> {
        let open = self
            .checks
            .iter()
            .filter(|(_, verdict, _)| !matches!(verdict, CheckResult::Passed));
        ids(open.map(|(check, ..)| check), prefix)
    }

    fn covered(&self, prefix: &str) -> BTreeSet<&'static str> {
        ids(self.checks.iter().map(|(check, ..)| check), prefix)
    }
}

fn ids<'a>(checks: impl Iterator<Item = &'a Check>, prefix: &str) -> BTreeSet<&'static str> {
    let ids = checks.flat_map(|check| check.ids).copied();
    ids.filter(|id| id.starts_with(prefix)).collect()
}

impl fmt::Display for SuiteReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (check, failure) in self.failed() {
            let text = failure.to_string().replace('\n', "\n    ");
            writeln!(f, "FAILED   {check:?}\n    {text}")?;
        }
        for (check, needs) in self.skipped() {
            let needs: Vec<String> = needs.iter().map(Need::to_string).collect();
            writeln!(f, "LEFT OUT {check:?}: needs {}", needs.join(", "))?;
        }
        let (failed, left_out) = (self.failed().count(), self.skipped().count());
        let passed = self.checks.len() - failed - left_out;
        writeln!(f, "{passed} passed, {failed} failed, {left_out} left out")?;
        let covered = self.covered("");
        let prefixes: BTreeSet<&str> = covered.iter().map(|id| split(id).0).collect();
        for prefix in prefixes {
            let proven = ranges(&self.proven(prefix));
            let rest = ranges(&self.unproven(prefix));
            writeln!(f, "{prefix}: proven {proven}; not proven {rest}")?;
        }
        Ok(())
    }
}

/// `CONC-` and 17 of `CONC-17`; 0 if there is no number.
fn split(id: &str) -> (&str, u16) {
    let (prefix, number) = id.split_at(id.find('-').map_or(id.len(), |at| at + 1));
    (prefix, number.parse().unwrap_or_default())
}

/// `CONC-1 to CONC-3, CONC-7`
fn ranges(ids: &BTreeSet<&str>) -> String {
    let mut numbers: Vec<(&str, u16)> = ids.iter().map(|id| split(id)).collect();
    numbers.sort_unstable();
    let mut runs: Vec<(&str, u16, u16)> = Vec::new();
    for (prefix, number) in numbers {
        match runs.last_mut() {
            Some((last_prefix, _, last)) if *last_prefix == prefix && *last + 1 == number => {
                *last = number;
            }
            _ => runs.push((prefix, number, number)),
        }
    }
    let texts = runs.iter().map(|(prefix, first, last)| {
        if first == last {
            format!("{prefix}{first}")
        } else {
            format!("{prefix}{first} to {prefix}{last}")
        }
    });
    let texts: Vec<String> = texts.collect();
    if texts.is_empty() {
        return "none".into();
    }
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ids: &'static [&'static str]) -> Check {
        Check {
            name: "a",
            ids,
            needs: &[],
            run: |_| Box::pin(async { Ok(()) }),
        }
    }

    #[test]
    fn assertion_is_proven_if_all_its_checks_passed() {
        let passed = check(&["PATCH-1", "PATCH-2", "PATCH-3", "PATCH-12", "WIRE-4"]);
        let skipped = CheckResult::Skipped(vec![Need::Patch]);
        let failed = CheckResult::Failed(Failure::new("x"));
        let report = SuiteReport {
            checks: vec![
                (passed, CheckResult::Passed, Duration::ZERO),
                (check(&["PATCH-3"]), skipped, Duration::ZERO),
                (check(&["PATCH-7"]), failed, Duration::ZERO),
            ],
        };
        let proven = BTreeSet::from(["PATCH-1", "PATCH-2", "PATCH-12"]);
        assert_eq!(report.proven("PATCH-"), proven);
        assert_eq!(report.unproven(""), BTreeSet::from(["PATCH-3", "PATCH-7"]));
        assert!(report.proven("CONC-").is_empty());
        assert!(!report.is_clean());
        let text = report.to_string();
        for line in [
            "LEFT OUT a [PATCH-3]: needs patch",
            "PATCH-: proven PATCH-1 to PATCH-2, PATCH-12; not proven PATCH-3, PATCH-7",
            "WIRE-: proven WIRE-4; not proven none",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}:\n{text}");
        }
    }
}
