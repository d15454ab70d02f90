//! Limits on the growth of cost with size.

use crate::Cost;
use std::time::Duration;

/// Four times the size costs at most eight times as much: half of the cost of quadratic work.
const GROWTH_MAX: f64 = 8.0;
/// The time of cheaper work is not compared: it is too short to measure.
const MEASURABLE_TIME_MIN: Duration = Duration::from_millis(20);

/// Memory that is exempt from the limit.
#[derive(Clone, Copy, Debug)]
pub struct CostAllowance {
    /// As many bytes may be held for each byte of the larger one.
    pub held_bytes_per_byte: u64,
    /// Additional bytes, independent of the size.
    pub free_bytes: u64,
}

/// The violation of a cost that is four times as large as a smaller one, for a request of `bytes`;
/// `None` if there is none.
#[must_use]
pub fn growth_violation(
    small: Cost,
    large: Cost,
    bytes: u64,
    allowance: CostAllowance,
) -> Option<String> {
    let CostAllowance {
        held_bytes_per_byte,
        free_bytes,
    } = allowance;
    let time = ratio(small.time.as_nanos() as f64, large.time.as_nanos() as f64);
    if large.time > MEASURABLE_TIME_MIN && time > GROWTH_MAX {
        return Some(format!("time {:?} -> {:?}", small.time, large.time));
    }
    let (few, many) = (small.allocated_bytes, large.allocated_bytes);
    if many > free_bytes && ratio(few as f64, many as f64) > GROWTH_MAX {
        return Some(format!("allocated {few} -> {many}"));
    }
    let held = large.peak_bytes;
    (held > free_bytes + held_bytes_per_byte * bytes).then(|| format!("holds {held} bytes"))
}

fn ratio(small: f64, large: f64) -> f64 {
    large / small.max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complains(small: Cost, large: Cost) -> bool {
        let allowance = CostAllowance {
            held_bytes_per_byte: 10,
            free_bytes: 1000,
        };
        growth_violation(small, large, 100, allowance).is_some()
    }

    fn lasting(millis: u64) -> Cost {
        Cost {
            time: Duration::from_millis(millis),
            ..Cost::default()
        }
    }

    fn allocating(allocated_bytes: u64) -> Cost {
        Cost {
            allocated_bytes,
            ..Cost::default()
        }
    }

    #[test]
    fn quadratic_growth_is_reported() {
        assert!(complains(lasting(10), lasting(160)));
        assert!(!complains(lasting(10), lasting(50)));
        assert!(!complains(lasting(1), lasting(16)), "too short to tell");
        assert!(complains(allocating(1000), allocating(16_000)));
        assert!(!complains(allocating(1000), allocating(5000)));
        assert!(!complains(allocating(10), allocating(160)), "free");
    }

    #[test]
    fn excess_peak_memory_is_reported() {
        let holding = |peak_bytes| Cost {
            peak_bytes,
            ..Cost::default()
        };
        assert!(complains(holding(1), holding(2001)));
        assert!(!complains(holding(1), holding(2000)));
    }
}
