use std::borrow::Borrow;
use std::fmt;
use std::ops::{Bound, Deref, RangeBounds};
use std::sync::Arc;

/// A key. Cheap to clone: all versions of a key and the index share one allocation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<[u8]>);

impl Deref for Key {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl<T: AsRef<[u8]> + ?Sized> From<&T> for Key {
    fn from(bytes: &T) -> Self {
        Self(bytes.as_ref().into())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

/// A half-open range of keys: it includes `start` and excludes `end`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyRange {
    start: Key,
    end: RangeEnd,
}

/// The end of a range.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RangeEnd {
    /// The range holds only its start.
    SingleKey,
    /// The range holds every key that begins with its start.
    Prefix,
    Before(Key),
    Unbounded,
}

impl KeyRange {
    /// The range of a single key.
    pub fn one(key: impl AsRef<[u8]>) -> Self {
        Self {
            start: Key::from(&key),
            end: RangeEnd::SingleKey,
        }
    }

    /// The range of all keys that begin with `prefix`; all keys if it is empty.
    pub fn prefix(prefix: impl AsRef<[u8]>) -> Self {
        Self {
            start: Key::from(&prefix),
            end: RangeEnd::Prefix,
        }
    }

    /// The range from `start` (inclusive) to `end` (exclusive).
    pub fn between(start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Self {
        let (start, end) = (start.as_ref(), end.as_ref());
        // Most ranges arrive as prefixes in the form of start and end. Recognizing them keeps the
        // watcher index fast.
        let end = if !start.is_empty() && successor_of_prefix(start).as_deref() == Some(end) {
            RangeEnd::Prefix
        } else {
            RangeEnd::Before(Key::from(end))
        };
        Self {
            start: Key::from(start),
            end,
        }
    }

    /// The range from `start` to the end of all keys.
    pub fn from_key(start: impl AsRef<[u8]>) -> Self {
        Self {
            start: Key::from(&start),
            end: RangeEnd::Unbounded,
        }
    }

    #[must_use]
    pub fn all() -> Self {
        Self::prefix(b"")
    }

    #[must_use]
    pub fn start(&self) -> &Key {
        &self.start
    }

    /// The key, if the range is exactly one key.
    #[must_use]
    pub fn as_one(&self) -> Option<&Key> {
        matches!(self.end, RangeEnd::SingleKey).then_some(&self.start)
    }

    /// The prefix, if the range is all keys with one prefix.
    #[must_use]
    pub fn as_prefix(&self) -> Option<&Key> {
        matches!(self.end, RangeEnd::Prefix).then_some(&self.start)
    }

    /// The exclusive end of the range; `None` if it has no bound.
    #[must_use]
    pub fn end(&self) -> Option<Vec<u8>> {
        match &self.end {
            RangeEnd::SingleKey => Some([&self.start[..], &[0]].concat()),
            RangeEnd::Prefix => successor_of_prefix(&self.start),
            RangeEnd::Before(key) => Some(key.to_vec()),
            RangeEnd::Unbounded => None,
        }
    }

    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        match &self.end {
            RangeEnd::SingleKey => *self.start == *key,
            RangeEnd::Prefix => key.starts_with(&self.start),
            RangeEnd::Before(end) => *self.start <= *key && *key < **end,
            RangeEnd::Unbounded => *self.start <= *key,
        }
    }

    /// Whether some key could be in both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let starts_before_end =
            |range: &Self, end: Option<Vec<u8>>| end.is_none_or(|end| *range.start < *end);
        starts_before_end(self, other.end()) && starts_before_end(other, self.end())
    }

    /// The range as bounds for an ordered map.
    pub(crate) fn bounds(&self) -> impl RangeBounds<[u8]> {
        KeyBounds {
            start: self.start.clone(),
            end: self.end(),
        }
    }

    /// The part of the range after `key`: where the next page begins.
    #[must_use]
    pub fn after(&self, key: &[u8]) -> Self {
        let start = [key, &[0]].concat();
        match self.end() {
            Some(end) => Self {
                start: Key::from(&start),
                end: RangeEnd::Before(Key::from(&end)),
            },
            None => Self::from_key(start),
        }
    }
}

struct KeyBounds {
    start: Key,
    end: Option<Vec<u8>>,
}

impl RangeBounds<[u8]> for KeyBounds {
    fn start_bound(&self) -> Bound<&[u8]> {
        Bound::Included(&self.start)
    }

    fn end_bound(&self) -> Bound<&[u8]> {
        match &self.end {
            Some(end) => Bound::Excluded(end),
            None => Bound::Unbounded,
        }
    }
}

/// The smallest key that is greater than everything beginning with `prefix`.
fn successor_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_range_contains_only_keys_within_bounds() {
        type Keys = &'static [&'static [u8]];
        let cases: &[(KeyRange, Keys, Keys)] = &[
            (KeyRange::one("a"), &[b"a"], &[b"", b"a\0", b"b"]),
            (KeyRange::prefix("a/"), &[b"a/", b"a/x"], &[b"a", b"a0"]),
            (
                KeyRange::prefix([0xff]),
                &[b"\xff", b"\xff\xff"],
                &[b"\xfe"],
            ),
            (KeyRange::all(), &[b"", b"x", b"\xff"], &[]),
            (
                KeyRange::between("b", "d"),
                &[b"b", b"c\xff"],
                &[b"a", b"d"],
            ),
            (KeyRange::between("d", "b"), &[], &[b"b", b"c", b"d"]),
            (KeyRange::from_key("b"), &[b"b", b"\xff\xff"], &[b"a\xff"]),
        ];
        for (range, inside, outside) in cases {
            for key in *inside {
                assert!(range.contains(key), "{key:?} in {range:?}");
            }
            for key in *outside {
                assert!(!range.contains(key), "{key:?} not in {range:?}");
            }
        }
    }

    #[test]
    fn key_range_between_prefix_bounds_becomes_prefix() {
        assert_eq!(KeyRange::between("a/", "a0"), KeyRange::prefix("a/"));
        assert_eq!(KeyRange::between(b"a\xff", "b"), KeyRange::prefix(b"a\xff"));
        assert_eq!(KeyRange::between("a", "c").as_prefix(), None);
    }

    #[test]
    fn key_ranges_overlap_only_with_a_common_key() {
        let cases = [
            (KeyRange::one("a"), KeyRange::one("a"), true),
            (KeyRange::one("a"), KeyRange::one("b"), false),
            (KeyRange::prefix("a"), KeyRange::one("ab"), true),
            (KeyRange::between("a", "c"), KeyRange::from_key("c"), false),
            (KeyRange::all(), KeyRange::from_key("zz"), true),
        ];
        for (left, right, expected) in cases {
            assert_eq!(left.overlaps(&right), expected, "{left:?} {right:?}");
            assert_eq!(right.overlaps(&left), expected, "{right:?} {left:?}");
        }
    }

    #[test]
    fn key_range_after_excludes_the_key() {
        let rest = KeyRange::prefix("a/").after(b"a/k");
        assert!(!rest.contains(b"a/k"));
        assert!(rest.contains(b"a/k\0"));
        assert!(!rest.contains(b"a0"));
    }
}
