//! Conversion of transactions and versions to and from etcd's protobuf messages.

use crate::key::{Key, KeyRange};
use crate::lease::LeaseId;
use crate::origin::Origin;
use crate::revision::Revision;
use crate::sync::{Arc, Mutex};
use crate::txn::{
    Compare, Op, OpResult, Operand, Put, RangeQuery, RangeResult, Relation, Txn, TxnResult,
};
use crate::version::Version;
use bytes::Bytes;
use optik_etcd_api::etcdserverpb as pb;
use optik_etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use optik_etcd_api::etcdserverpb::request_op::Request;
use optik_etcd_api::etcdserverpb::response_op::Response;
use optik_etcd_api::mvccpb::KeyValue;
use optik_platform::UnixMillis;

/// etcd's first key, and its marker for "no end".
const ZERO_KEY: &[u8] = b"\0";
/// An empty range, which etcd's own markers cannot express.
const EMPTY_RANGE: (&[u8], &[u8]) = (b"a", b"a");

/// Encodes a range as key and range end.
pub(crate) fn encode_range(range: &KeyRange) -> (Bytes, Bytes) {
    let start = first_key(range);
    if range.as_one().is_some() {
        return (start, Bytes::new());
    }
    match range.end() {
        None => (start, Bytes::from_static(ZERO_KEY)),
        Some(end) if end <= start => (
            Bytes::from_static(EMPTY_RANGE.0),
            Bytes::from_static(EMPTY_RANGE.1),
        ),
        Some(end) => (start, end.into()),
    }
}

fn first_key(range: &KeyRange) -> Bytes {
    match &**range.start() {
        [] => Bytes::from_static(ZERO_KEY),
        start => Bytes::copy_from_slice(start),
    }
}

/// Whether every key of `inner` is in `outer`.
pub(crate) fn covers(outer: &KeyRange, inner: &KeyRange) -> bool {
    let ends_within = match (outer.end(), inner.end()) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(outer), Some(inner)) => inner <= outer,
    };
    outer.start() <= inner.start() && ends_within
}

/// A request that returns only the current revision, at a key that the client is allowed to read.
pub(crate) fn probe_request(range: &KeyRange) -> pb::RangeRequest {
    pb::RangeRequest {
        key: first_key(range),
        limit: 1,
        count_only: true,
        ..pb::RangeRequest::default()
    }
}

pub(crate) fn encode_txn(txn: &Txn, probe: &KeyRange) -> pb::TxnRequest {
    let mut request = encode(txn);
    if has_no_operations(txn) {
        // A member answers a transaction without operations from its local state, however old.
        // Adding a read makes it linearizable.
        let read = pb::RequestOp {
            request: Some(Request::RequestRange(probe_request(probe))),
        };
        request.success.push(read.clone());
        request.failure.push(read);
    }
    request
}

fn has_no_operations(txn: &Txn) -> bool {
    txn.success.is_empty() && txn.failure.is_empty()
}

fn encode(txn: &Txn) -> pb::TxnRequest {
    pb::TxnRequest {
        compare: txn.compares.iter().map(encode_compare).collect(),
        success: txn.success.iter().map(encode_op).collect(),
        failure: txn.failure.iter().map(encode_op).collect(),
    }
}

fn encode_compare(compare: &Compare) -> pb::Compare {
    let (key, range_end) = encode_range(&compare.range);
    let result = match compare.relation {
        Relation::Equal => CompareResult::Equal,
        Relation::NotEqual => CompareResult::NotEqual,
        Relation::Greater => CompareResult::Greater,
        Relation::Less => CompareResult::Less,
    };
    let (target, operand) = match &compare.operand {
        Operand::Version(than) => (
            CompareTarget::Version,
            TargetUnion::Version(than.cast_signed()),
        ),
        Operand::CreateRevision(than) => (
            CompareTarget::Create,
            TargetUnion::CreateRevision(encode_revision(*than)),
        ),
        Operand::ModRevision(than) => (
            CompareTarget::Mod,
            TargetUnion::ModRevision(encode_revision(*than)),
        ),
        Operand::Value(than) => (CompareTarget::Value, TargetUnion::Value(than.clone())),
        Operand::Lease(than) => (CompareTarget::Lease, TargetUnion::Lease(than.0)),
    };
    pb::Compare {
        result: result.into(),
        target: target.into(),
        key,
        range_end,
        target_union: Some(operand),
    }
}

fn encode_op(op: &Op) -> pb::RequestOp {
    let request = match op {
        Op::Range(query) => Request::RequestRange(encode_query(query)),
        Op::Put(put) => Request::RequestPut(encode_put(put)),
        Op::Delete(range) => {
            let (key, range_end) = encode_range(range);
            Request::RequestDeleteRange(pb::DeleteRangeRequest {
                key,
                range_end,
                prev_kv: true,
            })
        }
        Op::Txn(inner) => Request::RequestTxn(encode(inner)),
    };
    pb::RequestOp {
        request: Some(request),
    }
}

fn encode_put(put: &Put) -> pb::PutRequest {
    pb::PutRequest {
        key: Bytes::copy_from_slice(&put.key),
        value: put.value.clone().unwrap_or_default(),
        lease: put.lease.unwrap_or(LeaseId::NONE).0,
        prev_kv: true,
        ignore_value: put.value.is_none(),
        ignore_lease: put.lease.is_none(),
    }
}

fn encode_query(query: &RangeQuery) -> pb::RangeRequest {
    let (key, range_end) = encode_range(&query.range);
    let bound = |revision: Option<Revision>| encode_revision(revision.unwrap_or(Revision::ZERO));
    let limit = query.limit.map_or(0, |limit| {
        // Zero means "no limit" in etcd. One entry more than a zero limit shows whether there are
        // more.
        i64::try_from(limit.max(1)).unwrap_or(i64::MAX)
    });
    pb::RangeRequest {
        key,
        range_end,
        limit,
        revision: bound(query.at),
        count_only: query.count_only,
        min_mod_revision: bound(query.filter.mod_min),
        max_mod_revision: bound(query.filter.mod_max),
        min_create_revision: bound(query.filter.create_min),
        max_create_revision: bound(query.filter.create_max),
        ..pb::RangeRequest::default()
    }
}

/// Whether a transaction changed anything.
pub(crate) fn has_writes(response: &pb::TxnResponse) -> bool {
    let mut responses = response.responses.iter();
    responses.any(|op| match &op.response {
        Some(Response::ResponsePut(_)) => true,
        Some(Response::ResponseDeleteRange(delete)) => delete.deleted > 0,
        Some(Response::ResponseTxn(inner)) => has_writes(inner),
        Some(Response::ResponseRange(_)) | None => false,
    })
}

/// Decodes a response. `find` maps etcd's version of a key to ours.
///
/// Returns `None` if the response does not match the request.
pub(crate) fn decode_txn(
    txn: &Txn,
    response: pb::TxnResponse,
    revision: Revision,
    find: &impl Fn(&KeyValue) -> Arc<Version>,
) -> Option<TxnResult> {
    let succeeded = response.succeeded;
    let ops = if succeeded {
        &txn.success
    } else {
        &txn.failure
    };
    if response.responses.len() < ops.len() {
        return None;
    }
    // The remaining answer is that of the read that was added to a transaction without operations.
    let answers = ops.iter().zip(response.responses);
    let results = answers.map(|(op, answer)| decode_op(op, answer.response?, revision, find));
    Some(TxnResult {
        revision,
        succeeded,
        results: results.collect::<Option<_>>()?,
    })
}

fn decode_op(
    op: &Op,
    response: Response,
    revision: Revision,
    find: &impl Fn(&KeyValue) -> Arc<Version>,
) -> Option<OpResult> {
    Some(match (op, response) {
        (Op::Range(query), Response::ResponseRange(range)) => {
            OpResult::Range(decode_range(query, &range, find))
        }
        (Op::Put(_), Response::ResponsePut(put)) => OpResult::Put {
            prior: put.prev_kv.as_ref().map(find),
        },
        (Op::Delete(_), Response::ResponseDeleteRange(delete)) => OpResult::Delete {
            deleted: delete.prev_kvs.iter().map(find).collect(),
        },
        (Op::Txn(inner), Response::ResponseTxn(response)) => {
            OpResult::Txn(decode_txn(inner, response, revision, find)?)
        }
        _ => return None,
    })
}

fn decode_range(
    query: &RangeQuery,
    response: &pb::RangeResponse,
    find: &impl Fn(&KeyValue) -> Arc<Version>,
) -> RangeResult {
    let mut entries: Vec<_> = response.kvs.iter().map(find).collect();
    // Zero means "no bound" in etcd; here it is a bound that admits nothing.
    entries.retain(|version| query.filter.admits(version));
    let limit = query.limit.unwrap_or(usize::MAX);
    let more = response.more || entries.len() > limit;
    entries.truncate(limit);
    RangeResult {
        entries,
        more,
        count: response.count.cast_unsigned(),
    }
}

/// The origin of a version, and the metadata that etcd does not return.
#[derive(Clone, Debug, Default)]
pub(crate) struct Provenance {
    /// Its position in the transaction.
    pub(crate) sub: u32,
    /// Zero if unknown.
    pub(crate) time: UnixMillis,
    pub(crate) origin: Option<Arc<Origin>>,
}

/// Creates a version with its own copy of the value: a slice would keep the whole message in
/// memory.
pub(crate) fn version_from_kv(
    kv: &KeyValue,
    prior: Option<Arc<Version>>,
    provenance: Provenance,
) -> Version {
    let key = match &prior {
        Some(prior) => prior.key.clone(),
        None => Key::from(&kv.key),
    };
    Version {
        key,
        value: Bytes::copy_from_slice(&kv.value),
        create_revision: decode_revision(kv.create_revision),
        mod_revision: decode_revision(kv.mod_revision),
        sub: provenance.sub,
        version: u64::try_from(kv.version).unwrap_or_default(),
        lease: LeaseId(kv.lease),
        time: provenance.time,
        origin: provenance.origin,
        prior: Mutex::new(prior),
    }
}

pub(crate) fn encode_revision(revision: Revision) -> i64 {
    i64::try_from(revision.get()).unwrap_or(i64::MAX)
}

pub(crate) fn decode_revision(revision: i64) -> Revision {
    Revision::new(u64::try_from(revision).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_range_encodes_to_etcd_key_and_range_end() {
        let cases: &[(KeyRange, &[u8], &[u8])] = &[
            (KeyRange::one("a"), b"a", b""),
            (KeyRange::prefix("a/"), b"a/", b"a0"),
            (KeyRange::all(), b"\0", b"\0"),
            (KeyRange::prefix([0xff]), b"\xff", b"\0"),
            (KeyRange::from_key("b"), b"b", b"\0"),
            (KeyRange::from_key(""), b"\0", b"\0"),
            (KeyRange::between("b", "d"), b"b", b"d"),
            (KeyRange::between("", "d"), b"\0", b"d"),
            (KeyRange::between("d", "b"), b"a", b"a"),
            (KeyRange::between("d", ""), b"a", b"a"),
            (KeyRange::between("", "\0"), b"a", b"a"),
        ];
        for (range, key, end) in cases {
            let (got_key, got_end) = encode_range(range);
            assert_eq!((&got_key[..], &got_end[..]), (*key, *end), "{range:?}");
        }
    }

    #[test]
    fn range_covers_only_ranges_within_it() {
        let registry = KeyRange::prefix("/registry/");
        let cases = [
            (KeyRange::one("/registry/a"), true),
            (KeyRange::prefix("/registry/pods/"), true),
            (registry.clone(), true),
            (KeyRange::one("/registry"), false),
            (KeyRange::one("/registry0"), false),
            (KeyRange::prefix("/reg"), false),
            (KeyRange::from_key("/registry/a"), false),
            (KeyRange::all(), false),
        ];
        for (inner, expected) in cases {
            assert_eq!(covers(&registry, &inner), expected, "{inner:?}");
            assert!(covers(&KeyRange::all(), &inner), "{inner:?}");
        }
    }

    #[test]
    fn empty_txn_gets_a_read_to_be_linearizable() {
        let bare = encode_txn(&Txn::default(), &KeyRange::prefix("p/"));
        assert_eq!((bare.success.len(), bare.failure.len()), (1, 1));
        let put = encode_txn(&Txn::put(Put::new("p/a", "1")), &KeyRange::prefix("p/"));
        assert_eq!((put.success.len(), put.failure.len()), (1, 0));
    }
}
