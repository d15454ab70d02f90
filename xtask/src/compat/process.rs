//! Child processes that end with this process.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server that is killed when this is dropped.
pub(crate) struct ChildServer {
    child: Child,
    pub(crate) name: &'static str,
}

impl ChildServer {
    pub(crate) fn start(
        name: &'static str,
        command: &mut Command,
        log: &Path,
    ) -> Result<Self, String> {
        let file = std::fs::File::create(log).map_err(|c| format!("{}: {c}", log.display()))?;
        let errors = file
            .try_clone()
            .map_err(|c| format!("{}: {c}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .map_err(|cause| format!("cannot start {name}: {cause}"))?;
        Ok(Self { child, name })
    }

    /// Waits until it responds to HTTP on `address` with success.
    pub(crate) fn wait_ready(&mut self, address: &str, path: &str) -> Result<(), String> {
        for _ in 0..600 {
            if http_ok(address, path) {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("{} ended with {status}", self.name));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err(format!("{} was not ready within a minute", self.name))
    }
}

impl Drop for ChildServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn http_ok(address: &str, path: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else {
        return false;
    };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    if stream.write_all(request.as_bytes()).is_err() {
        return false;
    }
    let mut first = String::new();
    let read = BufReader::new(stream.take(4096)).read_line(&mut first);
    read.is_ok() && first.contains(" 200 ")
}

/// A port that is free at the moment.
pub(crate) fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|c| format!("no free port: {c}"))?;
    let address = listener
        .local_addr()
        .map_err(|c| format!("no free port: {c}"))?;
    Ok(address.port())
}

/// Runs a command to its end and returns what it printed; an error if it failed.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|cause| format!("cannot run {}: {cause}", words(command)))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{} failed: {text}{errors}", words(command)))
}

fn words(command: &Command) -> String {
    let program = std::iter::once(command.get_program());
    let words: Vec<_> = program
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect();
    words.join(" ")
}
