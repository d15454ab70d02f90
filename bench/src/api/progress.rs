//! A progress line on the terminal.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const REFRESH: Duration = Duration::from_millis(250);

/// A counter of completed operations; cheap to clone and to increment.
#[derive(Clone, Debug, Default)]
pub(crate) struct BenchProgress {
    done: Arc<AtomicU64>,
}

impl BenchProgress {
    pub(crate) fn add(&self, count: u64) {
        self.done.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Runs `work` with a progress line, if stderr is a terminal.
    pub(crate) async fn show<F: Future>(&self, what: &str, work: F) -> F::Output {
        if !std::io::stderr().is_terminal() {
            return work.await;
        }
        let refresh = async {
            let mut ticks = tokio::time::interval(REFRESH);
            let mut last = self.count();
            loop {
                ticks.tick().await;
                let count = self.count();
                let per_second = (count - last) as f64 / REFRESH.as_secs_f64();
                draw(&format!("{what}: {count} ({per_second:.0}/s)"));
                last = count;
            }
        };
        let done = tokio::select! {
            done = work => done,
            () = refresh => unreachable!("the line is refreshed for ever"),
        };
        draw("");
        done
    }
}

/// Replaces the line by `text`.
fn draw(text: &str) {
    // A terminal that went away is no reason to stop measuring.
    let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
}
