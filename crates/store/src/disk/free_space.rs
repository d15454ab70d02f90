//! Free space on the disk, and whether it is low.

use std::path::Path;

/// Free space is low below this many bytes, or …
const LOW_BYTES: u64 = 1 << 30;
/// … below this fraction of a small disk.
const LOW_DIVISOR: u64 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreeSpace {
    pub(crate) total: u64,
    /// The bytes available to users other than root.
    pub(crate) free: u64,
}

impl FreeSpace {
    /// Returns `None` if the system does not report free space.
    pub(super) fn for_path(path: &Path) -> Option<Self> {
        let found = rustix::fs::statvfs(path).ok()?;
        Some(Self {
            total: found.f_blocks.saturating_mul(found.f_frsize),
            free: found.f_bavail.saturating_mul(found.f_frsize),
        })
    }

    pub(crate) fn is_low(self) -> bool {
        self.free < LOW_BYTES.min(self.total / LOW_DIVISOR)
    }

    pub(super) fn log(self, path: &Path) {
        let (free, path) = (self.free, path.display());
        if self.is_low() {
            tracing::warn!(
                free,
                %path,
                "disk nearly full; when it is full, writes are rejected until space is freed"
            );
        } else {
            tracing::info!(free, %path, "free disk space is sufficient again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_low_below_five_percent_or_one_gibibyte() {
        const GIB: u64 = 1 << 30;
        let rows = [
            (10 * GIB, GIB / 2, false),
            (10 * GIB, GIB / 2 - 1, true),
            (1000 * GIB, GIB, false),
            (1000 * GIB, GIB - 1, true),
            (0, 0, false),
        ];
        for (total, free, expected) in rows {
            let space = FreeSpace { total, free };
            assert_eq!(space.is_low(), expected, "{space:?}");
        }
    }

    #[test]
    fn free_space_for_path_reports_file_system_size() {
        let space = FreeSpace::for_path(Path::new("/")).expect("is a file system");
        assert!(space.total > 0 && space.free <= space.total);
        assert_eq!(FreeSpace::for_path(Path::new("/does/not/exist")), None);
    }
}
