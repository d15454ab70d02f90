//! A server on a real socket, and clients for it.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod script;

use optik_etcd_api::etcdserverpb::kv_client::KvClient;
use optik_etcd_api::etcdserverpb::lease_client::LeaseClient;
use optik_etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use optik_etcd_api::etcdserverpb::watch_client::WatchClient;
use optik_etcd_api::etcdserverpb::watch_request::RequestUnion;
use optik_etcd_api::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse,
    RangeRequest, RangeResponse, RequestOp, ResponseHeader, TxnRequest, TxnResponse,
    WatchCancelRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
    compare::{CompareResult, CompareTarget, TargetUnion},
    request_op::Request as Operation,
};
use optik_etcd_facade::{Facade, FacadeOptions};
use optik_platform::{ManualClock, UnixMillis};
use optik_store::{Retention, Store};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

/// No operation takes this long unless it is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Server {
    pub(crate) store: Store,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) address: SocketAddr,
    pub(crate) channel: Channel,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_with(FacadeOptions::default()).await
    }

    pub(crate) async fn start_with(options: FacadeOptions) -> Self {
        let clock = Arc::new(ManualClock::new(UnixMillis(1_700_000_000_000)));
        let store = Store::open(optik_store::Options {
            clock: Arc::clone(&clock) as _,
            retention: Retention::FOREVER,
            ..optik_store::Options::ephemeral()
        });
        let store = store.expect("a store in memory opens");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel();
        let stopped = async {
            let _ = stopped.await;
        };
        let facade = Facade::new(store.clone(), options);
        let serving = tokio::spawn(facade.serve(listener, stopped));
        Self {
            store,
            clock,
            address,
            channel: connect(&format!("http://{address}")).await,
            stop,
            serving,
        }
    }

    pub(crate) fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel.clone())
    }

    pub(crate) fn lease(&self) -> LeaseClient<Channel> {
        LeaseClient::new(self.channel.clone())
    }

    pub(crate) fn maintenance(&self) -> MaintenanceClient<Channel> {
        MaintenanceClient::new(self.channel.clone())
    }

    pub(crate) fn watch(&self) -> WatchStream {
        WatchStream::open(self.channel.clone())
    }

    pub(crate) async fn put(&self, key: &str, value: impl Into<Vec<u8>>) -> PutResponse {
        let request = put(key, value);
        let response = self.kv().put(request).await;
        response.expect("a put").into_inner()
    }

    pub(crate) async fn delete(&self, key: &str) -> DeleteRangeResponse {
        let response = self.kv().delete_range(delete(key)).await;
        response.expect("a delete").into_inner()
    }

    pub(crate) async fn get(&self, key: &str) -> RangeResponse {
        let response = self.kv().range(range(key)).await;
        response.expect("a range").into_inner()
    }

    pub(crate) async fn txn(&self, txn: TxnRequest) -> TxnResponse {
        let response = self.kv().txn(txn).await;
        response.expect("a transaction").into_inner()
    }

    pub(crate) async fn compact(&self, revision: i64) {
        let request = CompactionRequest {
            revision,
            physical: false,
        };
        self.kv().compact(request).await.expect("a compaction");
    }

    /// Stops the server; fails if it does not end in time.
    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        let served = timeout(PATIENCE, self.serving).await;
        served.expect("the server ends").expect("without a panic");
    }
}

pub(crate) async fn connect(url: &str) -> Channel {
    let endpoint = Endpoint::from_shared(url.to_owned()).expect("a URL");
    endpoint.connect().await.expect("a connection")
}

/// One watch stream.
pub(crate) struct WatchStream {
    requests: mpsc::UnboundedSender<WatchRequest>,
    responses: Responses,
}

/// etcd does not send response headers before its first message.
enum Responses {
    Opening(JoinHandle<Streaming<WatchResponse>>),
    Open(Box<Streaming<WatchResponse>>),
}

impl WatchStream {
    pub(crate) fn open(channel: Channel) -> Self {
        let (requests, received) = mpsc::unbounded_channel();
        let mut client = WatchClient::new(channel).max_decoding_message_size(usize::MAX);
        let opening = tokio::spawn(async move {
            let opened = client.watch(UnboundedReceiverStream::new(received)).await;
            opened.expect("a watch stream").into_inner()
        });
        Self {
            requests,
            responses: Responses::Opening(opening),
        }
    }

    pub(crate) fn send(&self, request: RequestUnion) {
        let request = WatchRequest {
            request_union: Some(request),
        };
        self.requests.send(request).expect("the stream is open");
    }

    pub(crate) fn create(&self, request: WatchCreateRequest) {
        self.send(RequestUnion::CreateRequest(request));
    }

    pub(crate) fn cancel(&self, watch_id: i64) {
        self.send(RequestUnion::CancelRequest(WatchCancelRequest { watch_id }));
    }

    pub(crate) fn ask_progress(&self) {
        self.send(RequestUnion::ProgressRequest(WatchProgressRequest {}));
    }

    pub(crate) async fn next(&mut self) -> WatchResponse {
        let response = self.try_next().await.expect("a response");
        response.expect("the stream goes on")
    }

    pub(crate) async fn try_next(&mut self) -> Result<Option<WatchResponse>, Status> {
        let next = timeout(PATIENCE, async {
            if let Responses::Opening(opening) = &mut self.responses {
                self.responses = Responses::Open(Box::new(opening.await.expect("a stream")));
            }
            match &mut self.responses {
                Responses::Open(responses) => responses.message().await,
                Responses::Opening(_) => unreachable!("it was opened above"),
            }
        });
        next.await.expect("a response in time")
    }

    /// Creates a watch and receives the created response.
    pub(crate) async fn created(&mut self, request: WatchCreateRequest) -> i64 {
        self.create(request);
        let reply = self.next().await;
        assert!(reply.created && !reply.canceled, "{reply:?}");
        reply.watch_id
    }
}

pub(crate) fn watch(key: &str, start_revision: i64) -> WatchCreateRequest {
    WatchCreateRequest {
        key: key.as_bytes().to_vec().into(),
        start_revision,
        ..WatchCreateRequest::default()
    }
}

pub(crate) fn watch_prefix(prefix: &str, start_revision: i64) -> WatchCreateRequest {
    WatchCreateRequest {
        range_end: after_prefix(prefix).into(),
        ..watch(prefix, start_revision)
    }
}

pub(crate) fn after_prefix(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    *end.last_mut().expect("a prefix") += 1;
    end
}

pub(crate) fn put(key: &str, value: impl Into<Vec<u8>>) -> PutRequest {
    PutRequest {
        key: key.as_bytes().to_vec().into(),
        value: value.into().into(),
        ..PutRequest::default()
    }
}

pub(crate) fn range(key: &str) -> RangeRequest {
    RangeRequest {
        key: key.as_bytes().to_vec().into(),
        ..RangeRequest::default()
    }
}

pub(crate) fn range_to(key: &str, end: &str) -> RangeRequest {
    RangeRequest {
        range_end: end.as_bytes().to_vec().into(),
        ..range(key)
    }
}

pub(crate) fn delete(key: &str) -> DeleteRangeRequest {
    DeleteRangeRequest {
        key: key.as_bytes().to_vec().into(),
        ..DeleteRangeRequest::default()
    }
}

pub(crate) fn delete_to(key: &str, end: &str) -> DeleteRangeRequest {
    DeleteRangeRequest {
        range_end: end.as_bytes().to_vec().into(),
        ..delete(key)
    }
}

pub(crate) fn op(operation: Operation) -> RequestOp {
    RequestOp {
        request: Some(operation),
    }
}

pub(crate) fn op_put(key: &str, value: &str) -> RequestOp {
    op(Operation::RequestPut(put(key, value)))
}

pub(crate) fn op_range(key: &str) -> RequestOp {
    op(Operation::RequestRange(range(key)))
}

pub(crate) fn op_delete(key: &str) -> RequestOp {
    op(Operation::RequestDeleteRange(delete(key)))
}

pub(crate) fn op_txn(txn: TxnRequest) -> RequestOp {
    op(Operation::RequestTxn(txn))
}

pub(crate) fn compare(
    key: &str,
    target: CompareTarget,
    result: CompareResult,
    than: TargetUnion,
) -> Compare {
    Compare {
        result: result.into(),
        target: target.into(),
        key: key.as_bytes().to_vec().into(),
        target_union: Some(than),
        ..Compare::default()
    }
}

pub(crate) fn mod_is(key: &str, revision: i64) -> Compare {
    let than = TargetUnion::ModRevision(revision);
    compare(key, CompareTarget::Mod, CompareResult::Equal, than)
}

pub(crate) fn txn(
    compare: Vec<Compare>,
    success: Vec<RequestOp>,
    failure: Vec<RequestOp>,
) -> TxnRequest {
    TxnRequest {
        compare,
        success,
        failure,
    }
}

pub(crate) fn revision_of(header: Option<&ResponseHeader>) -> i64 {
    header.expect("a header").revision
}
