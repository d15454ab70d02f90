//! The way to the cluster: whichever member answers.

use super::backoff::Backoff;
use super::link::{Link, LinkError};
use super::options::EtcdOptions;
use super::witness::Witness;
use crate::error::ConnectError;
use crate::sync::{Arc, Mutex};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tonic::transport::Endpoint;

#[derive(Debug)]
pub(crate) struct Links {
    endpoints: Vec<Endpoint>,
    options: EtcdOptions,
    witness: Arc<Witness>,
    state: Mutex<State>,
    /// Held while connecting, so that those who wait for it do it once.
    dialing: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct State {
    /// The member that is tried first.
    preferred: usize,
    /// What calls share.
    current: Option<Arc<Link>>,
}

impl Links {
    pub(crate) fn new(options: EtcdOptions, witness: Arc<Witness>) -> Result<Self, ConnectError> {
        let endpoints = options.endpoints()?;
        // Servers with the same configuration shall not all lean on the first member.
        let any = options.entropy.next_u64() % endpoints.len() as u64;
        Ok(Self {
            state: Mutex::new(State {
                preferred: usize::try_from(any).unwrap_or_default(),
                current: None,
            }),
            endpoints,
            options,
            witness,
            dialing: tokio::sync::Mutex::new(()),
        })
    }

    pub(crate) fn members(&self) -> usize {
        self.endpoints.len()
    }

    /// A new connection, to the first member that has one for us.
    pub(crate) async fn dial(&self) -> Result<Link, LinkError> {
        let first = self.state.lock().preferred;
        let mut failed = Vec::new();
        let mut unsupported = false;
        for offset in 0..self.members() {
            let member = (first + offset) % self.members();
            let why = match self.dial_member(member).await {
                Ok(link) => {
                    self.state.lock().preferred = member;
                    return Ok(link);
                }
                Err(LinkError::Betrayal(betrayal)) => return Err(betrayal.into()),
                Err(LinkError::Unreachable(why)) => why,
                Err(LinkError::Unsupported(why)) => {
                    unsupported = true;
                    why
                }
            };
            // Whoever tries next shall not wait for the same one again.
            self.avoid(member);
            failed.push(format!("{}: {why}", self.endpoints[member].uri()));
        }
        let failed = failed.join("; ");
        Err(match unsupported {
            true => LinkError::Unsupported(failed),
            false => LinkError::Unreachable(failed),
        })
    }

    pub(crate) async fn dial_member(&self, member: usize) -> Result<Link, LinkError> {
        let endpoint = &self.endpoints[member];
        let open = Link::open(member, endpoint, &self.options, &self.witness);
        timeout(self.options.connect_timeout, Box::pin(open))
            .await
            .unwrap_or_else(|_| Err(LinkError::Unreachable("no answer in time".into())))
    }

    /// The connection that calls share, made if there is none.
    pub(crate) async fn get(&self, deadline: Instant) -> Result<Arc<Link>, LinkError> {
        let mut last = String::from("no connection in time");
        let mut backoff = Backoff::new(&self.options.entropy);
        loop {
            match timeout_at(deadline, self.try_get()).await {
                Ok(Err(LinkError::Unreachable(why))) => last = why,
                Ok(done) => return done,
                Err(_) => return Err(LinkError::Unreachable(last)),
            }
            // Sleeping beyond the deadline only delays the answer.
            let pause = backoff.next();
            if Instant::now() + pause >= deadline {
                return Err(LinkError::Unreachable(last));
            }
            sleep(pause).await;
        }
    }

    async fn try_get(&self) -> Result<Arc<Link>, LinkError> {
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

    fn current(&self) -> Option<Arc<Link>> {
        self.state.lock().current.clone()
    }

    /// Says that a connection is of no use any more.
    pub(crate) fn discard(&self, link: &Arc<Link>) {
        self.avoid(link.member);
        let mut state = self.state.lock();
        state.current.take_if(|other| Arc::ptr_eq(other, link));
    }

    /// Says that a member is of no use at present.
    pub(crate) fn discard_member(&self, member: usize) {
        self.avoid(member);
        let mut state = self.state.lock();
        state.current.take_if(|link| link.member == member);
    }

    /// Tries another member first next time.
    fn avoid(&self, member: usize) {
        let mut state = self.state.lock();
        if state.preferred == member {
            state.preferred = (member + 1) % self.members();
        }
    }
}
