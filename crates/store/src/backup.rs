//! Backup: exports a whole store as one stream of bytes, and restores it.
//!
//! ```text
//! "OPTIKSNP" | format 4 | store id 8 | floor 8 | revision 8
//! many of    02 | lease id 8 | seconds 8
//!            03 | revision 8 | sub 4 | length 4 | version, as on disk
//! 00, then zeros up to a multiple of 512
//! SHA-256 of everything before
//! ```
//! The trailer has the shape that etcd's clients expect of a snapshot, so that `etcdctl snapshot
//! save` can verify the download.

use crate::disk::{RestoreWriter, decode_version, encode_version};
use crate::error::OpenError;
use crate::history::Commit;
use crate::index::Index;
use crate::key::{Key, KeyRange};
use crate::lease::LeaseId;
use crate::origin::OriginInterner;
use crate::replay::VersionPosition;
use crate::revision::Revision;
use crate::sync::Arc;
use crate::version::Version;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

const MAGIC: &[u8; 8] = b"OPTIKSNP";
const FORMAT: u32 = 1;
const TAG_END: u8 = 0;
const TAG_LEASE: u8 = 2;
const TAG_VERSION: u8 = 3;
const HASH_BYTES: usize = 32;
const PAGE_BYTES: u64 = 512;
const CHUNK_BYTES: usize = 64 << 10;
/// An upper bound on the size of a version; the transaction limits admit only smaller ones.
const VERSION_BYTES_MAX: u32 = 64 << 20;

/// The bytes of a snapshot, chunk by chunk; the last chunk is its hash.
///
/// It holds one state of the store and no lock: writes continue meanwhile.
#[derive(Debug)]
pub struct Export {
    source: ExportSource,
    hash: Sha256,
    sent: u64,
    stage: ExportStage,
    bytes: u64,
}

#[derive(Debug)]
enum ExportStage {
    Header,
    Base { after: Option<Key> },
    Commits { next: usize },
    Padding,
    Hash,
    Done,
}

#[derive(Debug)]
struct ExportSource {
    id: u64,
    floor: Revision,
    index: Index,
    leases: Vec<(LeaseId, Duration)>,
    commits: Vec<Arc<Commit>>,
    /// The keys that `commits` change, with their previous versions.
    before: BTreeMap<Key, Option<Arc<Version>>>,
}

impl Export {
    pub(crate) fn new(
        id: u64,
        floor: Revision,
        (mut commits, index): (Vec<Arc<Commit>>, Index),
        leases: Vec<(LeaseId, Duration)>,
    ) -> Self {
        commits.retain(|commit| commit.revision >= floor);
        let mut before = BTreeMap::new();
        for event in commits.iter().flat_map(|commit| commit.events()) {
            before
                .entry(event.version.key.clone())
                .or_insert_with(|| event.prior.clone());
        }
        let source = ExportSource {
            id,
            floor,
            index,
            leases,
            commits,
            before,
        };
        let bytes = source.total_bytes();
        Self {
            source,
            hash: Sha256::new(),
            sent: 0,
            stage: ExportStage::Header,
            bytes,
        }
    }

    /// The total length in bytes, including the hash.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The revision that a restore of this snapshot has.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.source.index.revision()
    }

    fn next_chunk(&mut self) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(CHUNK_BYTES + 4096);
        match &mut self.stage {
            ExportStage::Header => {
                self.source.write_header(&mut out);
                self.stage = ExportStage::Base { after: None };
            }
            ExportStage::Base { after } => {
                *after = self.source.write_base(after.as_ref(), &mut out);
                if after.is_none() {
                    self.stage = ExportStage::Commits { next: 0 };
                }
            }
            ExportStage::Commits { next } => {
                *next = self.source.write_commits(*next, &mut out);
                if *next >= self.source.commits.len() {
                    self.stage = ExportStage::Padding;
                }
            }
            ExportStage::Padding => {
                out.push(TAG_END);
                let length = self.sent + out.len() as u64;
                let padding = length.next_multiple_of(PAGE_BYTES) - length;
                out.extend(std::iter::repeat_n(
                    0,
                    usize::try_from(padding).unwrap_or(0),
                ));
                self.stage = ExportStage::Hash;
            }
            ExportStage::Hash => {
                out.extend(std::mem::take(&mut self.hash).finalize());
                self.stage = ExportStage::Done;
            }
            ExportStage::Done => return None,
        }
        Some(out)
    }
}

impl Iterator for Export {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        loop {
            let piece = self.next_chunk()?;
            if !piece.is_empty() {
                self.hash.update(&piece);
                self.sent += piece.len() as u64;
                return Some(piece.into());
            }
        }
    }
}

impl ExportSource {
    fn write_header(&self, out: &mut Vec<u8>) {
        out.extend(MAGIC);
        out.extend(FORMAT.to_be_bytes());
        out.extend(self.id.to_be_bytes());
        out.extend(self.floor.get().to_be_bytes());
        out.extend(self.index.revision().get().to_be_bytes());
        for (id, ttl) in &self.leases {
            out.push(TAG_LEASE);
            out.extend(id.0.to_be_bytes());
            out.extend(ttl.as_secs().to_be_bytes());
        }
    }

    /// Returns the version that a key had before all `commits`.
    fn base_version<'a>(&'a self, newest: &'a Arc<Version>) -> Option<&'a Arc<Version>> {
        let version = match self.before.get(&newest.key) {
            Some(before) => before.as_ref(),
            None => Some(newest),
        };
        version.filter(|version| !version.is_deletion())
    }

    /// Writes a chunk of the state before all `commits`; returns the key to continue after.
    fn write_base(&self, after: Option<&Key>, out: &mut Vec<u8>) -> Option<Key> {
        let rest = match after {
            Some(key) => KeyRange::all().after(key),
            None => KeyRange::all(),
        };
        for newest in self.index.newest_entries(&rest) {
            if let Some(version) = self.base_version(newest) {
                // The other changes of its commit are no longer known and not needed.
                encode(version, version.sub + 1, out);
            }
            if out.len() >= CHUNK_BYTES {
                return Some(newest.key.clone());
            }
        }
        None
    }

    fn write_commits(&self, from: usize, out: &mut Vec<u8>) -> usize {
        let mut next = from;
        while let Some(commit) = self.commits.get(next) {
            if out.len() >= CHUNK_BYTES {
                break;
            }
            let of = u32::try_from(commit.events().len()).expect("fewer than 2^32 changes");
            for event in commit.events() {
                encode(&event.version, of, out);
            }
            next += 1;
        }
        next
    }

    fn total_bytes(&self) -> u64 {
        let mut total = 0;
        let mut out = Vec::new();
        let mut count = |write: &mut dyn FnMut(&mut Vec<u8>)| {
            out.clear();
            write(&mut out);
            total += out.len() as u64;
        };
        count(&mut |out| self.write_header(out));
        let mut after = None;
        loop {
            count(&mut |out| after = self.write_base(after.as_ref(), out));
            if after.is_none() {
                break;
            }
        }
        let mut next = 0;
        while next < self.commits.len() {
            count(&mut |out| next = self.write_commits(next, out));
        }
        (total + 1).next_multiple_of(PAGE_BYTES) + HASH_BYTES as u64
    }
}

fn encode(version: &Version, of: u32, out: &mut Vec<u8>) {
    let body = encode_version(version, of);
    out.push(TAG_VERSION);
    out.extend(version.mod_revision.get().to_be_bytes());
    out.extend(version.sub.to_be_bytes());
    let length = u32::try_from(body.len()).expect("versions are bounded by the limits");
    out.extend(length.to_be_bytes());
    out.extend(body);
}

/// Why a snapshot cannot be restored. The directory does not count as a store then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    #[error("this is not a snapshot of Optik")]
    NotASnapshot,
    #[error("the snapshot was made by a newer Optik (format {found}; this one reads {FORMAT})")]
    NewerFormat { found: u32 },
    #[error("the snapshot is damaged: {0}")]
    Damaged(&'static str),
    #[error("{path} already contains data; restore into an empty directory")]
    NotEmpty { path: std::path::PathBuf },
    #[error("the snapshot cannot be read")]
    Read(#[from] io::Error),
    #[error(transparent)]
    Directory(#[from] OpenError),
}

/// A summary of a finished restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoreSummary {
    pub revision: Revision,
    pub versions: u64,
}

/// Creates a data directory from a snapshot.
///
/// # Errors
/// If the snapshot is incomplete or corrupt, or the directory is not new.
pub fn restore(snapshot: impl Read, directory: &Path) -> Result<RestoreSummary, RestoreError> {
    let mut input = HashingReader::new(snapshot);
    let head = BackupHeader::read(&mut input)?;
    let target = RestoreWriter::begin(directory, head.id, head.floor)?;
    let mut target = target.ok_or_else(|| RestoreError::NotEmpty {
        path: directory.to_owned(),
    })?;
    let mut restored = RestoreSummary {
        revision: head.revision,
        versions: 0,
    };
    loop {
        match input.array()? {
            [TAG_END] => break,
            [TAG_LEASE] => {
                let id = LeaseId(i64::from_be_bytes(input.array()?));
                let ttl = Duration::from_secs(u64::from_be_bytes(input.array()?));
                target.add_lease(id, ttl);
            }
            [TAG_VERSION] => {
                let (place, body) = read_version(&mut input)?;
                target.add_version(place, body)?;
                restored.versions += 1;
            }
            _ => return Err(RestoreError::Damaged("unknown record tag")),
        }
    }
    input.check_end()?;
    target.finish()?;
    Ok(restored)
}

fn read_version(
    input: &mut HashingReader<impl Read>,
) -> Result<(VersionPosition, Vec<u8>), RestoreError> {
    let revision = Revision::new(u64::from_be_bytes(input.array()?));
    let place = (revision, u32::from_be_bytes(input.array()?));
    let length = u32::from_be_bytes(input.array()?);
    if length > VERSION_BYTES_MAX {
        return Err(RestoreError::Damaged("a version is too long"));
    }
    let body = input.bytes(length as usize)?;
    decode_version(place, &body, &mut OriginInterner::default())
        .map_err(|_| RestoreError::Damaged("a version cannot be read"))?;
    Ok((place, body))
}

struct BackupHeader {
    id: u64,
    floor: Revision,
    revision: Revision,
}

impl BackupHeader {
    fn read(input: &mut HashingReader<impl Read>) -> Result<Self, RestoreError> {
        let magic: [u8; 8] = input.array().map_err(|_| RestoreError::NotASnapshot)?;
        if magic != *MAGIC {
            return Err(RestoreError::NotASnapshot);
        }
        let found = u32::from_be_bytes(input.array()?);
        if found > FORMAT {
            return Err(RestoreError::NewerFormat { found });
        }
        Ok(Self {
            id: u64::from_be_bytes(input.array()?),
            floor: Revision::new(u64::from_be_bytes(input.array()?)),
            revision: Revision::new(u64::from_be_bytes(input.array()?)),
        })
    }
}

/// A reader that hashes what is read.
struct HashingReader<R> {
    input: R,
    hash: Sha256,
    read: u64,
}

impl<R: Read> HashingReader<R> {
    fn new(input: R) -> Self {
        Self {
            input,
            hash: Sha256::new(),
            read: 0,
        }
    }

    fn bytes(&mut self, count: usize) -> Result<Vec<u8>, RestoreError> {
        let mut bytes = vec![0; count];
        self.input.read_exact(&mut bytes).map_err(|cause| {
            if cause.kind() == io::ErrorKind::UnexpectedEof {
                RestoreError::Damaged("unexpected end of file")
            } else {
                RestoreError::Read(cause)
            }
        })?;
        self.hash.update(&bytes);
        self.read += count as u64;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RestoreError> {
        Ok(self.bytes(N)?.try_into().expect("as many as asked for"))
    }

    fn check_end(mut self) -> Result<(), RestoreError> {
        let padding = self.read.next_multiple_of(PAGE_BYTES) - self.read;
        self.bytes(usize::try_from(padding).unwrap_or(0))?;
        let expected = std::mem::take(&mut self.hash).finalize();
        let found: [u8; HASH_BYTES] = self.array()?;
        if found[..] != expected[..] {
            return Err(RestoreError::Damaged("SHA-256 checksum mismatch"));
        }
        Ok(())
    }
}
