//! The `Maintenance` service: status, snapshots, hashes, defragmentation, alarms.

use crate::context::FacadeContext;
use crate::convert::{revision, signed, signed_count};
use crate::{ETCD_MINOR_VERSION, ETCD_VERSION, errors};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use optik_etcd_api::errors::COMPACTED;
use optik_etcd_api::etcdserverpb::alarm_request::AlarmAction;
use optik_etcd_api::etcdserverpb::maintenance_server::Maintenance;
use optik_etcd_api::etcdserverpb::{
    AlarmRequest, AlarmResponse, DefragmentRequest, DefragmentResponse, DowngradeInfo,
    HashKvRequest, HashKvResponse, HashRequest, HashResponse, MoveLeaderRequest,
    MoveLeaderResponse, SnapshotRequest, SnapshotResponse, StatusRequest, StatusResponse,
};
use optik_store::{Export, KeyRange, RangeError, RangeQuery, Revision, Snapshot, Version};
use tonic::{Request, Response, Status};

/// etcd's compact revision if nothing has been compacted.
const NEVER_COMPACTED: i64 = -1;

#[derive(Clone, Debug)]
pub(crate) struct MaintenanceService(pub(crate) FacadeContext);

#[tonic::async_trait]
impl Maintenance for MaintenanceService {
    async fn alarm(
        &self,
        request: Request<AlarmRequest>,
    ) -> Result<Response<AlarmResponse>, Status> {
        // There are never alarms, so none are listed and none can be disarmed.
        if request.into_inner().action() == AlarmAction::Activate {
            return Err(Status::unimplemented("etcdserver: alarms cannot be raised"));
        }
        Ok(Response::new(AlarmResponse {
            header: self.0.header_now(),
            alarms: Vec::new(),
        }))
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let status = self.0.store.status().await;
        let status = status.map_err(|error| errors::from_read_error(&error))?;
        let in_use = status.live.bytes;
        Ok(Response::new(StatusResponse {
            header: self.0.header(status.revision),
            version: ETCD_VERSION.into(),
            // A store in memory has no size on disk, but `etcdctl` divides by this number.
            db_size: signed_count(status.disk_bytes.max(in_use).max(1)),
            db_size_in_use: signed_count(in_use),
            leader: self.0.member_id(),
            raft_index: status.revision.get(),
            raft_applied_index: status.revision.get(),
            raft_term: self.0.raft_term(),
            errors: Vec::new(),
            is_learner: false,
            storage_version: ETCD_MINOR_VERSION.into(),
            db_size_quota: 0,
            downgrade_info: Some(DowngradeInfo::default()),
        }))
    }

    async fn defragment(
        &self,
        _: Request<DefragmentRequest>,
    ) -> Result<Response<DefragmentResponse>, Status> {
        let shrunk = self.0.store.defragment().await;
        shrunk.map_err(|error| errors::from_commit_error(&error))?;
        Ok(Response::new(DefragmentResponse { header: None }))
    }

    async fn hash(&self, _: Request<HashRequest>) -> Result<Response<HashResponse>, Status> {
        let snapshot = self.0.store.snapshot();
        let hash = hash_at(&snapshot, snapshot.revision()).map_err(errors::from_range_error)?;
        Ok(Response::new(HashResponse {
            header: self.0.header(snapshot.revision()),
            hash,
        }))
    }

    async fn hash_kv(
        &self,
        request: Request<HashKvRequest>,
    ) -> Result<Response<HashKvResponse>, Status> {
        let snapshot = self.0.store.snapshot();
        let at = match revision(request.into_inner().revision).ok_or(COMPACTED)? {
            Revision::ZERO => snapshot.revision(),
            at => at,
        };
        let hash = hash_at(&snapshot, at).map_err(errors::from_range_error)?;
        Ok(Response::new(HashKvResponse {
            header: self.0.header(snapshot.revision()),
            hash,
            compact_revision: compact_revision(&snapshot),
            hash_revision: signed(at),
        }))
    }

    type SnapshotStream = BoxStream<'static, Result<SnapshotResponse, Status>>;

    async fn snapshot(
        &self,
        _: Request<SnapshotRequest>,
    ) -> Result<Response<Self::SnapshotStream>, Status> {
        let export = self.0.store.export().await;
        let export = export.map_err(|error| errors::from_read_error(&error))?;
        Ok(Response::new(stream::iter(snapshot_blobs(export)).boxed()))
    }

    async fn move_leader(
        &self,
        _: Request<MoveLeaderRequest>,
    ) -> Result<Response<MoveLeaderResponse>, Status> {
        let text = "etcdserver: bad leader transferee";
        Err(Status::failed_precondition(text))
    }
}

/// The chunks of a snapshot in the store's own format: a file that `etcdctl snapshot save` writes
/// can be restored by Optik only. The last chunk is the hash, which does not count as remaining.
fn snapshot_blobs(export: Export) -> impl Iterator<Item = Result<SnapshotResponse, Status>> {
    const HASH_BYTES: u64 = 32;
    let mut remaining = export.bytes().saturating_sub(HASH_BYTES);
    export.map(move |blob| {
        remaining = remaining.saturating_sub(blob.len() as u64);
        Ok(SnapshotResponse {
            header: None,
            remaining_bytes: remaining,
            blob,
            version: ETCD_VERSION.into(),
        })
    })
}

fn compact_revision(snapshot: &Snapshot) -> i64 {
    match snapshot.oldest() {
        oldest if oldest <= Revision::FIRST => NEVER_COMPACTED,
        oldest => signed(oldest),
    }
}

/// The hash of the state at a revision. Equal states have equal hashes, whatever their history.
fn hash_at(snapshot: &Snapshot, at: Revision) -> Result<u32, RangeError> {
    let mut query = RangeQuery::new(KeyRange::all());
    query.at = Some(at);
    let state = snapshot.range(&query)?;
    let mut hasher = crc32fast::Hasher::new();
    for version in &state.entries {
        hash_version(&mut hasher, version);
    }
    Ok(hasher.finalize())
}

fn hash_version(hasher: &mut crc32fast::Hasher, version: &Version) {
    for bytes in [&version.key()[..], &version.value()[..]] {
        // The lengths are hashed too, so that "ab","c" differs from "a","bc".
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    }
    let numbers = [
        version.create_revision().get(),
        version.mod_revision().get(),
        version.version(),
        version.lease().0.cast_unsigned(),
    ];
    for number in numbers {
        hasher.update(&number.to_le_bytes());
    }
}
