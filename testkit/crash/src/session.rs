//! Which files are watched, and what is noted about them.
//!
//! A session watches one directory. The interposer finds it by path or, for an
//! open file, through a table from descriptor to session: that table is plain
//! atomics, so that a `write` to anything else costs one load and takes no lock.
//!
//! While a watched operation runs, its session is locked, so that the order of
//! the log is the order in which the kernel did things. Nothing in here may call
//! a libc function that the interposer replaces while it holds that lock; only
//! [`crate::sys`] is safe.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use libc::c_int;

use crate::fault::FaultState;
use crate::log::{Inode, Op};
use crate::replay::{NameTarget, Names};
use crate::sys;

/// Descriptors beyond this are not watched; opening one is an anomaly.
const MAX_FDS: usize = 65_536;

/// For each descriptor the number of its session, 0 for none.
static FDS: [AtomicU32; MAX_FDS] = [const { AtomicU32::new(0) }; MAX_FDS];

/// The number of sessions: without any, every call passes at once.
static ACTIVE: AtomicU32 = AtomicU32::new(0);

static SESSIONS: RwLock<Vec<Arc<RecordingSession>>> = RwLock::new(Vec::new());

static NEXT_ID: AtomicU32 = AtomicU32::new(1);

/// One watched directory.
#[derive(Debug)]
pub(crate) struct RecordingSession {
    id: u32,
    /// The directory as it was named, and with symbolic links resolved.
    roots: Vec<PathBuf>,
    state: Mutex<RecordingSessionState>,
}

/// An open file.
#[derive(Clone, Debug)]
pub(crate) struct OpenFile {
    pub(crate) inode: Inode,
    /// The name it was opened under.
    pub(crate) path: PathBuf,
}

#[derive(Debug, Default)]
pub(crate) struct RecordingSessionState {
    pub(crate) ops: Vec<Op>,
    pub(crate) names: Names,
    pub(crate) fds: BTreeMap<c_int, OpenFile>,
    pub(crate) faults: FaultState,
    /// Changes of the directory that a log cannot express.
    pub(crate) anomalies: Vec<String>,
    pub(crate) next_inode: Inode,
    /// Faults only: nothing is noted.
    pub(crate) mute: bool,
}

impl RecordingSessionState {
    pub(crate) fn push(&mut self, op: Op) {
        if !self.mute {
            self.ops.push(op);
        }
    }

    pub(crate) fn anomaly(&mut self, what: String) {
        self.anomalies.push(what);
    }

    pub(crate) fn new_inode(&mut self) -> Inode {
        self.next_inode += 1;
        self.next_inode
    }
}

impl RecordingSession {
    pub(crate) fn lock(&self) -> MutexGuard<'_, RecordingSessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches the descriptor.
    pub(crate) fn track(&self, state: &mut RecordingSessionState, fd: c_int, file: OpenFile) {
        match slot(fd) {
            Some(slot) => {
                state.fds.insert(fd, file);
                slot.store(self.id, Ordering::Release);
            }
            None => state.anomaly(format!("descriptor {fd} is out of range")),
        }
    }

    fn relative(&self, path: &Path) -> Option<PathBuf> {
        self.roots
            .iter()
            .find_map(|root| path.strip_prefix(root).ok())
            .map(Path::to_owned)
    }

    /// Begins to watch.
    pub(crate) fn register(roots: Vec<PathBuf>, state: RecordingSessionState) -> Arc<Self> {
        let session = Arc::new(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            roots,
            state: Mutex::new(state),
        });
        let mut sessions = SESSIONS.write().unwrap_or_else(PoisonError::into_inner);
        for other in sessions.iter() {
            let nested = session.roots.iter().any(|mine| {
                let theirs = &other.roots;
                theirs
                    .iter()
                    .any(|root| root.starts_with(mine) || mine.starts_with(root))
            });
            assert!(!nested, "already recorded: {}", other.roots[0].display());
        }
        sessions.push(Arc::clone(&session));
        ACTIVE.fetch_add(1, Ordering::Release);
        session
    }

    /// Ceases to watch.
    pub(crate) fn unregister(&self) {
        let mut sessions = SESSIONS.write().unwrap_or_else(PoisonError::into_inner);
        let before = sessions.len();
        sessions.retain(|other| other.id != self.id);
        if sessions.len() < before {
            ACTIVE.fetch_sub(1, Ordering::Release);
        }
        drop(sessions);
        for fd in std::mem::take(&mut self.lock().fds).into_keys() {
            if let Some(slot) = slot(fd) {
                let _ = slot.compare_exchange(self.id, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }
}

fn slot(fd: c_int) -> Option<&'static AtomicU32> {
    FDS.get(usize::try_from(fd).ok()?)
}

/// Whether anything is watched at all.
pub(crate) fn active() -> bool {
    ACTIVE.load(Ordering::Acquire) > 0
}

/// Whether the descriptor is watched; this is all that unwatched writes pay.
pub(crate) fn watches(fd: c_int) -> bool {
    slot(fd).is_some_and(|slot| slot.load(Ordering::Acquire) != 0)
}

/// The session that watches this descriptor.
pub(crate) fn of_fd(fd: c_int) -> Option<Arc<RecordingSession>> {
    let id = slot(fd)?.load(Ordering::Acquire);
    if id == 0 {
        return None;
    }
    let sessions = SESSIONS.read().unwrap_or_else(PoisonError::into_inner);
    sessions.iter().find(|session| session.id == id).cloned()
}

/// Forgets a descriptor that is about to be closed or was just reused.
pub(crate) fn forget(fd: c_int) {
    if let Some(session) = of_fd(fd) {
        let mut state = session.lock();
        state.fds.remove(&fd);
        if let Some(slot) = slot(fd) {
            slot.store(0, Ordering::Release);
        }
    }
}

/// The session that watches this path, and the path inside its directory.
pub(crate) fn of_path(dir: c_int, path: &Path) -> Option<(Arc<RecordingSession>, PathBuf)> {
    if !active() {
        return None;
    }
    let path = absolute(dir, path)?;
    let sessions = SESSIONS.read().unwrap_or_else(PoisonError::into_inner);
    sessions.iter().find_map(|session| {
        let relative = session.relative(&path)?;
        Some((Arc::clone(session), relative))
    })
}

/// The session that watches the directory this descriptor is open on.
///
/// Directories are not in the table: `closedir` closes their descriptors inside
/// libc, out of sight. The kernel is asked instead; it happens only for `fsync`.
pub(crate) fn of_dir_fd(fd: c_int) -> Option<(Arc<RecordingSession>, PathBuf)> {
    if !active() {
        return None;
    }
    let (session, path) = of_path(libc::AT_FDCWD, &sys::path_of(fd)?)?;
    let is_dir =
        path.as_os_str().is_empty() || session.lock().names.get(&path) == Some(&NameTarget::Dir);
    is_dir.then_some((session, path))
}

/// An absolute path without `.` and `..`, but with symbolic links.
fn absolute(dir: c_int, path: &Path) -> Option<PathBuf> {
    let mut result = if path.is_absolute() {
        PathBuf::new()
    } else if dir == libc::AT_FDCWD {
        sys::working_dir()?
    } else {
        sys::path_of(dir)?
    };
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                result.pop();
            }
            other => result.push(other),
        }
    }
    Some(result)
}
