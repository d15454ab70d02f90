//! Connections do not use up the file descriptors that the store needs.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use support::Server;

const PATIENCE: Duration = Duration::from_secs(60);
const FILES: u32 = 200;
/// Enough that the store has to create new files.
const WRITES: usize = 80;
const WRITE_BYTES: usize = 1 << 20;

/// One connection over plain HTTP.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Self(BufReader::new(stream))
    }

    /// The status and the body of the response.
    fn send(&mut self, request: &str, body: &str) -> (u16, String) {
        let length = body.len();
        let head =
            format!("{request} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
        let stream = self.0.get_mut();
        stream.write_all(head.as_bytes()).expect("sends");
        stream.write_all(body.as_bytes()).expect("sends");
        let mut line = String::new();
        self.0.read_line(&mut line).expect("an answer in time");
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let mut length = 0;
        while line != "\r\n" {
            line.clear();
            self.0.read_line(&mut line).expect("a whole head");
            let value = line.to_ascii_lowercase();
            if let Some(value) = value.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a number");
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).expect("a whole body");
        let status = status.unwrap_or_else(|| panic!("no status"));
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    fn create(&mut self, name: &str) -> (u16, String) {
        let filler = "x".repeat(WRITE_BYTES - 4096);
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"a":"{filler}"}}}}"#
        );
        self.send(
            "POST /api/v1/namespaces/default/configmaps?pretty=false&fieldManager=t",
            &body,
        )
    }
}

/// Idle connections on every port, more than there are file descriptors.
#[test]
fn silent_connections_do_not_starve_store_or_clients() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory
        .path()
        .join("kubeconfig")
        .to_string_lossy()
        .into_owned();
    let more = [
        "--listen-http",
        "127.0.0.1:0",
        "--etcd-listen",
        "127.0.0.1:0",
        "--kubeconfig-out",
        &out,
    ];
    let server = Server::start_with_files(FILES, &directory.path().join("data"), &more);
    let address = |begins: &str| server.url(begins).replace("http://", "");
    let (plain, etcd) = (address("http://"), address("etcd "));
    let mut first = Client::connect(&plain);
    assert_eq!(first.create("first").0, 201);
    let mut silent = Vec::new();
    for _ in 0..FILES {
        for address in [&plain, &etcd] {
            silent.push(TcpStream::connect(address).expect("the system takes it"));
        }
    }
    let (status, text) = Client::connect(&plain).send("GET /readyz", "");
    assert_eq!(
        (status, text.as_str()),
        (200, "ok"),
        "there is room for others"
    );
    for number in 0..WRITES {
        let (status, text) = first.create(&format!("later-{number}"));
        assert_eq!(status, 201, "write {number}: {text}");
    }
    let (status, text) = first.send("GET /readyz", "");
    assert_eq!((status, text.as_str()), (200, "ok"));
    drop(silent);
    server.kill();
}
