//! Intervals of sizes and costs; sums and products saturate.

/// The lower and upper bound of a size or a cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) min: u64,
    pub(crate) max: u64,
}

pub(crate) const UNKNOWN: Interval = Interval {
    min: 0,
    max: u64::MAX,
};

impl Interval {
    pub(crate) const fn exactly(number: u64) -> Self {
        Self {
            min: number,
            max: number,
        }
    }

    pub(crate) const fn up_to(max: u64) -> Self {
        Self { min: 0, max }
    }

    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    pub(crate) const fn times(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    /// Multiplies both bounds by a factor, rounded up.
    pub(crate) fn scaled(self, factor: f64) -> Self {
        Self {
            min: scale(self.min, factor),
            max: scale(self.max, factor),
        }
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

/// Multiplies by a factor and rounds up; saturates at `u64::MAX`.
pub(crate) fn scale(number: u64, factor: f64) -> u64 {
    (number as f64 * factor).ceil() as u64
}
