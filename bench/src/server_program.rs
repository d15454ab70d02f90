//! Finds the `optik` binary that a measurement starts.

use crate::error::BenchError;
use clap::Args;
use std::path::PathBuf;

/// The server to start, for measurements that start one.
#[derive(Debug, Args)]
pub(crate) struct ServerProgram {
    /// The server's program [default: `optik` beside this program]
    #[arg(long, value_name = "PATH")]
    optik: Option<PathBuf>,
}

impl ServerProgram {
    /// Its path; an error if no program is there.
    pub(crate) fn path(&self) -> Result<PathBuf, BenchError> {
        let path = match &self.optik {
            Some(path) => path.clone(),
            None => beside_this_program()?,
        };
        if path.is_file() {
            return Ok(path);
        }
        let missing = BenchError::from_message(format!("there is no program {}", path.display()));
        Err(missing.with_hint(
            "build it with `cargo build --release -p optik-cli`, or name another with --optik",
        ))
    }
}

fn beside_this_program() -> Result<PathBuf, BenchError> {
    let this = std::env::current_exe()
        .map_err(|cause| BenchError::new("cannot find this program", cause))?;
    Ok(this.with_file_name("optik"))
}
