//! Tests of fault injection.

use std::fs::{self, File};
use std::io::{self, Write};

use optik_crash::{Call, Fault, Op, Policy, Recorder, scratch_dir};

fn errno<T: std::fmt::Debug>(result: io::Result<T>) -> i32 {
    result
        .expect_err("a fault was set")
        .raw_os_error()
        .expect("from the system")
}

#[test]
fn full_disk_writes_short_then_fails_with_enospc() -> io::Result<()> {
    let dir = scratch_dir()?;
    let recorder = Recorder::start(dir.path())?;
    let faults = recorder.faults();
    let mut file = File::create(dir.path().join("f"))?;
    faults.disk_full_after(6);
    assert_eq!(errno(file.write_all(b"0123456789")), libc::ENOSPC);
    assert_eq!(errno(file.write_all(b"0123456789")), libc::ENOSPC);
    assert_eq!(errno(fs::write(dir.path().join("g"), b"x")), libc::ENOSPC);
    assert_eq!(faults.triggered(), 3);
    faults.clear();
    file.write_all(b"6789")?;
    fs::write(scratch_dir()?.path().join("elsewhere"), b"x")?;
    let log = recorder.finish();
    let image = log.image(log.end(), Policy::KeepAll, 0);
    assert_eq!(image.read("f").as_deref(), Some(&b"0123456789"[..]));
    assert_eq!(image.read("g").as_deref(), Some(&b""[..]));
    Ok(())
}

#[test]
fn injected_fault_fails_each_call_with_its_errno() -> io::Result<()> {
    let dir = scratch_dir()?;
    let recorder = Recorder::start(dir.path())?;
    let faults = recorder.faults();
    let name = dir.path().join("f");

    faults.add(Fault::new(Call::Create, libc::EROFS));
    assert_eq!(errno(File::create(&name)), libc::EROFS);
    let mut file = File::create(&name)?;

    faults.add(Fault::new(Call::Write, libc::EIO).skip(1).short(2));
    file.write_all(b"abc")?;
    assert_eq!(file.write(b"def")?, 2);
    assert_eq!(errno(file.write(b"f")), libc::EIO);
    assert_eq!(file.write(b"f")?, 1);

    faults.add(Fault::new(Call::Fsync, libc::EIO).times(2));
    assert_eq!(errno(file.sync_all()), libc::EIO);
    file.sync_data()?;
    assert_eq!(errno(file.sync_all()), libc::EIO);
    file.sync_all()?;

    faults.add(Fault::new(Call::Fdatasync, libc::EIO).forever().on("f"));
    assert_eq!(errno(file.sync_data()), libc::EIO);
    assert_eq!(errno(file.sync_data()), libc::EIO);
    faults.clear();
    file.sync_data()?;

    faults.add(Fault::new(Call::Truncate, libc::ENOSPC));
    assert_eq!(errno(file.set_len(1 << 20)), libc::ENOSPC);
    faults.add(Fault::new(Call::SyncDir, libc::EIO));
    assert_eq!(errno(File::open(dir.path())?.sync_all()), libc::EIO);
    faults.add(Fault::new(Call::Rename, libc::ENOSPC));
    let to = dir.path().join("g");
    assert_eq!(errno(fs::rename(&name, &to)), libc::ENOSPC);
    faults.add(Fault::new(Call::Unlink, libc::EROFS));
    assert_eq!(errno(fs::remove_file(&name)), libc::EROFS);
    faults.add(Fault::new(Call::CreateDir, libc::ENOSPC));
    assert_eq!(errno(fs::create_dir(dir.path().join("d"))), libc::ENOSPC);

    let log = recorder.finish();
    let failed = log
        .ops()
        .iter()
        .filter(|op| matches!(op, Op::SyncFailed { .. }));
    assert_eq!(failed.count(), 4);
    assert_eq!(fs::read(name)?, b"abcdef");
    Ok(())
}
