//! What a run of the suite found out.

use crate::{Check, Contract, Failure, Need};
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// How one check went.
#[derive(Clone, Debug)]
pub enum CheckResult {
    Passed,
    Failed(Failure),
    /// Not run; what it would have needed.
    Skipped(Vec<Need>),
}

/// How every check went.
#[derive(Clone, Debug, Default)]
pub struct SuiteReport {
    pub checks: Vec<(Check, CheckResult, Duration)>,
}

impl SuiteReport {
    /// Whether no check failed. Says nothing of those left out.
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

    /// Assertions of a contract all of whose checks ran and passed.
    #[must_use]
    pub fn proven(&self, contract: Contract) -> BTreeSet<u16> {
        let (passed, other): (Vec<_>, Vec<_>) = self
            .checks
            .iter()
            .filter(|(check, ..)| check.contract == contract)
            .partition(|(_, verdict, _)| matches!(verdict, CheckResult::Passed));
        let passed: BTreeSet<u16> = numbers(passed.iter().map(|(check, ..)| check));
        let other = numbers(other.iter().map(|(check, ..)| check));
        passed.difference(&other).copied().collect()
    }
}

fn numbers<'a>(checks: impl Iterator<Item = &'a Check>) -> BTreeSet<u16> {
    checks.flat_map(|check| check.numbers).copied().collect()
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
        for contract in Contract::ALL {
            let proven = self.proven(contract);
            let checks = self.checks.iter().map(|(check, ..)| check);
            let all = numbers(checks.filter(|check| check.contract == contract));
            let rest = all.difference(&proven).copied().collect();
            let (proven, rest) = (ranges(&proven), ranges(&rest));
            writeln!(f, "{contract:?}: proven {proven}; not proven {rest}")?;
        }
        Ok(())
    }
}

/// `1-3, 7`
fn ranges(numbers: &BTreeSet<u16>) -> String {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let texts = runs.iter().map(|(first, last)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
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

    fn check(numbers: &'static [u16]) -> Check {
        Check {
            name: "a",
            contract: Contract::Merging,
            numbers,
            needs: &[],
            run: |_| Box::pin(async { Ok(()) }),
        }
    }

    #[test]
    fn assertion_is_proven_if_all_its_checks_passed() {
        let seconds = Duration::ZERO;
        let report = SuiteReport {
            checks: vec![
                (check(&[1, 2, 3, 5]), CheckResult::Passed, seconds),
                (
                    check(&[3]),
                    CheckResult::Skipped(vec![Need::Patch]),
                    seconds,
                ),
                (check(&[7]), CheckResult::Failed(Failure::new("x")), seconds),
            ],
        };
        assert_eq!(ranges(&report.proven(Contract::Merging)), "1-2, 5");
        assert!(report.proven(Contract::Concurrency).is_empty());
        assert!(!report.is_clean());
        let text = report.to_string();
        assert!(
            text.contains("LEFT OUT a merging-[3]: needs patch"),
            "{text}"
        );
        let proven = "Merging: proven 1-2, 5; not proven 3, 7\n";
        assert!(text.contains(proven), "{text}");
    }
}
