//! Quiet between two measurements.

/// Lets the disk finish what the last measurement left behind.
pub(crate) fn settle() {
    // Without it the next measurement is only less quiet.
    let _ = std::process::Command::new("sync").status();
}
