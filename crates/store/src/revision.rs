use std::fmt;

/// A revision: the position of a transaction in the sequence of committed transactions.
///
/// An empty store is at 1; the first commit has 2. Zero is never a revision: it means "no such
/// version", as in etcd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    /// "No such version": what a compare sees for a key that does not exist.
    pub const ZERO: Self = Self(0);
    /// The revision of an empty store.
    pub const FIRST: Self = Self(1);

    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The revision after this one.
    ///
    /// # Panics
    /// After 2^64 commits.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.checked_add(1).expect("revisions are used up"))
    }

    /// The revision before this one, or zero.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<u64> for Revision {
    fn from(number: u64) -> Self {
        Self(number)
    }
}
