//! A small seeded generator.
//!
//! An image must be the same for the same log, point, policy and seed on every
//! machine and in every version, so the generator is written out here.

/// SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// A generator of its own for every combination of `parts`.
    pub(crate) fn from_parts(parts: &[u64]) -> Self {
        let mut rng = Self(0x6f70_7469_6b21_0001);
        for part in parts {
            rng.0 ^= *part;
            rng.0 = rng.next();
        }
        rng
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which must not be 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // The bias of the remainder is of no concern to a crash test.
        self.next() % bound
    }

    /// A number from 0 to `most`, both possible.
    pub(crate) fn up_to(&mut self, most: u64) -> u64 {
        if most == u64::MAX {
            self.next()
        } else {
            self.below(most + 1)
        }
    }

    pub(crate) fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).unwrap_or(0)
    }

    /// True in `percent` of 100 cases.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn fill(&mut self, buf: &mut [u8]) {
        for chunk in buf.chunks_mut(8) {
            let bytes = self.next().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
}
