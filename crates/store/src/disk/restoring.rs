//! A data directory in the making. Until it is finished it does not count as one.

use super::journal::{Promise, sync_directories};
use super::layout::{Directory, io_error};
use super::{Engine, META_FLOOR, META_ID, engine_error, record};
use crate::error::OpenError;
use crate::lease::LeaseId;
use crate::options::{Durability, Options};
use crate::replay::Place;
use crate::revision::Revision;
use fjall::{Keyspace, OwnedWriteBatch, PersistMode};
use optik_platform::Monotonic;
use std::path::Path;
use std::time::Duration;

/// How much goes into the engine at once.
const BATCH_BYTES_MAX: usize = 4 << 20;

pub(crate) struct Restoring {
    directory: Directory,
    engine: Engine,
    batch: OwnedWriteBatch,
    batch_bytes: usize,
}

impl Restoring {
    /// `None` if the directory holds data already.
    pub(crate) fn begin(path: &Path) -> Result<Option<Self>, OpenError> {
        let directory = Directory::lock(path)?;
        if directory.read_format()?.is_some() {
            return Ok(None);
        }
        directory.restrict()?;
        directory.set_incomplete_database_aside()?;
        let engine = Engine::open(&directory, Promise::Synced, &Options::directory(path))?;
        let batch = engine.database.batch();
        Ok(Some(Self {
            directory,
            engine,
            batch,
            batch_bytes: 0,
        }))
    }

    pub(crate) fn set_id(&mut self, id: u64) -> Result<(), OpenError> {
        let keyspace = self.engine.meta.clone();
        self.insert(
            &keyspace,
            record::meta_key(META_ID),
            record::encode_number(id),
        )
    }

    pub(crate) fn set_floor(&mut self, floor: Revision) -> Result<(), OpenError> {
        let keyspace = self.engine.meta.clone();
        let floor = record::encode_number(floor.get());
        self.insert(&keyspace, record::meta_key(META_FLOOR), floor)
    }

    pub(crate) fn add_lease(&mut self, id: LeaseId, ttl: Duration) -> Result<(), OpenError> {
        let keyspace = self.engine.meta.clone();
        let ttl = record::encode_number(ttl.as_secs());
        self.insert(&keyspace, record::lease_key(id), ttl)
    }

    /// `version` is as [`record::encode_version`] made it.
    pub(crate) fn add_version(&mut self, place: Place, version: Vec<u8>) -> Result<(), OpenError> {
        let keyspace = self.engine.log.clone();
        self.insert(&keyspace, record::version_key(place), version)
    }

    fn insert(&mut self, to: &Keyspace, key: Vec<u8>, value: Vec<u8>) -> Result<(), OpenError> {
        self.batch_bytes += key.len() + value.len();
        self.batch.insert(to, key, value);
        if self.batch_bytes >= BATCH_BYTES_MAX {
            self.flush(PersistMode::Buffer)?;
        }
        Ok(())
    }

    fn flush(&mut self, mode: PersistMode) -> Result<(), OpenError> {
        let fresh = self.engine.database.batch();
        let batch = std::mem::replace(&mut self.batch, fresh);
        self.batch_bytes = 0;
        let path = self.directory.database();
        let written = batch.durability(Some(mode)).commit();
        written.map_err(|cause| engine_error(&path, cause))
    }

    /// Checks what was written as a start would, and makes it a data directory.
    pub(crate) fn finish(mut self) -> Result<(), OpenError> {
        self.flush(PersistMode::SyncAll)?;
        let path = self.directory.database();
        sync_directories(&path).map_err(io_error("sync", &path))?;
        self.engine.recover(&self.directory, Monotonic::default())?;
        self.directory.write_format(Durability::PowerLoss)
    }
}
