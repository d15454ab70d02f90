//! The part of etcd's v3 gRPC API that Kubernetes and `etcdctl` use.
//!
//! Messages, clients and servers are generated from the `.proto` files of this crate. Packages,
//! services, methods and field numbers are part of the wire format and are etcd's; field names are
//! not, so they are plain `snake_case` here (`id`, `ttl`, `peer_urls`). The generated server
//! answers methods that are not declared here with `Unimplemented`.
//!
//! `bytes` fields are [`bytes::Bytes`](prost::bytes::Bytes).

pub mod errors;

/// Keys with their revisions, and the events of a watch.
pub mod mvccpb {
    tonic::include_proto!("mvccpb");
}

/// Requests, responses and services.
#[expect(clippy::allow_attributes_without_reason, reason = "generated")]
pub mod etcdserverpb {
    tonic::include_proto!("etcdserverpb");
}
