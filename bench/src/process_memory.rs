//! Memory of a process according to /proc.

/// A field of `/proc/PID/status` that is a size, such as `VmRSS`, in bytes. None if there is no
/// such process, or no such field.
pub(crate) fn status_bytes(pid: u32, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    parse_bytes(&status, field)
}

/// The same field of a text that was read before.
pub(crate) fn parse_bytes(status: &str, field: &str) -> Option<u64> {
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let kib: u64 = value.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::parse_bytes;

    #[test]
    fn sizes_of_the_status_file_are_read() {
        let status = "Name:\toptik\nVmHWM:\t    3072 kB\nVmRSS:\t    2048 kB\nThreads:\t3\n";
        assert_eq!(parse_bytes(status, "VmRSS"), Some(2 << 20));
        assert_eq!(parse_bytes(status, "VmHWM"), Some(3 << 20));
        for wrong in ["Vm", "Name", "RssAnon"] {
            assert_eq!(parse_bytes(status, wrong), None, "{wrong}");
        }
    }
}
