//! What each segment of the log holds, and which of them are worth cleaning. (This is garbage
//! collection in a log-structured store; a deletion is what others call a tombstone.)
//!
//! Versions lie in the log in the order of their revisions. Those that compaction made
//! unreachable stay until the cleaner writes what is left of a few neighbouring segments
//! into a new one, which takes their place.

use super::cleaner::{CleaningJob, CleaningResult, VictimSegment};
use super::segment::SEGMENT_HEADER_BYTES;
use crate::replay::VersionPosition;
use crate::revision::Revision;
use std::ops::Range;

/// A segment with less than this part of garbage is left out of a pass that is not thorough.
const GARBAGE_DIVISOR: u64 = 8;
const WINDOW_SEGMENTS_MAX: usize = 64;

/// One segment that belongs to the log.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) end: u64,
    /// What its versions take that somebody can still reach.
    pub(super) needed: u64,
    /// How many versions it holds, dead ones too.
    pub(super) versions: usize,
    /// The newest revision in it or before it.
    pub(super) last: Revision,
    /// Versions in it that nobody can reach, and deletions that nobody needs to see.
    pub(super) dead: Vec<VersionPosition>,
    /// What those deletions take that were kept when it was cleaned, because something that
    /// they hide may still lie before them.
    pub(super) kept_deletions: u64,
    /// What it says in the beginning besides versions. That goes when it is cleaned, but a new
    /// segment would say the same.
    pub(super) state_bytes: u64,
    /// All that commits before this made unreachable was left out when it was written.
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

    /// What cleaning would give back whatever lies before it.
    fn reclaimable(&self) -> u64 {
        self.garbage().saturating_sub(self.kept_deletions)
    }

    /// Thoroughly, a segment is rid of all that is dead: others cannot be as long as what
    /// they hide lies here.
    fn is_worth_cleaning(&self, thorough: bool, sizes: SegmentSizes) -> bool {
        if thorough {
            !self.dead.is_empty() || self.garbage() > sizes.overhead_max() + self.needed / 1024
        } else {
            self.reclaimable().saturating_mul(GARBAGE_DIVISOR) >= self.end
        }
    }
}

/// What a frame adds to a segment.
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

/// How large things may become. All of it follows from the smallest segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentSizes {
    pub(super) segment_min: u64,
}

impl SegmentSizes {
    /// A segment of this length is full.
    pub(super) fn segment(self, total: u64) -> u64 {
        (total / 16).clamp(self.segment_min, self.segment_min * 8)
    }

    /// Less than this is not worth to be cleaned at all.
    fn overhead_max(self) -> u64 {
        self.segment_min / 8192 + 32
    }

    /// More garbage than this is cleaned while somebody writes.
    fn garbage_under_load(self, needed: u64) -> u64 {
        needed / 10 * 6 + self.segment_min * 12
    }

    /// More than this is cleaned when nobody does.
    fn garbage_when_idle(self, needed: u64) -> u64 {
        needed / 100 * 15 + self.segment_min * 2
    }

    /// With more than this, writes wait for the cleaner.
    fn garbage_max(self, needed: u64) -> u64 {
        needed / 10 * 9 + self.segment_min * 40
    }
}

/// When to clean, and how well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CleaningMode {
    /// Segments that lie before the floor, when there is much garbage.
    Busy,
    /// All sealed segments, if there is some.
    Idle,
    /// All that there is up to this revision.
    Full { to: Revision },
}

#[derive(Debug)]
pub(super) struct Segments {
    /// In the order of the log. The last one is written to.
    list: Vec<Segment>,
    sizes: SegmentSizes,
    bytes: u64,
    needed: u64,
    /// Segments behind this revision come next.
    cursor: Revision,
    /// The last pass over the segments left some garbage out, and there is still too much.
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

    /// In the order of the log.
    pub(super) fn list(&self) -> &[Segment] {
        &self.list
    }

    pub(super) fn last_number(&self) -> Option<u64> {
        self.list.last().map(|last| last.number)
    }

    pub(super) fn segment_bytes(&self) -> u64 {
        self.sizes.segment(self.bytes)
    }

    /// All but the one that is written to: their numbers, and where they end.
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

    /// A new last segment.
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

    /// The last segment has grown.
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

    /// Nobody needs this version any more.
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

    /// Whether the last segment could be cleaned if it were not written to any more, and it
    /// would be worth it.
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

    /// The newest revision in it.
    pub(super) fn last_revision(&self) -> Revision {
        self.list.last().map_or(Revision::ZERO, |last| last.last)
    }

    /// Begins at the oldest segment again.
    pub(super) fn rewind(&mut self) {
        self.cursor = Revision::ZERO;
    }

    /// What should be cleaned next. All that commits before `frontier` made unreachable is
    /// known to be.
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

    /// The rest of this pass over the segments; then another one. It leaves nothing out if
    /// much would be left.
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

    /// Garbage that stays if only segments with much of it are cleaned.
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

    /// Some neighbours behind the cursor, none of them newer than `before`.
    fn window(&self, thorough: bool, before: Revision) -> Option<Range<usize>> {
        let sealed = &self.list[..self.list.len().checked_sub(1)?];
        let full = self.segment_bytes();
        let is_worth = |segment: &Segment| segment.is_worth_cleaning(thorough, self.sizes);
        let left = |segment: &Segment| segment.needed + segment.kept_deletions;
        let is_small = |segment: &Segment| segment.end <= full / 8;
        // What little is left of some becomes one segment; otherwise there would be ever more.
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
        // A deletion hides what may still lie before it. Older segments hold nothing that
        // it hides if they hold nothing unreachable, or were cleaned after it.
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

    /// The cleaner has put a segment in the place of others, or nothing.
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
            // What died meanwhile is in there.
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

    /// A sealed segment of forty records with these revisions.
    fn push(segments: &mut Segments, number: u64) {
        segments.push(Segment::new(number, SEGMENT_HEADER_BYTES));
        let mut growth = Growth::default();
        for revision in number * RECORDS..(number + 1) * RECORDS {
            growth.add(Revision::new(revision), RECORD_BYTES);
        }
        segments.grow(SEGMENT_HEADER_BYTES + RECORDS * RECORD_BYTES, &growth);
    }

    /// What the cleaner would do, where all that is dead is a deletion but for `values`.
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

    /// One old segment in which little died keeps all later deletions. Left out of every pass,
    /// it would make the cleaner copy them for ever.
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

    /// As long as something that they hide may lie before them, they stay.
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
