//! WIRE-91: the binary under the names that Go test suites start.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

fn assets(directory: &Path) -> PathBuf {
    let output = Command::new(env!("CARGO_BIN_EXE_optik"))
        .args(["envtest-assets", "--dir"])
        .arg(directory)
        .output()
        .expect("runs");
    assert!(output.status.success(), "{output:?}");
    PathBuf::from(String::from_utf8(output.stdout).expect("text").trim_end())
}

/// A program that has printed that it is ready, and its output until then.
fn start(program: &Path, words: &[String]) -> (Child, String) {
    let mut child = Command::new(program)
        .args(words)
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut said = String::new();
    while !said.contains("Ctrl-C") {
        assert!(stderr.read_line(&mut said).expect("text") > 0, "{said}");
    }
    // The pipe stays open, so that later output does not fail.
    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    (child, said)
}

fn stop(mut child: Child) {
    let pid = child.id().to_string();
    let killed = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(killed.expect("kill runs").success());
    assert_eq!(child.wait().expect("ends").code(), Some(0));
}

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("has one").to_string()
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sends");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer
}

/// NODE-110.
#[test]
fn envtest_programs_start_with_envtest_flags() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = |name: &str| scratch.path().join(name).display().to_string();
    let assets = assets(&scratch.path().join("assets"));
    let (etcd, api) = (free_address(), free_address());
    std::fs::create_dir(path("data")).expect("made");
    std::fs::create_dir(path("certs")).expect("made");
    std::fs::write(path("certs/ca.crt"), "not ours").expect("written");

    let (store, _) = start(
        &assets.join("etcd"),
        &[
            format!("--advertise-client-urls=http://{etcd}"),
            format!("--data-dir={}", path("data")),
            format!("--listen-client-urls=http://{etcd}"),
            format!("--listen-peer-urls=http://{}", free_address()),
            "--unsafe-no-fsync=true".to_owned(),
        ],
    );
    assert!(get(&etcd, "/health").starts_with("HTTP/1.1 200"));

    let (ip, port) = api.split_once(':').expect("both");
    let (server, said) = start(
        &assets.join("kube-apiserver"),
        &[
            "--allow-privileged=true".to_owned(),
            format!("--bind-address={ip}"),
            format!("--cert-dir={}", path("certs")),
            format!("--etcd-servers=http://{etcd}"),
            format!("--secure-port={port}"),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        ],
    );
    assert!(said.contains(&format!("https://{api}")), "{said}");
    assert!(
        said.contains("allow-privileged"),
        "nothing says it is ignored: {said}"
    );
    let kept = std::fs::read_to_string(path("certs/ca.crt")).expect("still there");
    assert_eq!(kept, "not ours");
    stop(server);
    stop(store);
}
