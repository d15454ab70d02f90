//! Tests of the recorder: operations are recorded completely.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use optik_crash::{Op, Policy, Recorder, scratch_dir};

fn path(path: &str) -> PathBuf {
    PathBuf::from(path)
}

fn write(inode: u64, offset: u64, data: &[u8]) -> Op {
    Op::Write {
        inode,
        offset,
        data: Arc::from(data),
    }
}

#[test]
fn recorder_logs_expected_operations() -> io::Result<()> {
    let dir = scratch_dir()?;
    let root = dir.path();
    fs::write(root.join("before"), b"was there")?;
    let mut open_before = OpenOptions::new().append(true).open(root.join("before"))?;

    let recorder = Recorder::start(root)?;
    fs::create_dir(root.join("sub"))?;
    let mut file = File::create(root.join("sub/a"))?;
    file.write_all(b"hello")?;
    file.seek(SeekFrom::Start(1))?;
    let slices = [IoSlice::new(b"E"), IoSlice::new(b"LL")];
    assert_eq!(file.write_vectored(&slices)?, 3);
    file.write_all_at(b"!", 9)?;
    file.set_len(8)?;
    file.sync_data()?;
    recorder.mark(7);
    fs::rename(root.join("sub/a"), root.join("b"))?;
    let mut again = file.try_clone()?;
    drop(file);
    again.write_all(b"o")?;
    again.sync_all()?;
    File::open(root)?.sync_all()?;
    File::open(root.join("sub"))?.sync_all()?;
    open_before.write_all(b"+")?;
    fs::hard_link(root.join("b"), root.join("c"))?;
    fs::remove_file(root.join("b"))?;
    fs::remove_dir(root.join("sub"))?;
    fs::write(root.join("before"), b"anew")?;
    assert!(File::create_new(root.join("c")).is_err());
    fs::write("/dev/null", b"elsewhere")?;
    let log = recorder.finish();

    let expected = [
        Op::CreateDir { path: path("sub") },
        Op::Create {
            path: path("sub/a"),
            inode: 2,
        },
        write(2, 0, b"hello"),
        write(2, 1, b"ELL"),
        write(2, 9, b"!"),
        Op::Truncate { inode: 2, len: 8 },
        Op::SyncFile { inode: 2 },
        Op::Mark(7),
        Op::Rename {
            from: path("sub/a"),
            to: path("b"),
        },
        write(2, 4, b"o"),
        Op::SyncFile { inode: 2 },
        Op::SyncDir { path: path("") },
        Op::SyncDir { path: path("sub") },
        write(1, 9, b"+"),
        Op::Link {
            path: path("c"),
            inode: 2,
        },
        Op::Unlink { path: path("b") },
        Op::RemoveDir { path: path("sub") },
        Op::Truncate { inode: 1, len: 0 },
        write(1, 0, b"anew"),
    ];
    assert_eq!(log.ops(), expected);
    assert_eq!(log.marks(log.end()).collect::<Vec<_>>(), [7]);

    let image = log.image(log.end(), Policy::KeepAll, 0);
    assert_eq!(image.read("c").as_deref(), Some(&b"hELLo\0\0\0"[..]));
    assert_eq!(image.read("before").as_deref(), Some(&b"anew"[..]));
    assert_eq!(image.paths().count(), 2);
    Ok(())
}

#[test]
fn recorder_sees_rustix_calls() -> io::Result<()> {
    let dir = scratch_dir()?;
    let recorder = Recorder::start(dir.path())?;
    for persist_over in [true, false] {
        let mut file = tempfile::NamedTempFile::new_in(dir.path())?;
        file.write_all(b"content")?;
        if persist_over {
            file.persist(dir.path().join("current"))?;
        } else {
            file.persist_noclobber(dir.path().join("other"))?;
        }
    }
    drop(tempfile::tempfile_in(dir.path())?);
    drop(tempfile::tempdir_in(dir.path())?);
    let log = recorder.finish();
    let renames = log.ops().iter().filter_map(|op| match op {
        Op::Rename { to, .. } => Some(to.as_path()),
        _ => None,
    });
    let expected = [Path::new("current"), Path::new("other")];
    assert_eq!(renames.collect::<Vec<_>>(), expected);
    Ok(())
}

#[test]
fn recorder_sees_relative_paths_copies_and_trees() -> io::Result<()> {
    let dir = scratch_dir()?;
    let root = dir.path();
    let recorder = Recorder::start(root)?;
    fs::create_dir_all(root.join("a/b/c"))?;
    fs::write(root.join("a/b/../b/c/./x"), vec![7; 100_000])?;
    fs::copy(root.join("a/b/c/x"), root.join("a/y"))?;
    io::copy(
        &mut File::open(root.join("a/y"))?,
        &mut File::create(root.join("z"))?,
    )?;
    fs::rename(root.join("a"), root.join("d"))?;
    fs::write(root.join("d/b/c/x"), b"short")?;
    fs::remove_dir_all(root.join("d/b"))?;
    let log = recorder.finish();
    let image = log.image(log.end(), Policy::KeepAll, 0);
    assert_eq!(image.len("d/y"), Some(100_000));
    assert_eq!(image.len("z"), Some(100_000));
    assert!(!image.contains("d/b"));
    Ok(())
}

#[test]
fn parallel_recordings_do_not_mix() -> io::Result<()> {
    let threads: Vec<_> = (0..4u8)
        .map(|number| {
            std::thread::spawn(move || -> io::Result<usize> {
                let dir = scratch_dir()?;
                let recorder = Recorder::start(dir.path())?;
                let mut file = File::create(dir.path().join("f"))?;
                for _ in 0..500 {
                    file.write_all(&[number; 10])?;
                    file.sync_data()?;
                }
                drop(file);
                Ok(recorder.finish().len())
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().expect("no panic")?, 1001);
    }
    Ok(())
}

#[test]
#[should_panic(expected = "f has different bytes")]
fn recorder_detects_writes_past_the_interposer() {
    let dir = scratch_dir().expect("a directory");
    fs::write(dir.path().join("f"), b"before").expect("a file");
    let recorder = Recorder::start(dir.path()).expect("a recorder");
    let file = OpenOptions::new()
        .write(true)
        .open(dir.path().join("f"))
        .expect("a file");
    let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
    // SAFETY: the buffer is a literal of that length.
    unsafe { libc::syscall(libc::SYS_write, fd, b"BEFORE".as_ptr(), 6) };
    recorder.finish();
}
