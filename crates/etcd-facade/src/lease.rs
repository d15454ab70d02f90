//! The `Lease` service.

use crate::context::FacadeContext;
use crate::convert::signed_count;
use crate::errors;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use optik_etcd_api::errors::LEASE_TTL_TOO_LARGE;
use optik_etcd_api::etcdserverpb::lease_server::Lease;
use optik_etcd_api::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse, LeaseStatus,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};
use optik_store::{LEASE_TTL_SECONDS_MAX, LeaseError, LeaseId, LeaseInfo};
use std::time::Duration;
use tonic::{Request, Response, Status, Streaming};

/// The shortest TTL that etcd grants: a lease must outlive an election.
const TTL_SECONDS_MIN: u64 = 2;
/// The TTL that is reported for a lease that does not exist.
const TTL_LEASE_NOT_FOUND: i64 = -1;

#[derive(Clone, Debug)]
pub(crate) struct LeaseService(pub(crate) FacadeContext);

#[tonic::async_trait]
impl Lease for LeaseService {
    async fn lease_grant(
        &self,
        request: Request<LeaseGrantRequest>,
    ) -> Result<Response<LeaseGrantResponse>, Status> {
        let request = request.into_inner();
        let seconds = granted_seconds(request.ttl)?;
        let id = Some(LeaseId(request.id)).filter(|id| *id != LeaseId::NONE);
        let store = &self.0.store;
        let granted = store.grant_lease(id, Duration::from_secs(seconds)).await;
        let id = granted.map_err(|error| errors::from_lease_error(&error))?;
        Ok(Response::new(LeaseGrantResponse {
            header: self.0.header_now(),
            id: id.0,
            ttl: signed_count(seconds),
            error: String::new(),
        }))
    }

    async fn lease_revoke(
        &self,
        request: Request<LeaseRevokeRequest>,
    ) -> Result<Response<LeaseRevokeResponse>, Status> {
        let id = LeaseId(request.into_inner().id);
        let revoked = self.0.store.revoke_lease(id).await;
        let revision = revoked.map_err(|error| errors::from_lease_error(&error))?;
        Ok(Response::new(LeaseRevokeResponse {
            header: self.0.header(revision),
        }))
    }

    type LeaseKeepAliveStream = BoxStream<'static, Result<LeaseKeepAliveResponse, Status>>;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        let context = self.0.clone();
        // Requests are processed one at a time: while a client does not read its responses, its
        // requests are not read.
        let responses = request.into_inner().then(move |request| {
            let context = context.clone();
            async move { keep_alive(&context, request?.id).await }
        });
        let until_stopped = responses.take_until(self.0.stopped());
        Ok(Response::new(until_stopped.boxed()))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<LeaseTimeToLiveRequest>,
    ) -> Result<Response<LeaseTimeToLiveResponse>, Status> {
        let request = request.into_inner();
        let mut response = LeaseTimeToLiveResponse {
            header: self.0.header_now(),
            id: request.id,
            ttl: TTL_LEASE_NOT_FOUND,
            ..LeaseTimeToLiveResponse::default()
        };
        match self.0.store.lease(LeaseId(request.id)).await {
            Ok(info) => fill(&mut response, &info, request.keys),
            Err(LeaseError::NotFound) => {}
            Err(error) => return Err(errors::from_lease_error(&error)),
        }
        Ok(Response::new(response))
    }

    async fn lease_leases(
        &self,
        _: Request<LeaseLeasesRequest>,
    ) -> Result<Response<LeaseLeasesResponse>, Status> {
        let leases = self.0.store.leases().await;
        let leases = leases.map_err(|error| errors::from_lease_error(&error))?;
        let statuses = leases.into_iter().map(|id| LeaseStatus { id: id.0 });
        Ok(Response::new(LeaseLeasesResponse {
            header: self.0.header_now(),
            leases: statuses.collect(),
        }))
    }
}

fn granted_seconds(asked: i64) -> Result<u64, Status> {
    let seconds = u64::try_from(asked).unwrap_or(0).max(TTL_SECONDS_MIN);
    if seconds > LEASE_TTL_SECONDS_MAX {
        return Err(LEASE_TTL_TOO_LARGE.into());
    }
    Ok(seconds)
}

async fn keep_alive(context: &FacadeContext, id: i64) -> Result<LeaseKeepAliveResponse, Status> {
    // The header comes first: a lease that is revoked at the next revision must not seem to have
    // been alive after it.
    let header = context.header_now();
    let ttl = match context.store.keep_lease_alive(LeaseId(id)).await {
        Ok(ttl) => signed_count(ttl.as_secs()),
        Err(LeaseError::NotFound) => 0,
        Err(error) => return Err(errors::from_lease_error(&error)),
    };
    Ok(LeaseKeepAliveResponse { header, id, ttl })
}

fn fill(response: &mut LeaseTimeToLiveResponse, info: &LeaseInfo, keys: bool) {
    response.ttl = signed_count(info.remaining.as_secs());
    response.granted_ttl = signed_count(info.granted.as_secs());
    if keys {
        let keys = info.keys.iter().map(|key| Bytes::copy_from_slice(key));
        response.keys = keys.collect();
    }
}
