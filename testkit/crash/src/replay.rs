//! What of a log is durable, and what is only pending.
//!
//! For every file: its content as of the last `fsync`, and the changes since.
//! For the directory tree: the entries that are durable, and the operations on
//! names since. An [`Image`](crate::Image) is then a choice among the pending.
//!
//! # What makes a name durable
//!
//! - Creating, linking, renaming, removing: an `fsync` of the directory that
//!   holds the name. A rename between two directories needs both.
//! - Creating also: an `fsync` of the new file or directory itself, unless
//!   [`Durability::Strict`] was asked for. Its new ancestors then come along.
//! - Renaming: **not** an `fsync` of the renamed file, though ext4 would commit
//!   the rename with it. A program that relies on it is told so.
//! - Operations on one name survive in order: a later one never without the
//!   earlier ones. Operations on different names survive independently, which is
//!   more than a journalling file system reorders.
//! - Renaming a directory takes everything pending with it and is durable at
//!   once. Nothing under test does it; model it before relying on it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::content::FileContent;
use crate::log::{Durability, Inode, Op};

/// The target of a name: a file or a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameTarget {
    Dir,
    File(Inode),
}

pub(crate) type Names = BTreeMap<PathBuf, NameTarget>;

/// A change to a file that no `fsync` has covered.
#[derive(Clone, Debug)]
pub(crate) enum UnsyncedChange {
    Write(WriteFragment),
    SetLen(u64),
}

/// A part of a write.
#[derive(Clone, Debug)]
pub(crate) struct WriteFragment {
    pub(crate) offset: u64,
    data: Arc<[u8]>,
    start: usize,
    end: usize,
    /// An `fsync` of it failed: no later one makes it durable.
    sync_failed: bool,
}

impl WriteFragment {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.data[self.start..self.end]
    }

    pub(crate) fn end(&self) -> u64 {
        self.offset + self.bytes().len() as u64
    }

    /// What remains when `from..to` was overwritten.
    fn without(&self, from: u64, to: u64) -> impl Iterator<Item = WriteFragment> {
        let cut = |start: u64, end: u64| {
            (start < end).then(|| {
                let skip = usize::try_from(start - self.offset).expect("within the data");
                let count = usize::try_from(end - start).expect("within the data");
                WriteFragment {
                    offset: start,
                    start: self.start + skip,
                    end: self.start + skip + count,
                    ..self.clone()
                }
            })
        };
        let before = cut(self.offset, from.min(self.end()));
        let after = cut(to.max(self.offset), self.end());
        before.into_iter().chain(after)
    }
}

/// A file: durable content, and the changes since.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileState {
    pub(crate) durable: FileContent,
    pub(crate) pending: Vec<UnsyncedChange>,
}

impl FileState {
    fn sync(&mut self) {
        let mut doomed: Vec<WriteFragment> = Vec::new();
        for change in std::mem::take(&mut self.pending) {
            match change {
                UnsyncedChange::SetLen(len) => {
                    self.durable.set_len(len);
                    doomed = doomed
                        .iter()
                        .flat_map(|piece| piece.without(len, u64::MAX))
                        .collect();
                }
                UnsyncedChange::Write(piece) if piece.sync_failed => {
                    // The length is metadata, which this fsync did write.
                    self.durable.set_len(self.durable.len().max(piece.end()));
                    doomed.push(piece);
                }
                UnsyncedChange::Write(piece) => {
                    self.durable.write(piece.offset, piece.bytes());
                    doomed = doomed
                        .iter()
                        .flat_map(|old| old.without(piece.offset, piece.end()))
                        .collect();
                }
            }
        }
        self.pending = doomed.into_iter().map(UnsyncedChange::Write).collect();
    }

    fn sync_failed(&mut self) {
        for change in &mut self.pending {
            if let UnsyncedChange::Write(piece) = change {
                piece.sync_failed = true;
            }
        }
    }
}

/// An operation on names.
#[derive(Clone, Debug)]
pub(crate) enum NameOp {
    Add {
        path: PathBuf,
        node: NameTarget,
    },
    Move {
        from: PathBuf,
        to: PathBuf,
        node: NameTarget,
    },
    Remove {
        path: PathBuf,
        node: NameTarget,
    },
}

impl NameOp {
    fn touched(&self) -> impl Iterator<Item = &PathBuf> {
        let (a, b) = match self {
            Self::Add { path, .. } | Self::Remove { path, .. } => (path, None),
            Self::Move { from, to, .. } => (from, Some(to)),
        };
        std::iter::once(a).chain(b)
    }

    pub(crate) fn touches(&self, path: &Path) -> bool {
        self.touched().any(|touched| touched == path)
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.touched().any(|path| other.touches(path))
    }

    /// Whether the directories it works in are there.
    fn has_parents(&self, names: &Names) -> bool {
        self.touched().all(|path| has_parent(names, path))
    }

    fn node(&self) -> NameTarget {
        match self {
            Self::Add { node, .. } | Self::Move { node, .. } | Self::Remove { node, .. } => *node,
        }
    }

    /// Does it, as far as the tree allows: what lies in a directory that was
    /// itself lost is lost, and a directory that still holds something stays.
    pub(crate) fn apply(&self, names: &mut Names) {
        match self {
            Self::Add { path, node } => {
                if has_parent(names, path) {
                    names.insert(path.clone(), *node);
                }
            }
            Self::Move { from, to, node } => {
                if has_parent(names, to) {
                    if names.get(from) == Some(node) {
                        names.remove(from);
                    }
                    names.insert(to.clone(), *node);
                }
            }
            Self::Remove { path, node } => {
                let empty = *node != NameTarget::Dir || children(names, path).next().is_none();
                if names.get(path) == Some(node) && empty {
                    names.remove(path);
                }
            }
        }
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

fn has_parent(names: &Names, path: &Path) -> bool {
    let parent = parent(path);
    parent.as_os_str().is_empty() || names.get(parent) == Some(&NameTarget::Dir)
}

fn children<'a>(names: &'a Names, dir: &'a Path) -> impl Iterator<Item = &'a PathBuf> {
    // Path order is component-wise, so everything below `dir` follows it.
    names
        .range::<Path, _>((std::ops::Bound::Excluded(dir), std::ops::Bound::Unbounded))
        .map(|(path, _)| path)
        .take_while(move |path| path.starts_with(dir))
}

/// Moves `from`, and if it is a directory everything below it.
pub(crate) fn rename(names: &mut Names, from: &Path, to: &Path) {
    let Some(node) = names.remove(from) else {
        return;
    };
    if node == NameTarget::Dir {
        let below: Vec<PathBuf> = children(names, from).cloned().collect();
        for path in below {
            if let (Some(inner), Ok(rest)) = (names.remove(&path), path.strip_prefix(from)) {
                names.insert(to.join(rest), inner);
            }
        }
    }
    names.insert(to.to_owned(), node);
}

#[derive(Clone, Debug)]
struct PendingName {
    op: NameOp,
    /// Directories whose `fsync` it still waits for.
    awaits: Vec<PathBuf>,
    /// Durable, but inside a directory that is not.
    durable: bool,
}

/// Everything known after some operations.
#[derive(Clone, Debug)]
pub(crate) struct ReplayState {
    files: BTreeMap<Inode, FileState>,
    /// The names as the running program sees them.
    live: Arc<Names>,
    /// The names that certainly survive a crash.
    settled: Arc<Names>,
    pending: Vec<PendingName>,
}

impl ReplayState {
    pub(crate) fn new(names: Names, files: BTreeMap<Inode, FileContent>) -> Self {
        let names = Arc::new(names);
        let files = files
            .into_iter()
            .map(|(inode, durable)| {
                let pending = Vec::new();
                (inode, FileState { durable, pending })
            })
            .collect();
        Self {
            files,
            live: Arc::clone(&names),
            settled: names,
            pending: Vec::new(),
        }
    }

    pub(crate) fn file(&self, inode: Inode) -> Option<&FileState> {
        self.files.get(&inode)
    }

    pub(crate) fn durable_names(&self) -> &Names {
        &self.settled
    }

    /// The operations on names that a crash may undo, oldest first; with `true`
    /// those that it can undo only by losing the directory they work in.
    pub(crate) fn pending(&self) -> impl Iterator<Item = (&NameOp, bool)> {
        self.pending
            .iter()
            .map(|pending| (&pending.op, pending.durable))
    }

    pub(crate) fn apply(&mut self, op: &Op, durability: Durability) {
        match op {
            Op::Mark(_) => {}
            Op::CreateDir { path } => self.add(path, NameTarget::Dir),
            Op::Create { path, inode } => {
                self.files.insert(*inode, FileState::default());
                self.add(path, NameTarget::File(*inode));
            }
            Op::Link { path, inode } => self.add(path, NameTarget::File(*inode)),
            Op::Write {
                inode,
                offset,
                data,
            } => {
                let piece = WriteFragment {
                    offset: *offset,
                    data: Arc::clone(data),
                    start: 0,
                    end: data.len(),
                    sync_failed: false,
                };
                self.change(*inode, UnsyncedChange::Write(piece));
            }
            Op::Truncate { inode, len } => self.change(*inode, UnsyncedChange::SetLen(*len)),
            Op::SyncFile { inode } => {
                if let Some(file) = self.files.get_mut(inode) {
                    file.sync();
                }
                if durability == Durability::Linux {
                    let node = NameTarget::File(*inode);
                    self.settle_durable_names(
                        |op| matches!(op, NameOp::Add { node: n, .. } if *n == node),
                    );
                }
            }
            Op::SyncFailed { inode } => {
                if let Some(file) = self.files.get_mut(inode) {
                    file.sync_failed();
                }
            }
            Op::SyncDir { path } => self.sync_dir(path, durability),
            Op::Rename { from, to } => self.rename(from, to),
            Op::Unlink { path } | Op::RemoveDir { path } => {
                if let Some(node) = Arc::make_mut(&mut self.live).remove(path) {
                    let path = path.clone();
                    self.push(NameOp::Remove { path, node });
                }
            }
        }
    }

    fn change(&mut self, inode: Inode, change: UnsyncedChange) {
        // A file whose removal is durable can still be open and written to.
        if let Some(file) = self.files.get_mut(&inode) {
            file.pending.push(change);
        }
    }

    fn add(&mut self, path: &Path, node: NameTarget) {
        Arc::make_mut(&mut self.live).insert(path.to_owned(), node);
        let path = path.to_owned();
        self.push(NameOp::Add { path, node });
    }

    fn rename(&mut self, from: &Path, to: &Path) {
        let Some(node) = self.live.get(from).copied() else {
            return;
        };
        rename(Arc::make_mut(&mut self.live), from, to);
        if node == NameTarget::Dir {
            self.pending.clear();
            self.settled = Arc::clone(&self.live);
        } else {
            self.push(NameOp::Move {
                from: from.to_owned(),
                to: to.to_owned(),
                node,
            });
        }
    }

    fn push(&mut self, op: NameOp) {
        let mut awaits: Vec<PathBuf> = op.touched().map(|path| parent(path).to_owned()).collect();
        awaits.dedup();
        let sure = false;
        self.pending.push(PendingName {
            op,
            awaits,
            durable: sure,
        });
    }

    fn sync_dir(&mut self, dir: &Path, durability: Durability) {
        for pending in &mut self.pending {
            pending.awaits.retain(|awaited| awaited != dir);
        }
        let new_here = |op: &NameOp| {
            durability == Durability::Linux
                && matches!(op, NameOp::Add { path, node: NameTarget::Dir } if path == dir)
        };
        self.settle_durable_names(new_here);
    }

    /// Makes durable what is chosen or waits for no directory, and what cannot
    /// have been lost if those survive.
    fn settle_durable_names(&mut self, chosen: impl Fn(&NameOp) -> bool) {
        let mut sure: Vec<bool> = self
            .pending
            .iter()
            .map(|pending| pending.durable || pending.awaits.is_empty() || chosen(&pending.op))
            .collect();
        for index in (0..self.pending.len()).rev() {
            if !sure[index] {
                continue;
            }
            let op = &self.pending[index].op;
            let is_chosen = chosen(op);
            for (earlier, is_sure) in sure[..index].iter_mut().enumerate() {
                let other = &self.pending[earlier].op;
                let same_name = op.overlaps(other);
                let ancestor = is_chosen
                    && matches!((op, other), (
                        NameOp::Add { path, .. },
                        NameOp::Add { path: above, node: NameTarget::Dir },
                    ) if path.starts_with(above));
                *is_sure |= same_name || ancestor;
            }
        }
        if !sure.contains(&true) {
            return;
        }
        let settled = Arc::make_mut(&mut self.settled);
        let mut index = 0;
        self.pending.retain_mut(|pending| {
            pending.durable = sure[index];
            index += 1;
            let settles = pending.durable && pending.op.has_parents(settled);
            if settles {
                pending.op.apply(settled);
            }
            !settles
        });
        self.forget_unreachable();
    }

    /// Drops files that no image can contain any more.
    fn forget_unreachable(&mut self) {
        let (live, settled, pending) = (&self.live, &self.settled, &self.pending);
        let mut reachable: std::collections::BTreeSet<Inode> = std::collections::BTreeSet::new();
        let nodes = live
            .values()
            .chain(settled.values())
            .copied()
            .chain(pending.iter().map(|pending| pending.op.node()));
        for node in nodes {
            if let NameTarget::File(inode) = node {
                reachable.insert(inode);
            }
        }
        self.files.retain(|inode, _| reachable.contains(inode));
    }
}
