//! The etcd engine: a store backed by an external etcd cluster.
//!
//! The cluster assigns revisions. This process keeps a mirror of the state and the recent
//! history, fed by one watch, and serves reads only from the mirror:
//!
//! * [`connection`] and [`connection_pool`]: connections, each verified to lead to our cluster
//!   as [`cluster_identity`] defines.
//! * [`load`], [`cluster_watch`] and [`mirror`]: the mirror and the watch that updates it.
//! * [`commit`], [`leases`]: forwarded operations; [`error_class`] classifies their failures.
//! * [`read_index`] and [`progress`]: proof that the mirror is current.

mod backoff;
mod cluster;
mod cluster_identity;
mod cluster_watch;
mod commit;
mod connection;
mod connection_pool;
mod error_class;
mod etcd_options;
mod leases;
mod load;
mod mirror;
mod origin_tracker;
mod progress;
mod read_index;
mod staleness;
mod wire;

pub use etcd_options::{EtcdIdentity, EtcdOptions, EtcdTls, EtcdUser};

use self::backoff::EtcdBackoff;
pub(crate) use self::cluster::EtcdCluster;
use self::cluster::{CallIntent, EtcdCallError, MirrorStatus};
use self::cluster_identity::ClusterIdentity;
use self::cluster_watch::ClusterWatchStart;
use self::connection::{DialError, EtcdConnection};
use self::connection_pool::EtcdConnectionPool;
use self::mirror::Mirror;
use self::origin_tracker::OriginTracker;
use self::progress::ProgressRequester;
use self::read_index::ReadIndex;
use self::staleness::{StalenessTracker, confirm};
use self::wire::encode_revision;
use crate::backup::Export;
use crate::embedded::run_dispatcher;
use crate::error::{CommitError, CompactError, ConnectError, LeaseError, ReadError};
use crate::index::{Index, Snapshot};
use crate::origin::Origin;
use crate::revision::Revision;
use crate::sequencer::BackendStatus;
use crate::sync::{Arc, Mutex};
use crate::txn::{Txn, TxnResult};
use crate::view::View;
use optik_etcd_api::errors;
use optik_etcd_api::etcdserverpb::{CompactionRequest, DefragmentRequest, StatusRequest};
use optik_supervisor::Task;
use std::pin::Pin;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch as signal};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;

/// The memory limit of transactions in flight, in KiB, not counting prior values.
const IN_FLIGHT_KIB_MAX: u32 = 64 << 10;
/// The interval between two checks for history to compact.
const COMPACTION_INTERVAL: Duration = Duration::from_secs(1);
/// The alarm of a member that has no space for writes.
const NO_SPACE: &str = "NOSPACE";
/// The timeout of a defragmentation: it blocks a member while it runs.
const DEFRAGMENT_TIMEOUT: Duration = Duration::from_secs(600);

/// The task completes when the engine is closed, or has failed permanently.
const WATCH_TASK: Task = Task::serving("etcd-watch").that_completes();
const READ_INDEX_TASK: Task = Task::serving("etcd-reads");
const COMPACTION_TASK: Task = Task::upkeep("etcd-history");
/// Checks staleness; the store refuses reads when the mirror is not proven current.
const STALENESS_TASK: Task = Task::serving("etcd-proof");

#[derive(Debug)]
pub(crate) struct EtcdEngine {
    cluster: Arc<EtcdCluster>,
    read_index: Arc<ReadIndex>,
    in_flight_permits: Arc<Semaphore>,
    runtime: Handle,
    /// Aborted when the engine is dropped.
    tasks: Vec<AbortHandle>,
}

impl EtcdEngine {
    pub(crate) async fn connect(options: EtcdOptions) -> Result<(Self, Arc<View>), ConnectError> {
        let witness = Arc::new(ClusterIdentity::default());
        let links = EtcdConnectionPool::new(options.clone(), Arc::clone(&witness))?;
        let index = load_initial(&options, &links, &witness).await?;
        let view = View::from_state(index);
        let mirror = Mirror::new(
            Arc::clone(&view),
            Arc::clone(&options.clock),
            options.retention,
        );
        let cluster = Arc::new(EtcdCluster {
            connections: links,
            identity: witness,
            view: Arc::clone(&view),
            mirror: Mutex::new(mirror),
            origin_tracker: Arc::new(OriginTracker::default()),
            progress: ProgressRequester::default(),
            status: signal::Sender::new(MirrorStatus::OutOfSync("it has not begun".into())),
            // The whole state was just read.
            staleness: StalenessTracker::new(),
            options,
        });
        let rounds = Arc::new(ReadIndex::default());
        let etcd = Self {
            tasks: spawn_tasks(&cluster, &rounds),
            cluster,
            read_index: rounds,
            in_flight_permits: Arc::new(Semaphore::new(IN_FLIGHT_KIB_MAX as usize)),
            runtime: Handle::current(),
        };
        Ok((etcd, view))
    }

    /// The connection to the cluster, for operations that are only forwarded.
    pub(crate) fn cluster(&self) -> &EtcdCluster {
        &self.cluster
    }

    pub(crate) fn id(&self) -> u64 {
        self.cluster.identity.cluster_id()
    }

    /// Commits in a separate task: dropping the future only stops the waiting.
    pub(crate) async fn commit(&self, txn: Txn, origin: Origin) -> Result<TxnResult, CommitError> {
        self.cluster.check_txn(&txn)?;
        let kib = u32::try_from(txn.size() >> 10).unwrap_or(u32::MAX);
        let share = kib.saturating_add(1).min(IN_FLIGHT_KIB_MAX);
        let room = Arc::clone(&self.in_flight_permits)
            .acquire_many_owned(share)
            .await;
        let room = room.map_err(|_| CommitError::Stopped)?;
        let cluster = Arc::clone(&self.cluster);
        // Spawned here: one write, which must not be started a second time.
        let commit = self.runtime.spawn(async move {
            let _room = room;
            Box::pin(cluster.commit(&txn, origin)).await
        });
        let ended = |_| CommitError::Unknown("the runtime is shutting down".into());
        commit.await.map_err(ended)?
    }

    pub(crate) async fn latest(&self) -> Result<Snapshot, ReadError> {
        self.cluster.check()?;
        match confirm(&self.cluster, &self.read_index).await {
            // The round is lost, but the engine is not stopped: its task restarts.
            Err(EtcdCallError::Stopped) if self.cluster.check().is_ok() => {
                return Err(ReadError::Unavailable(
                    "the linearizable read was cancelled".into(),
                ));
            }
            confirmed => confirmed?,
        }
        Ok(self.cluster.view.snapshot())
    }

    pub(crate) fn check_staleness(&self) -> Result<(), ReadError> {
        self.cluster.check()?;
        Ok(self.cluster.staleness.check()?)
    }

    pub(crate) async fn compact(&self, revision: Revision) -> Result<(), CompactError> {
        let cluster = &self.cluster;
        let deadline = cluster.request_deadline();
        let request = CompactionRequest {
            revision: encode_revision(revision),
            physical: false,
        };
        let send = |link: Arc<EtcdConnection>| async move { link.kv().compact(request).await };
        match cluster.call(CallIntent::Write, deadline, send).await {
            Ok(_) => {}
            Err(EtcdCallError::Refused(status)) if errors::COMPACTED.matches(&status) => {
                let oldest = cluster.view.floor().get().max(revision);
                return Err(CompactError::Compacted { oldest });
            }
            Err(EtcdCallError::Refused(status)) if errors::FUTURE_REVISION.matches(&status) => {
                let newest = cluster.view.revision();
                return Err(CompactError::Future { newest });
            }
            Err(failure) => return Err(CommitError::from(failure).into()),
        }
        let reached = cluster.wait_for_revision(revision, deadline).await;
        reached.map_err(CommitError::from)?;
        cluster.view.compact(revision);
        Ok(())
    }

    pub(crate) async fn backend_status(&self) -> Result<BackendStatus, ReadError> {
        let deadline = Instant::now() + self.cluster.options.read_timeout;
        let send = |link: Arc<EtcdConnection>| async move {
            link.maintenance().status(StatusRequest {}).await
        };
        match self.cluster.call(CallIntent::Read, deadline, send).await {
            Ok(status) => Ok(BackendStatus {
                bytes: u64::try_from(status.db_size).unwrap_or_default(),
                status: None,
                accepts_writes: !status.errors.iter().any(|error| error.contains(NO_SPACE)),
            }),
            // Some etcd versions answer this to administrators only.
            Err(EtcdCallError::Refused(status)) if status.code() == Code::PermissionDenied => {
                Ok(BackendStatus {
                    bytes: 0,
                    status: None,
                    accepts_writes: true,
                })
            }
            Err(failure) => Err(failure.into()),
        }
    }

    /// Compacts the history that is due now.
    pub(crate) async fn tick(&self) {
        compact_due(&self.cluster).await;
    }

    pub(crate) async fn export(&self) -> Result<Export, ReadError> {
        self.latest().await?;
        let exported = self.cluster.mirror.lock_unless_poisoned();
        let exported = exported.map(|mirror| mirror.export());
        let (floor, state) = exported.ok_or_else(|| {
            ReadError::Unavailable("the copy of etcd's state is being made anew".into())
        })?;
        let mut leases = Vec::new();
        for id in self.cluster.leases().await.map_err(read_error)? {
            match self.cluster.lease(id).await {
                Ok(lease) => leases.push((id, lease.granted)),
                Err(LeaseError::NotFound) => {}
                Err(error) => return Err(read_error(error)),
            }
        }
        Ok(Export::new(self.id(), floor, state, leases))
    }

    /// Defragments every known member, one after the other.
    pub(crate) async fn defragment(&self) -> Result<(), CommitError> {
        self.cluster.check()?;
        for member in 0..self.cluster.connections.member_count() {
            let link = match self.cluster.connections.dial_member(member).await {
                Ok(link) => link,
                Err(DialError::Mismatch(betrayal)) => {
                    return Err(CommitError::Unavailable(self.cluster.fail(betrayal)));
                }
                Err(DialError::Unreachable(why) | DialError::Unsupported(why)) => {
                    return Err(CommitError::Unavailable(why));
                }
            };
            let mut client = link.maintenance();
            let done = timeout(DEFRAGMENT_TIMEOUT, client.defragment(DefragmentRequest {})).await;
            done.map_err(|_| CommitError::Unknown("no answer in time".into()))?
                .map_err(|status| CommitError::Unknown(status.message().to_owned()))?;
        }
        Ok(())
    }

    /// Waits for operations in flight, then stops everything.
    pub(crate) async fn close(&self) {
        let all = self.in_flight_permits.acquire_many(IN_FLIGHT_KIB_MAX);
        // An operation that exceeds its own deadline is lost anyway.
        let all = timeout(self.cluster.options.request_timeout, all).await;
        // Closed before the permits are released: no operation may begin in between.
        self.in_flight_permits.close();
        drop(all);
        self.shutdown();
    }

    fn shutdown(&self) {
        self.cluster.stop();
        for task in &self.tasks {
            task.abort();
        }
        self.read_index.stop();
    }
}

impl Drop for EtcdEngine {
    fn drop(&mut self) {
        self.shutdown();
    }
}

fn read_error(error: LeaseError) -> ReadError {
    match error {
        LeaseError::Commit(CommitError::Stopped) => ReadError::Stopped,
        other => ReadError::Unavailable(other.to_string()),
    }
}

async fn load_initial(
    options: &EtcdOptions,
    links: &EtcdConnectionPool,
    witness: &ClusterIdentity,
) -> Result<Index, ConnectError> {
    let deadline = Instant::now() + options.request_timeout;
    let mut backoff = EtcdBackoff::new(&options.entropy);
    loop {
        let tried = async {
            let link = links.dial().await?;
            load::load(&link, &options.range, witness).await
        };
        let why = match Box::pin(tried).await {
            Ok(index) => return Ok(index),
            Err(DialError::Unreachable(why)) => why,
            Err(DialError::Unsupported(why)) => return Err(ConnectError::Unsupported(why)),
            Err(DialError::Mismatch(betrayal)) => {
                return Err(ConnectError::Unsupported(betrayal.0));
            }
        };
        let pause = backoff.next();
        if Instant::now() + pause >= deadline {
            return Err(ConnectError::Unreachable(why));
        }
        tracing::warn!(%why, "etcd cannot be reached; trying again");
        sleep(pause).await;
    }
}

type BoxedTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts the background tasks. The dispatcher task ends by itself, with the hub.
fn spawn_tasks(cluster: &Arc<EtcdCluster>, rounds: &Arc<ReadIndex>) -> Vec<AbortHandle> {
    let supervisor = &cluster.options.supervisor;
    let followed = Arc::clone(cluster);
    let mut beginning = ClusterWatchStart::Loaded;
    let feed = supervisor.supervise(WATCH_TASK, move || {
        let beginning = std::mem::replace(&mut beginning, ClusterWatchStart::Reload);
        cluster_watch::run(Arc::clone(&followed), beginning)
    });
    let (asked, asking) = (Arc::clone(cluster), Arc::clone(rounds));
    let reads = supervisor.supervise(READ_INDEX_TASK, move || {
        Arc::clone(&asking).run(Arc::clone(&asked))
    });
    let kept = Arc::clone(cluster);
    let history = supervisor.supervise(COMPACTION_TASK, move || run_compaction(Arc::clone(&kept)));
    let (proven, proving) = (Arc::clone(cluster), Arc::clone(rounds));
    let proof = supervisor.supervise(STALENESS_TASK, move || {
        staleness::run(Arc::clone(&proven), Arc::clone(&proving))
    });
    // Spawned here: they are supervised, and end with the store.
    let run = |task: BoxedTask| tokio::spawn(task).abort_handle();
    // Spawned here: it is supervised, and ends by itself.
    tokio::spawn(run_dispatcher(supervisor, &cluster.view));
    vec![
        run(Box::pin(feed)),
        run(Box::pin(reads)),
        run(Box::pin(history)),
        run(Box::pin(proof)),
    ]
}

async fn run_compaction(cluster: Arc<EtcdCluster>) {
    loop {
        sleep(COMPACTION_INTERVAL).await;
        compact_due(&cluster).await;
    }
}

async fn compact_due(cluster: &EtcdCluster) {
    // In bounded steps, because the watch waits for the lock meanwhile.
    while compact_due_part(cluster) {
        tokio::task::yield_now().await;
    }
}

/// Runs one step of compaction. A mirror that a panic left inconsistent is not touched: the watch
/// replaces it.
fn compact_due_part(cluster: &EtcdCluster) -> bool {
    let mirror = cluster.mirror.lock_unless_poisoned();
    mirror.is_some_and(|mut mirror| mirror.compact_step())
}

impl From<EtcdCallError> for ReadError {
    fn from(failure: EtcdCallError) -> Self {
        match failure {
            EtcdCallError::Stopped => Self::Stopped,
            EtcdCallError::Unavailable(why) | EtcdCallError::Unknown(why) => Self::Unavailable(why),
            EtcdCallError::Refused(status) => Self::Unavailable(status.message().to_owned()),
        }
    }
}
