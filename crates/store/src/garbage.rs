//! Versions that nobody can reach any more, until it is worth taking them off the disk.
//!
//! The engine keeps versions in the order of their revisions: new ones lie behind all
//! others, and writing them moves nothing. A removal is a note among the new ones about an
//! old one, and to carry it out the engine writes everything between the two anew. So
//! removals wait until there is as much garbage as there is data.

use crate::replay::Place;
use std::collections::VecDeque;

/// Less than this lies around as long as something is written.
const WORTHWHILE_BYTES: u64 = 256 << 20;
/// More than this takes too much memory, whatever it amounts to on disk.
const PLACES_MAX: usize = 1 << 20;
/// How many go with one write.
const STEP_PLACES_MAX: usize = 1024;

/// In the order of the revisions that made them garbage. They go in this order, too: a
/// deletion must not go before what it deletes, which would come back.
#[derive(Debug, Default)]
pub(crate) struct Garbage {
    places: VecDeque<Place>,
    /// About what they take on disk; nothing for those found at the start.
    bytes: u64,
    leaving: bool,
}

impl Garbage {
    pub(crate) fn new(found: Vec<Place>) -> Self {
        Self {
            places: found.into(),
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, place: Place, bytes: u64) {
        self.places.push_back(place);
        self.bytes += bytes;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Begins to take it out if it amounts to something beside what lives.
    pub(crate) fn weigh(&mut self, live_bytes: u64) {
        if self.bytes >= live_bytes.max(WORTHWHILE_BYTES) || self.places.len() >= PLACES_MAX {
            self.leave();
        }
    }

    /// Takes all of it out, however little.
    pub(crate) fn leave(&mut self) {
        self.leaving = !self.is_empty();
    }

    /// What should go with the next write.
    pub(crate) fn step(&self) -> &[Place] {
        if !self.leaving {
            return &[];
        }
        // The other part follows when this one has gone.
        let (first, _) = self.places.as_slices();
        &first[..first.len().min(STEP_PLACES_MAX)]
    }

    /// The last step is gone.
    pub(crate) fn step_done(&mut self) {
        let count = self.step().len();
        self.places.drain(..count);
        if self.is_empty() {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Change, Disk};
    use crate::revision::Revision;
    use crate::{KeyRange, Op, Options, Origin, Put, Store, Txn};

    fn place(revision: u64) -> Place {
        (Revision::new(revision), 0)
    }

    /// Takes everything out, and returns it.
    fn taken(garbage: &mut Garbage) -> Vec<Place> {
        let mut taken = Vec::new();
        while !garbage.step().is_empty() {
            taken.extend_from_slice(garbage.step());
            garbage.step_done();
        }
        taken
    }

    #[test]
    fn it_goes_when_it_amounts_to_as_much_as_the_rest() {
        let rows = [
            ("little", 1, WORTHWHILE_BYTES - 1, 0, false),
            ("enough", 1, WORTHWHILE_BYTES, 0, true),
            (
                "little beside the rest",
                1,
                WORTHWHILE_BYTES,
                WORTHWHILE_BYTES + 1,
                false,
            ),
            ("many small ones", PLACES_MAX as u64, 1, u64::MAX, true),
        ];
        for (name, count, bytes, live, goes) in rows {
            let mut garbage = Garbage::default();
            for revision in 0..count {
                garbage.add(place(revision), bytes);
            }
            garbage.weigh(live);
            assert_eq!(!garbage.step().is_empty(), goes, "{name}");
        }
    }

    #[test]
    fn it_goes_in_order_and_all_of_it() {
        let mut garbage = Garbage::new((0..3000).map(place).collect());
        // So that the ring is not in one piece.
        garbage.leave();
        garbage.step_done();
        for revision in 3000..6000 {
            garbage.add(place(revision), 1);
        }
        let rest: Vec<_> = (1024..6000).map(place).collect();
        assert_eq!(taken(&mut garbage), rest);
        garbage.add(place(1), 1);
        assert!(garbage.step().is_empty(), "the next waits again");
    }

    /// However far removing has come when the power goes, nothing deleted comes back.
    #[tokio::test]
    async fn a_part_of_it_can_go() {
        let directory = tempfile::tempdir().expect("a directory");
        let options = Options::directory(directory.path().join("data"));
        let path = options.directory.clone().expect("on disk");
        let store = Store::open(options.clone()).expect("opens");
        for key in ["a", "b", "c"] {
            for value in ["1", "2"] {
                let put = Txn::put(Put::new(key, value));
                store.commit(put, Origin::default()).await.expect("is put");
            }
        }
        for key in ["a", "b"] {
            let gone = Txn::of(vec![Op::Delete(KeyRange::one(key))]);
            store.commit(gone, Origin::default()).await.expect("goes");
        }
        let newest = store.snapshot().revision();
        store.compact(newest).await.expect("is compacted");
        store.close().await;
        let (disk, mut found) = Disk::open(&path, &options).expect("opens");
        disk.close();
        // Two older values of each, but for the newest of c; and one deletion before the
        // floor.
        assert_eq!(found.garbage.len(), 5);
        while let Some((first, rest)) = found.garbage.split_first() {
            let (mut disk, _) = Disk::open(&path, &options).expect("opens");
            let step = Change {
                garbage: &[*first],
                ..Change::default()
            };
            disk.write(&step).expect("goes");
            disk.close();
            let (disk, left) = Disk::open(&path, &options).expect("opens");
            disk.close();
            assert_eq!(left.garbage, rest);
            assert_eq!(left.index.size().keys, 1, "c is left");
            found = left;
        }
    }
}
