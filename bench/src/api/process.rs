//! Memory growth of another process.

use crate::process_memory::parse_bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const SAMPLE_EVERY: Duration = Duration::from_millis(5);

/// Of one process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ProcessMemory {
    resident: u64,
    /// The most that was ever resident.
    peak: u64,
}

/// The memory of a process before the first request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Baseline {
    pid: u32,
    memory: ProcessMemory,
}

impl Baseline {
    /// None if there is no such process, or if its memory cannot be read.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        memory(pid).map(|memory| Self { pid, memory })
    }

    /// Watches from now on. A thread of its own, so that it also looks while the workers
    /// are busy.
    pub(crate) fn watch(self) -> MemoryWatch {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut most = 0;
            while !stopped.load(Ordering::Relaxed) {
                most = most.max(memory(self.pid).unwrap_or_default().resident);
                std::thread::sleep(SAMPLE_EVERY);
            }
            most
        });
        MemoryWatch {
            baseline: self,
            peak_before: memory(self.pid).unwrap_or_default().peak,
            stop,
            thread,
        }
    }
}

pub(crate) struct MemoryWatch {
    baseline: Baseline,
    peak_before: u64,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl MemoryWatch {
    /// How many bytes more than in the beginning were resident at any moment since.
    pub(crate) fn growth(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let sampled = self.thread.join().unwrap_or(0);
        let after = memory(self.baseline.pid).unwrap_or_default();
        // The kernel's peak is exact but covers the whole life of the process: it counts only if it
        // is higher than before.
        let peak = if after.peak > self.peak_before {
            after.peak
        } else {
            sampled
        };
        peak.saturating_sub(self.baseline.memory.resident)
    }
}

fn memory(pid: u32) -> Option<ProcessMemory> {
    parse(&std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn parse(status: &str) -> Option<ProcessMemory> {
    Some(ProcessMemory {
        resident: parse_bytes(status, "VmRSS")?,
        peak: parse_bytes(status, "VmHWM")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_process_is_read() {
        let status = "Name:\toptik\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t1\n";
        let memory = ProcessMemory {
            resident: 1 << 20,
            peak: 2 << 20,
        };
        assert_eq!(parse(status), Some(memory));
        assert_eq!(parse("Name:\tkthreadd\n"), None);
        assert!(Baseline::of(u32::MAX).is_none());
    }
}
