//! Restore: builds a data directory that counts as a store only once it is finished.

use super::layout::{StoreDirectory, SyncGuarantee};
use super::log_builder::LogBuilder;
use super::record;
use super::recovery;
use super::segment_gc::SegmentSizes;
use crate::error::OpenError;
use crate::lease::LeaseId;
use crate::options::{Durability, Options};
use crate::replay::VersionPosition;
use crate::revision::Revision;
use optik_platform::Monotonic;
use std::path::Path;
use std::time::Duration;

pub(crate) struct RestoreWriter {
    directory: StoreDirectory,
    sizes: SegmentSizes,
    id: u64,
    floor: Revision,
    leases: Vec<(LeaseId, Duration)>,
    /// Versions up to the floor, which may arrive in key order.
    base: Vec<(VersionPosition, Vec<u8>)>,
    builder: Option<LogBuilder>,
}

impl RestoreWriter {
    /// Begins a restore; `None` if the directory already holds data.
    pub(crate) fn begin(path: &Path, id: u64, floor: Revision) -> Result<Option<Self>, OpenError> {
        let directory = StoreDirectory::lock(path)?;
        if directory.read_format()?.is_some() {
            return Ok(None);
        }
        directory.restrict()?;
        directory.set_incomplete_aside()?;
        Ok(Some(Self {
            directory,
            sizes: SegmentSizes {
                segment_min: Options::directory(path).segment_bytes,
            },
            id,
            floor,
            leases: Vec::new(),
            base: Vec::new(),
            builder: None,
        }))
    }

    pub(crate) fn add_lease(&mut self, id: LeaseId, ttl: Duration) {
        self.leases.push((id, ttl));
    }

    /// Adds a version, encoded by [`super::encode_version`]. Versions above the floor must come in
    /// order.
    pub(crate) fn add_version(
        &mut self,
        place: VersionPosition,
        version: Vec<u8>,
    ) -> Result<(), OpenError> {
        if place.0 <= self.floor {
            self.base.push((place, version));
            return Ok(());
        }
        self.log()?.push(place, &version)
    }

    /// Returns the log, after writing all versions up to the floor to it.
    fn log(&mut self) -> Result<&mut LogBuilder, OpenError> {
        if self.builder.is_none() {
            let mut log = LogBuilder::begin(&self.directory, self.id, self.floor, self.sizes)?;
            let mut base = std::mem::take(&mut self.base);
            base.sort_by_key(|(place, _)| *place);
            base.chunk_by_mut(|a, b| a.0.0 == b.0.0)
                .for_each(number_changes);
            for (place, version) in base {
                log.push(place, &version)?;
            }
            self.builder = Some(log);
        }
        Ok(self.builder.as_mut().expect("was just made"))
    }

    /// Checks the log as a start would, and turns it into a data directory.
    pub(crate) fn finish(mut self) -> Result<(), OpenError> {
        self.log()?;
        let log = self.builder.take().expect("was just made");
        log.finish(self.floor, self.leases.iter().copied())?;
        let path = self.directory.log();
        recovery::read(
            &path,
            SyncGuarantee::Synced,
            self.sizes,
            Monotonic::default(),
        )?;
        self.directory.write_format(Durability::PowerLoss)
    }
}

/// Numbers the changes of each commit. An etcd cluster does not report the order of the changes in
/// a transaction: all of them have the same position.
fn number_changes(changes: &mut [(VersionPosition, Vec<u8>)]) {
    let is_ambiguous = changes.windows(2).any(|pair| pair[0].0 == pair[1].0);
    if !is_ambiguous {
        return;
    }
    let of = u32::try_from(changes.len()).expect("fewer than 2^32 changes");
    for (number, (place, version)) in (0..of).zip(changes) {
        place.1 = number;
        record::set_changes(version, of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::encode_version;
    use crate::key::Key;
    use crate::sync::Mutex;
    use crate::version::Version;
    use crate::{KeyRange, Store};
    use optik_platform::UnixMillis;

    fn version(key: &str, revision: u64) -> Vec<u8> {
        let version = Version {
            key: Key::from(key),
            value: "v".into(),
            create_revision: Revision::new(revision),
            mod_revision: Revision::new(revision),
            sub: 0,
            version: 1,
            lease: LeaseId::NONE,
            time: UnixMillis(1),
            origin: None,
            prior: Mutex::new(None),
        };
        encode_version(&version, 1)
    }

    /// The order of an export from an etcd cluster: by key, nothing older than the floor, and the
    /// changes of one transaction at the same position.
    #[tokio::test]
    async fn restore_of_state_without_history_keeps_all_keys() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("data");
        let begun = RestoreWriter::begin(&path, 7, Revision::new(9));
        let mut restoring = begun.expect("begins").expect("is empty");
        for (key, revision) in [("a", 9), ("b", 3), ("c", 9), ("d", 3), ("e", 4)] {
            let place = (Revision::new(revision), 0);
            restoring
                .add_version(place, version(key, revision))
                .expect("room");
        }
        restoring.finish().expect("is whole");
        let store = Store::open(Options::directory(&path)).expect("opens");
        let snapshot = store.snapshot();
        let entries = snapshot.entries(&KeyRange::all());
        let keys: Vec<_> = entries.map(|v| v.key().to_vec()).collect();
        assert_eq!(keys, [b"a", b"b", b"c", b"d", b"e"]);
        assert_eq!(snapshot.revision(), Revision::new(9));
        store.close().await;
    }
}
