//! The libc functions that change files, replaced.
//!
//! std is linked statically into a test executable and calls libc through the
//! dynamic symbol table; a definition in the executable comes before libc's own.
//! So every `#[no_mangle]` function here takes the place of libc's for the whole
//! process: it does the same through a system call and, if the file is watched,
//! notes it.
//!
//! What std 1.95 calls on linux-gnu to change files: `open64`, `openat64`,
//! `write`, `writev`, `pwrite64`, `pwritev64`, `ftruncate64`, `fsync`,
//! `fdatasync`, `rename`, `unlink`, `unlinkat`, `mkdir`, `rmdir`, `linkat`,
//! `symlink`, `fcntl` (`F_DUPFD_CLOEXEC`), `close`, and for `std::fs::copy` and
//! `std::io::copy` also `copy_file_range`, `sendfile64` and `splice`. rustix with
//! `use-libc` adds the forms without `64` and with `at`. Not covered, because
//! nothing under test uses them: writing through `mmap`, `io_uring`, and files
//! opened by C's stdio. [`Recorder::finish`](crate::Recorder::finish) compares
//! the log with the directory, so that whatever slips through is noticed.
//!
//! `open` and `fcntl` are variadic in C, which stable Rust cannot define. They
//! are given a fixed last argument instead: in the C calling conventions of
//! x86_64 and aarch64 Linux a variadic integer argument travels in the same
//! register as a named one. If the caller did not pass it, the register holds
//! anything, and the kernel ignores it.

use std::path::Path;
use std::sync::Arc;

use libc::{c_char, c_int, c_uint, c_void, iovec, mode_t, off_t, size_t, ssize_t};

use crate::fault::{Call, FaultDecision};
use crate::log::Op;
use crate::replay::{self, NameTarget};
use crate::session::{self, OpenFile, RecordingSessionState};
use crate::sys;

/// Referring to the functions keeps the linker from leaving them, and with them
/// this whole file, out of the executable.
pub(crate) fn keep_linked() {
    let functions: [*const c_void; 38] = [
        open as _,
        open64 as _,
        openat as _,
        openat64 as _,
        creat as _,
        creat64 as _,
        close as _,
        write as _,
        pwrite as _,
        pwrite64 as _,
        writev as _,
        pwritev as _,
        pwritev64 as _,
        fsync as _,
        fdatasync as _,
        ftruncate as _,
        ftruncate64 as _,
        fallocate as _,
        fallocate64 as _,
        rename as _,
        renameat as _,
        renameat2 as _,
        unlink as _,
        unlinkat as _,
        mkdir as _,
        mkdirat as _,
        rmdir as _,
        link as _,
        linkat as _,
        symlink as _,
        symlinkat as _,
        dup as _,
        dup2 as _,
        dup3 as _,
        fcntl as _,
        fcntl64 as _,
        copy_file_range as _,
        sendfile64 as _,
    ];
    std::hint::black_box(functions);
    std::hint::black_box([sendfile as *const c_void, splice as _]);
}

fn fail(errno: c_int) -> c_int {
    sys::set_errno(errno);
    -1
}

/// Fails the call if a fault says so.
fn check_fault(state: &mut RecordingSessionState, call: Call, path: &Path) -> Result<(), c_int> {
    match state.faults.decide(call, path) {
        FaultDecision::Fail(errno) => Err(errno),
        FaultDecision::Pass | FaultDecision::Short(_) => Ok(()),
    }
}

// Opening and closing.

unsafe fn do_open(dir: c_int, name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the caller of `open` passes a C string.
    let found = unsafe { sys::path(name) }.and_then(|path| session::of_path(dir, path));
    let Some((session, path)) = found else {
        // SAFETY: as the caller passed it.
        let fd = unsafe { sys::openat(dir, name, flags, mode) };
        // Should the descriptor have been closed out of sight, it is not ours now.
        session::forget(fd);
        return fd;
    };
    if flags & libc::O_TMPFILE == libc::O_TMPFILE {
        return fail(libc::EOPNOTSUPP); // callers then create and unlink
    }
    let mut state = session.lock();
    let known = state.names.get(&path).copied();
    let creates = flags & libc::O_CREAT != 0 && known.is_none();
    if creates && let Err(errno) = check_fault(&mut state, Call::Create, &path) {
        return fail(errno);
    }
    // SAFETY: as the caller passed it.
    let fd = unsafe { sys::openat(dir, name, flags, mode) };
    if fd < 0 || flags & libc::O_PATH != 0 {
        return fd;
    }
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
    match known {
        Some(NameTarget::Dir) => {}
        Some(NameTarget::File(inode)) => {
            if flags & libc::O_TRUNC != 0 && writes {
                state.push(Op::Truncate { inode, len: 0 });
            }
            session.track(&mut state, fd, OpenFile { inode, path });
        }
        None if creates => {
            let inode = state.new_inode();
            state.names.insert(path.clone(), NameTarget::File(inode));
            state.push(Op::Create {
                path: path.clone(),
                inode,
            });
            session.track(&mut state, fd, OpenFile { inode, path });
        }
        None if path.as_os_str().is_empty() => {}
        None => state.anomaly(format!("{} came out of nowhere", path.display())),
    }
    fd
}

#[unsafe(no_mangle)]
unsafe extern "C" fn open(name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: libc's contract is passed on.
    unsafe { do_open(libc::AT_FDCWD, name, flags, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn open64(name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: libc's contract is passed on.
    unsafe { do_open(libc::AT_FDCWD, name, flags, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn openat(dir: c_int, name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: libc's contract is passed on.
    unsafe { do_open(dir, name, flags, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn openat64(
    dir: c_int,
    name: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: libc's contract is passed on.
    unsafe { do_open(dir, name, flags, mode) }
}

const CREAT: c_int = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;

#[unsafe(no_mangle)]
unsafe extern "C" fn creat(name: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: libc's contract is passed on.
    unsafe { do_open(libc::AT_FDCWD, name, CREAT, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn creat64(name: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: libc's contract is passed on.
    unsafe { do_open(libc::AT_FDCWD, name, CREAT, mode) }
}

#[unsafe(no_mangle)]
extern "C" fn close(fd: c_int) -> c_int {
    // Before it is closed: after that another thread may already be given it.
    session::forget(fd);
    sys::close(fd)
}

/// A second descriptor of the same file is watched like the first.
fn duplicated(from: c_int, to: c_int) -> c_int {
    if to >= 0 && to != from {
        session::forget(to);
        if let Some(session) = session::of_fd(from) {
            let mut state = session.lock();
            if let Some(file) = state.fds.get(&from).cloned() {
                session.track(&mut state, to, file);
            }
        }
    }
    to
}

#[unsafe(no_mangle)]
extern "C" fn dup(fd: c_int) -> c_int {
    duplicated(fd, sys::dup(fd))
}

#[unsafe(no_mangle)]
extern "C" fn dup2(fd: c_int, to: c_int) -> c_int {
    if fd == to {
        // SAFETY: F_GETFD takes no argument; it fails if `fd` is not open.
        return if unsafe { sys::fcntl(fd, libc::F_GETFD, 0) } < 0 {
            -1
        } else {
            to
        };
    }
    session::forget(to);
    duplicated(fd, sys::dup3(fd, to, 0))
}

#[unsafe(no_mangle)]
extern "C" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    if fd != to {
        session::forget(to);
    }
    duplicated(fd, sys::dup3(fd, to, flags))
}

unsafe fn do_fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: libc's contract is passed on.
    let result = unsafe { sys::fcntl(fd, command, argument) };
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => duplicated(fd, result),
        _ => result,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: libc's contract is passed on.
    unsafe { do_fcntl(fd, command, argument) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: libc's contract is passed on.
    unsafe { do_fcntl(fd, command, argument) }
}

// Writing.

/// The offset of a write.
#[derive(Clone, Copy)]
enum WriteOffset {
    Position,
    Offset(off_t),
}

/// Writes the concatenation of `parts`, if the descriptor is watched.
fn watched_write(fd: c_int, at: WriteOffset, parts: &[&[u8]]) -> Option<ssize_t> {
    let session = session::of_fd(fd)?;
    let mut state = session.lock();
    let file = state.fds.get(&fd).cloned()?;
    let mut data = parts.concat();
    match state.faults.decide_write(&file.path, data.len()) {
        FaultDecision::Pass => {}
        FaultDecision::Short(most) => data.truncate(most),
        FaultDecision::Fail(errno) => {
            sys::set_errno(errno);
            return Some(-1);
        }
    }
    // SAFETY: the buffer is our own.
    let written = unsafe {
        match at {
            WriteOffset::Position => sys::write(fd, data.as_ptr().cast(), data.len()),
            WriteOffset::Offset(offset) => {
                sys::pwrite(fd, data.as_ptr().cast(), data.len(), offset)
            }
        }
    };
    let Ok(count) = usize::try_from(written) else {
        return Some(written);
    };
    data.truncate(count);
    let offset = match at {
        WriteOffset::Position => sys::position(fd) - count as u64,
        // With O_APPEND, Linux ignores the offset.
        WriteOffset::Offset(_) if sys::appends(fd) => sys::length(fd) - count as u64,
        WriteOffset::Offset(offset) => u64::try_from(offset).unwrap_or(0),
    };
    if count > 0 {
        state.push(Op::Write {
            inode: file.inode,
            offset,
            data: Arc::from(data),
        });
    }
    Some(written)
}

/// # Safety
/// `buf` must be readable for `len` bytes.
unsafe fn bytes<'a>(buf: *const c_void, len: size_t) -> &'a [u8] {
    if buf.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: the caller vouches for the buffer.
    unsafe { std::slice::from_raw_parts(buf.cast(), len) }
}

/// # Safety
/// `iov` must point to `count` valid vectors.
unsafe fn vectors<'a>(iov: *const iovec, count: c_int) -> Vec<&'a [u8]> {
    (0..usize::try_from(count).unwrap_or(0))
        .map(|index| {
            // SAFETY: the caller vouches for the vectors.
            unsafe {
                let vector = &*iov.add(index);
                bytes(vector.iov_base, vector.iov_len)
            }
        })
        .collect()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn write(fd: c_int, buf: *const c_void, len: size_t) -> ssize_t {
    if session::watches(fd) {
        // SAFETY: libc's contract makes the buffer readable.
        let buffer = unsafe { bytes(buf, len) };
        if let Some(result) = watched_write(fd, WriteOffset::Position, &[buffer]) {
            return result;
        }
    }
    // SAFETY: libc's contract is passed on.
    unsafe { sys::write(fd, buf, len) }
}

unsafe fn do_pwrite(fd: c_int, buf: *const c_void, len: size_t, at: off_t) -> ssize_t {
    if session::watches(fd) {
        // SAFETY: libc's contract makes the buffer readable.
        let buffer = unsafe { bytes(buf, len) };
        if let Some(result) = watched_write(fd, WriteOffset::Offset(at), &[buffer]) {
            return result;
        }
    }
    // SAFETY: libc's contract is passed on.
    unsafe { sys::pwrite(fd, buf, len, at) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite(fd: c_int, buf: *const c_void, len: size_t, at: off_t) -> ssize_t {
    // SAFETY: libc's contract is passed on.
    unsafe { do_pwrite(fd, buf, len, at) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite64(fd: c_int, buf: *const c_void, len: size_t, at: off_t) -> ssize_t {
    // SAFETY: libc's contract is passed on.
    unsafe { do_pwrite(fd, buf, len, at) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn writev(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
    if session::watches(fd) {
        // SAFETY: libc's contract makes the vectors valid.
        let parts = unsafe { vectors(iov, count) };
        if let Some(result) = watched_write(fd, WriteOffset::Position, &parts) {
            return result;
        }
    }
    // SAFETY: libc's contract is passed on.
    unsafe { sys::writev(fd, iov, count) }
}

unsafe fn do_pwritev(fd: c_int, iov: *const iovec, count: c_int, at: off_t) -> ssize_t {
    if session::watches(fd) {
        // SAFETY: libc's contract makes the vectors valid.
        let parts = unsafe { vectors(iov, count) };
        if let Some(result) = watched_write(fd, WriteOffset::Offset(at), &parts) {
            return result;
        }
    }
    // SAFETY: libc's contract is passed on.
    unsafe { sys::pwritev(fd, iov, count, at) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev(fd: c_int, iov: *const iovec, count: c_int, at: off_t) -> ssize_t {
    // SAFETY: libc's contract is passed on.
    unsafe { do_pwritev(fd, iov, count, at) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev64(fd: c_int, iov: *const iovec, count: c_int, at: off_t) -> ssize_t {
    // SAFETY: libc's contract is passed on.
    unsafe { do_pwritev(fd, iov, count, at) }
}

fn do_truncate(fd: c_int, len: off_t) -> c_int {
    let Some(session) = session::of_fd(fd) else {
        return sys::ftruncate(fd, len);
    };
    let mut state = session.lock();
    let Some(file) = state.fds.get(&fd).cloned() else {
        return sys::ftruncate(fd, len);
    };
    if let Err(errno) = check_fault(&mut state, Call::Truncate, &file.path) {
        return fail(errno);
    }
    let result = sys::ftruncate(fd, len);
    if result == 0 {
        state.push(Op::Truncate {
            inode: file.inode,
            len: u64::try_from(len).unwrap_or(0),
        });
    }
    result
}

#[unsafe(no_mangle)]
extern "C" fn ftruncate(fd: c_int, len: off_t) -> c_int {
    do_truncate(fd, len)
}

#[unsafe(no_mangle)]
extern "C" fn ftruncate64(fd: c_int, len: off_t) -> c_int {
    do_truncate(fd, len)
}

fn do_fallocate(fd: c_int, mode: c_int, at: off_t, len: off_t) -> c_int {
    let Some(session) = session::of_fd(fd) else {
        return sys::fallocate(fd, mode, at, len);
    };
    let mut state = session.lock();
    let Some(file) = state.fds.get(&fd).cloned() else {
        return sys::fallocate(fd, mode, at, len);
    };
    if let Err(errno) = check_fault(&mut state, Call::Truncate, &file.path) {
        return fail(errno);
    }
    let before = sys::length(fd);
    let result = sys::fallocate(fd, mode, at, len);
    let after = sys::length(fd);
    if result == 0 && mode & !libc::FALLOC_FL_KEEP_SIZE != 0 {
        state.anomaly(format!("fallocate with mode {mode:#x}"));
    } else if result == 0 && after != before {
        let inode = file.inode;
        state.push(Op::Truncate { inode, len: after });
    }
    result
}

#[unsafe(no_mangle)]
extern "C" fn fallocate(fd: c_int, mode: c_int, at: off_t, len: off_t) -> c_int {
    do_fallocate(fd, mode, at, len)
}

#[unsafe(no_mangle)]
extern "C" fn fallocate64(fd: c_int, mode: c_int, at: off_t, len: off_t) -> c_int {
    do_fallocate(fd, mode, at, len)
}

// Copies inside the kernel: refused for watched files with an error upon which
// std (and whoever else must work on old kernels) falls back to read and write.

#[unsafe(no_mangle)]
unsafe extern "C" fn copy_file_range(
    from: c_int,
    from_at: *mut off_t,
    to: c_int,
    to_at: *mut off_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    if session::watches(to) {
        return fail(libc::EINVAL) as ssize_t;
    }
    let call = libc::SYS_copy_file_range;
    // SAFETY: libc's contract is passed on.
    unsafe { libc::syscall(call, from, from_at, to, to_at, len, flags) as ssize_t }
}

unsafe fn do_sendfile(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t {
    if session::watches(to) {
        return fail(libc::EINVAL) as ssize_t;
    }
    // SAFETY: libc's contract is passed on.
    unsafe { libc::syscall(libc::SYS_sendfile, to, from, at, len) as ssize_t }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendfile(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t {
    // SAFETY: libc's contract is passed on.
    unsafe { do_sendfile(to, from, at, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendfile64(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t {
    // SAFETY: libc's contract is passed on.
    unsafe { do_sendfile(to, from, at, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn splice(
    from: c_int,
    from_at: *mut off_t,
    to: c_int,
    to_at: *mut off_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    if session::watches(to) {
        return fail(libc::EINVAL) as ssize_t;
    }
    let call = libc::SYS_splice;
    // SAFETY: libc's contract is passed on.
    unsafe { libc::syscall(call, from, from_at, to, to_at, len, flags) as ssize_t }
}

// Syncing. The disk is not asked: the only crash there will be is a simulated
// one, and tests need not wait for hardware.

fn do_sync(fd: c_int, call: Call, real: fn(c_int) -> c_int) -> c_int {
    if let Some(session) = session::of_fd(fd) {
        let mut state = session.lock();
        if let Some(file) = state.fds.get(&fd).cloned() {
            let inode = file.inode;
            if let Err(errno) = check_fault(&mut state, call, &file.path) {
                state.push(Op::SyncFailed { inode });
                return fail(errno);
            }
            state.push(Op::SyncFile { inode });
            return 0;
        }
    }
    if let Some((session, path)) = session::of_dir_fd(fd) {
        let mut state = session.lock();
        if let Err(errno) = check_fault(&mut state, Call::SyncDir, &path) {
            return fail(errno);
        }
        state.push(Op::SyncDir { path });
        return 0;
    }
    real(fd)
}

#[unsafe(no_mangle)]
extern "C" fn fsync(fd: c_int) -> c_int {
    do_sync(fd, Call::Fsync, sys::fsync)
}

#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: c_int) -> c_int {
    do_sync(fd, Call::Fdatasync, sys::fdatasync)
}

// Names.

unsafe fn do_rename(
    from_dir: c_int,
    from: *const c_char,
    to_dir: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    // SAFETY: the caller of `rename` passes C strings.
    let (old, new) = unsafe { (sys::path(from), sys::path(to)) };
    let old = old.and_then(|path| session::of_path(from_dir, path));
    let new = new.and_then(|path| session::of_path(to_dir, path));
    let (session, old, new) = match (old, new) {
        (None, None) => {
            // SAFETY: libc's contract is passed on.
            return unsafe { sys::renameat2(from_dir, from, to_dir, to, flags) };
        }
        (Some((session, old)), Some((other, new))) if Arc::ptr_eq(&session, &other) => {
            (session, old, new)
        }
        (Some((session, path)), _) | (None, Some((session, path))) => {
            let what = format!("{} renamed in or out", path.display());
            session.lock().anomaly(what);
            return fail(libc::EXDEV);
        }
    };
    let mut state = session.lock();
    if let Err(errno) = check_fault(&mut state, Call::Rename, &new) {
        return fail(errno);
    }
    // SAFETY: libc's contract is passed on.
    let result = unsafe { sys::renameat2(from_dir, from, to_dir, to, flags) };
    if result == 0 && old != new {
        if flags & !libc::RENAME_NOREPLACE != 0 {
            state.anomaly(format!("rename with flags {flags:#x}"));
        }
        replay::rename(&mut state.names, &old, &new);
        state.push(Op::Rename { from: old, to: new });
    }
    result
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: libc's contract is passed on.
    unsafe { do_rename(libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn renameat(
    from_dir: c_int,
    from: *const c_char,
    to_dir: c_int,
    to: *const c_char,
) -> c_int {
    // SAFETY: libc's contract is passed on.
    unsafe { do_rename(from_dir, from, to_dir, to, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn renameat2(
    from_dir: c_int,
    from: *const c_char,
    to_dir: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    // SAFETY: libc's contract is passed on.
    unsafe { do_rename(from_dir, from, to_dir, to, flags) }
}

unsafe fn do_unlink(dir: c_int, name: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the caller of `unlink` passes a C string.
    let found = unsafe { sys::path(name) }.and_then(|path| session::of_path(dir, path));
    let Some((session, path)) = found else {
        // SAFETY: libc's contract is passed on.
        return unsafe { sys::unlinkat(dir, name, flags) };
    };
    let mut state = session.lock();
    if let Err(errno) = check_fault(&mut state, Call::Unlink, &path) {
        return fail(errno);
    }
    // SAFETY: libc's contract is passed on.
    let result = unsafe { sys::unlinkat(dir, name, flags) };
    if result == 0 {
        state.names.remove(&path);
        if flags & libc::AT_REMOVEDIR != 0 {
            state.push(Op::RemoveDir { path });
        } else {
            state.push(Op::Unlink { path });
        }
    }
    result
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unlink(name: *const c_char) -> c_int {
    // SAFETY: libc's contract is passed on.
    unsafe { do_unlink(libc::AT_FDCWD, name, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unlinkat(dir: c_int, name: *const c_char, flags: c_int) -> c_int {
    // SAFETY: libc's contract is passed on.
    unsafe { do_unlink(dir, name, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rmdir(name: *const c_char) -> c_int {
    // SAFETY: libc's contract is passed on.
    unsafe { do_unlink(libc::AT_FDCWD, name, libc::AT_REMOVEDIR) }
}

unsafe fn do_mkdir(dir: c_int, name: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the caller of `mkdir` passes a C string.
    let found = unsafe { sys::path(name) }.and_then(|path| session::of_path(dir, path));
    let Some((session, path)) = found else {
        // SAFETY: libc's contract is passed on.
        return unsafe { sys::mkdirat(dir, name, mode) };
    };
    let mut state = session.lock();
    // One that exists already is for the kernel to refuse.
    if !state.names.contains_key(&path)
        && let Err(errno) = check_fault(&mut state, Call::CreateDir, &path)
    {
        return fail(errno);
    }
    // SAFETY: libc's contract is passed on.
    let result = unsafe { sys::mkdirat(dir, name, mode) };
    if result == 0 {
        state.names.insert(path.clone(), NameTarget::Dir);
        state.push(Op::CreateDir { path });
    }
    result
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkdir(name: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: libc's contract is passed on.
    unsafe { do_mkdir(libc::AT_FDCWD, name, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkdirat(dir: c_int, name: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: libc's contract is passed on.
    unsafe { do_mkdir(dir, name, mode) }
}

unsafe fn do_link(
    from_dir: c_int,
    from: *const c_char,
    to_dir: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller of `link` passes C strings.
    let (old, new) = unsafe { (sys::path(from), sys::path(to)) };
    let old = old.and_then(|path| session::of_path(from_dir, path));
    let new = new.and_then(|path| session::of_path(to_dir, path));
    let Some((session, path)) = new else {
        if let Some((session, path)) = old {
            let what = format!("{} linked out", path.display());
            session.lock().anomaly(what);
        }
        // SAFETY: libc's contract is passed on.
        return unsafe { sys::linkat(from_dir, from, to_dir, to, flags) };
    };
    let mut state = session.lock();
    // SAFETY: libc's contract is passed on.
    let result = unsafe { sys::linkat(from_dir, from, to_dir, to, flags) };
    if result == 0 {
        let node = old.and_then(|(_, old)| state.names.get(&old).copied());
        if let Some(NameTarget::File(inode)) = node {
            state.names.insert(path.clone(), NameTarget::File(inode));
            state.push(Op::Link { path, inode });
        } else {
            state.anomaly(format!("{} linked in", path.display()));
        }
    }
    result
}

#[unsafe(no_mangle)]
unsafe extern "C" fn link(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: libc's contract is passed on.
    unsafe { do_link(libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn linkat(
    from_dir: c_int,
    from: *const c_char,
    to_dir: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    // SAFETY: libc's contract is passed on.
    unsafe { do_link(from_dir, from, to_dir, to, flags) }
}

unsafe fn do_symlink(target: *const c_char, dir: c_int, name: *const c_char) -> c_int {
    // SAFETY: the caller of `symlink` passes a C string.
    let found = unsafe { sys::path(name) }.and_then(|path| session::of_path(dir, path));
    if let Some((session, path)) = found {
        let what = format!("{} is a symbolic link", path.display());
        session.lock().anomaly(what);
    }
    // SAFETY: libc's contract is passed on.
    unsafe { sys::symlinkat(target, dir, name) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn symlink(target: *const c_char, name: *const c_char) -> c_int {
    // SAFETY: libc's contract is passed on.
    unsafe { do_symlink(target, libc::AT_FDCWD, name) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn symlinkat(target: *const c_char, dir: c_int, name: *const c_char) -> c_int {
    // SAFETY: libc's contract is passed on.
    unsafe { do_symlink(target, dir, name) }
}
