//! Tests of the command line.

use optik_store::{Options, Origin, Put, Store, Txn};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn optik(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_optik"));
    command.args(words).output().expect("runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Checks the exit code and both streams; returns stdout.
fn expect(words: &[&str], code: i32, stdout: &str, stderr: &str) -> String {
    let output = optik(words);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{words:?}: {out}{err}");
    assert!(out.contains(stdout), "{words:?}: {out:?} lacks {stdout:?}");
    assert!(err.contains(stderr), "{words:?}: {err:?} lacks {stderr:?}");
    out
}

async fn filled(directory: &Path, commits: usize) -> Store {
    let store = Store::open(Options::directory(directory)).expect("opens");
    for number in 0..commits {
        let put = Put::new(format!("k{}", number % 3), vec![b'v'; 2000]);
        let done = store.commit(Txn::put(put), Origin::default()).await;
        done.expect("commits");
    }
    store
}

#[tokio::test]
async fn store_check_snapshot_restore_and_compact_commands() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = |name: &str| scratch.path().join(name).to_string_lossy().into_owned();
    let (data, saved, restored) = (path("data"), path("saved"), path("restored"));
    let store = filled(Path::new(&data), 30).await;

    let in_use = "is in use by another process\n  Is a server running on it?";
    expect(&["store", "check", "--data", &data], 1, "", in_use);
    store.close().await;
    drop(store);

    let whole = "is intact: revision 31 (history from 1), 3 keys with 6006 bytes";
    expect(&["store", "check", "--data", &data], 0, whole, "");
    let snapshot = ["store", "snapshot", "--data", &data, &saved];
    expect(&snapshot, 0, "holds revision 31", "");
    expect(&snapshot, 1, "", "cannot write");
    let restore = ["store", "restore", "--data", &restored, &saved];
    expect(&restore, 0, "is at revision 31 with 30 versions", "");
    expect(&restore, 1, "", "already contains data");
    expect(&["store", "check", "--data", &restored], 0, whole, "");
    expect(
        &["store", "compact", "--data", &restored],
        0,
        "compacted to revision 31",
        "",
    );
    let swept = "is intact: revision 31 (history from 31), 3 keys with 6006 bytes";
    expect(&["store", "check", "--data", &restored], 0, swept, "");
    expect(
        &["store", "check", "--data", &path("none")],
        1,
        "",
        "holds no data of Optik",
    );
}

#[test]
fn usage_errors_exit_64() {
    expect(&["serve", "--nonsense"], 64, "", "unexpected argument");
    expect(
        &["serve", "--ephemeral", "--etcd", "http://127.0.0.1:1"],
        64,
        "",
        "cannot be used with",
    );
    expect(
        &["serve", "--history-age", "soon"],
        64,
        "",
        "must begin with a number",
    );
    expect(&["--log", "=loud=", "store", "check"], 64, "", "--log");
    let public = ["serve", "--ephemeral", "--listen", "127.0.0.1:0"];
    for port in ["--etcd-listen", "--listen-http"] {
        let words = [&public[..], &[port, "0.0.0.0:2379"]].concat();
        expect(&words, 64, "", "Use a loopback address");
    }
    for interval in ["--certificate-check-interval", "--compaction-interval"] {
        let words = [&public[..], &[interval, "0s"]].concat();
        expect(&words, 64, "", "is zero");
    }
    expect(&["--help"], 0, "Runs the server", "");
    expect(&["--version"], 0, "optik 0.1.0", "");
}

#[test]
fn serve_errors_name_unusable_files_and_addresses() {
    let scratch = tempfile::tempdir().expect("a directory");
    let empty = scratch.path().join("empty.pem");
    std::fs::write(&empty, "nothing").expect("writes");
    let empty = empty.to_string_lossy().into_owned();
    let free = ["serve", "--ephemeral", "--listen", "127.0.0.1:0"];
    for flag in ["--client-ca-file", "--service-account-signing-key-file"] {
        let words = [&free[..], &[flag, &empty]].concat();
        expect(&words, 1, "", &format!("cannot use {empty}"));
        let words = [&free[..], &[flag, "/none"]].concat();
        expect(&words, 1, "", "cannot read /none");
    }
    let elsewhere = ["serve", "--ephemeral", "--listen", "192.0.2.1:1"];
    expect(&elsewhere, 1, "", "This machine has no such address.");
}

/// Starts a server, and stops it when it is ready; returns its output before and after that.
fn serve_once(data: &str) -> (String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_optik"))
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(["--etcd-listen", "127.0.0.1:0", "--data", data])
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
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).expect("text");
    (banner, rest)
}

/// The server prints a banner when it is ready, stops on a signal, and leaves an intact store. The
/// second start finds the data, and prints no warnings.
#[test]
fn serve_prints_its_banner_and_stops_cleanly() {
    let scratch = tempfile::tempdir().expect("a directory");
    let data = scratch.path().join("data").to_string_lossy().into_owned();
    for (time, keys) in [("first", "revision 1, 0 keys"), ("second", "revision ")] {
        let (banner, rest) = serve_once(&data);
        for part in [
            "is ready after",
            &data,
            keys,
            "etcdctl --endpoints 127.0.0.1:",
            "https://127.0.0.1:",
            "export KUBECONFIG=",
            "kubectl get namespaces",
        ] {
            assert!(
                banner.contains(part),
                "{banner} lacks {part} the {time} time"
            );
        }
        assert!(!banner.contains("WARN"), "{banner}");
        assert_eq!(
            rest,
            "shutting down; press Ctrl-C again to exit immediately\n"
        );
    }
    expect(
        &["store", "check", "--data", &data],
        0,
        "is intact: revision ",
        "",
    );
}
