//! Every method is called at the path where an etcd server expects it.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use optik_etcd_api::etcdserverpb::auth_client::AuthClient;
use optik_etcd_api::etcdserverpb::auth_server::AuthServer;
use optik_etcd_api::etcdserverpb::cluster_client::ClusterClient;
use optik_etcd_api::etcdserverpb::cluster_server::ClusterServer;
use optik_etcd_api::etcdserverpb::kv_client::KvClient;
use optik_etcd_api::etcdserverpb::kv_server::KvServer;
use optik_etcd_api::etcdserverpb::lease_client::LeaseClient;
use optik_etcd_api::etcdserverpb::lease_server::LeaseServer;
use optik_etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use optik_etcd_api::etcdserverpb::maintenance_server::MaintenanceServer;
use optik_etcd_api::etcdserverpb::watch_client::WatchClient;
use optik_etcd_api::etcdserverpb::watch_server::WatchServer;
use optik_etcd_api::etcdserverpb::{
    AlarmRequest, AuthRoleListRequest, AuthStatusRequest, AuthUserListRequest, AuthenticateRequest,
    CompactionRequest, DefragmentRequest, DeleteRangeRequest, HashKvRequest, HashRequest,
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseLeasesRequest, LeaseRevokeRequest,
    LeaseTimeToLiveRequest, MemberListRequest, MoveLeaderRequest, PutRequest, RangeRequest,
    SnapshotRequest, StatusRequest, TxnRequest, WatchRequest,
};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::NamedService;
use tonic::{Code, Status};

/// A stand-in for a connection: records the path and rejects the call.
#[derive(Clone, Default)]
struct PathRecorder {
    paths: Arc<Mutex<Vec<String>>>,
}

impl PathRecorder {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.paths.lock().unwrap())
    }
}

impl Service<http::Request<Body>> for PathRecorder {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let path = request.uri().path().to_owned();
        self.paths.lock().unwrap().push(path);
        ready(Ok(Status::unimplemented("recorded").into_http()))
    }
}

/// Calls the methods one after the other and compares the recorded paths.
macro_rules! assert_paths {
    ($client:ident { $($method:ident($request:expr) => $path:literal,)* }) => {{
        let recorder = PathRecorder::default();
        let mut client = $client::new(recorder.clone());
        $(
            let refusal = client.$method($request).await.unwrap_err();
            assert_eq!(refusal.code(), Code::Unimplemented);
        )*
        assert_eq!(recorder.take(), [$($path),*]);
    }};
}

#[tokio::test]
async fn kv_methods_use_etcd_paths() {
    assert_paths!(KvClient {
        range(RangeRequest::default()) => "/etcdserverpb.KV/Range",
        put(PutRequest::default()) => "/etcdserverpb.KV/Put",
        delete_range(DeleteRangeRequest::default()) => "/etcdserverpb.KV/DeleteRange",
        txn(TxnRequest::default()) => "/etcdserverpb.KV/Txn",
        compact(CompactionRequest::default()) => "/etcdserverpb.KV/Compact",
    });
}

#[tokio::test]
async fn watch_method_uses_etcd_path() {
    assert_paths!(WatchClient {
        watch(tokio_stream::once(WatchRequest::default())) => "/etcdserverpb.Watch/Watch",
    });
}

#[tokio::test]
async fn lease_methods_use_etcd_paths() {
    assert_paths!(LeaseClient {
        lease_grant(LeaseGrantRequest::default()) => "/etcdserverpb.Lease/LeaseGrant",
        lease_revoke(LeaseRevokeRequest::default()) => "/etcdserverpb.Lease/LeaseRevoke",
        lease_keep_alive(tokio_stream::once(LeaseKeepAliveRequest::default()))
            => "/etcdserverpb.Lease/LeaseKeepAlive",
        lease_time_to_live(LeaseTimeToLiveRequest::default())
            => "/etcdserverpb.Lease/LeaseTimeToLive",
        lease_leases(LeaseLeasesRequest::default()) => "/etcdserverpb.Lease/LeaseLeases",
    });
}

#[tokio::test]
async fn cluster_methods_use_etcd_paths() {
    assert_paths!(ClusterClient {
        member_list(MemberListRequest::default()) => "/etcdserverpb.Cluster/MemberList",
    });
}

#[tokio::test]
async fn maintenance_methods_use_etcd_paths() {
    assert_paths!(MaintenanceClient {
        alarm(AlarmRequest::default()) => "/etcdserverpb.Maintenance/Alarm",
        status(StatusRequest::default()) => "/etcdserverpb.Maintenance/Status",
        defragment(DefragmentRequest::default()) => "/etcdserverpb.Maintenance/Defragment",
        hash(HashRequest::default()) => "/etcdserverpb.Maintenance/Hash",
        hash_kv(HashKvRequest::default()) => "/etcdserverpb.Maintenance/HashKV",
        snapshot(SnapshotRequest::default()) => "/etcdserverpb.Maintenance/Snapshot",
        move_leader(MoveLeaderRequest::default()) => "/etcdserverpb.Maintenance/MoveLeader",
    });
}

#[tokio::test]
async fn auth_methods_use_etcd_paths() {
    assert_paths!(AuthClient {
        auth_status(AuthStatusRequest::default()) => "/etcdserverpb.Auth/AuthStatus",
        authenticate(AuthenticateRequest::default()) => "/etcdserverpb.Auth/Authenticate",
        user_list(AuthUserListRequest::default()) => "/etcdserverpb.Auth/UserList",
        role_list(AuthRoleListRequest::default()) => "/etcdserverpb.Auth/RoleList",
    });
}

#[test]
fn generated_servers_use_etcd_service_names() {
    assert_eq!(KvServer::<()>::NAME, "etcdserverpb.KV");
    assert_eq!(WatchServer::<()>::NAME, "etcdserverpb.Watch");
    assert_eq!(LeaseServer::<()>::NAME, "etcdserverpb.Lease");
    assert_eq!(ClusterServer::<()>::NAME, "etcdserverpb.Cluster");
    assert_eq!(MaintenanceServer::<()>::NAME, "etcdserverpb.Maintenance");
    assert_eq!(AuthServer::<()>::NAME, "etcdserverpb.Auth");
}
