//! Start and end of a recording.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::content::FileContent;
use crate::fault::{Call, Fault, FaultState};
use crate::image::{Image, Policy};
use crate::interpose;
use crate::log::{Inode, Log, Op};
use crate::replay::NameTarget;
use crate::session::{OpenFile, RecordingSession, RecordingSessionState};

/// Records what this process does to one directory, from its creation until it
/// is finished or dropped.
///
/// Several may run at once, in different threads, on directories that do not
/// contain each other. What other processes do is not seen.
#[derive(Debug)]
pub struct Recorder {
    session: Arc<RecordingSession>,
    dir: PathBuf,
    base: BTreeMap<Inode, FileContent>,
    base_names: BTreeMap<PathBuf, NameTarget>,
}

impl Recorder {
    /// Begins to record. The directory is created if need be; what it holds now
    /// counts as durable, and files in it that are open now are recorded too.
    ///
    /// # Errors
    ///
    /// If the directory cannot be created or read.
    ///
    /// # Panics
    ///
    /// If another recorder covers the directory, or if the interposer is not in
    /// effect, which would mean a platform other than linux-gnu.
    pub fn start(dir: impl AsRef<Path>) -> io::Result<Self> {
        Self::begin(dir.as_ref(), false)
    }

    /// Notes nothing, but lets faults be set.
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    ///
    /// # Panics
    ///
    /// As [`Self::start`].
    pub fn faults_only(dir: impl AsRef<Path>) -> io::Result<Self> {
        Self::begin(dir.as_ref(), true)
    }

    fn begin(dir: &Path, mute: bool) -> io::Result<Self> {
        interpose::keep_linked();
        fs::create_dir_all(dir)?;
        let mut roots = vec![std::path::absolute(dir)?, dir.canonicalize()?];
        roots.dedup();

        let mut state = RecordingSessionState {
            mute,
            ..RecordingSessionState::default()
        };
        let mut base = BTreeMap::new();
        for (path, content) in Image::of_dir(dir)?.into_base() {
            let node = match content {
                None => NameTarget::Dir,
                Some(content) => {
                    let inode = state.new_inode();
                    base.insert(inode, content);
                    NameTarget::File(inode)
                }
            };
            state.names.insert(path, node);
        }
        let base_names = state.names.clone();

        let session = RecordingSession::register(roots, state);
        let recorder = Self {
            session,
            dir: dir.to_owned(),
            base,
            base_names,
        };
        recorder.adopt_open_files()?;
        recorder.check_interposer();
        Ok(recorder)
    }

    /// Descriptors that were open before the recording began.
    fn adopt_open_files(&self) -> io::Result<()> {
        for entry in fs::read_dir("/proc/self/fd")? {
            let entry = entry?;
            let Some(fd) = entry.file_name().to_str().and_then(|fd| fd.parse().ok()) else {
                continue;
            };
            let Ok(target) = fs::read_link(entry.path()) else {
                continue; // closed meanwhile
            };
            let Some((session, path)) = crate::session::of_path(libc::AT_FDCWD, &target) else {
                continue;
            };
            if Arc::ptr_eq(&session, &self.session) {
                let mut state = session.lock();
                if let Some(NameTarget::File(inode)) = state.names.get(&path).copied() {
                    session.track(&mut state, fd, OpenFile { inode, path });
                }
            }
        }
        Ok(())
    }

    /// A recorder that observes nothing would make every crash test pass.
    fn check_interposer(&self) {
        self.faults()
            .add(Fault::new(Call::Create, libc::EPROTO).on(PROBE));
        let probe = fs::File::create_new(self.dir.join(PROBE));
        let seen = probe.is_err_and(|error| error.raw_os_error() == Some(libc::EPROTO));
        self.session.lock().faults = FaultState::default();
        assert!(seen, "the interposer is not in effect");
    }

    /// Notes that the program under test has got to `mark`, for example that it
    /// acknowledged the transaction of that number.
    pub fn mark(&self, mark: u64) {
        self.session.lock().push(Op::Mark(mark));
    }

    /// A handle for setting marks from other threads.
    pub fn marker(&self) -> Marker {
        Marker(Arc::clone(&self.session))
    }

    /// How many operations there are so far: a crash point for later.
    pub fn op_count(&self) -> usize {
        self.session.lock().ops.len()
    }

    /// The faults of this directory.
    pub fn faults(&self) -> FaultInjector {
        FaultInjector(Arc::clone(&self.session))
    }

    /// Ends the recording.
    ///
    /// # Panics
    ///
    /// If the log does not lead to what the directory now holds, byte for byte:
    /// something was done to it that the recorder did not see or cannot express.
    /// So do not finish while another thread still writes.
    pub fn finish(self) -> Log {
        self.session.unregister();
        let now = Image::of_dir(&self.dir);
        let mut state = self.session.lock();
        let (ops, anomalies) = (
            std::mem::take(&mut state.ops),
            std::mem::take(&mut state.anomalies),
        );
        let mute = state.mute;
        drop(state);
        let log = Log::new(ops, self.base_names.clone(), self.base.clone());
        if !mute {
            assert!(anomalies.is_empty(), "cannot replay: {anomalies:?}");
            let now = now.expect("the directory was readable before");
            let replayed = log.image(log.end(), Policy::KeepAll, 0);
            let differences = replayed.differences(&now);
            assert!(
                differences.is_empty(),
                "the log (first) does not lead to the directory (second): {differences:#?}"
            );
        }
        log
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.session.unregister();
    }
}

const PROBE: &str = ".optik-crash-probe";

/// Sets marks; see [`Recorder::mark`].
#[derive(Clone, Debug)]
pub struct Marker(Arc<RecordingSession>);

impl Marker {
    /// As [`Recorder::mark`].
    pub fn mark(&self, mark: u64) {
        self.0.lock().push(Op::Mark(mark));
    }
}

/// The faults of one directory. Rules are tried in the order they were added;
/// the first that strikes decides.
#[derive(Clone, Debug)]
pub struct FaultInjector(Arc<RecordingSession>);

impl FaultInjector {
    /// Adds a rule.
    pub fn add(&self, fault: Fault) {
        self.0.lock().faults.add(fault);
    }

    /// After `bytes` more bytes the disk is full: writes beyond that are cut
    /// short and then fail with `ENOSPC`, until [`Self::clear`]. Bytes that
    /// overwrite others count too; empty files can still be made, and sparse ones
    /// extended, as on a real disk.
    pub fn disk_full_after(&self, bytes: u64) {
        self.0.lock().faults.set_budget(bytes);
    }

    /// Removes all rules and the limit of the disk.
    pub fn clear(&self) {
        self.0.lock().faults.clear();
    }

    /// How many calls have failed so far because of a rule or a full disk.
    pub fn triggered(&self) -> u64 {
        self.0.lock().faults.triggered()
    }
}
