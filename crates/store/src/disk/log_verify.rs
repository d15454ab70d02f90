//! Assertions that compare the bookkeeping of the log with itself and with the state in memory.

use super::Disk;
use super::segment::SEGMENT_HEADER_BYTES;
use super::segment_gc::{Segment, Segments};
use crate::history::History;
use crate::index::Index;
use crate::key::KeyRange;
use crate::revision::Revision;
use crate::verify::chain;
use crate::version::Version;
use crate::view::View;
use std::collections::BTreeSet;

impl Disk {
    /// Checks the whole log. Called by the sequencer when all versions that the last compaction
    /// dropped have been recorded.
    pub(crate) fn verify(&self, view: &View, index: &Index) {
        self.verify_segments();
        // All copies of the index share the version chains.
        let oldest = view.with_history(History::oldest);
        let (mut count, mut bytes) = (0, 0);
        for newest in index.newest_entries(&KeyRange::all()) {
            for version in chain(newest).filter(|version| is_needed(version, oldest)) {
                count += 1;
                bytes += version.stored_bytes();
            }
        }
        assert_eq!(
            self.segments.needed(),
            bytes,
            "segments: what is needed is what can be reached"
        );
        let alive = self.segments.list().iter();
        let alive = alive.map(|segment| segment.versions - segment.dead.len());
        assert_eq!(
            alive.sum::<usize>(),
            count,
            "segments: all versions but the dead can be reached"
        );
        assert!(
            index.stored_bytes() <= self.segments.needed(),
            "segments: the live are needed"
        );
    }

    /// Checks the log alone, without the state in memory.
    pub(super) fn verify_segments(&self) {
        segments(&self.segments);
        let last = self.segments.list().last();
        assert_eq!(
            last.map(|last| (last.number, last.end)),
            Some((self.end.segment, self.end.end)),
            "segments: the active one is the last"
        );
        assert!(
            self.segments
                .numbers()
                .all(|number| number < self.next_number),
            "segments: {} was given out before",
            self.next_number
        );
    }
}

/// Whether a read or a watch can reach the version. A deletion stays in the chain of a later put
/// until the commit of that put is compacted; its record is garbage once its own commit is.
fn is_needed(version: &Version, oldest: Option<Revision>) -> bool {
    !version.is_deletion() || oldest.is_some_and(|oldest| version.mod_revision >= oldest)
}

fn segments(all: &Segments) {
    let list = all.list();
    let ends: u64 = list.iter().map(|segment| segment.end).sum();
    let needed: u64 = list.iter().map(|segment| segment.needed).sum();
    assert_eq!(all.bytes(), ends, "segments: the sum of their bytes");
    assert_eq!(all.needed(), needed, "segments: the sum of what is needed");
    let numbers: BTreeSet<_> = all.numbers().collect();
    assert_eq!(numbers.len(), list.len(), "segments: one is there twice");
    let mut before = Revision::ZERO;
    for found in list {
        segment(found, before);
        before = found.last;
    }
}

/// Checks one segment. `before` is the newest revision of the earlier segments.
fn segment(segment: &Segment, before: Revision) {
    let Segment {
        number,
        end,
        needed,
        versions,
        last,
        ..
    } = *segment;
    assert!(last >= before, "segments: {number} is not in its order");
    assert!(
        needed + segment.kept_deletions + SEGMENT_HEADER_BYTES <= end,
        "segments: {number} needs {needed} bytes of {end}, and keeps {}",
        segment.kept_deletions
    );
    let dead: BTreeSet<_> = segment.dead.iter().collect();
    assert_eq!(dead.len(), segment.dead.len(), "segments: dead twice");
    assert!(
        dead.len() <= versions,
        "segments: {} of {versions} versions in {number} are dead",
        dead.len()
    );
    let mut places = dead.iter().map(|place| place.0);
    assert!(
        places.all(|revision| before < revision && revision <= last),
        "segments: {number} goes from {before} to {last}, and its dead are {dead:?}"
    );
}
