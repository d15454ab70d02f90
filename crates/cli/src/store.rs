//! `optik store`: offline maintenance of a data directory that no server is using.

use crate::error::CliError;
use bytes::Bytes;
use clap::{Args, Subcommand};
use optik_store::{OpenError, Options, Retention, Revision, Store, StoreStatus};
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Verifies the integrity of the data directory
    Check(DataDirectoryArgs),
    /// Compacts old revisions and frees their disk space
    Compact {
        #[command(flatten)]
        directory: DataDirectoryArgs,
        /// The oldest revision to keep; the newest if not given
        #[arg(long, value_name = "N")]
        revision: Option<u64>,
    },
    /// Saves everything, with its revisions, into one file
    ///
    /// A running server gives the same file to `etcdctl snapshot save`, if it was
    /// started with --etcd-listen.
    Snapshot {
        #[command(flatten)]
        directory: DataDirectoryArgs,
        /// The file to write; it must not exist
        file: PathBuf,
    },
    /// Makes a new data directory out of a snapshot
    Restore {
        #[command(flatten)]
        directory: DataDirectoryArgs,
        /// The snapshot to read
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct DataDirectoryArgs {
    /// The data directory
    #[arg(long = "data", value_name = "DIR", default_value_os_t = default_data_directory(), env = "OPTIK_DATA")]
    pub(crate) path: PathBuf,
}

/// The default data directory, in the system's place for application data.
pub(crate) fn default_data_directory() -> PathBuf {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/share"));
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
    let data = data.filter(|path| path.is_absolute()).or_else(home);
    data.unwrap_or_else(|| PathBuf::from(".")).join("optik")
}

pub(crate) async fn run(command: StoreCommand) -> Result<(), CliError> {
    match command {
        StoreCommand::Check(directory) => check(&directory.path).await,
        StoreCommand::Compact {
            directory,
            revision,
        } => compact(&directory.path, revision).await,
        StoreCommand::Snapshot { directory, file } => snapshot(&directory.path, &file).await,
        StoreCommand::Restore { directory, file } => restore(&file, &directory.path),
    }
}

/// Opens an existing store, with expiry and compaction turned off.
fn open(path: &Path) -> Result<Store, CliError> {
    if !path.join("format").exists() {
        let text = format!("{} holds no data of Optik", path.display());
        return Err(CliError::from_message(text));
    }
    let options = Options {
        retention: Retention::FOREVER,
        ..Options::directory(path)
    };
    Store::open(options).map_err(open_error)
}

pub(crate) fn open_error(cause: OpenError) -> CliError {
    let hint = match &cause {
        OpenError::InUse { .. } => Some("Is a server running on it? Stop it first."),
        OpenError::NewerFormat { .. } => Some("Use the Optik that wrote it, or a newer one."),
        OpenError::NotADataDirectory { .. } => Some("Name an empty or new directory with --data."),
        OpenError::PermissionsTooOpen { .. } => {
            Some("Name a directory of your own with --data, for example a new one inside it.")
        }
        OpenError::Damaged { .. } => Some("Nothing has been thrown away."),
        _ => None,
    };
    let failure = CliError::new("cannot open the data directory", cause);
    match hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

async fn status(store: &Store) -> Result<StoreStatus, CliError> {
    let status = store.status().await;
    status.map_err(|cause| CliError::new("cannot read the store's status", cause))
}

async fn check(path: &Path) -> Result<(), CliError> {
    let store = open(path)?;
    let status = status(&store).await?;
    store.close().await;
    print_line(&format!(
        "{} is intact: revision {} (history from {}), {} keys with {} bytes, {} bytes on disk",
        path.display(),
        status.revision,
        status.oldest,
        status.live.keys,
        status.live.bytes,
        status.disk_bytes,
    ));
    if let Some(disk) = status.disk {
        print_line(&format!(
            "of these, live {} bytes, history {}, garbage {}",
            disk.live_bytes, disk.history_bytes, disk.garbage_bytes
        ));
    }
    Ok(())
}

async fn compact(path: &Path, revision: Option<u64>) -> Result<(), CliError> {
    let store = open(path)?;
    let before = status(&store).await?;
    let target = revision.map_or(before.revision, Revision::new);
    if target > before.oldest {
        let compacted = store.compact(target).await;
        compacted.map_err(|cause| CliError::new("cannot compact", cause))?;
    }
    let shrunk = store.defragment().await;
    shrunk.map_err(|cause| CliError::new("cannot give space back", cause))?;
    let after = status(&store).await?;
    store.close().await;
    print_line(&format!(
        "compacted to revision {target}: {} bytes on disk, {} before",
        after.disk_bytes, before.disk_bytes
    ));
    Ok(())
}

async fn snapshot(path: &Path, file: &Path) -> Result<(), CliError> {
    let store = open(path)?;
    let export = store.export().await;
    let export = export.map_err(|cause| CliError::new("cannot read the store", cause))?;
    let (revision, bytes) = (export.revision(), export.bytes());
    let failed = |cause| CliError::new(format!("cannot write {}", file.display()), cause);
    write_durably(file, export).map_err(failed)?;
    store.close().await;
    print_line(&format!(
        "{} holds revision {revision} in {bytes} bytes",
        file.display()
    ));
    Ok(())
}

/// Writes a new file that only its owner can read, and makes it durable (fsync of file and
/// directory).
fn write_durably(file: &Path, pieces: impl Iterator<Item = Bytes>) -> io::Result<()> {
    let fresh = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)?;
    let mut out = BufWriter::new(fresh);
    for piece in pieces {
        out.write_all(&piece)?;
    }
    out.into_inner()
        .map_err(io::IntoInnerError::into_error)?
        .sync_all()?;
    let directory = file.parent().filter(|path| !path.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

fn restore(file: &Path, path: &Path) -> Result<(), CliError> {
    let input = File::open(file)
        .map_err(|cause| CliError::new(format!("cannot read {}", file.display()), cause))?;
    let restored = optik_store::restore(BufReader::new(input), path)
        .map_err(|cause| CliError::new("cannot restore", cause))?;
    print_line(&format!(
        "{} is at revision {} with {} versions; start it with `optik serve --data {}`",
        path.display(),
        restored.revision,
        restored.versions,
        path.display()
    ));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the answer is what was asked for")]
fn print_line(text: &str) {
    println!("{text}");
}
