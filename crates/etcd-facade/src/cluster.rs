//! The `Cluster` service of a cluster with one member.

use crate::context::FacadeContext;
use optik_etcd_api::etcdserverpb::cluster_server::Cluster;
use optik_etcd_api::etcdserverpb::{Member, MemberListRequest, MemberListResponse};
use tonic::{Request, Response, Status};

#[derive(Clone, Debug)]
pub(crate) struct ClusterService(pub(crate) FacadeContext);

#[tonic::async_trait]
impl Cluster for ClusterService {
    async fn member_list(
        &self,
        _: Request<MemberListRequest>,
    ) -> Result<Response<MemberListResponse>, Status> {
        let options = &self.0.options;
        let member = Member {
            id: self.0.member_id(),
            name: options.member_name.clone(),
            peer_urls: Vec::new(),
            client_urls: options.client_urls.clone(),
            is_learner: false,
        };
        Ok(Response::new(MemberListResponse {
            header: self.0.header_without_revision(),
            members: vec![member],
        }))
    }
}
