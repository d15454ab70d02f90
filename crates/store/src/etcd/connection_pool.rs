//! The shared connection to the cluster, through any member that responds.

use super::backoff::EtcdBackoff;
use super::cluster_identity::ClusterIdentity;
use super::connection::{DialError, EtcdConnection};
use super::etcd_options::EtcdOptions;
use crate::error::ConnectError;
use crate::sync::{Arc, Mutex};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tonic::transport::Endpoint;

#[derive(Debug)]
pub(crate) struct EtcdConnectionPool {
    endpoints: Vec<Endpoint>,
    options: EtcdOptions,
    witness: Arc<ClusterIdentity>,
    state: Mutex<PoolState>,
    /// Held while dialing, so that concurrent callers share one dial.
    dialing: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct PoolState {
    /// The index of the member that is tried first.
    preferred: usize,
    /// The connection shared by calls.
    current: Option<Arc<EtcdConnection>>,
}

impl EtcdConnectionPool {
    pub(crate) fn new(
        options: EtcdOptions,
        witness: Arc<ClusterIdentity>,
    ) -> Result<Self, ConnectError> {
        let endpoints = options.endpoints()?;
        // Starts at a random member, so that servers with equal options spread over the members.
        let any = options.entropy.next_u64() % endpoints.len() as u64;
        Ok(Self {
            state: Mutex::new(PoolState {
                preferred: usize::try_from(any).unwrap_or_default(),
                current: None,
            }),
            endpoints,
            options,
            witness,
            dialing: tokio::sync::Mutex::new(()),
        })
    }

    pub(crate) fn member_count(&self) -> usize {
        self.endpoints.len()
    }

    /// Opens a new connection to the first usable member.
    pub(crate) async fn dial(&self) -> Result<EtcdConnection, DialError> {
        let first = self.state.lock().preferred;
        let mut failed = Vec::new();
        let mut unsupported = false;
        for offset in 0..self.member_count() {
            let member = (first + offset) % self.member_count();
            let why = match self.dial_member(member).await {
                Ok(link) => {
                    self.state.lock().preferred = member;
                    return Ok(link);
                }
                Err(DialError::Mismatch(betrayal)) => return Err(betrayal.into()),
                Err(DialError::Unreachable(why)) => why,
                Err(DialError::Unsupported(why)) => {
                    unsupported = true;
                    why
                }
            };
            // The next attempt starts at another member.
            self.demote_member(member);
            failed.push(format!("{}: {why}", self.endpoints[member].uri()));
        }
        let failed = failed.join("; ");
        Err(match unsupported {
            true => DialError::Unsupported(failed),
            false => DialError::Unreachable(failed),
        })
    }

    pub(crate) async fn dial_member(&self, member: usize) -> Result<EtcdConnection, DialError> {
        let endpoint = &self.endpoints[member];
        let open = EtcdConnection::open(member, endpoint, &self.options, &self.witness);
        timeout(self.options.connect_timeout, Box::pin(open))
            .await
            .unwrap_or_else(|_| Err(DialError::Unreachable("no answer in time".into())))
    }

    /// Returns the shared connection; dials if there is none.
    pub(crate) async fn get(&self, deadline: Instant) -> Result<Arc<EtcdConnection>, DialError> {
        let mut last = String::from("no connection in time");
        let mut backoff = EtcdBackoff::new(&self.options.entropy);
        loop {
            match timeout_at(deadline, self.try_get()).await {
                Ok(Err(DialError::Unreachable(why))) => last = why,
                Ok(done) => return done,
                Err(_) => return Err(DialError::Unreachable(last)),
            }
            // A sleep beyond the deadline would only delay the error.
            let pause = backoff.next();
            if Instant::now() + pause >= deadline {
                return Err(DialError::Unreachable(last));
            }
            sleep(pause).await;
        }
    }

    async fn try_get(&self) -> Result<Arc<EtcdConnection>, DialError> {
        if let Some(link) = self.current() {
            return Ok(link);
        }
        let _alone = self.dialing.lock().await;
        if let Some(link) = self.current() {
            return Ok(link);
        }
        let link = Arc::new(self.dial().await?);
        self.state.lock().current = Some(Arc::clone(&link));
        Ok(link)
    }

    fn current(&self) -> Option<Arc<EtcdConnection>> {
        self.state.lock().current.clone()
    }

    /// Discards a broken connection.
    pub(crate) fn discard(&self, link: &Arc<EtcdConnection>) {
        self.demote_member(link.member);
        let mut state = self.state.lock();
        state.current.take_if(|other| Arc::ptr_eq(other, link));
    }

    /// Demotes a member that is unusable at present.
    pub(crate) fn discard_member(&self, member: usize) {
        self.demote_member(member);
        let mut state = self.state.lock();
        state.current.take_if(|link| link.member == member);
    }

    /// Starts the next dial at another member.
    fn demote_member(&self, member: usize) {
        let mut state = self.state.lock();
        if state.preferred == member {
            state.preferred = (member + 1) % self.member_count();
        }
    }
}
