//! The log of file operations, in order.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::content::FileContent;
use crate::image::{Image, Policy};
use crate::replay::{NameTarget, ReplayState};

/// A file, independent of its current name.
///
/// Numbers are assigned by the recorder and never reused, unlike the kernel's.
pub type Inode = u64;

/// One operation. Paths are relative to the recorded directory, which itself is
/// the empty path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// `mkdir`.
    CreateDir { path: PathBuf },
    /// An `open` that made a new file.
    Create { path: PathBuf, inode: Inode },
    /// A further name for a file.
    Link { path: PathBuf, inode: Inode },
    /// Bytes that reached the file (a short write logs only what was written).
    Write {
        inode: Inode,
        offset: u64,
        data: Arc<[u8]>,
    },
    /// `ftruncate`, or an `open` with `O_TRUNC`; also how preallocation appears.
    Truncate { inode: Inode, len: u64 },
    /// `fsync` or `fdatasync` that succeeded. The two are not told apart:
    /// `fdatasync` too makes a changed length durable.
    SyncFile { inode: Inode },
    /// One that failed. The kernel then forgets that the pages were dirty: they
    /// may be lost although a later `fsync` succeeds.
    SyncFailed { inode: Inode },
    /// `fsync` of a directory that succeeded.
    SyncDir { path: PathBuf },
    /// `rename`; an existing target is replaced.
    Rename { from: PathBuf, to: PathBuf },
    /// `unlink`.
    Unlink { path: PathBuf },
    /// `rmdir`.
    RemoveDir { path: PathBuf },
    /// The program under test set a mark.
    Mark(u64),
}

/// A moment to lose power at: the first `op_index` operations were issued, the
/// others never. 0 is before anything was done, [`Log::len`] is the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CrashPoint {
    pub op_index: usize,
}

/// How much an `fsync` of a new file or directory promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// As ext4, xfs and btrfs do it: whoever fsyncs a new file or directory also
    /// finds its name, and those of its new ancestors, after a crash.
    #[default]
    Linux,
    /// As POSIX words it: a name is durable only when the directory that holds
    /// it was fsynced.
    Strict,
}

/// States are kept this often, so that an image needs no replay from the start.
const CHECKPOINT: usize = 256;

/// A finished recording, from which images are made.
#[derive(Debug)]
pub struct Log {
    ops: Vec<Op>,
    durability: Durability,
    checkpoints: Mutex<BTreeMap<usize, ReplayState>>,
}

impl Log {
    pub(crate) fn new(
        ops: Vec<Op>,
        names: BTreeMap<PathBuf, NameTarget>,
        files: BTreeMap<Inode, FileContent>,
    ) -> Self {
        let checkpoints = BTreeMap::from([(0, ReplayState::new(names, files))]);
        Self {
            ops,
            durability: Durability::default(),
            checkpoints: Mutex::new(checkpoints),
        }
    }

    /// The same recording on a file system that promises more or less.
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        let checkpoints = self
            .checkpoints
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        checkpoints.retain(|at, _| *at == 0);
        self
    }

    /// All operations.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// How many operations there are, and thus the last crash point.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether no operation was recorded.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// The end of the recording.
    pub fn end(&self) -> CrashPoint {
        CrashPoint {
            op_index: self.ops.len(),
        }
    }

    /// Every crash point, the beginning and the end included.
    pub fn points(&self) -> impl DoubleEndedIterator<Item = CrashPoint> + use<> {
        (0..=self.ops.len()).map(|op_index| CrashPoint { op_index })
    }

    /// The marks that were set before the crash: what the program under test had
    /// promised by then.
    pub fn marks(&self, point: CrashPoint) -> impl DoubleEndedIterator<Item = u64> + '_ {
        self.ops[..point.op_index].iter().filter_map(|op| match op {
            Op::Mark(mark) => Some(*mark),
            _ => None,
        })
    }

    /// One thing the disk may hold after a crash at `point`.
    ///
    /// The same arguments always give the same image.
    ///
    /// # Panics
    ///
    /// If the point lies beyond the end.
    pub fn image(&self, point: CrashPoint, policy: Policy, seed: u64) -> Image {
        let state = self.state(point);
        Image::build(&state, point, policy, seed)
    }

    fn state(&self, point: CrashPoint) -> ReplayState {
        let target = point.op_index;
        assert!(target <= self.ops.len(), "no such operation: {target}");
        let mut checkpoints = self
            .checkpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (at, state) = checkpoints
            .range(..=target)
            .next_back()
            .expect("there is one at 0");
        let (mut at, mut state) = (*at, state.clone());
        while at < target {
            state.apply(&self.ops[at], self.durability);
            at += 1;
            if at.is_multiple_of(CHECKPOINT) {
                checkpoints.insert(at, state.clone());
            }
        }
        state
    }
}
