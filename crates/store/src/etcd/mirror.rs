//! The mirror: a local copy of the cluster's state, applied commit by commit.

use super::cluster_identity::ClusterMismatch;
use super::wire::{Provenance, decode_revision, version_from_kv};
use crate::compaction::{SWEEP_COMMITS, compaction_target, has_garbage, sweep};
use crate::history::{Commit, Event};
use crate::index::Index;
use crate::options::Retention;
use crate::origin::Origin;
use crate::revision::Revision;
use crate::sync::Arc;
use crate::version::Version;
use crate::view::View;
use optik_etcd_api::mvccpb;
use optik_etcd_api::mvccpb::event::EventType;
use optik_platform::Clock;

#[derive(Debug)]
pub(crate) struct Mirror {
    view: Arc<View>,
    /// The published index, minus the versions that compaction has removed since.
    index: Index,
    clock: Arc<dyn Clock>,
    retention: Retention,
}

/// All events of one revision.
#[derive(Debug)]
pub(crate) struct RevisionEvents {
    pub(crate) revision: Revision,
    pub(crate) events: Vec<mvccpb::Event>,
    pub(crate) origin: Option<Arc<Origin>>,
}

impl Mirror {
    pub(crate) fn new(view: Arc<View>, clock: Arc<dyn Clock>, retention: Retention) -> Self {
        Self {
            index: view.with_index(Index::clone),
            view,
            clock,
            retention,
        }
    }

    /// Applies whole commits, all or none.
    pub(crate) fn apply(&mut self, changes: Vec<RevisionEvents>) -> Result<(), ClusterMismatch> {
        let mut index = self.index.clone();
        let commits = changes
            .into_iter()
            .map(|change| self.commit(&mut index, change).map(Arc::new))
            .collect::<Result<_, _>>()?;
        self.index = index.clone();
        self.view.publish(index, commits);
        Ok(())
    }

    fn commit(&self, index: &mut Index, change: RevisionEvents) -> Result<Commit, ClusterMismatch> {
        let time = self.clock.wall();
        if change.revision <= index.revision() {
            return Err(ClusterMismatch(format!(
                "etcd sent events of revision {} after a progress notification for a later revision \
                 to {}; restart Optik to start from a whole state",
                change.revision,
                index.revision()
            )));
        }
        index.advance_to(change.revision);
        let mut events = Vec::with_capacity(change.events.len());
        for (sub, event) in (0..).zip(&change.events) {
            let provenance = Provenance {
                sub,
                time,
                origin: change.origin.clone(),
            };
            let event = link(index, event, provenance)?;
            index.insert(Arc::clone(&event.version));
            events.push(event);
        }
        Ok(Commit {
            revision: change.revision,
            time,
            known_since: self.clock.monotonic(),
            origin: change.origin,
            events: events.into_boxed_slice(),
        })
    }

    /// Records that there were no further events up to `revision`.
    pub(crate) fn advance_to(&mut self, revision: Revision) {
        if revision > self.index.revision() {
            self.index.advance_to(revision);
            self.view.publish(self.index.clone(), Vec::new());
        }
    }

    /// Restarts from a state without known history.
    ///
    /// The previous contents are not used: a panic may have left them inconsistent.
    pub(crate) fn reset(&mut self, index: Index) -> Result<(), ClusterMismatch> {
        let (shown, found) = (self.view.revision(), index.revision());
        if found < shown {
            return Err(ClusterMismatch(format!(
                "etcd is at revision {found}, but has told of {shown} before; restart Optik \
                 to go on with what it holds"
            )));
        }
        self.index = index.clone();
        self.view.reset(index);
        Ok(())
    }

    /// Returns the state at one revision and the retained history.
    pub(crate) fn export(&self) -> (Revision, (Vec<Arc<Commit>>, Index)) {
        (self.view.floor().get(), self.view.state_with_history())
    }

    /// Runs one bounded step of compaction. Returns whether more is due.
    pub(crate) fn compact_step(&mut self) -> bool {
        if let Some(target) = compaction_target(&self.view, self.retention, self.clock.monotonic())
        {
            self.view.compact(target);
        }
        // The mirror has no disk of its own.
        sweep(&self.view, &mut self.index, 4 * SWEEP_COMMITS, |_| ());
        has_garbage(&self.view)
    }
}

/// Converts an etcd event and links it to the previous version of its key.
fn link(
    index: &Index,
    event: &mvccpb::Event,
    provenance: Provenance,
) -> Result<Event, ClusterMismatch> {
    let kv = event.kv.clone().unwrap_or_default();
    let newest = index.newest(&kv.key).cloned();
    let prior = newest.clone().filter(|version| !version.is_deletion());
    let version = version_from_kv(&kv, newest, provenance);
    let is_deletion = event.r#type() == EventType::Delete;
    if is_deletion != version.is_deletion() || !follows(&version, prior.as_deref()) {
        return Err(ClusterMismatch(format!(
            "etcd says that {version:?} follows {prior:?}: its history is not the one we know; \
             restart Optik to start from a whole state"
        )));
    }
    Ok(Event {
        version: Arc::new(version),
        prior,
    })
}

/// Each version counts the puts of its key, so a missing or foreign event is detected. Requesting
/// previous values from etcd would double the traffic.
fn follows(version: &Version, prior: Option<&Version>) -> bool {
    match prior {
        _ if version.is_deletion() => prior.is_some(),
        None => version.version == 1 && version.create_revision == version.mod_revision,
        Some(prior) => {
            version.version == prior.version + 1 && version.create_revision == prior.create_revision
        }
    }
}

/// Sorts the events of one answer into commits: etcd sends all of a revision together.
pub(crate) fn group_by_revision(events: Vec<mvccpb::Event>) -> Vec<RevisionEvents> {
    let mut changes: Vec<RevisionEvents> = Vec::new();
    for event in events {
        let revision = event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
        let revision = decode_revision(revision);
        match changes.last_mut() {
            Some(change) if change.revision == revision => change.events.push(event),
            _ => changes.push(RevisionEvents {
                revision,
                events: vec![event],
                origin: None,
            }),
        }
    }
    changes
}
