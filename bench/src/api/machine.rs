//! A description of the machine that the benchmark runs on.

use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    cores: usize,
    kernel: String,
    memory_megabytes: u64,
}

impl Machine {
    pub(crate) fn here() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let total = read("/proc/meminfo");
        let total = total
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"));
        let kib = total.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
        Self {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            memory_megabytes: kib.unwrap_or(0) * 1024 / 1_000_000,
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { cores, kernel, .. } = self;
        write!(f, "{cores} cores, kernel {kernel}")
    }
}
