//! The `Watch` service: one task per gRPC stream, with many watches on it.

mod events;
mod ready_queue;
mod session;

use crate::context::FacadeContext;
use optik_etcd_api::etcdserverpb::watch_server::Watch;
use optik_etcd_api::etcdserverpb::{WatchRequest, WatchResponse};
use session::WatchSession;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// Responses buffered for the connection. If a client does not read, the buffer fills up, and its
/// watches wait in the store, where they cost nothing.
const RESPONSES_QUEUED_MAX: usize = 8;

#[derive(Clone, Debug)]
pub(crate) struct WatchService(pub(crate) FacadeContext);

#[tonic::async_trait]
impl Watch for WatchService {
    type WatchStream = ReceiverStream<Result<WatchResponse, Status>>;

    async fn watch(
        &self,
        request: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (sender, receiver) = mpsc::channel(RESPONSES_QUEUED_MAX);
        let session = WatchSession::new(self.0.clone(), request.into_inner(), sender);
        // Spawned here: it belongs to one stream. If it panics, the stream ends.
        tokio::spawn(session.run());
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}
