//! The `KV` service: range, put, delete, transactions and compaction.

use crate::context::{FacadeContext, origin_of};
use crate::convert::{key_value, revision};
use crate::{errors, range_request, txn};
use optik_etcd_api::errors::COMPACTED;
use optik_etcd_api::etcdserverpb::kv_server::Kv;
use optik_etcd_api::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest,
    PutResponse, RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};
use optik_store::{OpResult, Origin, Revision, Txn, TxnResult};
use tonic::{Request, Response, Status};

#[derive(Clone, Debug)]
pub(crate) struct KvService(pub(crate) FacadeContext);

#[tonic::async_trait]
impl Kv for KvService {
    async fn range(
        &self,
        request: Request<RangeRequest>,
    ) -> Result<Response<RangeResponse>, Status> {
        let request = request.into_inner();
        let (query, shape) = range_request::parse_range(&request)?;
        let store = &self.0.store;
        let snapshot = if request.serializable {
            store.snapshot()
        } else {
            let latest = store.latest().await;
            latest.map_err(|error| errors::from_read_error(&error))?
        };
        let result = snapshot.range(&query).map_err(errors::from_range_error)?;
        let header = self.0.header(snapshot.revision());
        Ok(Response::new(shape.range_response(result, header)))
    }

    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        let origin = origin_of(&request, "put");
        let request = request.into_inner();
        let put = txn::put(&request)?;
        self.0.check_size(&request)?;
        let result = self.commit(Txn::put(put), origin).await?;
        let header = self.0.header(result.revision);
        let prior = result.results.into_iter().find_map(|result| match result {
            OpResult::Put { prior } => prior,
            _ => None,
        });
        let prior = prior.filter(|_| request.prev_kv);
        Ok(Response::new(PutResponse {
            header,
            prev_kv: prior.map(|prior| key_value(&prior)),
        }))
    }

    async fn delete_range(
        &self,
        request: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        let origin = origin_of(&request, "delete");
        let request = request.into_inner();
        let range = txn::delete(&request)?;
        self.0.check_size(&request)?;
        let result = self.commit(Txn::delete(range), origin).await?;
        let header = self.0.header(result.revision);
        let deleted = result.results.into_iter().find_map(|result| match result {
            OpResult::Delete { deleted } => Some(deleted),
            _ => None,
        });
        let deleted = deleted.unwrap_or_default();
        let response = txn::delete_response(&deleted, request.prev_kv, header);
        Ok(Response::new(response))
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        let origin = origin_of(&request, "txn");
        let request = request.into_inner();
        let (txn, wishes) = txn::parse_txn(&request)?;
        self.0.check_size(&request)?;
        let result = self.commit(txn, origin).await?;
        let header = self.0.header(result.revision);
        Ok(Response::new(txn::txn_response(&wishes, result, header)))
    }

    async fn compact(
        &self,
        request: Request<CompactionRequest>,
    ) -> Result<Response<CompactionResponse>, Status> {
        let target = revision(request.into_inner().revision).ok_or(COMPACTED)?;
        if !self.is_noop_compaction(target) {
            let compacted = self.0.store.compact(target).await;
            compacted.map_err(|error| errors::from_compact_error(&error))?;
        }
        Ok(Response::new(CompactionResponse {
            header: self.0.header_now(),
        }))
    }
}

impl KvService {
    async fn commit(&self, txn: Txn, origin: Origin) -> Result<TxnResult, Status> {
        let result = self.0.store.commit(txn, origin).await;
        result.map_err(|error| errors::from_commit_error(&error))
    }

    /// Whether a compaction has nothing to do: etcd accepts a compaction to zero until something
    /// has been compacted.
    fn is_noop_compaction(&self, target: Revision) -> bool {
        target == Revision::ZERO && self.0.store.snapshot().oldest() <= Revision::FIRST
    }
}
