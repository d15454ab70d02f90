//! Leases of the etcd engine, which are forwarded to the cluster.

use super::cluster::{CallIntent, EtcdCallError, EtcdCluster};
use super::connection::EtcdConnection;
use super::wire::decode_revision;
use crate::error::LeaseError;
use crate::key::Key;
use crate::lease::{LEASE_TTL_SECONDS_MAX, LeaseId, LeaseInfo};
use crate::revision::Revision;
use crate::sync::Arc;
use optik_etcd_api::errors::{LEASE_EXISTS, LEASE_NOT_FOUND, LEASE_TTL_TOO_LARGE, NO_SPACE};
use optik_etcd_api::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseLeasesRequest,
    LeaseRevokeRequest, LeaseTimeToLiveRequest,
};
use std::time::Duration;
use tokio::time::Instant;
use tonic::{Response, Status};

impl EtcdCluster {
    pub(crate) async fn grant_lease(
        &self,
        id: Option<LeaseId>,
        ttl: Duration,
    ) -> Result<LeaseId, LeaseError> {
        if ttl.as_secs() > LEASE_TTL_SECONDS_MAX {
            return Err(LeaseError::TtlTooLarge);
        }
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        let request = LeaseGrantRequest {
            ttl: i64::try_from(seconds.max(1)).unwrap_or(i64::MAX),
            id: id.unwrap_or(LeaseId::NONE).0,
        };
        let send =
            |link: Arc<EtcdConnection>| async move { link.lease().lease_grant(request).await };
        let answer = self
            .call(CallIntent::Write, self.request_deadline(), send)
            .await?;
        Ok(LeaseId(answer.id))
    }

    pub(crate) async fn revoke_lease(&self, id: LeaseId) -> Result<Revision, LeaseError> {
        let deadline = self.request_deadline();
        let request = LeaseRevokeRequest { id: id.0 };
        let send =
            |link: Arc<EtcdConnection>| async move { link.lease().lease_revoke(request).await };
        let answer = self.call(CallIntent::Write, deadline, send).await?;
        let revision = decode_revision(answer.header.unwrap_or_default().revision);
        self.wait_for_write(revision, deadline).await?;
        Ok(revision)
    }

    pub(crate) async fn keep_lease_alive(&self, id: LeaseId) -> Result<Duration, LeaseError> {
        let request = LeaseKeepAliveRequest { id: id.0 };
        let send = |link: Arc<EtcdConnection>| keep_alive_once(link, request);
        let answer = self
            .call(CallIntent::Read, self.request_deadline(), send)
            .await?;
        seconds(answer.ttl).ok_or(LeaseError::NotFound)
    }

    pub(crate) async fn lease(&self, id: LeaseId) -> Result<LeaseInfo, LeaseError> {
        let request = LeaseTimeToLiveRequest {
            id: id.0,
            keys: true,
        };
        let send = |link: Arc<EtcdConnection>| async move {
            link.lease().lease_time_to_live(request).await
        };
        let answer = self
            .call(CallIntent::Read, self.request_deadline(), send)
            .await?;
        // Minus one means "no such lease"; zero means less than a second remains.
        let remaining = u64::try_from(answer.ttl).map_err(|_| LeaseError::NotFound)?;
        let mut keys: Vec<_> = answer.keys.iter().map(Key::from).collect();
        keys.sort();
        Ok(LeaseInfo {
            id,
            granted: seconds(answer.granted_ttl).unwrap_or_default(),
            remaining: Duration::from_secs(remaining),
            keys,
        })
    }

    pub(crate) async fn leases(&self) -> Result<Vec<LeaseId>, LeaseError> {
        let send = |link: Arc<EtcdConnection>| async move {
            link.lease().lease_leases(LeaseLeasesRequest {}).await
        };
        let answer = self
            .call(CallIntent::Read, self.request_deadline(), send)
            .await?;
        let mut ids: Vec<_> = answer
            .leases
            .iter()
            .map(|lease| LeaseId(lease.id))
            .collect();
        ids.sort();
        Ok(ids)
    }

    pub(crate) fn request_deadline(&self) -> Instant {
        Instant::now() + self.options.request_timeout
    }
}

/// Opens a stream for one renewal: renewals are rare, and on a shared stream the failure of one
/// would affect all others.
async fn keep_alive_once(
    link: Arc<EtcdConnection>,
    request: LeaseKeepAliveRequest,
) -> Result<Response<LeaseKeepAliveResponse>, Status> {
    let mut client = link.lease();
    let answers = client.lease_keep_alive(tokio_stream::once(request)).await?;
    let answer = answers.into_inner().message().await?;
    let answer = answer.ok_or_else(|| Status::unavailable("etcd ended the stream"))?;
    Ok(Response::new(answer))
}

fn seconds(ttl: i64) -> Option<Duration> {
    let seconds = u64::try_from(ttl).ok().filter(|seconds| *seconds > 0);
    seconds.map(Duration::from_secs)
}

impl From<EtcdCallError> for LeaseError {
    fn from(failure: EtcdCallError) -> Self {
        use crate::error::CommitError;
        match failure {
            EtcdCallError::Refused(status) if LEASE_NOT_FOUND.matches(&status) => Self::NotFound,
            EtcdCallError::Refused(status) if LEASE_EXISTS.matches(&status) => Self::Exists,
            EtcdCallError::Refused(status) if LEASE_TTL_TOO_LARGE.matches(&status) => {
                Self::TtlTooLarge
            }
            EtcdCallError::Refused(status) if NO_SPACE.matches(&status) => {
                Self::Commit(CommitError::NoSpace)
            }
            other => Self::Commit(CommitError::from(other)),
        }
    }
}
