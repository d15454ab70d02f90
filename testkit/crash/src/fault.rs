//! Fault injection for file operations.

use std::path::Path;

/// The kind of call that a fault applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `write` in all its forms.
    Write,
    /// `fsync` of a file.
    Fsync,
    /// `fdatasync` of a file.
    Fdatasync,
    /// `fsync` of a directory.
    SyncDir,
    /// An `open` that would create a file.
    Create,
    /// `ftruncate` and `fallocate`.
    Truncate,
    /// `rename`, striking by the new name.
    Rename,
    /// `unlink` and `rmdir`.
    Unlink,
    /// `mkdir`.
    CreateDir,
}

/// One rule: which calls fail, and how.
///
/// ```
/// use optik_crash::{Call, Fault};
/// // The third fdatasync of a journal file, and all that follow.
/// let fault = Fault::new(Call::Fdatasync, libc::EIO).on(".jnl").skip(2).forever();
/// ```
#[derive(Clone, Debug)]
pub struct Fault {
    call: Call,
    errno: i32,
    skip: u64,
    times: u64,
    short: Option<usize>,
    path: Option<String>,
}

impl Fault {
    /// The next `call` fails with `errno`, once.
    pub fn new(call: Call, errno: i32) -> Self {
        Self {
            call,
            errno,
            skip: 0,
            times: 1,
            short: None,
            path: None,
        }
    }

    /// Lets this number of calls through first.
    #[must_use]
    pub fn skip(mut self, calls: u64) -> Self {
        self.skip = calls;
        self
    }

    /// Fails this number of calls instead of one.
    #[must_use]
    pub fn times(mut self, calls: u64) -> Self {
        self.times = calls;
        self
    }

    /// Fails until [`FaultInjector::clear`](crate::FaultInjector::clear).
    #[must_use]
    pub fn forever(self) -> Self {
        self.times(u64::MAX)
    }

    /// The first failing write first writes this many bytes, as a short write;
    /// the failure comes with the next attempt. Writes only.
    #[must_use]
    pub fn short(mut self, bytes: usize) -> Self {
        self.short = Some(bytes);
        self
    }

    /// Strikes only paths, relative to the directory, that contain `part`. A file
    /// goes by the name it was opened under.
    #[must_use]
    pub fn on(mut self, part: impl Into<String>) -> Self {
        self.path = Some(part.into());
        self
    }
}

/// The decision of the interposer about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultDecision {
    Pass,
    /// Pass, but write at most this number of bytes.
    Short(usize),
    Fail(i32),
}

/// The rules in force.
#[derive(Debug, Default)]
pub(crate) struct FaultState {
    rules: Vec<Fault>,
    /// Bytes until the disk is full.
    budget: Option<u64>,
    struck: u64,
}

impl FaultState {
    pub(crate) fn add(&mut self, fault: Fault) {
        self.rules.push(fault);
    }

    pub(crate) fn set_budget(&mut self, bytes: u64) {
        self.budget = Some(bytes);
    }

    pub(crate) fn clear(&mut self) {
        self.rules.clear();
        self.budget = None;
    }

    pub(crate) fn triggered(&self) -> u64 {
        self.struck
    }

    /// Judges a call on `path`.
    pub(crate) fn decide(&mut self, call: Call, path: &Path) -> FaultDecision {
        for rule in &mut self.rules {
            let hits = rule.call == call
                && rule.times > 0
                && rule
                    .path
                    .as_ref()
                    .is_none_or(|part| path.to_string_lossy().contains(part.as_str()));
            if !hits {
                continue;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            if let Some(bytes) = rule.short.take().filter(|bytes| *bytes > 0) {
                return FaultDecision::Short(bytes);
            }
            rule.times = if rule.times == u64::MAX {
                u64::MAX
            } else {
                rule.times - 1
            };
            self.struck += 1;
            return FaultDecision::Fail(rule.errno);
        }
        FaultDecision::Pass
    }

    /// Judges a write of `len` bytes, also by what room is left on the disk.
    pub(crate) fn decide_write(&mut self, path: &Path, len: usize) -> FaultDecision {
        let verdict = self.decide(Call::Write, path);
        let (Some(budget), false) = (self.budget, matches!(verdict, FaultDecision::Fail(_))) else {
            return verdict;
        };
        let wanted = match verdict {
            FaultDecision::Short(bytes) => bytes.min(len),
            _ => len,
        };
        let room = usize::try_from(budget).unwrap_or(usize::MAX);
        if wanted > 0 && room == 0 {
            self.struck += 1;
            return FaultDecision::Fail(libc::ENOSPC);
        }
        let granted = wanted.min(room);
        self.budget = Some(budget - granted as u64);
        if granted < len {
            FaultDecision::Short(granted)
        } else {
            FaultDecision::Pass
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_rule_counts_only_matching_calls() {
        let mut faults = FaultState::default();
        faults.add(Fault::new(Call::Fsync, libc::EIO).on(".jnl").skip(1));
        let (journal, other) = (Path::new("0.jnl"), Path::new("tables/1"));
        assert_eq!(faults.decide(Call::Fsync, other), FaultDecision::Pass);
        assert_eq!(faults.decide(Call::Fsync, journal), FaultDecision::Pass);
        assert_eq!(faults.decide(Call::Fdatasync, journal), FaultDecision::Pass);
        assert_eq!(
            faults.decide(Call::Fsync, journal),
            FaultDecision::Fail(libc::EIO)
        );
        assert_eq!(faults.decide(Call::Fsync, journal), FaultDecision::Pass);
        assert_eq!(faults.triggered(), 1);
    }

    #[test]
    fn full_disk_writes_short_up_to_its_budget() {
        let mut faults = FaultState::default();
        faults.set_budget(10);
        let path = Path::new("f");
        assert_eq!(faults.decide_write(path, 8), FaultDecision::Pass);
        assert_eq!(faults.decide_write(path, 8), FaultDecision::Short(2));
        assert_eq!(
            faults.decide_write(path, 8),
            FaultDecision::Fail(libc::ENOSPC)
        );
        assert_eq!(faults.decide_write(path, 0), FaultDecision::Pass);
        faults.clear();
        assert_eq!(faults.decide_write(path, 8), FaultDecision::Pass);
    }
}
