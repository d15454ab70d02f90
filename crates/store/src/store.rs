use crate::backup::Export;
use crate::disk::DiskStatus;
use crate::embedded::EmbeddedEngine;
use crate::error::{
    CommitError, CompactError, ConnectError, LeaseError, OpenError, ReadError, WatchError,
};
use crate::etcd::{EtcdEngine, EtcdOptions};
use crate::index::{LiveSize, Snapshot};
use crate::lease::{LeaseId, LeaseInfo};
use crate::options::Options;
use crate::origin::Origin;
use crate::revision::Revision;
use crate::sequencer::{ExportState, SequencerRequest};
use crate::sync::Arc;
use crate::txn::{Txn, TxnResult};
use crate::view::View;
use crate::watch::{Watch, WatchSpec};
use std::time::Duration;

/// A store: one sequence of revisions, with its snapshots, watches and leases.
///
/// Cheap to clone. The store stops when it is closed or its last clone is dropped.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use optik_store::{Options, Origin, Put, Revision, Store, Txn};
///
/// let store = Store::open(Options::ephemeral())?;
/// let created = store.commit(Txn::put(Put::new("a", "1")), Origin::default()).await?;
/// assert_eq!(created.revision, Revision::new(2));
///
/// // A write names the revision it was based on, and is refused if that has passed.
/// let stale = Txn::put_if(Revision::new(1), Put::new("a", "2"));
/// let refused = store.commit(stale, Origin::default()).await?;
/// assert!(!refused.succeeded);
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<StoreInner>,
}

#[derive(Debug)]
struct StoreInner {
    view: Arc<View>,
    engine: Engine,
}

#[derive(Debug)]
enum Engine {
    Embedded(EmbeddedEngine),
    Etcd(EtcdEngine),
}

/// The status of a store.
#[derive(Clone, Copy, Debug)]
pub struct StoreStatus {
    /// The id of the store: constant, and different for every store.
    pub id: u64,
    pub revision: Revision,
    /// The oldest revision that can be read.
    pub oldest: Revision,
    pub live: LiveSize,
    /// The number of commits that can be watched.
    pub history_commits: usize,
    /// An upper bound on the memory that they use.
    pub history_bytes: u64,
    /// Bytes on disk; zero for a store in memory.
    pub disk_bytes: u64,
    /// Details of the embedded engine on disk.
    pub disk: Option<DiskStatus>,
    /// False after the disk refused a write until it works again, or while etcd reports that it has
    /// no space.
    pub accepts_writes: bool,
}

impl Store {
    /// Opens an embedded store, on disk or in memory.
    ///
    /// # Errors
    /// If the directory cannot be used; see [`OpenError`].
    pub fn open(options: Options) -> Result<Self, OpenError> {
        let (embedded, view) = EmbeddedEngine::open(options)?;
        Ok(Self {
            inner: Arc::new(StoreInner {
                view,
                engine: Engine::Embedded(embedded),
            }),
        })
    }

    /// Opens a store on an etcd cluster: reads all of its state, and then watches it with tasks of
    /// the runtime on which this is called.
    ///
    /// # Errors
    /// If the cluster cannot be reached or used; see [`ConnectError`].
    pub async fn connect(options: EtcdOptions) -> Result<Self, ConnectError> {
        let (etcd, view) = Box::pin(EtcdEngine::connect(options)).await?;
        Ok(Self {
            inner: Arc::new(StoreInner {
                view,
                engine: Engine::Etcd(etcd),
            }),
        })
    }

    /// Executes a transaction. When this returns, the result is durable and visible to every read
    /// that begins afterwards.
    ///
    /// Dropping the future does not cancel a transaction that has been submitted.
    ///
    /// # Errors
    /// If the transaction is invalid, or the store cannot accept writes.
    pub async fn commit(&self, txn: Txn, origin: Origin) -> Result<TxnResult, CommitError> {
        match &self.inner.engine {
            Engine::Embedded(embedded) => {
                let request = |reply| SequencerRequest::Commit { txn, origin, reply };
                embedded.call(request).await?
            }
            Engine::Etcd(etcd) => etcd.commit(txn, origin).await,
        }
    }

    /// Returns the newest state known to this process. Successive snapshots never go back in time.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.inner.view.snapshot()
    }

    /// Returns a linearizable state: it includes every write that was acknowledged, to any client,
    /// before this call.
    ///
    /// # Errors
    /// If that cannot be proven.
    pub async fn latest(&self) -> Result<Snapshot, ReadError> {
        match &self.inner.engine {
            // Commits are published before they are acknowledged, and only by this process.
            Engine::Embedded(embedded) => match embedded.check() {
                Ok(()) => Ok(self.snapshot()),
                Err(why) => Err(ReadError::Unavailable(why.into())),
            },
            Engine::Etcd(etcd) => etcd.latest().await,
        }
    }

    /// Checks that [`Store::snapshot`] is recent enough to act on: on a cluster, it is not after
    /// ten seconds without proof that it is current. The cost is negligible.
    ///
    /// # Errors
    /// If that proof is missing.
    pub fn check_staleness(&self) -> Result<(), ReadError> {
        match &self.inner.engine {
            // Only this process can change the state.
            Engine::Embedded(_) => Ok(()),
            Engine::Etcd(etcd) => etcd.check_staleness(),
        }
    }

    /// Waits without a timeout until `revision` has been reached.
    pub async fn wait_for_revision(&self, revision: Revision) -> Snapshot {
        match &self.inner.engine {
            Engine::Embedded(_) => self.inner.view.wait_for_revision(revision).await,
            Engine::Etcd(etcd) => etcd.cluster().wait_for_revision_unbounded(revision).await,
        }
        self.snapshot()
    }

    /// Opens a watch.
    ///
    /// # Errors
    /// If events that it requests are compacted.
    pub fn watch(&self, spec: WatchSpec) -> Result<Watch, WatchError> {
        self.inner.view.watch(spec)
    }

    /// Waits until every commit up to `revision` has been delivered to the mailboxes of watches
    /// that keep reading: then [`Watch::progress_revision`] is at least `revision` once they have read it.
    pub async fn wait_dispatched(&self, revision: Revision) {
        self.inner.view.hub().wait_dispatched(revision).await;
    }

    /// Compacts the history before `revision`. Reads at `revision` still work.
    ///
    /// # Errors
    /// If it is compacted already, or lies in the future.
    pub async fn compact(&self, revision: Revision) -> Result<(), CompactError> {
        match &self.inner.engine {
            Engine::Embedded(embedded) => {
                let request = |reply| SequencerRequest::Compact { revision, reply };
                embedded.call(request).await?
            }
            Engine::Etcd(etcd) => etcd.compact(revision).await,
        }
    }

    /// Grants a lease with the given id, or with a free one.
    ///
    /// # Errors
    /// If the id is taken or the TTL too long.
    pub async fn grant_lease(
        &self,
        id: Option<LeaseId>,
        ttl: Duration,
    ) -> Result<LeaseId, LeaseError> {
        let id = id.filter(|id| *id != LeaseId::NONE);
        match &self.inner.engine {
            Engine::Embedded(embedded) => {
                let request = |reply| SequencerRequest::Grant { id, ttl, reply };
                embedded.call(request).await?
            }
            Engine::Etcd(etcd) => etcd.cluster().grant_lease(id, ttl).await,
        }
    }

    /// Revokes a lease and deletes its keys; returns the revision of the store afterwards.
    ///
    /// # Errors
    /// If there is no such lease.
    pub async fn revoke_lease(&self, id: LeaseId) -> Result<Revision, LeaseError> {
        match &self.inner.engine {
            Engine::Embedded(embedded) => {
                let request = |reply| SequencerRequest::Revoke { id, reply };
                embedded.call(request).await?
            }
            Engine::Etcd(etcd) => etcd.cluster().revoke_lease(id).await,
        }
    }

    /// Renews a lease; returns its TTL.
    ///
    /// # Errors
    /// If there is no such lease.
    pub async fn keep_lease_alive(&self, id: LeaseId) -> Result<Duration, LeaseError> {
        match &self.inner.engine {
            Engine::Embedded(embedded) => {
                let request = |reply| SequencerRequest::KeepAlive { id, reply };
                embedded.call(request).await?
            }
            Engine::Etcd(etcd) => etcd.cluster().keep_lease_alive(id).await,
        }
    }

    /// # Errors
    /// If there is no such lease.
    pub async fn lease(&self, id: LeaseId) -> Result<LeaseInfo, LeaseError> {
        match &self.inner.engine {
            Engine::Embedded(embedded) => {
                let request = |reply| SequencerRequest::LeaseInfo { id, reply };
                embedded.call(request).await?
            }
            Engine::Etcd(etcd) => etcd.cluster().lease(id).await,
        }
    }

    /// # Errors
    /// If the store cannot be asked.
    pub async fn leases(&self) -> Result<Vec<LeaseId>, LeaseError> {
        match &self.inner.engine {
            Engine::Embedded(embedded) => {
                embedded
                    .call(|reply| SequencerRequest::Leases { reply })
                    .await?
            }
            Engine::Etcd(etcd) => etcd.cluster().leases().await,
        }
    }

    /// # Errors
    /// If the store cannot be asked.
    pub async fn status(&self) -> Result<StoreStatus, ReadError> {
        let snapshot = self.snapshot();
        let (id, disk) = match &self.inner.engine {
            Engine::Embedded(embedded) => {
                let disk = embedded
                    .call(|reply| SequencerRequest::BackendStatus { reply })
                    .await;
                (embedded.id(), disk.map_err(|_| ReadError::Stopped)?)
            }
            Engine::Etcd(etcd) => (etcd.id(), etcd.backend_status().await?),
        };
        let history = |history: &crate::history::History| (history.len(), history.bytes());
        let (history_commits, history_bytes) = self.inner.view.with_history(history);
        Ok(StoreStatus {
            id,
            revision: snapshot.revision(),
            oldest: snapshot.oldest(),
            live: snapshot.size(),
            history_commits,
            history_bytes,
            disk_bytes: disk.bytes,
            disk: disk.status,
            accepts_writes: disk.accepts_writes,
        })
    }

    /// The id of the store; see [`StoreStatus::id`].
    #[must_use]
    pub fn id(&self) -> u64 {
        match &self.inner.engine {
            Engine::Embedded(embedded) => embedded.id(),
            Engine::Etcd(etcd) => etcd.id(),
        }
    }

    /// Expires leases and compacts now instead of within a second. For tests that move the clock by
    /// hand.
    pub async fn tick(&self) {
        match &self.inner.engine {
            Engine::Embedded(embedded) => {
                // A stopped store has nothing due.
                let _ = embedded
                    .call(|reply| SequencerRequest::Tick { reply })
                    .await;
            }
            Engine::Etcd(etcd) => etcd.tick().await,
        }
    }

    /// Exports the whole store as one stream of bytes; see [`crate::restore`].
    ///
    /// # Errors
    /// If the store has stopped.
    pub async fn export(&self) -> Result<Export, ReadError> {
        match &self.inner.engine {
            Engine::Embedded(embedded) => {
                let exported = embedded
                    .call(|reply| SequencerRequest::Export { reply })
                    .await;
                let ExportState {
                    floor,
                    state,
                    leases,
                } = exported.map_err(|_| ReadError::Stopped)?;
                Ok(Export::new(embedded.id(), floor, state, leases))
            }
            Engine::Etcd(etcd) => etcd.export().await,
        }
    }

    /// Reclaims all disk space that compaction freed. Writes continue meanwhile.
    ///
    /// # Errors
    /// If the disk fails.
    pub async fn defragment(&self) -> Result<(), CommitError> {
        match &self.inner.engine {
            Engine::Embedded(embedded) => {
                embedded
                    .call(|reply| SequencerRequest::Defragment { reply })
                    .await?
            }
            Engine::Etcd(etcd) => etcd.defragment().await,
        }
    }

    /// Finishes submitted requests, ends all watches, and unlocks the data directory.
    pub async fn close(&self) {
        match &self.inner.engine {
            Engine::Embedded(embedded) => {
                // Closing a closed store does nothing.
                let _ = embedded
                    .call(|reply| SequencerRequest::Stop { reply })
                    .await;
            }
            Engine::Etcd(etcd) => etcd.close().await,
        }
    }
}
