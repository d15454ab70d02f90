//! Leader election by a Lease: one of several processes leads, and the others wait with warm
//! caches. Counterpart of client-go's `leaderelection`.
//!
//! By default, a leader renews its lease every two seconds. If it cannot renew for ten seconds, it
//! stops, which is before another process may take the lease, which is valid for fifteen. Durations
//! are measured by the local monotonic clock, from when a change of the lease was observed. The
//! wall-clock times in the lease are informational.

use crate::api_client::{ApiClient, ClientRequest, SendError};
use crate::backoff::random_fraction;
use crate::controller_shared::{wait_until_set, wall_rounded};
use crate::leadership_fence::LeadershipFence;
use bytes::Bytes;
use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use optik_platform::{Clock, Entropy};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, info, warn};

/// Options of leader election: the lease, the identity, and the timing.
///
/// ```
/// # use optik_controller::LeaderElection;
/// let mut election = LeaderElection::new("default", "backup-operator");
/// election.lease_duration = std::time::Duration::from_secs(30);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LeaderElection {
    /// The namespace of the lease.
    pub namespace: String,
    /// The name of the lease.
    pub name: String,
    /// The identity of this process. If `None`, a unique one is generated.
    pub identity: Option<String>,
    /// How long a lease that is not renewed stays valid. Other processes do not take it earlier.
    pub lease_duration: Duration,
    /// How long a leader tries to renew its lease before it stops.
    pub renew_deadline: Duration,
    /// The interval between attempts to acquire or renew the lease.
    pub retry_period: Duration,
}

impl LeaderElection {
    /// Creates options with the default timing: 15, 10 and 2 seconds.
    ///
    /// ```
    /// # use optik_controller::LeaderElection;
    /// assert_eq!(LeaderElection::new("default", "backup-operator").lease_duration.as_secs(), 15);
    /// ```
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: None,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

pub(crate) struct LeaderElector {
    pub(crate) election: LeaderElection,
    pub(crate) identity: String,
    pub(crate) api: ApiClient,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) leading: watch::Sender<bool>,
    pub(crate) fence: LeadershipFence,
    /// The last lease that differed from the one before, and when it was observed.
    pub(crate) observed: Option<(Value, Instant)>,
}

impl LeaderElector {
    /// Acquires and renews the lease until `stop` is set; then releases it.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut renewed: Option<Instant> = None;
        loop {
            let begun = Instant::now();
            let limit = match renewed {
                Some(renewed) => renewed + self.election.renew_deadline,
                None => begun + self.election.renew_deadline,
            };
            let trying = tokio::time::timeout_at(limit, self.try_acquire_or_renew());
            let tried = tokio::select! {
                tried = trying => tried.unwrap_or(Ok(false)),
                () = wait_until_set(&mut stop) => break,
            };
            match tried {
                Ok(true) => {
                    renewed = Some(begun);
                    self.fence.renew(begun + self.election.renew_deadline);
                }
                Ok(false) => debug!("somebody else leads"),
                Err(cause) => debug!(%cause, "the lease cannot be used"),
            }
            // Another holder ends leadership at once, failed renewals only after the deadline.
            let lost = renewed.is_some_and(|renewed| {
                renewed.elapsed() >= self.election.renew_deadline || self.is_held_by_another()
            });
            if lost {
                renewed = None;
            }
            self.set_leading(renewed.is_some());
            let pause = self
                .election
                .retry_period
                .mul_f64(1.0 + random_fraction(&*self.entropy) / 5.0);
            let pause = match renewed {
                Some(renewed) => {
                    let left = renewed + self.election.renew_deadline - Instant::now();
                    pause.min(left)
                }
                None => pause,
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = wait_until_set(&mut stop) => break,
            }
        }
        if *self.leading.borrow() {
            self.set_leading(false);
            self.release().await;
        }
    }

    fn set_leading(&self, leads: bool) {
        let changed = self.leading.send_if_modified(|leading| {
            let changed = *leading != leads;
            *leading = leads;
            changed
        });
        if !changed {
            return;
        }
        self.api.metrics.leading.set(i64::from(leads));
        if !leads {
            self.fence.expire();
        }
        if leads {
            info!(identity = self.identity, "leads");
        } else {
            warn!(identity = self.identity, "does not lead any more");
        }
    }

    fn path(&self) -> String {
        let namespace = &self.election.namespace;
        format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
    }

    fn is_held_by_another(&self) -> bool {
        let holder = self.observed.as_ref().and_then(|(lease, _)| holder(lease));
        holder.is_some_and(|holder| holder != self.identity)
    }

    /// Acquires or renews the lease, and returns whether this process holds it.
    async fn try_acquire_or_renew(&mut self) -> Result<bool, SendError> {
        let path = format!("{}/{}", self.path(), self.election.name);
        let answer = match self.api.send(ClientRequest::get(&path)).await {
            Ok(answer) => answer,
            Err(SendError::Refused(refusal)) if refusal.code == 404 => return self.create().await,
            Err(cause) => return Err(cause),
        };
        let mut lease: Value = parse(&answer)?;
        self.observe(&lease);
        if !self.can_acquire(&lease) {
            return Ok(false);
        }
        let ours = holder(&lease) == Some(self.identity.as_str());
        let now = json!(MicroTime(wall_rounded(&*self.clock, 1)));
        if !ours {
            let transitions = lease["spec"]["leaseTransitions"].as_i64().unwrap_or(0);
            lease["spec"]["leaseTransitions"] = json!(transitions + 1);
            lease["spec"]["acquireTime"] = now.clone();
        }
        lease["spec"]["holderIdentity"] = json!(self.identity);
        lease["spec"]["leaseDurationSeconds"] =
            json!(self.election.lease_duration.as_secs().max(1));
        lease["spec"]["renewTime"] = now;
        self.write_lease(Method::PUT, &path, &lease).await
    }

    async fn create(&mut self) -> Result<bool, SendError> {
        let now = MicroTime(wall_rounded(&*self.clock, 1));
        let (name, namespace) = (&self.election.name, &self.election.namespace);
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": self.election.lease_duration.as_secs().max(1),
                "acquireTime": now, "renewTime": now, "leaseTransitions": 0,
            },
        });
        let path = self.path();
        self.write_lease(Method::POST, &path, &lease).await
    }

    async fn write_lease(
        &mut self,
        method: Method,
        path: &str,
        lease: &Value,
    ) -> Result<bool, SendError> {
        match self
            .api
            .send(ClientRequest::with_body(method, path, lease))
            .await
        {
            Ok(answer) => {
                self.observe(&parse(&answer)?);
                Ok(true)
            }
            // Another process was faster.
            Err(SendError::Refused(refusal)) if refusal.code == 409 => Ok(false),
            Err(cause) => Err(cause),
        }
    }

    fn observe(&mut self, lease: &Value) {
        let same = self.observed.as_ref().is_some_and(|(seen, _)| {
            seen["spec"] == lease["spec"] && seen["metadata"]["uid"] == lease["metadata"]["uid"]
        });
        if !same {
            self.observed = Some((lease.clone(), Instant::now()));
        }
    }

    fn can_acquire(&self, lease: &Value) -> bool {
        let free = holder(lease).is_none_or(|holder| holder == self.identity);
        let seconds = lease["spec"]["leaseDurationSeconds"].as_u64();
        let lasts = seconds.map_or(self.election.lease_duration, Duration::from_secs);
        let expired = self
            .observed
            .as_ref()
            .is_some_and(|(_, seen)| seen.elapsed() > lasts);
        free || expired
    }

    /// Releases the lease, so that the next leader does not have to wait.
    async fn release(&mut self) {
        let Some((mut lease, _)) = self.observed.take() else {
            return;
        };
        if holder(&lease) != Some(self.identity.as_str()) {
            return;
        }
        lease["spec"]["holderIdentity"] = json!("");
        lease["spec"]["leaseDurationSeconds"] = json!(1);
        let path = format!("{}/{}", self.path(), self.election.name);
        let limit = self.election.retry_period;
        let releasing = self.write_lease(Method::PUT, &path, &lease);
        let _ = tokio::time::timeout(limit, releasing).await;
    }
}

fn holder(lease: &Value) -> Option<&str> {
    let holder = lease["spec"]["holderIdentity"].as_str()?;
    (!holder.is_empty()).then_some(holder)
}

fn parse(answer: &Bytes) -> Result<Value, SendError> {
    let parsed = serde_json::from_slice(answer);
    parsed.map_err(|cause| SendError::Lost(format!("the lease makes no sense: {cause}")))
}
