//! Histories as lines of JSON, for other tools and for later analysis.

use super::{InitialState, OperationHistory, RecordedOperation, WatchRecording};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum HistoryLine {
    Start(InitialState),
    Operation(RecordedOperation),
    Session(WatchRecording),
}

impl OperationHistory {
    /// # Errors
    /// If it cannot be written.
    pub fn write_jsonl(&self, mut to: impl Write) -> io::Result<()> {
        let start = std::iter::once(HistoryLine::Start(self.start.clone()));
        let operations = self.operations.iter().cloned().map(HistoryLine::Operation);
        let sessions = self.sessions.iter().cloned().map(HistoryLine::Session);
        for line in start.chain(operations).chain(sessions) {
            serde_json::to_writer(&mut to, &line)?;
            to.write_all(b"\n")?;
        }
        Ok(())
    }

    /// # Errors
    /// If it cannot be read.
    pub fn read_jsonl(from: impl BufRead) -> io::Result<Self> {
        let mut history = Self::default();
        for line in from.lines() {
            match serde_json::from_str(&line?)? {
                HistoryLine::Start(start) => history.start = start,
                HistoryLine::Operation(operation) => history.operations.push(operation),
                HistoryLine::Session(session) => history.sessions.push(session),
            }
        }
        Ok(history)
    }
}
