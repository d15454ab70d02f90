//! The manifest: the list of the segments that make up the log, in order.
//!
//! ```text
//! optik-log 1
//! store 6f1c0b0e0c5d9a31
//! segment 12 4194267     its part of the log ends here
//! segment 16 open        it is being written, or will be
//! sum 90ad4b2e71b1c0de   of the lines above
//! ```
//! It is replaced as a whole. A file in the log directory that the manifest does not name is left
//! over from an interrupted operation.

use super::file_permissions;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

const MANIFEST_FILE: &str = "manifest";
const STAGED_FILE: &str = "manifest.new";
const FIRST_LINE: &str = "optik-log 1";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) store: u64,
    pub(super) segments: Vec<ManifestEntry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ManifestEntry {
    pub(super) number: u64,
    /// The offset at which the segment's part of the log ends, once that is known.
    pub(super) end: Option<u64>,
}

impl Manifest {
    /// Reads the manifest; `None` if there is none that is readable as a whole.
    pub(super) fn read(log: &Path) -> io::Result<Option<Self>> {
        match fs::read_to_string(log.join(MANIFEST_FILE)) {
            Ok(text) => Ok(Self::parse(&text)),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) if cause.kind() == io::ErrorKind::InvalidData => Ok(None),
            Err(cause) => Err(cause),
        }
    }

    /// Writes and publishes the manifest. When this returns, it and all names in the directory are
    /// on disk.
    pub(super) fn write(&self, log: &Path) -> io::Result<()> {
        self.stage(log)?;
        Self::publish(log)
    }

    /// Writes the manifest to a temporary file. Until it is published, the previous manifest stays
    /// in effect.
    pub(super) fn stage(&self, log: &Path) -> io::Result<()> {
        self.check();
        let mut file = file_permissions::create_file(&log.join(STAGED_FILE))?;
        file.write_all(self.encode().as_bytes())?;
        file.sync_all()
    }

    /// Renames the staged manifest into place. After an error either manifest may be there.
    pub(super) fn publish(log: &Path) -> io::Result<()> {
        fs::rename(log.join(STAGED_FILE), log.join(MANIFEST_FILE))?;
        sync_directory(log)
    }

    pub(super) fn names(&self, number: u64) -> bool {
        self.segments.iter().any(|listed| listed.number == number)
    }

    /// Asserts what recovery requires of a manifest: a manifest that recovery rejects must not be
    /// written.
    fn check(&self) {
        let segments = &self.segments;
        assert!(
            segments.is_sorted_by_key(|listed| listed.end.is_none()),
            "manifest: a segment with an end follows one without: {segments:?}"
        );
        assert!(
            segments.last().is_some_and(|last| last.end.is_none()),
            "manifest: the last segment is the one that is written to: {segments:?}"
        );
        debug_assert!(
            (1..segments.len()).all(|at| {
                let number = segments[at].number;
                segments[..at].iter().all(|before| before.number != number)
            }),
            "manifest: a segment is named twice: {segments:?}"
        );
    }

    fn encode(&self) -> String {
        let mut text = format!("{FIRST_LINE}\nstore {:016x}\n", self.store);
        for ManifestEntry { number, end } in &self.segments {
            // Writing to a string does not fail.
            let _ = match end {
                Some(end) => writeln!(text, "segment {number} {end}"),
                None => writeln!(text, "segment {number} open"),
            };
        }
        let sum = xxh3_64(text.as_bytes());
        let _ = writeln!(text, "sum {sum:016x}");
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let lines = text.strip_suffix('\n')?;
        let (_, sum) = lines.rsplit_once('\n')?;
        let above = text.get(..text.len() - sum.len() - 1)?;
        if sum.strip_prefix("sum ")? != format!("{:016x}", xxh3_64(above.as_bytes())) {
            return None;
        }
        let mut lines = above.lines();
        if lines.next()? != FIRST_LINE {
            return None;
        }
        let store = u64::from_str_radix(lines.next()?.strip_prefix("store ")?, 16).ok()?;
        let segments = lines.map(|line| {
            let (number, end) = line.strip_prefix("segment ")?.split_once(' ')?;
            let end = match end {
                "open" => None,
                end => Some(end.parse().ok()?),
            };
            let number = number.parse().ok()?;
            Some(ManifestEntry { number, end })
        });
        let segments = segments.collect::<Option<Vec<_>>>()?;
        Some(Self { store, segments })
    }
}

pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let listed = |number, end| ManifestEntry { number, end };
        Manifest {
            store: 0xf00d,
            segments: vec![listed(12, Some(4_194_267)), listed(16, None)],
        }
    }

    #[test]
    fn manifest_round_trips() {
        let directory = tempfile::tempdir().expect("a directory");
        assert_eq!(Manifest::read(directory.path()).expect("readable"), None);
        manifest().write(directory.path()).expect("room");
        let read = Manifest::read(directory.path()).expect("readable");
        assert_eq!(read, Some(manifest()));
    }

    #[test]
    fn corrupted_manifest_is_rejected() {
        let text = manifest().encode();
        assert_eq!(Manifest::parse(&text), Some(manifest()));
        for at in 0..text.len() {
            assert_eq!(Manifest::parse(&text[..at]), None, "cut at {at}");
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let harmed = String::from_utf8(bytes).expect("text");
            assert_eq!(Manifest::parse(&harmed), None, "changed at {at}");
        }
    }
}
