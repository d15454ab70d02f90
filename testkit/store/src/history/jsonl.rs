//! Histories as lines of JSON, for other tools and other days.

use super::{History, Operation, Session, Start};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Start(Start),
    Operation(Operation),
    Session(Session),
}

impl History {
    /// # Errors
    /// If it cannot be written.
    pub fn write_jsonl(&self, mut to: impl Write) -> io::Result<()> {
        let start = std::iter::once(Line::Start(self.start.clone()));
        let operations = self.operations.iter().cloned().map(Line::Operation);
        let sessions = self.sessions.iter().cloned().map(Line::Session);
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
                Line::Start(start) => history.start = start,
                Line::Operation(operation) => history.operations.push(operation),
                Line::Session(session) => history.sessions.push(session),
            }
        }
        Ok(history)
    }
}
