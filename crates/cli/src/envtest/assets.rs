//! `optik envtest-assets`: a directory of programs for Go test suites (`KUBEBUILDER_ASSETS`).

use crate::error::CliError;
use clap::Args;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct EnvtestAssets {
    /// Make the directory here
    #[arg(long, value_name = "DIR", default_value_os_t = default_directory())]
    dir: PathBuf,
}

fn default_directory() -> PathBuf {
    let home = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = home.filter(|home| home.is_absolute());
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let version = concat!("envtest-", env!("CARGO_PKG_VERSION"));
    home.unwrap_or_else(std::env::temp_dir)
        .join("optik")
        .join(version)
}

/// Creates the directory and prints its path.
pub(crate) fn run(assets: &EnvtestAssets) -> Result<(), CliError> {
    let directory = std::path::absolute(&assets.dir).unwrap_or_else(|_| assets.dir.clone());
    let failed = |cause| CliError::new(format!("cannot make {}", directory.display()), cause);
    let ours = std::env::current_exe().map_err(failed)?;
    fs::create_dir_all(&directory).map_err(failed)?;
    for program in super::PROGRAMS {
        link(&ours, &directory.join(program.name)).map_err(failed)?;
    }
    if let Some(kubectl) = find_in_path("kubectl", &directory) {
        link(&kubectl, &directory.join("kubectl")).map_err(failed)?;
    }
    print_path(&directory);
    Ok(())
}

/// Links a name to a program, atomically: a test suite may be starting it.
fn link(program: &Path, name: &Path) -> io::Result<()> {
    if fs::read_link(name).is_ok_and(|target| target == program) {
        return Ok(());
    }
    let fresh = name.with_extension(format!("{}.new", std::process::id()));
    symlink(program, &fresh)?;
    fs::rename(&fresh, name)
}

/// Searches `PATH` for a program, except in the directory `besides`.
fn find_in_path(name: &str, besides: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    find_in(&path, name, besides)
}

fn find_in(path: &OsStr, name: &str, besides: &Path) -> Option<PathBuf> {
    std::env::split_paths(path)
        .filter(|directory| directory.is_absolute() && directory != besides)
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
}

#[expect(clippy::print_stdout, reason = "the answer is what was asked for")]
fn print_path(directory: &Path) {
    println!("{}", directory.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envtest_links_can_be_repointed() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name);
        for program in ["one", "two"] {
            fs::write(path(program), program).unwrap();
            link(&path(program), &path("etcd")).unwrap();
            link(&path(program), &path("etcd")).unwrap();
            assert_eq!(fs::read_to_string(path("etcd")).unwrap(), program);
        }
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 3);
    }

    #[test]
    fn envtest_kubectl_is_not_linked_to_itself() {
        let scratch = tempfile::tempdir().unwrap();
        let (here, there) = (scratch.path().join("here"), scratch.path().join("there"));
        for directory in [&here, &there] {
            fs::create_dir(directory).unwrap();
            fs::write(directory.join("kubectl"), "").unwrap();
        }
        let path = std::env::join_paths([&here, &there]).unwrap();
        assert_eq!(
            find_in(&path, "kubectl", &here),
            Some(there.join("kubectl"))
        );
        assert_eq!(find_in(&path, "nosuch", &here), None);
    }
}
