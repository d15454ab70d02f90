//! Direct system calls.
//!
//! Everything the interposer does itself goes through `libc::syscall`, never through the libc
//! functions it replaces: that would call back into itself. Only the `*at` forms are used, which
//! exist on every 64-bit Linux.

use std::ffi::CStr;
use std::path::PathBuf;

use libc::{c_char, c_int, c_long, c_uint, c_void, mode_t, off_t, size_t, ssize_t};

/// Sets `errno`, as a failing libc function would.
pub(crate) fn set_errno(errno: c_int) {
    // SAFETY: glibc returns a valid pointer to this thread's errno.
    unsafe { *libc::__errno_location() = errno }
}

/// The kernel takes and returns machine words; libc's types are narrower.
#[expect(
    clippy::cast_possible_truncation,
    reason = "system calls that return an int return it in a long"
)]
fn int(value: c_long) -> c_int {
    value as c_int
}

/// # Safety
/// `path` must be a valid C string.
pub(crate) unsafe fn openat(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the arguments are those of openat(2).
    int(unsafe { libc::syscall(libc::SYS_openat, dir, path, flags, mode) })
}

pub(crate) fn close(fd: c_int) -> c_int {
    // SAFETY: close(2) takes any integer.
    int(unsafe { libc::syscall(libc::SYS_close, fd) })
}

/// # Safety
/// `buf` must be readable for `len` bytes.
pub(crate) unsafe fn write(fd: c_int, buf: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: the caller vouches for the buffer.
    unsafe { libc::syscall(libc::SYS_write, fd, buf, len) as ssize_t }
}

/// # Safety
/// `buf` must be readable for `len` bytes.
pub(crate) unsafe fn pwrite(fd: c_int, buf: *const c_void, len: size_t, at: off_t) -> ssize_t {
    // SAFETY: the caller vouches for the buffer.
    unsafe { libc::syscall(libc::SYS_pwrite64, fd, buf, len, at) as ssize_t }
}

/// # Safety
/// `iov` must point to `count` valid vectors.
pub(crate) unsafe fn writev(fd: c_int, iov: *const libc::iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller vouches for the vectors.
    unsafe { libc::syscall(libc::SYS_writev, fd, iov, count) as ssize_t }
}

/// # Safety
/// `iov` must point to `count` valid vectors.
pub(crate) unsafe fn pwritev(
    fd: c_int,
    iov: *const libc::iovec,
    count: c_int,
    at: off_t,
) -> ssize_t {
    // SAFETY: the caller vouches for the vectors; the last argument is the high
    // half of the offset, unused where a word holds all of it.
    unsafe { libc::syscall(libc::SYS_pwritev, fd, iov, count, at, 0) as ssize_t }
}

pub(crate) fn fsync(fd: c_int) -> c_int {
    // SAFETY: fsync(2) takes any integer.
    int(unsafe { libc::syscall(libc::SYS_fsync, fd) })
}

pub(crate) fn fdatasync(fd: c_int) -> c_int {
    // SAFETY: fdatasync(2) takes any integer.
    int(unsafe { libc::syscall(libc::SYS_fdatasync, fd) })
}

pub(crate) fn ftruncate(fd: c_int, len: off_t) -> c_int {
    // SAFETY: ftruncate(2) takes any integers.
    int(unsafe { libc::syscall(libc::SYS_ftruncate, fd, len) })
}

pub(crate) fn fallocate(fd: c_int, mode: c_int, at: off_t, len: off_t) -> c_int {
    // SAFETY: fallocate(2) takes any integers.
    int(unsafe { libc::syscall(libc::SYS_fallocate, fd, mode, at, len) })
}

/// # Safety
/// Both paths must be valid C strings.
pub(crate) unsafe fn renameat2(
    from_dir: c_int,
    from: *const c_char,
    to_dir: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    // SAFETY: the caller vouches for the paths.
    int(unsafe { libc::syscall(libc::SYS_renameat2, from_dir, from, to_dir, to, flags) })
}

/// # Safety
/// `path` must be a valid C string.
pub(crate) unsafe fn unlinkat(dir: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the caller vouches for the path.
    int(unsafe { libc::syscall(libc::SYS_unlinkat, dir, path, flags) })
}

/// # Safety
/// `path` must be a valid C string.
pub(crate) unsafe fn mkdirat(dir: c_int, path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the caller vouches for the path.
    int(unsafe { libc::syscall(libc::SYS_mkdirat, dir, path, mode) })
}

/// # Safety
/// Both paths must be valid C strings.
pub(crate) unsafe fn linkat(
    from_dir: c_int,
    from: *const c_char,
    to_dir: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller vouches for the paths.
    int(unsafe { libc::syscall(libc::SYS_linkat, from_dir, from, to_dir, to, flags) })
}

/// # Safety
/// Both paths must be valid C strings.
pub(crate) unsafe fn symlinkat(target: *const c_char, dir: c_int, path: *const c_char) -> c_int {
    // SAFETY: the caller vouches for the paths.
    int(unsafe { libc::syscall(libc::SYS_symlinkat, target, dir, path) })
}

/// # Safety
/// The argument must be what `command` asks for.
pub(crate) unsafe fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the caller vouches for the argument.
    int(unsafe { libc::syscall(libc::SYS_fcntl, fd, command, argument) })
}

pub(crate) fn dup(fd: c_int) -> c_int {
    // SAFETY: dup(2) takes any integer.
    int(unsafe { libc::syscall(libc::SYS_dup, fd) })
}

pub(crate) fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    // SAFETY: dup3(2) takes any integers.
    int(unsafe { libc::syscall(libc::SYS_dup3, fd, to, flags) })
}

/// Where the next `write` of this descriptor would go.
pub(crate) fn position(fd: c_int) -> u64 {
    // SAFETY: lseek(2) takes any integers.
    let at = unsafe { libc::syscall(libc::SYS_lseek, fd, 0, libc::SEEK_CUR) };
    u64::try_from(at).unwrap_or(0)
}

/// The file's length.
pub(crate) fn length(fd: c_int) -> u64 {
    // SAFETY: an all-zero `stat` is a valid value, and fstat(2) fills it.
    let stat = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        libc::syscall(libc::SYS_fstat, fd, &raw mut stat);
        stat
    };
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// Whether the descriptor appends, whatever offset it is given.
pub(crate) fn appends(fd: c_int) -> bool {
    // SAFETY: F_GETFL takes no argument.
    let flags = unsafe { fcntl(fd, libc::F_GETFL, 0) };
    flags >= 0 && flags & libc::O_APPEND != 0
}

/// The path of an open descriptor, as the kernel knows it.
pub(crate) fn path_of(fd: c_int) -> Option<PathBuf> {
    let link = std::ffi::CString::new(format!("/proc/self/fd/{fd}")).ok()?;
    read_bytes(|buf, len| {
        // SAFETY: the path is a C string and the buffer is writable for `len`.
        unsafe {
            libc::syscall(
                libc::SYS_readlinkat,
                libc::AT_FDCWD,
                link.as_ptr(),
                buf,
                len,
            )
        }
    })
}

/// The working directory.
pub(crate) fn working_dir() -> Option<PathBuf> {
    read_bytes(|buf, len| {
        // SAFETY: the buffer is writable for `len`; the count includes the NUL.
        unsafe { libc::syscall(libc::SYS_getcwd, buf, len) - 1 }
    })
}

fn read_bytes(call: impl FnOnce(*mut u8, usize) -> c_long) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let mut buf = vec![0u8; 4096];
    let got = call(buf.as_mut_ptr(), buf.len());
    let got = usize::try_from(got).ok().filter(|n| *n > 0)?;
    buf.truncate(got);
    Some(PathBuf::from(std::ffi::OsString::from_vec(buf)))
}

/// A C string as a path.
///
/// # Safety
/// `path` must be null or a valid C string that outlives the result.
pub(crate) unsafe fn path<'a>(path: *const c_char) -> Option<&'a std::path::Path> {
    use std::os::unix::ffi::OsStrExt;
    if path.is_null() {
        return None;
    }
    // SAFETY: the caller vouches for the string.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    Some(std::path::Path::new(std::ffi::OsStr::from_bytes(bytes)))
}
