//! Server processes with a port without authentication, and requests to it.

use optik_platform::{Clock, SystemClock};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The limit of every wait.
const WAIT_MAX: Duration = Duration::from_secs(60);
const POLL_PERIOD: Duration = Duration::from_millis(50);

pub(crate) struct ServerProcess {
    child: Child,
    said: Arc<Mutex<String>>,
}

impl ServerProcess {
    /// Starts a server with its own home directory.
    pub(crate) fn start(home: &Path, words: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_optik"));
        let command = command.arg("serve").args(words).env("HOME", home);
        let command = command
            .env_remove("XDG_DATA_HOME")
            .env_remove("XDG_RUNTIME_DIR");
        Self::start_as(command, "Ctrl-C")
    }

    /// Starts another program, which prints `ready` on stderr when it is ready.
    pub(crate) fn start_as(command: &mut Command, ready: &str) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let said = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&said);
        std::thread::spawn(move || {
            let mut line = String::new();
            while stderr.read_line(&mut line).is_ok_and(|read| read > 0) {
                lock(&heard).push_str(&line);
                line.clear();
            }
        });
        let server = Self { child, said };
        server.wait_for(ready);
        server
    }

    /// Starts the API on etcd, on free ports.
    pub(crate) fn on_etcd(home: &Path, etcd: &str, more: &[&str]) -> Self {
        let words = [
            "--listen=127.0.0.1:0",
            "--listen-http=127.0.0.1:0",
            "--etcd",
            etcd,
        ];
        Self::start(home, &[&words[..], more].concat())
    }

    pub(crate) fn stderr_text(&self) -> String {
        lock(&self.said).clone()
    }

    /// Waits until it prints `text` on stderr.
    pub(crate) fn wait_for(&self, text: &str) {
        let what = format!("the server says {text:?}");
        eventually(&what, || self.stderr_text().contains(text).then_some(()));
    }

    /// The rest of the banner line that begins with `begins`.
    pub(crate) fn banner(&self, begins: &str) -> String {
        let said = self.stderr_text();
        let mut lines = said.lines().map(str::trim);
        let found = lines.find_map(|line| line.strip_prefix(begins));
        let found = found.unwrap_or_else(|| panic!("{said} lacks {begins}"));
        found
            .trim()
            .split([',', ' '])
            .next()
            .unwrap_or_default()
            .to_owned()
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &pid]).status();
        assert!(sent.expect("kill runs").success());
    }

    pub(crate) fn stop(mut self) {
        self.signal("-TERM");
        assert_eq!(self.child.wait().expect("ends").code(), Some(0));
    }

    /// Like [`Self::stop`], for a program that exits by its own signal.
    pub(crate) fn end(mut self) {
        self.signal("-TERM");
        self.child.wait().expect("ends");
    }

    pub(crate) fn request(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.request_as("", method, path, body)
    }

    /// Status and document. Without a token the request is an administrator's.
    pub(crate) fn request_as(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> (u16, Value) {
        let (status, text) = self.exchange(token, method, path, body);
        (status, serde_json::from_str(&text).unwrap_or_default())
    }

    fn exchange(&self, token: &str, method: &str, path: &str, body: &Value) -> (u16, String) {
        let address = self.banner("http://");
        let mut stream = TcpStream::connect(&address).expect("somebody listens");
        stream.set_read_timeout(Some(WAIT_MAX)).expect("set");
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let bearer = match token {
            "" => String::new(),
            token => format!("Authorization: Bearer {token}\r\n"),
        };
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: {address}\r\n{bearer}\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("sends");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
        let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        (
            status.unwrap_or_else(|| panic!("{answer:?}")),
            body.to_owned(),
        )
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        self.request("GET", path, &Value::Null)
    }

    pub(crate) fn create(&self, path: &str, body: &Value) {
        let (status, answer) = self.request("POST", path, body);
        assert_eq!(status, 201, "{answer}");
    }

    /// The revision of the store.
    fn revision(&self) -> String {
        let (status, list) = self.get("/api/v1/nodes");
        assert_eq!(status, 200, "{list}");
        list["metadata"]["resourceVersion"]
            .as_str()
            .expect("text")
            .to_owned()
    }

    /// Waits until a watch of one second reports no write, and nothing else was written.
    pub(crate) fn wait_until_idle(&self) {
        let quiet = || {
            let before = self.revision();
            let watch =
                format!("/api/v1/configmaps?watch=true&timeoutSeconds=1&resourceVersion={before}");
            let (status, events) = self.exchange("", "GET", &watch, &Value::Null);
            assert_eq!(status, 200, "{events}");
            (events.is_empty() && self.revision() == before).then_some(())
        };
        eventually("nobody writes", quiet);
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It has ended by itself if the test succeeded.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lock(text: &Mutex<String>) -> std::sync::MutexGuard<'_, String> {
    text.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Polls until there is a result.
pub(crate) fn eventually<T>(what: &str, ask: impl Fn() -> Option<T>) -> T {
    let clock = SystemClock::default();
    let start = clock.monotonic();
    while clock.monotonic().since(start) < WAIT_MAX {
        if let Some(answer) = ask() {
            return answer;
        }
        std::thread::park_timeout(POLL_PERIOD);
    }
    panic!("in vain: {what}");
}
