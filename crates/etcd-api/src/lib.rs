//! The part of etcd's v3 gRPC that Kubernetes and `etcdctl` use.
//!
//! Messages, clients and servers are generated from the `.proto` files of this
//! crate. The wire knows packages, services, methods and field numbers, and these
//! are etcd's; it does not know field names, so ours are plain `snake_case`
//! (`id`, `ttl`, `peer_urls`). A method that is not declared here is answered with
//! `Unimplemented` by the generated server.
//!
//! `bytes` fields are [`bytes::Bytes`](prost::bytes::Bytes).

pub mod errors;

/// Keys with their history, and the events a watch delivers.
pub mod mvccpb {
    tonic::include_proto!("mvccpb");
}

/// Requests, responses and services.
#[expect(clippy::allow_attributes_without_reason, reason = "generated")]
pub mod etcdserverpb {
    tonic::include_proto!("etcdserverpb");
}
