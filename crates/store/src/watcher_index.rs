//! An index of watchers by key range, to find the watchers of a key without testing each.

use crate::key::KeyRange;
use std::collections::BTreeMap;

/// An index of watchers by watched range. Watchers of one range share an entry.
#[derive(Debug)]
pub(crate) struct WatcherIndex<W> {
    keys: BTreeMap<Vec<u8>, Vec<W>>,
    prefixes: BTreeMap<Vec<u8>, Vec<W>>,
    /// Ranges that are neither one key nor a prefix. They are rare and tested one by one.
    others: Vec<(KeyRange, W)>,
}

impl<W> Default for WatcherIndex<W> {
    fn default() -> Self {
        Self {
            keys: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            others: Vec::new(),
        }
    }
}

impl<W> WatcherIndex<W> {
    pub(crate) fn add(&mut self, range: &KeyRange, watcher: W) {
        if let Some(key) = range.as_one() {
            self.keys.entry(key.to_vec()).or_default().push(watcher);
        } else if let Some(prefix) = range.as_prefix() {
            self.prefixes
                .entry(prefix.to_vec())
                .or_default()
                .push(watcher);
        } else {
            self.others.push((range.clone(), watcher));
        }
    }

    pub(crate) fn remove(&mut self, range: &KeyRange, is_it: impl Fn(&W) -> bool) {
        if let Some(key) = range.as_one() {
            remove_from(&mut self.keys, key, is_it);
        } else if let Some(prefix) = range.as_prefix() {
            remove_from(&mut self.prefixes, prefix, is_it);
        } else {
            self.others.retain(|(_, watcher)| !is_it(watcher));
        }
    }

    /// Whether the entry of the range holds a matching watcher.
    pub(crate) fn contains(&self, range: &KeyRange, is_it: impl Fn(&W) -> bool) -> bool {
        if let Some(key) = range.as_one() {
            self.keys
                .get(&key[..])
                .is_some_and(|found| found.iter().any(is_it))
        } else if let Some(prefix) = range.as_prefix() {
            let found = self.prefixes.get(&prefix[..]);
            found.is_some_and(|found| found.iter().any(is_it))
        } else {
            self.others.iter().any(|(_, watcher)| is_it(watcher))
        }
    }

    /// Returns every watcher with its watched range.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (KeyRange, &W)> {
        let keys = self.keys.iter().map(|(key, w)| (KeyRange::one(key), w));
        let prefixes = self.prefixes.iter();
        let prefixes = prefixes.map(|(prefix, w)| (KeyRange::prefix(prefix), w));
        let shared = keys.chain(prefixes);
        let shared = shared.flat_map(|(range, w)| w.iter().map(move |w| (range.clone(), w)));
        shared.chain(self.others.iter().map(|(range, w)| (range.clone(), w)))
    }

    /// Whether entries without watchers have been removed.
    pub(crate) fn has_no_empty_entry(&self) -> bool {
        let mut entries = self.keys.values().chain(self.prefixes.values());
        entries.all(|watchers| !watchers.is_empty())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.prefixes.is_empty() && self.others.is_empty()
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = W> {
        let keys = std::mem::take(&mut self.keys).into_values().flatten();
        let prefixes = std::mem::take(&mut self.prefixes).into_values().flatten();
        let others = std::mem::take(&mut self.others).into_iter();
        keys.chain(prefixes)
            .chain(others.map(|(_, watcher)| watcher))
    }

    /// Calls `found` for every watcher of `key`.
    pub(crate) fn for_each_watcher(&self, key: &[u8], mut found: impl FnMut(&W)) {
        if let Some(watchers) = self.keys.get(key) {
            watchers.iter().for_each(&mut found);
        }
        self.for_each_prefix_watcher(key, &mut found);
        for (range, watcher) in &self.others {
            if range.contains(key) {
                found(watcher);
            }
        }
    }

    /// Walks from the longest prefix of `key` to the shortest.
    ///
    /// The greatest watched prefix `p <= key[..bound]` either is a prefix of the key,
    /// or leaves it at position `c`; then no watched prefix of the key is longer
    /// than `c`, since it would sort between the two. So each look-up shortens
    /// `bound`, and there are about as many look-ups as matches.
    fn for_each_prefix_watcher(&self, key: &[u8], found: &mut impl FnMut(&W)) {
        let mut bound = key.len();
        loop {
            let up_to = (
                std::ops::Bound::Unbounded,
                std::ops::Bound::Included(&key[..bound]),
            );
            let Some((prefix, watchers)) = self.prefixes.range::<[u8], _>(up_to).next_back() else {
                return;
            };
            let common = common_length(prefix, key);
            if common < prefix.len() {
                bound = common;
                continue;
            }
            watchers.iter().for_each(&mut *found);
            if common == 0 {
                return;
            }
            bound = common - 1;
        }
    }
}

fn remove_from<W>(map: &mut BTreeMap<Vec<u8>, Vec<W>>, at: &[u8], is_it: impl Fn(&W) -> bool) {
    let Some(watchers) = map.get_mut(at) else {
        return;
    };
    watchers.retain(|watcher| !is_it(watcher));
    if watchers.is_empty() {
        map.remove(at);
    }
}

fn common_length(left: &[u8], right: &[u8]) -> usize {
    let pairs = left.iter().zip(right);
    pairs.take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range() -> impl Strategy<Value = KeyRange> {
        let key = || proptest::collection::vec(0u8..3, 0..5);
        prop_oneof![
            key().prop_map(KeyRange::one),
            key().prop_map(KeyRange::prefix),
            (key(), key()).prop_map(|(start, end)| KeyRange::between(start, end)),
            key().prop_map(KeyRange::from_key),
        ]
    }

    proptest! {
        #[test]
        fn watcher_index_finds_exactly_ranges_containing_key(
            ranges in proptest::collection::vec(range(), 0..12),
            removed in 0usize..12,
            key in proptest::collection::vec(0u8..3, 0..6),
        ) {
            let mut interest = WatcherIndex::default();
            for (number, range) in ranges.iter().enumerate() {
                interest.add(range, number);
            }
            if let Some(range) = ranges.get(removed) {
                interest.remove(range, |number| *number == removed);
            }
            let mut found = Vec::new();
            interest.for_each_watcher(&key, |number| found.push(*number));
            found.sort_unstable();
            let expected: Vec<_> = (0..ranges.len())
                .filter(|number| *number != removed && ranges[*number].contains(&key))
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
