//! G21, G22: external faults give a clear error and lose nothing.

use optik_crash::{Call, Fault, Image, Recorder, scratch_dir};
use optik_store::{
    CommitError, Durability, KeyRange, OpenError, Options, Origin, Put, Retention, Revision, Store,
    Txn, TxnError,
};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

fn options(directory: &Path) -> Options {
    Options {
        segment_bytes: 16 << 10,
        retention: Retention::FOREVER,
        ..Options::directory(directory)
    }
}

async fn put(store: &Store, number: u64) -> Result<Revision, CommitError> {
    let put = Put::new(format!("k{number:05}"), vec![b'v'; 500]);
    let done = store.commit(Txn::put(put), Origin::default()).await;
    done.map(|result| result.revision)
}

async fn filled(directory: &Path, commits: u64) -> Store {
    let store = Store::open(options(directory)).expect("opens");
    for number in 0..commits {
        put(&store, number).await.expect("commits");
    }
    store
}

fn keys(store: &Store) -> Vec<String> {
    let snapshot = store.snapshot();
    let entries = snapshot.entries(&KeyRange::all());
    entries
        .map(|v| String::from_utf8_lossy(v.key()).into_owned())
        .collect()
}

/// Writes until the store has recovered, as a client would.
async fn put_until_accepted(store: &Store, number: u64) -> Revision {
    let give_up = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        match put(store, number).await {
            Ok(revision) => return revision,
            Err(error) => assert!(tokio::time::Instant::now() < give_up, "{error}"),
        }
        tokio::task::yield_now().await;
    }
}

async fn accepts_writes(store: &Store) -> bool {
    store.status().await.expect("answers").accepts_writes
}

/// Injects each fault into a running store, then removes it.
async fn check_fault(
    name: &str,
    strike: impl Fn(&optik_crash::FaultInjector),
    expected: fn(&CommitError) -> bool,
) {
    let directory = scratch_dir().expect("a directory");
    let recorder = Recorder::faults_only(directory.path()).expect("records");
    let store = filled(directory.path(), 50).await;
    assert!(accepts_writes(&store).await, "{name}: at first");
    strike(&recorder.faults());
    let mut acknowledged = 50;
    let mut refused = None;
    for number in 50..400 {
        match put(&store, number).await {
            Ok(_) => acknowledged = number + 1,
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    let refused = refused.unwrap_or_else(|| panic!("{name}: nothing was refused"));
    assert!(expected(&refused), "{name}: {refused:?}");
    let before = store.snapshot().revision();
    assert_eq!(
        keys(&store).len() as u64,
        acknowledged,
        "{name}: reads go on"
    );
    assert!(
        put(&store, 900).await.is_err(),
        "{name}: writes stay refused"
    );

    assert!(!accepts_writes(&store).await, "{name}: it says so");

    recorder.faults().clear();
    // Without a write by another client.
    let recovers = async { while !accepts_writes(&store).await {} };
    let recovered = tokio::time::timeout(PATIENCE, recovers).await;
    assert!(recovered.is_ok(), "{name}: it never takes writes again");
    let after = put_until_accepted(&store, 901).await;
    assert_eq!(
        after,
        before.next(),
        "{name}: the refused writes took no revision"
    );
    assert_eq!(keys(&store).len() as u64, acknowledged + 1, "{name}");
    let expected = keys(&store);
    store.close().await;
    let store = Store::open(options(directory.path())).expect("opens again");
    assert_eq!(keys(&store), expected, "{name}: after a restart");
    store.close().await;
    drop(recorder);
}

/// Shows G21.
#[tokio::test]
async fn full_disk_refuses_writes_until_space_returns() {
    for bytes in [0, 1, 700, 5_000, 40_000] {
        check_fault(
            &format!("full after {bytes}"),
            |faults| faults.disk_full_after(bytes),
            |error| *error == CommitError::NoSpace || matches!(error, CommitError::Disk(_)),
        )
        .await;
    }
}

#[tokio::test]
async fn disk_io_errors_refuse_writes_until_disk_recovers() {
    type Case = (&'static str, fn() -> Fault);
    let cases: [Case; 4] = [
        ("sync fails", || {
            Fault::new(Call::Fdatasync, libc::EIO).on(".seg").forever()
        }),
        ("write fails", || {
            Fault::new(Call::Write, libc::EIO).on(".seg").forever()
        }),
        ("short write", || {
            Fault::new(Call::Write, libc::EIO)
                .on(".seg")
                .short(100)
                .forever()
        }),
        ("read-only", || {
            Fault::new(Call::Write, libc::EROFS).on(".seg").forever()
        }),
    ];
    for (name, fault) in cases {
        check_fault(
            name,
            |faults| faults.add(fault()),
            |error| matches!(error, CommitError::Disk(_)),
        )
        .await;
    }
}

#[tokio::test]
async fn open_error_names_unusable_directory() {
    let scratch = tempfile::tempdir().expect("a directory");
    let file = scratch.path().join("file");
    fs::write(&file, "x").expect("room");
    let error = Store::open(options(&file)).expect_err("a file is no directory");
    assert!(
        matches!(&error, OpenError::Io { path, .. } if *path == file),
        "{error:?}"
    );

    let foreign = scratch.path().join("foreign");
    fs::create_dir(&foreign).expect("room");
    fs::write(foreign.join("thesis.tex"), "x").expect("room");
    let error = Store::open(options(&foreign)).expect_err("not ours");
    assert!(error.to_string().contains("thesis.tex"), "{error}");

    let missing = scratch.path().join("a/b/c");
    let store = Store::open(options(&missing)).expect("is made");
    assert_eq!(put(&store, 1).await, Ok(Revision::new(2)));

    let error = Store::open(options(&missing)).expect_err("is in use");
    assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
    assert_eq!(put(&store, 2).await, Ok(Revision::new(3)));
    store.close().await;
}

#[tokio::test]
async fn open_error_names_read_only_disk() {
    let directory = scratch_dir().expect("a directory");
    let recorder = Recorder::faults_only(directory.path()).expect("records");
    recorder
        .faults()
        .add(Fault::new(Call::Create, libc::EROFS).forever());
    let error = Store::open(options(&directory.path().join("data"))).expect_err("read-only");
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    assert!(matches!(error, OpenError::Io { .. }), "{error:?}");
    assert!(cause.expect("a cause").contains("Read-only"), "{error:?}");
}

#[tokio::test]
async fn open_rejects_newer_directory_format() {
    let scratch = tempfile::tempdir().expect("a directory");
    let directory = scratch.path().join("data");
    filled(&directory, 3).await.close().await;
    let format = directory.join("format");
    let text = fs::read_to_string(&format).expect("there");
    assert_eq!(text, "optik-store 2\npower-loss\n");
    fs::write(&format, "optik-store 3\npower-loss\n").expect("room");
    let error = Store::open(options(&directory)).expect_err("newer");
    assert!(
        matches!(
            error,
            OpenError::NewerFormat {
                found: 3,
                known: 2,
                ..
            }
        ),
        "{error:?}"
    );
    fs::write(&format, text).expect("room");
    let store = Store::open(options(&directory)).expect("unharmed");
    assert_eq!(keys(&store).len(), 3);
    store.close().await;
}

#[tokio::test]
async fn commit_of_oversized_value_is_rejected() {
    let store = Store::open(Options::ephemeral()).expect("opens");
    let large = |bytes| Txn::put(Put::new("k", vec![0u8; bytes]));
    let most = Options::ephemeral().limits.bytes_max;
    let fits = store.commit(large(most - 1), Origin::default()).await;
    assert_eq!(fits.expect("just fits").revision, Revision::new(2));
    let error = store
        .commit(large(most), Origin::default())
        .await
        .expect_err("too large");
    let expected = TxnError::TooLarge {
        bytes: most + 1,
        bytes_max: most,
    };
    assert_eq!(error, CommitError::Txn(expected));
}

/// All files below a directory, recursively.
fn files(below: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(below).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The damage that can be done to a file with acknowledged data.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip(u64),
    CutTo(u64),
    Remove,
}

impl Damage {
    /// Applied in place: journals are preallocated, and mostly holes.
    fn apply(self, file: &Path) {
        let open = || {
            OpenOptions::new()
                .read(true)
                .write(true)
                .open(file)
                .expect("there")
        };
        match self {
            Self::Flip(at) => {
                let file = open();
                let mut byte = [0];
                file.read_exact_at(&mut byte, at).expect("there");
                file.write_all_at(&[byte[0] ^ 0x55], at).expect("room");
            }
            Self::CutTo(length) => open().set_len(length).expect("room"),
            Self::Remove => fs::remove_file(file).expect("there"),
        }
    }
}

/// After an orderly shutdown, damage to any file is either harmless or makes the store refuse to
/// open: a store never opens with less data than it had.
/// Shows G22.
#[tokio::test]
async fn damaged_data_directory_never_opens_with_less_data() {
    let scratch = scratch_dir().expect("a directory");
    let sound = scratch.path().join("sound");
    let store = filled(&sound, 300).await;
    let expected = keys(&store);
    store.close().await;
    drop(store);
    let image = Image::of_dir(&sound).expect("readable");
    let mut opened_with_less = Vec::new();
    for file in files(&sound) {
        let name = file.strip_prefix(&sound).expect("below").to_owned();
        let length = fs::metadata(&file).expect("there").len();
        let used = length.min(200_000);
        let mut harms = vec![Damage::Remove, Damage::CutTo(0)];
        if length > 0 {
            harms.push(Damage::CutTo(length / 2));
            harms.extend(
                (0..used)
                    .step_by(usize::try_from(used / 24 + 1).expect("small"))
                    .map(Damage::Flip),
            );
        }
        for harm in harms {
            let copied = scratch.path().join("harmed");
            fs::create_dir(&copied).expect("room");
            image.write_to(&copied).expect("room");
            harm.apply(&copied.join(&name));
            if let Ok(store) = Store::open(options(&copied)) {
                let found = keys(&store);
                if found != expected && !is_expected_loss(&name) {
                    opened_with_less.push(format!(
                        "{} {harm:?}: {} keys",
                        name.display(),
                        found.len()
                    ));
                }
                store.close().await;
            }
            fs::remove_dir_all(&copied).expect("ours");
        }
    }
    assert!(
        opened_with_less.is_empty(),
        "{}",
        opened_with_less.join("\n")
    );
}

/// A directory without `format` is new by design; its contents are set aside.
fn is_expected_loss(name: &Path) -> bool {
    name == Path::new("format")
}

#[tokio::test]
async fn process_crash_durability_is_recorded_and_keeps_data() {
    let scratch = tempfile::tempdir().expect("a directory");
    let relaxed = Options {
        durability: Durability::ProcessCrash,
        ..options(&scratch.path().join("data"))
    };
    let store = Store::open(relaxed.clone()).expect("opens");
    for number in 0..20 {
        put(&store, number).await.expect("commits");
    }
    let format = fs::read_to_string(scratch.path().join("data/format")).expect("there");
    assert_eq!(format, "optik-store 2\nprocess-crash\n");
    store.close().await;
    let store = Store::open(relaxed).expect("opens again");
    assert_eq!(keys(&store).len(), 20);
    store.close().await;
}
