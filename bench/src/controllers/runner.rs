//! A process under measurement.

use optik_clients_testkit::fault_proxy::FaultAction;
use serde_json::Value;
use std::error::Error;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// Timeout for a line of output: it includes the processing of a whole backlog.
const LINE_TIMEOUT: Duration = Duration::from_secs(300);

/// A program and the arguments that select the runtime.
#[derive(Clone)]
pub(crate) struct RuntimeProgram {
    pub(crate) name: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) args: Vec<String>,
    /// The fault that forces a relist: not every runtime handles every form of an expired
    /// resourceVersion.
    pub(crate) expires_by: FaultAction,
}

impl RuntimeProgram {
    /// The same with one more word.
    pub(crate) fn with(&self, word: &str) -> Self {
        let mut other = self.clone();
        other.args.push(word.to_owned());
        other
    }

    pub(crate) fn start(
        &self,
        server: &str,
        namespace: &str,
        objects: usize,
    ) -> Result<RuntimeProcess, Box<dyn Error>> {
        let mut child = Command::new(&self.path)
            .args(&self.args)
            .args([server, namespace, &objects.to_string()])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let said = child.stdout.take().ok_or("no output")?;
        Ok(RuntimeProcess {
            child,
            output: BufReader::new(said).lines(),
        })
    }
}

pub(crate) struct RuntimeProcess {
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl RuntimeProcess {
    /// Waits for the line of a phase.
    pub(crate) async fn wait_for_phase(&mut self, phase: &str) -> Result<Value, Box<dyn Error>> {
        loop {
            let next = tokio::time::timeout(LINE_TIMEOUT, self.output.next_line()).await;
            let next = next.map_err(|_| format!("it never says {phase:?}"))??;
            let next = next.ok_or_else(|| format!("it ended before {phase:?}"))?;
            let line: Value = serde_json::from_str(&next)?;
            if line["phase"] == phase {
                return Ok(line);
            }
        }
    }

    /// Sends SIGSTOP or SIGCONT.
    pub(crate) async fn signal(&self, name: &str) -> Result<(), Box<dyn Error>> {
        let process = self.child.id().ok_or("it has ended")?.to_string();
        let mut kill = Command::new("kill");
        let sent = kill.args([name, &process]).status().await?;
        sent.success().then_some(()).ok_or("no signal was sent")?;
        Ok(())
    }

    pub(crate) async fn wait_for_exit(mut self) -> Result<(), Box<dyn Error>> {
        let ended = tokio::time::timeout(LINE_TIMEOUT, self.child.wait()).await??;
        ended.success().then_some(()).ok_or("it failed")?;
        Ok(())
    }
}
