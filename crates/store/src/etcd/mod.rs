//! The engine on an etcd cluster.
//!
//! The cluster makes the revisions. This process keeps a copy of the state and of
//! the recent past, fed by one watch, and reads only that:
//!
//! * [`link`] and [`links`]: connections, each proven to lead to our cluster;
//!   [`witness`] says what that means.
//! * [`load`], [`feed`] and [`mirror`]: the copy, and how it follows.
//! * [`commit`], [`leases`]: what is passed on; [`verdict`] says what a failure means.
//! * [`fresh`] and [`progress`]: proof that the copy is the newest state.

mod authors;
mod backoff;
mod cluster;
mod commit;
mod confirmed;
mod feed;
mod fresh;
mod leases;
mod link;
mod links;
mod load;
mod mirror;
mod options;
mod progress;
mod verdict;
mod wire;
mod witness;

pub use options::{EtcdIdentity, EtcdOptions, EtcdTls, EtcdUser};

use self::authors::Authors;
use self::backoff::Backoff;
pub(crate) use self::cluster::Cluster;
use self::cluster::{Failure, Fate, Intent};
use self::confirmed::{Confirmed, confirm};
use self::feed::Beginning;
use self::fresh::Rounds;
use self::link::{Link, LinkError};
use self::links::Links;
use self::mirror::Mirror;
use self::progress::Progress;
use self::wire::signed;
use self::witness::Witness;
use crate::backup::Export;
use crate::embedded::dispatch;
use crate::error::{CommitError, CompactError, ConnectError, LeaseError, ReadError};
use crate::index::{Index, Snapshot};
use crate::origin::Origin;
use crate::revision::Revision;
use crate::sequencer::DiskState;
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

/// Transactions under way hold this much memory at most, prior values aside.
const UNDER_WAY_KIB_MAX: u32 = 64 << 10;
/// How often the past is looked at for what has to be forgotten.
const TICK: Duration = Duration::from_secs(1);
/// The alarm of a member that has no room for writes.
const NO_SPACE: &str = "NOSPACE";
/// Giving space back stops a member for as long as it takes.
const SHRINK_TIMEOUT: Duration = Duration::from_secs(600);

/// It returns when the engine is closed, or has failed for good.
const WATCH: Task = Task::serving("etcd-watch").that_completes();
const READS: Task = Task::serving("etcd-reads");
const HISTORY: Task = Task::upkeep("etcd-history");
/// Without proof the store stops answering.
const PROOF: Task = Task::serving("etcd-proof");

#[derive(Debug)]
pub(crate) struct Etcd {
    cluster: Arc<Cluster>,
    rounds: Arc<Rounds>,
    room: Arc<Semaphore>,
    runtime: Handle,
    /// Ended with the engine.
    tasks: Vec<AbortHandle>,
}

impl Etcd {
    pub(crate) async fn connect(options: EtcdOptions) -> Result<(Self, Arc<View>), ConnectError> {
        let witness = Arc::new(Witness::default());
        let links = Links::new(options.clone(), Arc::clone(&witness))?;
        let index = load_first(&options, &links, &witness).await?;
        let view = View::from_state(index);
        let mirror = Mirror::new(
            Arc::clone(&view),
            Arc::clone(&options.clock),
            options.retention,
        );
        let cluster = Arc::new(Cluster {
            links,
            witness,
            view: Arc::clone(&view),
            mirror: Mutex::new(mirror),
            authors: Arc::new(Authors::default()),
            progress: Progress::default(),
            fate: signal::Sender::new(Fate::Adrift("it has not begun".into())),
            // The whole state was read just now.
            confirmed: Confirmed::new(),
            options,
        });
        let rounds = Arc::new(Rounds::default());
        let etcd = Self {
            tasks: start(&cluster, &rounds),
            cluster,
            rounds,
            room: Arc::new(Semaphore::new(UNDER_WAY_KIB_MAX as usize)),
            runtime: Handle::current(),
        };
        Ok((etcd, view))
    }

    /// What is the cluster's own, and only passed on.
    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub(crate) fn id(&self) -> u64 {
        self.cluster.witness.cluster()
    }

    /// On a task of its own: dropping the future gives up only the waiting.
    pub(crate) async fn commit(&self, txn: Txn, origin: Origin) -> Result<TxnResult, CommitError> {
        self.cluster.check_txn(&txn)?;
        let kib = u32::try_from(txn.size() >> 10).unwrap_or(u32::MAX);
        let share = kib.saturating_add(1).min(UNDER_WAY_KIB_MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(share).await;
        let room = room.map_err(|_| CommitError::Stopped)?;
        let cluster = Arc::clone(&self.cluster);
        // Spawned here: one write, which nobody may begin a second time.
        let commit = self.runtime.spawn(async move {
            let _room = room;
            Box::pin(cluster.commit(&txn, origin)).await
        });
        let ended = |_| CommitError::Unknown("the runtime is shutting down".into());
        commit.await.map_err(ended)?
    }

    pub(crate) async fn latest(&self) -> Result<Snapshot, ReadError> {
        self.cluster.check()?;
        match confirm(&self.cluster, &self.rounds).await {
            // The round is lost, but we are not stopped: its task begins again.
            Err(Failure::Stopped) if self.cluster.check().is_ok() => {
                return Err(ReadError::Unavailable(
                    "the question to etcd was lost".into(),
                ));
            }
            confirmed => confirmed?,
        }
        Ok(self.cluster.view.snapshot())
    }

    pub(crate) fn confirmed(&self) -> Result<(), ReadError> {
        self.cluster.check()?;
        Ok(self.cluster.confirmed.check()?)
    }

    pub(crate) async fn compact(&self, revision: Revision) -> Result<(), CompactError> {
        let cluster = &self.cluster;
        let deadline = cluster.by();
        let request = CompactionRequest {
            revision: signed(revision),
            physical: false,
        };
        let send = |link: Arc<Link>| async move { link.kv().compact(request).await };
        match cluster.call(Intent::Write, deadline, send).await {
            Ok(_) => {}
            Err(Failure::Refused(status)) if errors::COMPACTED.matches(&status) => {
                let oldest = cluster.view.floor().get().max(revision);
                return Err(CompactError::Compacted { oldest });
            }
            Err(Failure::Refused(status)) if errors::FUTURE_REVISION.matches(&status) => {
                let newest = cluster.view.revision();
                return Err(CompactError::Future { newest });
            }
            Err(failure) => return Err(CommitError::from(failure).into()),
        }
        let reached = cluster.reached(revision, deadline).await;
        reached.map_err(CommitError::from)?;
        cluster.view.compact(revision);
        Ok(())
    }

    pub(crate) async fn disk_state(&self) -> Result<DiskState, ReadError> {
        let deadline = Instant::now() + self.cluster.options.read_timeout;
        let send =
            |link: Arc<Link>| async move { link.maintenance().status(StatusRequest {}).await };
        match self.cluster.call(Intent::Read, deadline, send).await {
            Ok(status) => Ok(DiskState {
                bytes: u64::try_from(status.db_size).unwrap_or_default(),
                status: None,
                takes_writes: !status.errors.iter().any(|error| error.contains(NO_SPACE)),
            }),
            // Some versions tell it to administrators only.
            Err(Failure::Refused(status)) if status.code() == Code::PermissionDenied => {
                Ok(DiskState {
                    bytes: 0,
                    status: None,
                    takes_writes: true,
                })
            }
            Err(failure) => Err(failure.into()),
        }
    }

    /// Forgets what is due now.
    pub(crate) async fn tick(&self) {
        tidy_once(&self.cluster).await;
    }

    pub(crate) async fn export(&self) -> Result<Export, ReadError> {
        self.latest().await?;
        let exported = self.cluster.mirror.lock_if_whole();
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

    /// Lets every member that we know give back space, one after the other.
    pub(crate) async fn shrink(&self) -> Result<(), CommitError> {
        self.cluster.check()?;
        for member in 0..self.cluster.links.members() {
            let link = match self.cluster.links.dial_member(member).await {
                Ok(link) => link,
                Err(LinkError::Betrayal(betrayal)) => {
                    return Err(CommitError::Unavailable(self.cluster.fail(betrayal)));
                }
                Err(LinkError::Unreachable(why) | LinkError::Unsupported(why)) => {
                    return Err(CommitError::Unavailable(why));
                }
            };
            let mut client = link.maintenance();
            let done = timeout(SHRINK_TIMEOUT, client.defragment(DefragmentRequest {})).await;
            done.map_err(|_| CommitError::Unknown("no answer in time".into()))?
                .map_err(|status| CommitError::Unknown(status.message().to_owned()))?;
        }
        Ok(())
    }

    /// Waits for what is under way, then ends everything.
    pub(crate) async fn close(&self) {
        let all = self.room.acquire_many(UNDER_WAY_KIB_MAX);
        // What takes longer than its own deadline is lost anyway.
        let all = timeout(self.cluster.options.request_timeout, all).await;
        // Closed before it is given back: nothing may begin in between.
        self.room.close();
        drop(all);
        self.end();
    }

    fn end(&self) {
        self.cluster.stop();
        for task in &self.tasks {
            task.abort();
        }
        self.rounds.stop();
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.end();
    }
}

fn read_error(error: LeaseError) -> ReadError {
    match error {
        LeaseError::Commit(CommitError::Stopped) => ReadError::Stopped,
        other => ReadError::Unavailable(other.to_string()),
    }
}

async fn load_first(
    options: &EtcdOptions,
    links: &Links,
    witness: &Witness,
) -> Result<Index, ConnectError> {
    let deadline = Instant::now() + options.request_timeout;
    let mut backoff = Backoff::new(&options.entropy);
    loop {
        let tried = async {
            let link = links.dial().await?;
            load::load(&link, &options.range, witness).await
        };
        let why = match Box::pin(tried).await {
            Ok(index) => return Ok(index),
            Err(LinkError::Unreachable(why)) => why,
            Err(LinkError::Unsupported(why)) => return Err(ConnectError::Unsupported(why)),
            Err(LinkError::Betrayal(betrayal)) => {
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

/// Everything that runs beside calls. Dispatching ends by itself, with the hub.
fn start(cluster: &Arc<Cluster>, rounds: &Arc<Rounds>) -> Vec<AbortHandle> {
    let supervisor = &cluster.options.supervisor;
    let followed = Arc::clone(cluster);
    let mut beginning = Beginning::Loaded;
    let feed = supervisor.supervise(WATCH, move || {
        let beginning = std::mem::replace(&mut beginning, Beginning::Anew);
        feed::run(Arc::clone(&followed), beginning)
    });
    let (asked, asking) = (Arc::clone(cluster), Arc::clone(rounds));
    let reads = supervisor.supervise(READS, move || Arc::clone(&asking).run(Arc::clone(&asked)));
    let kept = Arc::clone(cluster);
    let history = supervisor.supervise(HISTORY, move || tidy(Arc::clone(&kept)));
    let (proven, proving) = (Arc::clone(cluster), Arc::clone(rounds));
    let proof = supervisor.supervise(PROOF, move || {
        confirmed::run(Arc::clone(&proven), Arc::clone(&proving))
    });
    // Spawned here: they are supervised, and end with the store.
    let run = |task: BoxedTask| tokio::spawn(task).abort_handle();
    // Spawned here: it is supervised, and ends by itself.
    tokio::spawn(dispatch(supervisor, &cluster.view));
    vec![
        run(Box::pin(feed)),
        run(Box::pin(reads)),
        run(Box::pin(history)),
        run(Box::pin(proof)),
    ]
}

async fn tidy(cluster: Arc<Cluster>) {
    loop {
        sleep(TICK).await;
        tidy_once(&cluster).await;
    }
}

async fn tidy_once(cluster: &Cluster) {
    // A bounded part at once: the feed waits for the lock meanwhile.
    while tidy_part(cluster) {
        tokio::task::yield_now().await;
    }
}

/// What a panic left half done is not touched: the feed replaces it.
fn tidy_part(cluster: &Cluster) -> bool {
    let mirror = cluster.mirror.lock_if_whole();
    mirror.is_some_and(|mut mirror| mirror.tidy())
}

impl From<Failure> for ReadError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Stopped => Self::Stopped,
            Failure::Unavailable(why) | Failure::Unclear(why) => Self::Unavailable(why),
            Failure::Refused(status) => Self::Unavailable(status.message().to_owned()),
        }
    }
}
