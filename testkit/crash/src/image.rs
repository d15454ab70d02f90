//! Images: the possible content of the disk after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::content::FileContent;
use crate::log::CrashPoint;
use crate::replay::{FileState, NameOp, NameTarget, Names, ReplayState, UnsyncedChange};
use crate::rng::Rng;

/// How the disk treats what was not fsynced.
///
/// What was fsynced is always there: a write never damages older durable bytes
/// next to it, not even in its own sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// Everything survives: the process died, the machine did not.
    KeepAll,
    /// Nothing survives that was not fsynced.
    LoseUnsynced,
    /// Of each file a prefix of the unsynced bytes survives, in the order they
    /// were written, cut at any byte. All names survive.
    CutTail,
    /// Each sector (512 or 4096 bytes) of the unsynced bytes independently
    /// survives, or keeps an older version, or is torn at any byte. The length is
    /// the old one, the new one or one between. All names survive.
    TornSectors,
    /// As `TornSectors`, but bytes that did not survive may read as anything.
    Garbage,
    /// Operations on names are undone at random; of each file either all or
    /// nothing of the unsynced bytes survives.
    MissingFiles,
    /// Names as in `MissingFiles`, and for each file any of the above.
    Mixed,
}

impl Policy {
    pub const ALL: [Self; 7] = [
        Self::KeepAll,
        Self::LoseUnsynced,
        Self::CutTail,
        Self::TornSectors,
        Self::Garbage,
        Self::MissingFiles,
        Self::Mixed,
    ];

    /// Whether the image depends on the seed.
    pub fn is_seeded(self) -> bool {
        !matches!(self, Self::KeepAll | Self::LoseUnsynced)
    }
}

/// A file tree as a crash left it.
#[derive(Clone, Debug)]
pub struct Image {
    tree: BTreeMap<PathBuf, Option<FileContent>>,
}

impl Image {
    pub(crate) fn build(state: &ReplayState, point: CrashPoint, policy: Policy, seed: u64) -> Self {
        let parts = [seed, point.op_index as u64, policy as u64];
        let names = choose_names(state, policy, &mut Rng::from_parts(&parts));
        let tree = names
            .into_iter()
            .map(|(path, node)| {
                let content = match node {
                    NameTarget::Dir => None,
                    NameTarget::File(inode) => {
                        // One generator for each file, so that the choice for one
                        // does not hang on how many others there are.
                        let mut rng = Rng::from_parts(&[parts[0], parts[1], parts[2], inode]);
                        let file = state.file(inode).cloned().unwrap_or_default();
                        Some(choose_content(&file, policy, &mut rng))
                    }
                };
                (path, content)
            })
            .collect();
        Self { tree }
    }

    /// What `dir` holds now.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn of_dir(dir: &Path) -> io::Result<Self> {
        let mut tree = BTreeMap::new();
        let mut todo = vec![PathBuf::new()];
        while let Some(path) = todo.pop() {
            for entry in fs::read_dir(dir.join(&path))? {
                let entry = entry?;
                let inner = path.join(entry.file_name());
                if entry.file_type()?.is_dir() {
                    tree.insert(inner.clone(), None);
                    todo.push(inner);
                } else {
                    let content = FileContent::read(&File::open(entry.path())?)?;
                    tree.insert(inner, Some(content));
                }
            }
        }
        Ok(Self { tree })
    }

    /// All names, directories included, in order.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.tree.keys().map(PathBuf::as_path)
    }

    /// Whether there is a file or directory of this name.
    pub fn contains(&self, path: impl AsRef<Path>) -> bool {
        self.tree.contains_key(path.as_ref())
    }

    /// The bytes of a file, if there is one.
    pub fn read(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        self.tree
            .get(path.as_ref())?
            .as_ref()
            .map(FileContent::to_vec)
    }

    /// The length of a file, if there is one.
    pub fn len(&self, path: impl AsRef<Path>) -> Option<u64> {
        self.tree.get(path.as_ref())?.as_ref().map(FileContent::len)
    }

    /// Whether the image has no files.
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Makes `dir` hold exactly this image. Files are written sparsely.
    ///
    /// # Errors
    ///
    /// If the directory cannot be cleared or written.
    pub fn write_to(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)?;
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        // Parents come before children in path order.
        for (path, content) in &self.tree {
            match content {
                None => fs::create_dir(dir.join(path))?,
                Some(content) => content.write_to(&File::create(dir.join(path))?)?,
            }
        }
        Ok(())
    }

    /// How `other` differs from this image, in words; empty if they are the same
    /// byte for byte.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let paths: BTreeSet<&PathBuf> = self.tree.keys().chain(other.tree.keys()).collect();
        let mut found = Vec::new();
        for path in paths {
            let name = path.display();
            match (self.tree.get(path), other.tree.get(path)) {
                (Some(_), None) => found.push(format!("{name} is only in the first")),
                (None, Some(_)) => found.push(format!("{name} is only in the second")),
                (Some(Some(a)), Some(Some(b))) if a.len() != b.len() => {
                    found.push(format!("{name} has {} and {} bytes", a.len(), b.len()));
                }
                (Some(Some(a)), Some(Some(b))) if !a.same_bytes(b) => {
                    found.push(format!("{name} has different bytes"));
                }
                (Some(Some(_)), Some(None)) | (Some(None), Some(Some(_))) => {
                    found.push(format!("{name} is a file and a directory"));
                }
                _ => {}
            }
        }
        found
    }

    pub(crate) fn into_base(self) -> BTreeMap<PathBuf, Option<FileContent>> {
        self.tree
    }
}

fn choose_names(state: &ReplayState, policy: Policy, rng: &mut Rng) -> Names {
    let mut names = state.durable_names().clone();
    let keep_percent = match policy {
        Policy::LoseUnsynced => 0,
        Policy::MissingFiles | Policy::Mixed => [10, 50, 90][rng.index(3)],
        _ => 100,
    };
    let mut lost: Vec<&NameOp> = Vec::new();
    for (op, sure) in state.pending() {
        let survives = sure || rng.percent(keep_percent);
        if survives && !lost.iter().any(|earlier| earlier.overlaps(op)) {
            op.apply(&mut names);
        } else {
            lost.push(op);
        }
    }
    names
}

fn choose_content(file: &FileState, policy: Policy, rng: &mut Rng) -> FileContent {
    match policy {
        Policy::KeepAll => keep_all(file),
        Policy::LoseUnsynced => file.durable.clone(),
        Policy::CutTail => cut_tail(file, rng),
        Policy::TornSectors => tear(file, rng, false),
        Policy::Garbage => tear(file, rng, true),
        Policy::MissingFiles if rng.percent(50) => keep_all(file),
        Policy::MissingFiles => file.durable.clone(),
        Policy::Mixed => {
            let policies = [
                Policy::KeepAll,
                Policy::LoseUnsynced,
                Policy::CutTail,
                Policy::TornSectors,
                Policy::Garbage,
            ];
            let policy = policies[rng.index(policies.len())];
            choose_content(file, policy, rng)
        }
    }
}

fn apply(content: &mut FileContent, change: &UnsyncedChange) {
    match change {
        UnsyncedChange::Write(piece) => content.write(piece.offset, piece.bytes()),
        UnsyncedChange::SetLen(len) => content.set_len(*len),
    }
}

fn keep_all(file: &FileState) -> FileContent {
    let mut content = file.durable.clone();
    for change in &file.pending {
        apply(&mut content, change);
    }
    content
}

fn cut_tail(file: &FileState, rng: &mut Rng) -> FileContent {
    // A change of length counts as one byte: it happened or it did not.
    let weight = |change: &UnsyncedChange| match change {
        UnsyncedChange::Write(piece) => piece.bytes().len() as u64,
        UnsyncedChange::SetLen(_) => 1,
    };
    let total: u64 = file.pending.iter().map(weight).sum();
    let mut left = rng.up_to(total);
    let mut content = file.durable.clone();
    for change in &file.pending {
        if left >= weight(change) {
            apply(&mut content, change);
        } else if let UnsyncedChange::Write(piece) = change {
            let count = usize::try_from(left).expect("less than the piece");
            content.write(piece.offset, &piece.bytes()[..count]);
        }
        left = left.saturating_sub(weight(change));
        if left == 0 {
            break;
        }
    }
    content
}

fn tear(file: &FileState, rng: &mut Rng, garbage: bool) -> FileContent {
    let (mut content, window) = skip_past_a_cut(file, rng);
    let sector = [512, 4096][rng.index(2)];
    let keep_percent = [10, 50, 90][rng.index(3)];

    let old_len = content.len();
    let mut whole = content.clone();
    let mut versions: BTreeMap<u64, Vec<(u64, &[u8])>> = BTreeMap::new();
    for change in window {
        apply(&mut whole, change);
        let UnsyncedChange::Write(piece) = change else {
            continue;
        };
        let (mut at, mut rest) = (piece.offset, piece.bytes());
        while !rest.is_empty() {
            let room = sector - at % sector;
            let count = usize::try_from(room).map_or(rest.len(), |room| room.min(rest.len()));
            let (now, later) = rest.split_at(count);
            versions.entry(at / sector).or_default().push((at, now));
            at += count as u64;
            rest = later;
        }
    }

    for writes in versions.values() {
        let keep = if rng.percent(keep_percent) {
            writes.len()
        } else {
            rng.index(writes.len())
        };
        for (at, bytes) in &writes[..keep] {
            content.write(*at, bytes);
        }
        let Some((at, bytes)) = writes.get(keep) else {
            continue;
        };
        if rng.percent(50) {
            content.write(*at, &bytes[..rng.index(bytes.len() + 1)]);
        }
        if garbage && rng.percent(70) {
            for (at, bytes) in &writes[keep..] {
                let mut noise = vec![0; bytes.len()];
                rng.fill(&mut noise);
                content.write(*at, &noise);
            }
        }
    }

    let new_len = whole.len();
    let len = match rng.index(4) {
        0 => old_len,
        1 => old_len + rng.up_to(new_len - old_len),
        _ => new_len,
    };
    content.set_len(len);
    content
}

/// Cutting a file short cannot be torn like bytes can: picks one of the cuts
/// among the changes (or none), applies everything up to it, and returns the
/// changes after it and before the next.
fn skip_past_a_cut<'a>(file: &'a FileState, rng: &mut Rng) -> (FileContent, &'a [UnsyncedChange]) {
    let mut len = file.durable.len();
    let mut bounds = vec![0];
    for (index, change) in file.pending.iter().enumerate() {
        match change {
            UnsyncedChange::Write(piece) => len = len.max(piece.end()),
            UnsyncedChange::SetLen(new) => {
                if *new < len {
                    bounds.push(index + 1);
                }
                len = *new;
            }
        }
    }
    let pick = rng.index(bounds.len());
    let start = bounds[pick];
    // The cut that ends the window is itself no part of it.
    let end = bounds.get(pick + 1).map_or(file.pending.len(), |at| at - 1);
    let mut content = file.durable.clone();
    for change in &file.pending[..start] {
        apply(&mut content, change);
    }
    (content, &file.pending[start..end])
}
