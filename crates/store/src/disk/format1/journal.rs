//! Checks and repairs the journals of a format 1 database before the storage engine (fjall) reads
//! them.
//!
//! fjall 3.1 replays a journal until something cannot be read, and then either truncates the file
//! there or refuses to open. Neither is acceptable:
//!
//! * A write that was torn by a power failure may keep its end and lose its middle. It is not
//!   acknowledged data, but the engine would refuse to open. It is cut off first, and a copy is
//!   kept.
//! * A byte corrupted in the middle of acknowledged data would make the engine truncate everything
//!   after it. Opening is refused instead.
//!
//! The two cases are told apart by a guarantee of the writer: each batch is synced before the next
//! one begins, so only the last batch can be torn, and its size is bounded. Journals that the
//! engine has sealed are synced completely.
//!
//! A failed sync needs one more step. The bytes of the last batch may be readable and still not be
//! on disk, and a later sync would not write them, because the kernel has given up on those pages.
//! The newest journal is therefore rewritten into another file. (Not in place: a crash while doing
//! so could damage what is on disk.)
//!
//! The format is that of fjall 3.1, whose version is pinned for this reason:
//!
//! ```text
//! start  01 | items 4 | sequence number 8
//! item   02 | type 1 | compression 1 | keyspace 8 | key length 2 | value length 4
//!           | stored length 4 | key | value
//! clear  04 | keyspace 8
//! end    03 | xxh3 of the items 8 | "FJL" 03
//! ```

use super::super::file_permissions;
use super::SyncGuarantee;
use crate::error::OpenError;
use rustix::fs::SeekFrom as SparseSeek;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
const TRAILER: [u8; 4] = *b"FJL\x03";

/// An upper bound on the size of one batch on disk. Data farther beyond a corrupt place was synced
/// after it, so the corruption happened after the write.
const BATCH_DISK_BYTES_MAX: u64 = 64 << 20;

/// The largest gap in sequence numbers between two batches: the engine uses some for internal work.
const SEQUENCE_NUMBERS_SKIPPED_MAX: u64 = 1 << 32;
/// The upper bound of sequence numbers: the engine uses the highest bit itself.
const SEQUENCE_NUMBER_MAX: u64 = 1 << 62;

/// The torn write at the end of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TornTail {
    pub(crate) journal: PathBuf,
    /// Everything before this offset is intact.
    pub(crate) at: u64,
    pub(crate) bytes: u64,
}

/// The repairs that the journals of a database need before the engine may read them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JournalRepairs {
    pub(crate) cut: Option<TornTail>,
    /// The newest journal, if there is one.
    pub(crate) newest: Option<PathBuf>,
}

/// Checks all journals of a database; changes nothing.
pub(crate) fn inspect(
    database: &Path,
    promise: SyncGuarantee,
) -> Result<JournalRepairs, OpenError> {
    let journals = journals_in_order(database)?;
    let Some((active, sealed)) = journals.split_last() else {
        return Ok(JournalRepairs::default());
    };
    let mut sequence_number = None;
    for journal in sealed {
        let tail = inspect_journal(journal, &mut sequence_number)?;
        if tail.data_end > tail.valid_end {
            return Err(damaged(journal, tail.valid_end));
        }
    }
    let tail = inspect_journal(active, &mut sequence_number)?;
    let newest = Some(active.clone());
    if tail.data_end <= tail.valid_end {
        return Ok(JournalRepairs { cut: None, newest });
    }
    let too_far = tail.data_end - tail.valid_end > BATCH_DISK_BYTES_MAX;
    if promise == SyncGuarantee::Synced && (too_far || tail.continues) {
        return Err(damaged(active, tail.valid_end));
    }
    let cut = Some(TornTail {
        journal: active.clone(),
        at: tail.valid_end,
        bytes: tail.data_end - tail.valid_end,
    });
    Ok(JournalRepairs { cut, newest })
}

/// Cuts off a torn tail after saving a copy of it.
pub(crate) fn cut(tail: &TornTail, save_to: &Path) -> io::Result<()> {
    let mut journal = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&tail.journal)?;
    journal.seek(SeekFrom::Start(tail.at))?;
    let mut copy = file_permissions::create_file(save_to)?;
    io::copy(&mut (&mut journal).take(tail.bytes), &mut copy)?;
    copy.sync_all()?;
    journal.set_len(tail.at)?;
    journal.sync_all()
}

/// Rewrites a journal into a new file, so that nothing in it depends on a sync that failed.
pub(crate) fn rewrite(journal: &Path) -> io::Result<()> {
    let fresh = journal.with_extension("new");
    let from = File::open(journal)?;
    let to = file_permissions::create_file(&fresh)?;
    // The copy leaves out holes but keeps the length: the file was preallocated.
    copy_data(&from, &to)?;
    to.sync_all()?;
    std::fs::rename(&fresh, journal)
}

/// Copies the data ranges of a file and skips its holes.
fn copy_data(from: &File, to: &File) -> io::Result<()> {
    to.set_len(from.metadata()?.len())?;
    for_each_data_range(from, 0, |at, bytes| to.write_all_at(bytes, at))
}

/// Visits the bytes of a file from `from` on. Skips the holes of a preallocated file
/// instead of reading megabytes of zeros.
fn for_each_data_range(
    file: &File,
    from: u64,
    mut visit: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut at = from;
    let mut buffer = vec![0; 1 << 16];
    loop {
        at = match rustix::fs::seek(file, SparseSeek::Data(at)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => return Ok(()),
            // Not every file system reports holes.
            Err(_) => at,
        };
        let count = file.read_at(&mut buffer, at)?;
        if count == 0 {
            return Ok(());
        }
        visit(at, &buffer[..count])?;
        at += count as u64;
    }
}

/// Syncs the directories of the database. The engine deletes replaced files as soon as it opens,
/// and the replacement files must not be lost after that.
pub(crate) fn sync_directories(database: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(database)? {
        let path = entry?.path();
        if path.is_dir() {
            sync_directories(&path)?;
        }
    }
    File::open(database)?.sync_all()
}

fn damaged(journal: &Path, at: u64) -> OpenError {
    OpenError::Damaged {
        path: journal.to_owned(),
        reason: format!(
            "acknowledged data behind byte {at} cannot be read; restore the directory from a \
             snapshot, or the file from a copy"
        ),
    }
}

fn journals_in_order(database: &Path) -> Result<Vec<PathBuf>, OpenError> {
    let failed = |cause| OpenError::Io {
        action: "list",
        path: database.to_owned(),
        cause,
    };
    let mut journals = Vec::new();
    for entry in std::fs::read_dir(database).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "jnl") {
            let number = path
                .file_stem()
                .and_then(|stem| stem.to_str()?.parse::<u64>().ok());
            journals.extend(number.map(|number| (number, path)));
        }
    }
    journals.sort();
    Ok(journals.into_iter().map(|(_, path)| path).collect())
}

struct JournalTail {
    /// The end of the last intact batch.
    valid_end: u64,
    /// The end of the last byte that is not zero; journals are preallocated with zeros.
    data_end: u64,
    /// Whether an intact batch follows the damaged one.
    continues: bool,
}

/// `sequence_number` is that of the last intact batch, before and after the call.
fn inspect_journal(
    journal: &Path,
    sequence_number: &mut Option<u64>,
) -> Result<JournalTail, OpenError> {
    let failed = |cause| OpenError::Io {
        action: "read",
        path: journal.to_owned(),
        cause,
    };
    let file = File::open(journal).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let mut walk = JournalReader {
        reader: BufReader::with_capacity(1 << 16, file),
        at: 0,
        length,
        sequence_number: *sequence_number,
    };
    let mut valid_end = 0;
    let goes_on = loop {
        match walk.batch().map_err(failed)? {
            BatchStatus::Whole => {
                valid_end = walk.at;
                *sequence_number = walk.sequence_number;
            }
            BatchStatus::Unreadable => break false,
            // Its lengths are plausible, so the position of the next batch is known.
            BatchStatus::WrongSum => {
                break matches!(walk.batch().map_err(failed)?, BatchStatus::Whole);
            }
        }
    };
    let data_end = last_data(walk.reader.get_ref(), valid_end).map_err(failed)?;
    Ok(JournalTail {
        valid_end,
        data_end,
        continues: goes_on,
    })
}

/// Returns the end of the last non-zero byte after `from`, or `from`.
fn last_data(file: &File, from: u64) -> io::Result<u64> {
    let mut end = from;
    for_each_data_range(file, from, |at, bytes| {
        if let Some(last) = bytes.iter().rposition(|byte| *byte != 0) {
            end = at + last as u64 + 1;
        }
        Ok(())
    })?;
    Ok(end)
}

enum BatchStatus {
    Whole,
    WrongSum,
    Unreadable,
}

struct JournalReader {
    reader: BufReader<File>,
    at: u64,
    length: u64,
    /// The sequence number of the previous batch.
    sequence_number: Option<u64>,
}

impl JournalReader {
    fn batch(&mut self) -> io::Result<BatchStatus> {
        match self.read_batch() {
            Ok(whole) => Ok(if whole {
                BatchStatus::Whole
            } else {
                BatchStatus::WrongSum
            }),
            Err(BatchError::NotABatch) => Ok(BatchStatus::Unreadable),
            Err(BatchError::Io(cause)) if cause.kind() == io::ErrorKind::UnexpectedEof => {
                Ok(BatchStatus::Unreadable)
            }
            Err(BatchError::Io(cause)) => Err(cause),
        }
    }

    /// Reads a batch and returns whether its checksum is right.
    fn read_batch(&mut self) -> Result<bool, BatchError> {
        let [tag] = self.array()?;
        if tag != START {
            return Err(BatchError::NotABatch);
        }
        let items = u32::from_le_bytes(self.array()?);
        let sequence_number = u64::from_le_bytes(self.array()?);
        if !self.may_follow(sequence_number) {
            return Err(BatchError::NotABatch);
        }
        self.sequence_number = Some(sequence_number);
        let mut sum = Xxh3::new();
        for _ in 0..items {
            self.read_item(&mut sum)?;
        }
        let [tag] = self.array()?;
        let expected = u64::from_le_bytes(self.array()?);
        let trailer: [u8; 4] = self.array()?;
        if tag != END || trailer != TRAILER {
            return Err(BatchError::NotABatch);
        }
        Ok(sum.digest() == expected)
    }

    /// Whether a batch with this sequence number may follow. The checksum does not cover the
    /// sequence number, so a torn write may have changed it undetected; the engine would then apply
    /// the batch as if it were older.
    fn may_follow(&self, sequence_number: u64) -> bool {
        let last = self.sequence_number;
        let follows = last.is_none_or(|last| {
            last < sequence_number && sequence_number - last <= SEQUENCE_NUMBERS_SKIPPED_MAX
        });
        follows && sequence_number < SEQUENCE_NUMBER_MAX
    }

    fn read_item(&mut self, sum: &mut Xxh3) -> Result<(), BatchError> {
        let [tag] = self.array()?;
        sum.update(&[tag]);
        match tag {
            CLEAR => self.read_into(sum, 8),
            ITEM => {
                let head: [u8; 20] = self.array()?;
                sum.update(&head);
                let key = u64::from(u16::from_le_bytes([head[10], head[11]]));
                let stored = u32::from_le_bytes([head[16], head[17], head[18], head[19]]);
                self.read_into(sum, key + u64::from(stored))
            }
            _ => Err(BatchError::NotABatch),
        }
    }

    fn read_into(&mut self, sum: &mut Xxh3, mut count: u64) -> Result<(), BatchError> {
        if count > self.length.saturating_sub(self.at) {
            return Err(BatchError::NotABatch);
        }
        let mut buffer = [0; 4096];
        while count > 0 {
            let part = buffer
                .len()
                .min(usize::try_from(count).unwrap_or(usize::MAX));
            self.reader.read_exact(&mut buffer[..part])?;
            sum.update(&buffer[..part]);
            self.at += part as u64;
            count -= part as u64;
        }
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BatchError> {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes)?;
        self.at += N as u64;
        Ok(bytes)
    }
}

enum BatchError {
    NotABatch,
    Io(io::Error),
}

impl From<io::Error> for BatchError {
    fn from(cause: io::Error) -> Self {
        Self::Io(cause)
    }
}
