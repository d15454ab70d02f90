//! The context of every service: the store, the member's identity, the options.

use crate::convert::signed;
use crate::options::FacadeOptions;
use optik_etcd_api::errors::REQUEST_TOO_LARGE;
use optik_etcd_api::etcdserverpb::ResponseHeader;
use optik_store::{Origin, Revision, Store};
use prost::Message;
use std::sync::Arc;
use tokio::sync::watch as signal;
use tonic::{Request, Status};

/// The raft term: a single member is elected once, in its first term after the empty one.
const RAFT_TERM: u64 = 2;

#[derive(Clone, Debug)]
pub(crate) struct FacadeContext {
    pub(crate) store: Store,
    pub(crate) options: Arc<FacadeOptions>,
    stopping: signal::Receiver<bool>,
}

impl FacadeContext {
    pub(crate) fn new(
        store: Store,
        options: Arc<FacadeOptions>,
        stopping: signal::Receiver<bool>,
    ) -> Self {
        Self {
            store,
            options,
            stopping,
        }
    }

    /// The id of the single member, which is also the id of the cluster.
    pub(crate) fn member_id(&self) -> u64 {
        // Clients take zero for "no leader".
        self.store.id().max(1)
    }

    pub(crate) fn raft_term(&self) -> u64 {
        RAFT_TERM
    }

    pub(crate) fn header(&self, revision: Revision) -> Option<ResponseHeader> {
        Some(ResponseHeader {
            cluster_id: self.member_id(),
            member_id: self.member_id(),
            revision: signed(revision),
            raft_term: RAFT_TERM,
        })
    }

    /// A header with the current revision, for operations that have no revision of their own.
    pub(crate) fn header_now(&self) -> Option<ResponseHeader> {
        self.header(self.store.snapshot().revision())
    }

    /// A header without a revision, where etcd leaves it out.
    pub(crate) fn header_without_revision(&self) -> Option<ResponseHeader> {
        self.header(Revision::ZERO)
    }

    pub(crate) fn check_size(&self, request: &impl Message) -> Result<(), Status> {
        if request.encoded_len() > self.options.limits.request_bytes_max {
            return Err(REQUEST_TOO_LARGE.into());
        }
        Ok(())
    }

    /// Completes when the server is to stop.
    pub(crate) fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stopping = self.stopping.clone();
        async move {
            // A dropped sender counts as a stop.
            let _ = stopping.wait_for(|stop| *stop).await;
        }
    }
}

/// The origin of a write, from the client's user agent.
pub(crate) fn origin_of<T>(request: &Request<T>, verb: &str) -> Origin {
    let agent = request.metadata().get("user-agent");
    let agent = agent.and_then(|agent| agent.to_str().ok());
    Origin {
        user: "etcd-client".into(),
        agent: agent.unwrap_or_default().into(),
        manager: String::new(),
        verb: verb.into(),
    }
}
