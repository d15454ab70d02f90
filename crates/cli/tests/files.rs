//! Tests of file permissions: files with objects or keys are readable for their owner only, under
//! any umask, also where an earlier version or a user has made them readable for others.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The binary, started by a shell with a umask that makes new files readable for all users.
fn optik() -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", r#"umask 022; exec "$0" "$@""#]);
    command.arg(env!("CARGO_BIN_EXE_optik"));
    command
}

fn run(words: &[&str]) -> Output {
    let output = optik().args(words).output().expect("runs");
    assert!(output.status.success(), "{words:?}: {output:?}");
    output
}

/// Starts a server and stops it when it is ready; returns its banner.
fn serve_once(words: &[&str]) -> String {
    let mut child = optik()
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(words)
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut banner = String::new();
    while !banner.contains("Ctrl-C") {
        assert!(stderr.read_line(&mut banner).expect("text") > 0, "{banner}");
    }
    let pid = child.id().to_string();
    let killed = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(killed.expect("kill runs").success());
    assert_eq!(child.wait().expect("ends").code(), Some(0));
    banner
}

fn mode(path: &Path) -> u32 {
    let found = fs::metadata(path).expect("is there");
    found.permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
}

/// All files in a directory, and the directory itself.
fn tree(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.to_owned()];
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a directory") {
            found.extend(tree(&entry.expect("an entry").path()));
        }
    }
    found
}

/// The permissions of other users, where they have any. Certificates are public.
fn open_to_others(path: &Path) -> BTreeMap<PathBuf, String> {
    let public = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "crt");
    let all = tree(path).into_iter().filter(|path| !public(path));
    all.map(|path| (mode(&path), path))
        .filter(|(mode, _)| mode & 0o077 != 0)
        .map(|(mode, path)| (path, format!("{mode:o}")))
        .collect()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[test]
fn data_directory_is_private() {
    let scratch = tempfile::tempdir().expect("a directory");
    let data = scratch.path().join("data");
    serve_once(&["--data", text(&data)]);
    assert_eq!(open_to_others(&data), BTreeMap::new(), "made just now");
    for path in tree(&data) {
        set_mode(&path, if path.is_dir() { 0o755 } else { 0o644 });
    }
    serve_once(&["--data", text(&data)]);
    assert_eq!(open_to_others(&data), BTreeMap::new(), "left by somebody");
    assert_eq!(mode(&data), 0o700);
    assert_eq!(mode(&data.join("pki/ca.crt")), 0o644);
}

#[test]
fn existing_empty_data_directory_becomes_private() {
    let scratch = tempfile::tempdir().expect("a directory");
    let data = scratch.path().join("data");
    fs::create_dir(&data).expect("made");
    set_mode(&data, 0o755);
    serve_once(&["--data", text(&data)]);
    assert_eq!(open_to_others(&data), BTreeMap::new());
}

/// `optik serve --data $HOME` by mistake must not change the mode of the directory.
#[test]
fn foreign_directory_keeps_its_mode() {
    let scratch = tempfile::tempdir().expect("a directory");
    let theirs = scratch.path().join("theirs");
    fs::create_dir(&theirs).expect("made");
    fs::write(theirs.join("letter"), "dear").expect("written");
    set_mode(&theirs, 0o755);
    let words = ["serve", "--listen", "127.0.0.1:0", "--data", text(&theirs)];
    let output = optik().args(words).output().expect("runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(mode(&theirs), 0o755);
}

#[test]
fn snapshots_and_restored_directories_are_private() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = |name: &str| scratch.path().join(name);
    let (data, saved, restored) = (path("data"), path("saved"), path("restored"));
    serve_once(&["--data", text(&data)]);
    run(&["store", "snapshot", "--data", text(&data), text(&saved)]);
    assert_eq!(mode(&saved), 0o600);
    run(&["store", "restore", "--data", text(&restored), text(&saved)]);
    run(&["store", "compact", "--data", text(&restored)]);
    assert_eq!(open_to_others(&restored), BTreeMap::new());
}

#[test]
fn keys_and_audit_logs_in_custom_paths_are_private() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = |name: &str| scratch.path().join(name);
    let (certs, log, policy) = (path("certs"), path("audit.log"), path("policy.yaml"));
    let rules = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";
    fs::write(&policy, rules).expect("written");
    let (kubeconfig, data) = (path("kubeconfig"), path("data"));
    let words = [
        ["--cert-dir", text(&certs)],
        ["--kubeconfig-out", text(&kubeconfig)],
        ["--audit-policy-file", text(&policy)],
        ["--audit-log-path", text(&log)],
        ["--data", text(&data)],
    ]
    .concat();
    serve_once(&words);
    let secret = ["ca.key", "apiserver.key", "admin.key", "sa.key"].map(|key| certs.join(key));
    let secret = secret.into_iter().chain([log.clone(), kubeconfig.clone()]);
    let secret: Vec<PathBuf> = secret.collect();
    for round in ["made just now", "left by somebody"] {
        for file in &secret {
            assert_eq!(mode(file), 0o600, "{}: {round}", file.display());
            set_mode(file, 0o644);
        }
        serve_once(&words);
    }
}

/// The store accepts an empty directory only, so the log is created after it.
#[test]
fn audit_log_may_be_in_a_new_data_directory() {
    let scratch = tempfile::tempdir().expect("a directory");
    let (data, policy) = (
        scratch.path().join("data"),
        scratch.path().join("policy.yaml"),
    );
    let rules = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";
    fs::write(&policy, rules).expect("written");
    let log = data.join("audit.log");
    let words = [
        ["--data", text(&data)],
        ["--audit-policy-file", text(&policy)],
        ["--audit-log-path", text(&log)],
    ];
    serve_once(&words.concat());
    assert!(log.exists(), "{}", log.display());
}

/// An existing certificate directory may be readable for other users: its mode is not changed, but
/// the modes of our keys are. A user who can write to it could replace them.
#[test]
fn cert_dir_keeps_its_mode() {
    const WARNING: &str =
        "certificate directory is writable by other users, who could replace its keys";
    let scratch = tempfile::tempdir().expect("a directory");
    for (open, warned) in [(0o755, false), (0o775, true), (0o777, true)] {
        let certs = scratch.path().join(format!("{open:o}"));
        fs::create_dir(&certs).expect("made");
        set_mode(&certs, open);
        let words = ["--ephemeral", "--cert-dir", text(&certs)];
        let said = serve_once(&words);
        assert_eq!(said.contains(WARNING), warned, "{open:o}: {said}");
        for key in ["ca.key", "apiserver.key", "admin.key", "sa.key"] {
            set_mode(&certs.join(key), 0o644);
        }
        serve_once(&words);
        let directory = [(certs.clone(), format!("{open:o}"))];
        assert_eq!(open_to_others(&certs), BTreeMap::from(directory));
    }
}

/// Earlier versions made them readable for all users.
#[test]
fn rotated_audit_logs_are_private() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = |name: &str| scratch.path().join(name);
    let (log, policy) = (path("audit.log"), path("policy.yaml"));
    let rules = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";
    fs::write(&policy, rules).expect("written");
    let before = ["2025-11-15T18-00-46.832", "2026-01-15T18-00-46.832"];
    let before = before.map(|time| path(&format!("audit-{time}.log")));
    let theirs = path("audit-of-somebody-else.log");
    for file in before.iter().chain([&theirs]) {
        fs::write(file, "{}\n").expect("written");
        set_mode(file, 0o644);
    }
    let words = [
        "--ephemeral",
        "--audit-policy-file",
        text(&policy),
        "--audit-log-path",
        text(&log),
    ];
    serve_once(&words);
    for file in before.iter().chain([&log]) {
        assert_eq!(mode(file), 0o600, "{}", file.display());
    }
    assert_eq!(mode(&theirs), 0o644);
}
