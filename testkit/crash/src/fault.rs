//! Making the disk fail on purpose.

use std::path::Path;

/// What a fault can strike.
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
    /// An `open` that would make a new file.
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

    /// Lets so many calls through first.
    #[must_use]
    pub fn skip(mut self, calls: u64) -> Self {
        self.skip = calls;
        self
    }

    /// Fails so many calls instead of one.
    #[must_use]
    pub fn times(mut self, calls: u64) -> Self {
        self.times = calls;
        self
    }

    /// Fails until [`Faults::clear`](crate::Faults::clear).
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

/// What the interposer shall do with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    /// Pass, but no more than so many bytes.
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

    pub(crate) fn struck(&self) -> u64 {
        self.struck
    }

    /// Judges a call on `path`.
    pub(crate) fn judge(&mut self, call: Call, path: &Path) -> Verdict {
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
                return Verdict::Short(bytes);
            }
            rule.times = if rule.times == u64::MAX {
                u64::MAX
            } else {
                rule.times - 1
            };
            self.struck += 1;
            return Verdict::Fail(rule.errno);
        }
        Verdict::Pass
    }

    /// Judges a write of `len` bytes, also by what room is left on the disk.
    pub(crate) fn judge_write(&mut self, path: &Path, len: usize) -> Verdict {
        let verdict = self.judge(Call::Write, path);
        let (Some(budget), false) = (self.budget, matches!(verdict, Verdict::Fail(_))) else {
            return verdict;
        };
        let wanted = match verdict {
            Verdict::Short(bytes) => bytes.min(len),
            _ => len,
        };
        let room = usize::try_from(budget).unwrap_or(usize::MAX);
        if wanted > 0 && room == 0 {
            self.struck += 1;
            return Verdict::Fail(libc::ENOSPC);
        }
        let granted = wanted.min(room);
        self.budget = Some(budget - granted as u64);
        if granted < len {
            Verdict::Short(granted)
        } else {
            Verdict::Pass
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_counts_only_what_it_strikes() {
        let mut faults = FaultState::default();
        faults.add(Fault::new(Call::Fsync, libc::EIO).on(".jnl").skip(1));
        let (journal, other) = (Path::new("0.jnl"), Path::new("tables/1"));
        assert_eq!(faults.judge(Call::Fsync, other), Verdict::Pass);
        assert_eq!(faults.judge(Call::Fsync, journal), Verdict::Pass);
        assert_eq!(faults.judge(Call::Fdatasync, journal), Verdict::Pass);
        assert_eq!(faults.judge(Call::Fsync, journal), Verdict::Fail(libc::EIO));
        assert_eq!(faults.judge(Call::Fsync, journal), Verdict::Pass);
        assert_eq!(faults.struck(), 1);
    }

    #[test]
    fn a_full_disk_takes_what_fits_and_no_more() {
        let mut faults = FaultState::default();
        faults.set_budget(10);
        let path = Path::new("f");
        assert_eq!(faults.judge_write(path, 8), Verdict::Pass);
        assert_eq!(faults.judge_write(path, 8), Verdict::Short(2));
        assert_eq!(faults.judge_write(path, 8), Verdict::Fail(libc::ENOSPC));
        assert_eq!(faults.judge_write(path, 0), Verdict::Pass);
        faults.clear();
        assert_eq!(faults.judge_write(path, 8), Verdict::Pass);
    }
}
