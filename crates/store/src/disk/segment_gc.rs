//! Segment garbage collection: tracks the contents of each segment of the log, and selects the
//! segments worth cleaning. (This is garbage collection in a log-structured store; deletions are
//! its tombstones.)
//!
//! Versions lie in the log in the order of their revisions. Versions that compaction made
//! unreachable stay until the cleaner copies the live versions of a few neighbouring segments into
//! a new one, which replaces them.

use super::cleaner::{CleaningJob, CleaningResult, VictimSegment};
use super::segment::SEGMENT_HEADER_BYTES;
use crate::replay::VersionPosition;
use crate::revision::Revision;
use std::ops::Range;

/// A segment with less than this fraction of garbage is left out of a pass that is not thorough.
const GARBAGE_DIVISOR: u64 = 8;
const WINDOW_SEGMENTS_MAX: usize = 64;

/// One segment that belongs to the log.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) end: u64,
    /// The size of its reachable versions in bytes.
    pub(super) needed: u64,
    /// The number of versions it holds, including dead ones.
    pub(super) versions: usize,
    /// The newest revision in it or in an earlier segment.
    pub(super) last: Revision,
    /// The positions of unreachable versions in it, and of deletions that no longer need to be
    /// kept.
    pub(super) dead: Vec<VersionPosition>,
    /// The size of the deletions that were kept when it was cleaned, because versions that they
    /// hide may still lie in earlier segments.
    pub(super) kept_deletions: u64,
    /// The size of the log metadata at its beginning. Cleaning removes it, but a new active segment
    /// would begin with the same.
    pub(super) state_bytes: u64,
    /// Versions made unreachable by commits before this revision were left out when it was written.
    pub(super) cleaned_to: Revision,
}

impl Segment {
    pub(super) fn new(number: u64, end: u64) -> Self {
        Self {
            number,
            end,
            needed: 0,
            versions: 0,
            last: Revision::ZERO,
            dead: Vec::new(),
            kept_deletions: 0,
            state_bytes: 0,
            cleaned_to: Revision::ZERO,
        }
    }

    fn garbage(&self) -> u64 {
        (self.end - self.needed).saturating_sub(SEGMENT_HEADER_BYTES)
    }

    /// The bytes that cleaning is sure to reclaim, independent of earlier segments.
    fn reclaimable(&self) -> u64 {
        self.garbage().saturating_sub(self.kept_deletions)
    }

    /// Whether cleaning this segment pays off. A thorough pass removes everything dead: later
    /// segments cannot drop their deletions as long as the versions that those hide lie here.
    fn is_worth_cleaning(&self, thorough: bool, sizes: SegmentSizes) -> bool {
        if thorough {
            !self.dead.is_empty() || self.garbage() > sizes.overhead_max() + self.needed / 1024
        } else {
            self.reclaimable().saturating_mul(GARBAGE_DIVISOR) >= self.end
        }
    }
}

/// The contents that a frame adds to a segment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Growth {
    pub(super) needed: u64,
    pub(super) versions: usize,
    pub(super) first: Revision,
    pub(super) last: Revision,
}

impl Growth {
    pub(super) fn add(&mut self, revision: Revision, bytes: u64) {
        if self.versions == 0 {
            self.first = revision;
        }
        self.needed += bytes;
        self.versions += 1;
        self.last = self.last.max(revision);
    }
}

/// Size thresholds, all derived from the smallest segment size.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentSizes {
    pub(super) segment_min: u64,
}

impl SegmentSizes {
    /// The length at which a segment is full.
    pub(super) fn segment(self, total: u64) -> u64 {
        (total / 16).clamp(self.segment_min, self.segment_min * 8)
    }

    /// The garbage in bytes up to which a segment is never worth cleaning.
    fn overhead_max(self) -> u64 {
        self.segment_min / 8192 + 32
    }

    /// The amount of garbage above which cleaning runs while there are writes.
    fn garbage_under_load(self, needed: u64) -> u64 {
        needed / 10 * 6 + self.segment_min * 12
    }

    /// The amount of garbage above which cleaning runs when there are no writes.
    fn garbage_when_idle(self, needed: u64) -> u64 {
        needed / 100 * 15 + self.segment_min * 2
    }

    /// The amount of garbage above which writes wait for the cleaner.
    fn garbage_max(self, needed: u64) -> u64 {
        needed / 10 * 9 + self.segment_min * 40
    }
}

/// When to clean, and how thoroughly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CleaningMode {
    /// Clean segments before the floor, when there is much garbage.
    Busy,
    /// Clean all sealed segments, when there is some garbage.
    Idle,
    /// Remove all garbage up to this revision.
    Full { to: Revision },
}

#[derive(Debug)]
pub(super) struct Segments {
    /// In log order. The last one is the active segment.
    list: Vec<Segment>,
    sizes: SegmentSizes,
    bytes: u64,
    needed: u64,
    /// The next window begins after this revision.
    cursor: Revision,
    /// Set if the last pass left some garbage out and there is still too much.
    thorough: bool,
}

impl Segments {
    pub(super) fn new(sizes: SegmentSizes) -> Self {
        Self {
            list: Vec::new(),
            sizes,
            bytes: 0,
            needed: 0,
            cursor: Revision::ZERO,
            thorough: false,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn needed(&self) -> u64 {
        self.needed
    }

    fn garbage(&self) -> u64 {
        assert!(
            self.bytes >= self.needed,
            "segments: {} bytes are needed of {}",
            self.needed,
            self.bytes
        );
        self.bytes - self.needed
    }

    /// The segments in log order.
    pub(super) fn list(&self) -> &[Segment] {
        &self.list
    }

    pub(super) fn last_number(&self) -> Option<u64> {
        self.list.last().map(|last| last.number)
    }

    pub(super) fn segment_bytes(&self) -> u64 {
        self.sizes.segment(self.bytes)
    }

    /// The sealed segments: number and end of each.
    pub(super) fn sealed(&self) -> impl Iterator<Item = (u64, u64)> {
        let sealed = self.list.len().saturating_sub(1);
        self.list[..sealed]
            .iter()
            .map(|segment| (segment.number, segment.end))
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.list.iter().map(|segment| segment.number)
    }

    /// Whether writes should wait until some garbage is gone.
    pub(super) fn has_too_much_garbage(&self) -> bool {
        self.garbage() > self.sizes.garbage_max(self.needed)
    }

    /// Appends a new last segment.
    pub(super) fn push(&mut self, mut segment: Segment) {
        debug_assert!(
            self.numbers().all(|number| number != segment.number),
            "segments: there are two of number {}",
            segment.number
        );
        let before = self.list.last().map_or(Revision::ZERO, |s| s.last);
        segment.last = segment.last.max(before);
        self.bytes += segment.end;
        self.needed += segment.needed;
        self.list.push(segment);
    }

    /// Records growth of the last segment.
    pub(super) fn grow(&mut self, end: u64, by: &Growth) {
        let segment = self.list.last_mut().expect("one is written to");
        assert!(
            end >= segment.end && by.needed <= end - segment.end,
            "segments: one of {} bytes grows to {end}, {} of them needed",
            segment.end,
            by.needed
        );
        self.bytes += end - segment.end;
        self.needed += by.needed;
        segment.end = end;
        segment.needed += by.needed;
        segment.versions += by.versions;
        segment.last = segment.last.max(by.last);
    }

    /// Records that a version is unreachable.
    pub(super) fn mark_dead(&mut self, place: VersionPosition, bytes: u64) {
        let at = self.list.partition_point(|segment| segment.last < place.0);
        let Some(segment) = self.list.get_mut(at) else {
            debug_assert!(false, "{place:?} is in no segment");
            return;
        };
        assert!(
            segment.needed >= bytes && segment.dead.len() < segment.versions,
            "segments: {place:?} of {bytes} bytes dies in one that needs {} for {} versions, \
             {} of them dead",
            segment.needed,
            segment.versions,
            segment.dead.len()
        );
        segment.dead.push(place);
        segment.needed -= bytes;
        self.needed -= bytes;
    }

    /// Whether the last segment would be worth cleaning if it were sealed.
    pub(super) fn is_last_worth_cleaning(&self, cleaning: CleaningMode) -> bool {
        let Some(last) = self.list.last() else {
            return false;
        };
        let garbage = last.garbage().saturating_sub(last.state_bytes);
        match cleaning {
            CleaningMode::Busy => false,
            CleaningMode::Idle => {
                self.garbage() > self.sizes.garbage_when_idle(self.needed)
                    && garbage > self.sizes.segment_min / 2
            }
            CleaningMode::Full { .. } => garbage > 0,
        }
    }

    /// The newest revision in the log.
    pub(super) fn last_revision(&self) -> Revision {
        self.list.last().map_or(Revision::ZERO, |last| last.last)
    }

    /// Starts the next pass at the oldest segment.
    pub(super) fn rewind(&mut self) {
        self.cursor = Revision::ZERO;
    }

    /// Returns the next cleaning job. All versions made unreachable by commits before `frontier`
    /// have been recorded.
    pub(super) fn next_job(
        &mut self,
        cleaning: CleaningMode,
        frontier: Revision,
        number: u64,
    ) -> Option<CleaningJob> {
        let (most, before) = match cleaning {
            CleaningMode::Busy => (self.sizes.garbage_under_load(self.needed), frontier),
            CleaningMode::Idle => (
                self.sizes.garbage_when_idle(self.needed),
                Revision::new(u64::MAX),
            ),
            CleaningMode::Full { to } => (0, to.next()),
        };
        if self.garbage() <= most {
            return None;
        }
        let window = match cleaning {
            CleaningMode::Full { .. } => self.window(true, before),
            _ => self.next_window(most, before),
        }?;
        self.cursor = self.list[window.end - 1].last.next();
        Some(self.job(window, frontier, number))
    }

    /// Returns the next window of this pass over the segments, or the first of the next pass. The
    /// next pass is thorough if otherwise much garbage would be left.
    fn next_window(&mut self, most: u64, before: Revision) -> Option<Range<usize>> {
        if let Some(window) = self.window(self.thorough, before) {
            return Some(window);
        }
        self.rewind();
        self.thorough = self.skipped_garbage() > most / 2;
        if let Some(window) = self.window(self.thorough, before) {
            return Some(window);
        }
        self.thorough = true;
        self.window(true, before)
    }

    /// The amount of garbage that remains if only segments with much of it are cleaned.
    fn skipped_garbage(&self) -> u64 {
        let sealed = self.list.len().saturating_sub(1);
        let left = self.list[..sealed].iter().map(|segment| {
            if segment.is_worth_cleaning(false, self.sizes) {
                segment.kept_deletions
            } else {
                segment.garbage()
            }
        });
        left.sum()
    }

    /// Selects neighbouring segments after the cursor, none of them newer than `before`.
    fn window(&self, thorough: bool, before: Revision) -> Option<Range<usize>> {
        let sealed = &self.list[..self.list.len().checked_sub(1)?];
        let full = self.segment_bytes();
        let is_worth = |segment: &Segment| segment.is_worth_cleaning(thorough, self.sizes);
        let left = |segment: &Segment| segment.needed + segment.kept_deletions;
        let is_small = |segment: &Segment| segment.end <= full / 8;
        // The small remainders of segments are merged; otherwise the number of segments would keep
        // growing.
        let are_small = |start: usize| {
            let pair = sealed.get(start..start + 2);
            pair.is_some_and(|pair| pair.iter().all(is_small))
        };
        let mut start = self
            .list
            .partition_point(|segment| segment.last < self.cursor);
        while !is_worth(sealed.get(start)?) && !are_small(start) {
            start += 1;
        }
        let is_due = |segment: &&Segment| segment.last < before;
        let first = sealed.get(start).filter(is_due)?;
        let mut bytes = left(first);
        let others = sealed[start + 1..].iter().take(WINDOW_SEGMENTS_MAX - 1);
        let more = others.take_while(is_due).take_while(|next| {
            bytes += left(next);
            bytes <= full && (is_worth(next) || is_small(next))
        });
        let end = start + 1 + more.count();
        Some(start..end)
    }

    fn job(&mut self, window: Range<usize>, frontier: Revision, number: u64) -> CleaningJob {
        assert!(
            !window.is_empty() && window.end < self.list.len(),
            "cleaning leaves the active segment alone: {window:?} of {}",
            self.list.len()
        );
        // A deletion hides versions that may still lie in earlier segments. Earlier segments hold
        // none of them if they have no unreachable versions, or were cleaned after the deletion.
        let before = self.list[..window.start].iter();
        let hides_nothing = before.map(|segment| match segment.dead[..] {
            [] => frontier,
            _ => segment.cleaned_to,
        });
        let deletions_before = hides_nothing.min().unwrap_or(frontier);
        let victims = self.list[window].iter_mut().map(|segment| {
            segment.dead.sort_unstable();
            segment.dead.dedup();
            VictimSegment {
                number: segment.number,
                end: segment.end,
                needed: segment.needed,
                is_all_dead: segment.dead.len() == segment.versions
                    && segment.last < deletions_before,
                dead: segment.dead.clone(),
            }
        });
        CleaningJob {
            number,
            victims: victims.collect(),
            deletions_before,
            cleaned_to: frontier,
        }
    }

    /// Replaces cleaned segments with the segment that the cleaner made of them, or with none.
    pub(super) fn install(&mut self, cleaned: CleaningResult) {
        let first = cleaned.victims.first().map(|victim| victim.0);
        let start = self.list.iter().position(|s| Some(s.number) == first);
        let start = start.expect("what is cleaned stays until then");
        let end = start + cleaned.victims.len();
        assert!(
            end < self.list.len(),
            "cleaning leaves the active segment alone: {start}..{end} of {}",
            self.list.len()
        );
        let last = self.list[end - 1].last;
        let mut died = Vec::new();
        for (segment, (number, known)) in self.list[start..end].iter().zip(&cleaned.victims) {
            assert_eq!(segment.number, *number, "they are neighbours");
            self.bytes -= segment.end;
            died.extend_from_slice(&segment.dead[*known..]);
        }
        let needed: u64 = self.list[start..end].iter().map(|s| s.needed).sum();
        assert!(
            cleaned.replacement.is_some() || needed == 0,
            "cleaning drops only what is dead: {needed} bytes were needed"
        );
        let made = cleaned.replacement.map(|mut made| {
            // Versions that became unreachable during cleaning are in the new segment.
            made.dead.extend(died);
            made.needed = needed;
            assert!(
                made.dead.len() <= made.versions && made.needed <= made.end,
                "cleaning: {} of {} versions are dead, {needed} of {} bytes needed",
                made.dead.len(),
                made.versions,
                made.end
            );
            made.last = last;
            self.bytes += made.end;
            made
        });
        if made.is_none() {
            self.needed -= needed;
        }
        self.list.splice(start..end, made);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const SIZES: SegmentSizes = SegmentSizes { segment_min: 4096 };
    const RECORD_BYTES: u64 = 100;
    const RECORDS: u64 = 40;
    const FRONTIER: Revision = Revision::new(u64::MAX - 1);

    fn place(revision: u64) -> VersionPosition {
        (Revision::new(revision), 0)
    }

    /// Adds a sealed segment of forty records with these revisions.
    fn push(segments: &mut Segments, number: u64) {
        segments.push(Segment::new(number, SEGMENT_HEADER_BYTES));
        let mut growth = Growth::default();
        for revision in number * RECORDS..(number + 1) * RECORDS {
            growth.add(Revision::new(revision), RECORD_BYTES);
        }
        segments.grow(SEGMENT_HEADER_BYTES + RECORDS * RECORD_BYTES, &growth);
    }

    /// Does what the cleaner would do, where all dead versions except `values` are deletions.
    fn clean(
        segments: &Segments,
        job: &CleaningJob,
        values: &BTreeSet<VersionPosition>,
    ) -> CleaningResult {
        let mut made = Segment::new(job.number, SEGMENT_HEADER_BYTES);
        made.cleaned_to = job.cleaned_to;
        for victim in &job.victims {
            let known = |segment: &&Segment| segment.number == victim.number;
            let segment = segments.list.iter().find(known).expect("is known");
            made.versions += segment.versions - victim.dead.len();
            let hides = |place: &&VersionPosition| {
                place.0 >= job.deletions_before && !values.contains(place)
            };
            made.dead.extend(victim.dead.iter().filter(hides));
        }
        made.versions += made.dead.len();
        made.kept_deletions = made.dead.len() as u64 * RECORD_BYTES;
        made.end += made.versions as u64 * RECORD_BYTES;
        let victims = job.victims.iter().map(|v| (v.number, v.dead.len()));
        CleaningResult {
            victims: victims.collect(),
            replacement: (made.versions > 0).then_some(made),
        }
    }

    /// An old segment with few dead versions keeps all later deletions. If every pass left it out,
    /// the cleaner would copy those deletions for ever.
    #[test]
    fn cleaner_drops_kept_tombstones_with_what_they_hide() {
        let mut segments = Segments::new(SIZES);
        (0..80).for_each(|number| push(&mut segments, number));
        let values = BTreeSet::from([place(3)]);
        segments.mark_dead(place(3), RECORD_BYTES);
        for revision in RECORDS..79 * RECORDS {
            segments.mark_dead(place(revision), RECORD_BYTES);
        }
        let mut number = 100;
        while let Some(job) = segments.next_job(CleaningMode::Busy, FRONTIER, number) {
            assert!(
                number < 130,
                "it gets nowhere: {} bytes",
                segments.garbage()
            );
            let cleaned = clean(&segments, &job, &values);
            segments.install(cleaned);
            number += 1;
        }
        let most = SIZES.garbage_under_load(segments.needed());
        assert!(segments.garbage() <= most, "{} bytes", segments.garbage());
        assert_eq!(segments.needed(), (2 * RECORDS - 1) * RECORD_BYTES);
    }

    /// Deletions stay as long as versions that they hide may lie in earlier segments.
    #[test]
    fn cleaner_keeps_tombstones_while_hidden_versions_remain() {
        let mut segments = Segments::new(SIZES);
        (0..3).for_each(|number| push(&mut segments, number));
        segments.mark_dead(place(3), RECORD_BYTES);
        segments.mark_dead(place(50), RECORD_BYTES);
        let job = |segments: &mut Segments, window| segments.job(window, FRONTIER, 9);
        assert_eq!(job(&mut segments, 0..1).deletions_before, FRONTIER);
        assert_eq!(job(&mut segments, 1..2).deletions_before, Revision::ZERO);
        segments.list[0].cleaned_to = Revision::new(40);
        assert_eq!(job(&mut segments, 1..2).deletions_before, Revision::new(40));
        segments.list[0].dead.clear();
        assert_eq!(job(&mut segments, 1..2).deletions_before, FRONTIER);
    }
}
