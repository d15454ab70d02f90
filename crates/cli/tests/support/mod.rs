//! A server process that can be killed.
#![allow(dead_code, reason = "no test file uses all of it")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

pub(crate) struct Server {
    child: Child,
    /// Open as long as the server may write to it.
    _stderr: BufReader<ChildStderr>,
    banner: String,
}

impl Server {
    /// Starts a server on a directory, on free ports, and waits until it is ready.
    pub(crate) fn start(data: &Path, more: &[&str]) -> Self {
        Self::run(Command::new(env!("CARGO_BIN_EXE_optik")), data, more)
    }

    /// Like [`Self::start`], with a limit of open files.
    pub(crate) fn start_with_files(files: u32, data: &Path, more: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        let limited = format!("ulimit -n {files}; exec \"$0\" \"$@\"");
        shell.args(["-c", &limited, env!("CARGO_BIN_EXE_optik")]);
        Self::run(shell, data, more)
    }

    fn run(mut command: Command, data: &Path, more: &[&str]) -> Self {
        let mut child = command
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .args(more)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut banner = String::new();
        while !banner.contains("Ctrl-C") {
            let read = stderr.read_line(&mut banner).expect("text");
            assert!(read > 0, "the server ended: {banner}");
        }
        Self {
            child,
            _stderr: stderr,
            banner,
        }
    }

    /// The first URL without TLS in the banner lines that begin with `begins`.
    pub(crate) fn url(&self, begins: &str) -> String {
        let mut lines = self.banner.lines().map(str::trim);
        let found = lines.find_map(|line| line.strip_prefix(begins));
        let found = found.and_then(|rest| rest.trim().split([',', ' ']).next());
        let found = found.expect("the banner says where it listens");
        format!("http://{}", found.trim_start_matches("http://"))
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
    }
}

/// Kills the server also when a test fails.
impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The number of rounds; `OPTIK_TEST_KILLS` overrides it.
pub(crate) fn rounds(default: u64) -> u64 {
    let wanted = std::env::var("OPTIK_TEST_KILLS").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(default)
}
