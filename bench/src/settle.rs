//! Waiting between two measurements.

/// Waits until the disk has finished the writes of the last measurement.
pub(crate) fn settle() {
    // Without it the next measurement is only less quiet.
    let _ = std::process::Command::new("sync").status();
}
