//! Tests of the images after a crash.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use optik_crash::{CrashPoint, Durability, Image, Log, Policy, Recorder, scratch_dir};

const SEEDS: u64 = 200;

fn record(run: impl FnOnce(&Path, &Recorder) -> io::Result<()>) -> io::Result<Log> {
    let dir = scratch_dir()?;
    let recorder = Recorder::start(dir.path())?;
    run(dir.path(), &recorder)?;
    Ok(recorder.finish())
}

fn images(log: &Log, policy: Policy) -> impl Iterator<Item = Image> {
    (0..SEEDS).map(move |seed| log.image(log.end(), policy, seed))
}

/// Ten synced bytes of `a`, then ten of `b` that are not.
fn half_synced() -> io::Result<Log> {
    record(|dir, _| {
        let mut file = File::create(dir.join("f"))?;
        file.write_all(&[b'a'; 10])?;
        file.sync_all()?;
        file.write_all(&[b'b'; 10])
    })
}

#[test]
fn lose_unsynced_drops_unsynced_bytes() -> io::Result<()> {
    let log = half_synced()?;
    let image = log.image(log.end(), Policy::LoseUnsynced, 0);
    assert_eq!(image.read("f").as_deref(), Some(&b"aaaaaaaaaa"[..]));
    Ok(())
}

#[test]
fn cut_tail_cuts_at_every_byte() -> io::Result<()> {
    let log = half_synced()?;
    let lengths: BTreeSet<u64> = images(&log, Policy::CutTail)
        .map(|image| image.len("f").expect("it was synced"))
        .collect();
    assert_eq!(lengths, (10..=20).collect());
    Ok(())
}

#[test]
fn no_policy_changes_synced_bytes() -> io::Result<()> {
    let log = record(|dir, _| {
        let mut file = File::create(dir.join("f"))?;
        file.write_all(&vec![b'a'; 5000])?;
        file.sync_data()?;
        File::open(dir)?.sync_all()?;
        file.write_all(&vec![b'b'; 20_000])
    })?;
    let mut odd = BTreeSet::new();
    for policy in Policy::ALL {
        for image in images(&log, policy) {
            let bytes = image.read("f").expect("its name was synced");
            assert!(bytes[..5000].iter().all(|byte| *byte == b'a'), "{policy:?}");
            if bytes[5000..].contains(&0) {
                odd.insert("dropped");
            }
            if bytes[5000..].iter().any(|byte| !b"\0b".contains(byte)) {
                assert!(matches!(policy, Policy::Garbage | Policy::Mixed));
                odd.insert("garbage");
            }
        }
    }
    assert_eq!(odd.len(), 2);
    Ok(())
}

#[test]
fn unsynced_file_may_be_missing_and_synced_file_may_not() -> io::Result<()> {
    let log = record(|dir, _| {
        fs::create_dir_all(dir.join("d/e"))?;
        File::create(dir.join("d/e/synced"))?.sync_all()?;
        fs::write(dir.join("unsynced"), b"x")
    })?;
    let missing = images(&log, Policy::MissingFiles).filter(|image| !image.contains("unsynced"));
    assert!((1..SEEDS).contains(&(missing.count() as u64)));
    let kept = images(&log, Policy::MissingFiles).all(|image| image.contains("d/e/synced"));
    assert!(kept);

    // By the letter of POSIX even the synced file may be.
    let log = log.with_durability(Durability::Strict);
    let image = log.image(log.end(), Policy::LoseUnsynced, 0);
    assert!(image.is_empty());
    Ok(())
}

#[test]
fn strict_durability_requires_sync_of_every_parent_directory() -> io::Result<()> {
    let log = record(|dir, recorder| {
        fs::create_dir(dir.join("d"))?;
        File::create(dir.join("d/f"))?.sync_all()?;
        recorder.mark(1);
        File::open(dir.join("d"))?.sync_all()?;
        recorder.mark(2);
        File::open(dir)?.sync_all()
    })?;
    let log = log.with_durability(Durability::Strict);
    for point in log.points() {
        let image = log.image(point, Policy::LoseUnsynced, 0);
        let marks = log.marks(point).count();
        let at_end = point == log.end();
        assert_eq!(image.contains("d/f"), at_end, "after mark {marks}");
        for seed in 0..20 {
            let image = log.image(point, Policy::MissingFiles, seed);
            if marks >= 2 {
                assert_eq!(image.contains("d"), image.contains("d/f"));
            }
        }
    }
    Ok(())
}

#[test]
fn rename_is_durable_only_after_directory_sync() -> io::Result<()> {
    let log = record(|dir, recorder| {
        fs::write(dir.join("current"), b"old")?;
        File::open(dir.join("current"))?.sync_all()?;
        File::open(dir)?.sync_all()?;
        fs::write(dir.join("new"), b"new")?;
        File::open(dir.join("new"))?.sync_all()?;
        fs::rename(dir.join("new"), dir.join("current"))?;
        File::open(dir.join("current"))?.sync_all()?;
        recorder.mark(1);
        File::open(dir)?.sync_all()?;
        Ok(())
    })?;
    let undone = log.ops().len() - 1;
    let mut seen = BTreeSet::new();
    for seed in 0..SEEDS {
        let point = CrashPoint { op_index: undone };
        let image = log.image(point, Policy::MissingFiles, seed);
        let current = image.read("current").expect("one or the other");
        // Never neither, never both.
        assert_eq!(image.contains("new"), current == b"old");
        seen.insert(current);
    }
    assert_eq!(seen.len(), 2);
    for image in images(&log, Policy::Mixed) {
        assert_eq!(image.read("current").as_deref(), Some(&b"new"[..]));
    }
    Ok(())
}

#[test]
fn unsynced_unlink_may_be_undone() -> io::Result<()> {
    let log = record(|dir, _| {
        fs::write(dir.join("f"), b"x")?;
        File::open(dir.join("f"))?.sync_all()?;
        fs::remove_file(dir.join("f"))
    })?;
    let back = images(&log, Policy::MissingFiles)
        .filter(|image| image.read("f").as_deref() == Some(b"x"))
        .count() as u64;
    assert!((1..SEEDS).contains(&back));
    assert!(log.image(log.end(), Policy::KeepAll, 0).is_empty());
    Ok(())
}

#[test]
fn bytes_of_a_failed_fsync_stay_undurable() -> io::Result<()> {
    use optik_crash::{Call, Fault};
    let log = record(|dir, recorder| {
        let mut file = File::create(dir.join("f"))?;
        file.sync_all()?;
        recorder.faults().add(Fault::new(Call::Fsync, libc::EIO));
        file.write_all(b"lost")?;
        assert!(file.sync_all().is_err());
        file.write_all(b"kept")?;
        file.sync_all()
    })?;
    let image = log.image(log.end(), Policy::LoseUnsynced, 0);
    assert_eq!(image.read("f").as_deref(), Some(&b"\0\0\0\0kept"[..]));
    let image = log.image(log.end(), Policy::KeepAll, 0);
    assert_eq!(image.read("f").as_deref(), Some(&b"lostkept"[..]));
    Ok(())
}

#[test]
fn image_is_deterministic_for_its_arguments() -> io::Result<()> {
    let log = record(|dir, _| {
        let mut file = File::create(dir.join("f"))?;
        for number in 0..2000u32 {
            file.write_all(&number.to_le_bytes())?;
            if number % 7 == 0 {
                file.sync_data()?;
            }
        }
        Ok(())
    })?;
    let dir = scratch_dir()?;
    for op_index in [2000, 3, 1500, 1501, 700] {
        for policy in Policy::ALL {
            let point = CrashPoint { op_index };
            let image = log.image(point, policy, 9);
            assert!(image.differences(&log.image(point, policy, 9)).is_empty());
            image.write_to(dir.path())?;
            assert!(image.differences(&Image::of_dir(dir.path())?).is_empty());
        }
    }
    Ok(())
}
