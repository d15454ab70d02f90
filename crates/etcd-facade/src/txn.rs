//! Transactions: conversion of requests to the store's operations, and of results to responses.

use crate::convert::{key_range, key_value, signed, signed_count};
use crate::range_request::{self, RangeProjection};
use bytes::Bytes;
use optik_etcd_api::errors::{KEY_NOT_FOUND, KEY_NOT_PROVIDED, LEASE_PROVIDED, VALUE_PROVIDED};
use optik_etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use optik_etcd_api::etcdserverpb::request_op::Request as Operation;
use optik_etcd_api::etcdserverpb::response_op::Response as Outcome;
use optik_etcd_api::etcdserverpb::{
    Compare, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RequestOp,
    ResponseHeader, ResponseOp, TxnRequest, TxnResponse,
};
use optik_store::{
    Key, KeyRange, LeaseId, Op, OpResult, Operand, Put, RangeQuery, Relation, Revision, Txn,
    TxnResult,
};
use tonic::Status;

/// How to convert the result of each operation, in the order of the request.
#[derive(Clone, Debug)]
pub(crate) struct TxnResponsePlan {
    success: Vec<OpResponsePlan>,
    failure: Vec<OpResponsePlan>,
}

#[derive(Clone, Debug)]
enum OpResponsePlan {
    Range(RangeProjection),
    Put { prev_kv: bool },
    Delete { prev_kv: bool },
    Txn(TxnResponsePlan),
}

pub(crate) fn parse_txn(request: &TxnRequest) -> Result<(Txn, TxnResponsePlan), Status> {
    let compares = request
        .compare
        .iter()
        .map(compare)
        .collect::<Result<_, _>>()?;
    let (success, success_wishes) = operations(&request.success)?;
    let (failure, failure_wishes) = operations(&request.failure)?;
    let txn = Txn {
        compares,
        success,
        failure,
    };
    let wishes = TxnResponsePlan {
        success: success_wishes,
        failure: failure_wishes,
    };
    Ok((txn, wishes))
}

fn operations(requests: &[RequestOp]) -> Result<(Vec<Op>, Vec<OpResponsePlan>), Status> {
    let parsed: Result<Vec<_>, _> = requests.iter().map(operation).collect();
    Ok(parsed?.into_iter().unzip())
}

fn operation(request: &RequestOp) -> Result<(Op, OpResponsePlan), Status> {
    match &request.request {
        Some(Operation::RequestRange(request)) => {
            let (mut query, shape) = range_request::parse_range(request)?;
            if request.revision < 0 {
                query = negative_revision_as_compacted(query);
            }
            Ok((Op::Range(query), OpResponsePlan::Range(shape)))
        }
        Some(Operation::RequestPut(request)) => {
            let prev_kv = request.prev_kv;
            Ok((Op::Put(put(request)?), OpResponsePlan::Put { prev_kv }))
        }
        Some(Operation::RequestDeleteRange(request)) => {
            let prev_kv = request.prev_kv;
            Ok((
                Op::Delete(delete(request)?),
                OpResponsePlan::Delete { prev_kv },
            ))
        }
        Some(Operation::RequestTxn(request)) => {
            let (txn, wishes) = parse_txn(request)?;
            Ok((Op::Txn(Box::new(txn)), OpResponsePlan::Txn(wishes)))
        }
        // etcd's error for an unknown operation.
        None => Err(KEY_NOT_FOUND.into()),
    }
}

/// In a plain range request a negative revision means the newest; in a transaction etcd reports it
/// as compacted.
fn negative_revision_as_compacted(query: RangeQuery) -> RangeQuery {
    RangeQuery {
        at: Some(Revision::ZERO),
        ..query
    }
}

pub(crate) fn put(request: &PutRequest) -> Result<Put, Status> {
    if request.key.is_empty() {
        return Err(KEY_NOT_PROVIDED.into());
    }
    if request.ignore_value && !request.value.is_empty() {
        return Err(VALUE_PROVIDED.into());
    }
    if request.ignore_lease && request.lease != 0 {
        return Err(LEASE_PROVIDED.into());
    }
    // A copy: the request is a slice of a network buffer, which would otherwise live as long as the
    // value.
    let value = || Bytes::copy_from_slice(&request.value);
    Ok(Put {
        key: Key::from(&request.key),
        value: (!request.ignore_value).then(value),
        lease: (!request.ignore_lease).then_some(LeaseId(request.lease)),
    })
}

pub(crate) fn delete(request: &DeleteRangeRequest) -> Result<KeyRange, Status> {
    if request.key.is_empty() {
        return Err(KEY_NOT_PROVIDED.into());
    }
    Ok(key_range(&request.key, &request.range_end))
}

fn compare(request: &Compare) -> Result<optik_store::Compare, Status> {
    if request.key.is_empty() {
        return Err(KEY_NOT_PROVIDED.into());
    }
    let unknown = |_| Status::invalid_argument("etcdserver: unknown compare");
    let target = CompareTarget::try_from(request.target).map_err(unknown)?;
    let relation = match CompareResult::try_from(request.result).map_err(unknown)? {
        CompareResult::Equal => Relation::Equal,
        CompareResult::NotEqual => Relation::NotEqual,
        CompareResult::Greater => Relation::Greater,
        CompareResult::Less => Relation::Less,
    };
    let (relation, operand) = operand(relation, target, request.target_union.as_ref());
    Ok(optik_store::Compare {
        range: key_range(&request.key, &request.range_end),
        relation,
        operand,
    })
}

/// The operand of a comparison. An operand of another type than the target counts as zero or empty.
fn operand(
    relation: Relation,
    target: CompareTarget,
    union: Option<&TargetUnion>,
) -> (Relation, Operand) {
    let number = |of_target: fn(&TargetUnion) -> Option<i64>| {
        clamp_to_unsigned(relation, union.and_then(of_target).unwrap_or(0))
    };
    match target {
        CompareTarget::Version => {
            let (relation, than) = number(|union| match union {
                TargetUnion::Version(than) => Some(*than),
                _ => None,
            });
            (relation, Operand::Version(than))
        }
        CompareTarget::Create => {
            let (relation, than) = number(|union| match union {
                TargetUnion::CreateRevision(than) => Some(*than),
                _ => None,
            });
            (relation, Operand::CreateRevision(Revision::new(than)))
        }
        CompareTarget::Mod => {
            let (relation, than) = number(|union| match union {
                TargetUnion::ModRevision(than) => Some(*than),
                _ => None,
            });
            (relation, Operand::ModRevision(Revision::new(than)))
        }
        CompareTarget::Value => {
            let than = match union {
                Some(TargetUnion::Value(than)) => than.clone(),
                _ => Bytes::new(),
            };
            (relation, Operand::Value(than))
        }
        CompareTarget::Lease => {
            let than = match union {
                Some(TargetUnion::Lease(than)) => *than,
                _ => 0,
            };
            (relation, Operand::Lease(LeaseId(than)))
        }
    }
}

/// Converts a comparison with a signed number to unsigned: the store's numbers are not negative, so
/// each is greater than a negative operand.
fn clamp_to_unsigned(relation: Relation, than: i64) -> (Relation, u64) {
    match (u64::try_from(than), relation) {
        (Ok(than), _) => (relation, than),
        (Err(_), Relation::Greater | Relation::NotEqual) => (Relation::NotEqual, u64::MAX),
        (Err(_), Relation::Less | Relation::Equal) => (Relation::Less, 0),
    }
}

/// Converts the results of a transaction to a response with `header`.
pub(crate) fn txn_response(
    wishes: &TxnResponsePlan,
    result: TxnResult,
    header: Option<ResponseHeader>,
) -> TxnResponse {
    let mut told = TxnResponseBuilder {
        revision: result.revision,
        // Reads before the first write report the revision before the transaction.
        written: false,
    };
    if writes(&result) {
        told.revision = result.revision.previous();
    }
    told.build_txn(wishes, result, header)
}

fn writes(result: &TxnResult) -> bool {
    result.results.iter().any(|result| match result {
        OpResult::Range(_) => false,
        OpResult::Put { .. } => true,
        OpResult::Delete { deleted } => !deleted.is_empty(),
        OpResult::Txn(inner) => writes(inner),
    })
}

/// The state of the conversion.
struct TxnResponseBuilder {
    /// The revision before the transaction.
    revision: Revision,
    written: bool,
}

impl TxnResponseBuilder {
    fn build_txn(
        &mut self,
        wishes: &TxnResponsePlan,
        result: TxnResult,
        header: Option<ResponseHeader>,
    ) -> TxnResponse {
        let branch = if result.succeeded {
            &wishes.success
        } else {
            &wishes.failure
        };
        let outcomes = branch.iter().zip(result.results);
        let responses = outcomes.map(|(wish, result)| ResponseOp {
            response: self.build_op(wish, result),
        });
        TxnResponse {
            header,
            succeeded: result.succeeded,
            responses: responses.collect(),
        }
    }

    fn build_op(&mut self, wish: &OpResponsePlan, result: OpResult) -> Option<Outcome> {
        match (wish, result) {
            (OpResponsePlan::Range(shape), OpResult::Range(result)) => {
                let header = self.header();
                Some(Outcome::ResponseRange(shape.range_response(result, header)))
            }
            (OpResponsePlan::Put { prev_kv }, OpResult::Put { prior }) => {
                self.written = true;
                let prior = prior.filter(|_| *prev_kv);
                Some(Outcome::ResponsePut(PutResponse {
                    header: self.header(),
                    prev_kv: prior.map(|prior| key_value(&prior)),
                }))
            }
            (OpResponsePlan::Delete { prev_kv }, OpResult::Delete { deleted }) => {
                self.written |= !deleted.is_empty();
                let header = self.header();
                Some(Outcome::ResponseDeleteRange(delete_response(
                    &deleted, *prev_kv, header,
                )))
            }
            (OpResponsePlan::Txn(wishes), OpResult::Txn(inner)) => {
                // etcd leaves the header of a nested transaction empty.
                let header = Some(ResponseHeader::default());
                Some(Outcome::ResponseTxn(self.build_txn(wishes, inner, header)))
            }
            (wish, result) => unreachable!("{wish:?} was answered with {result:?}"),
        }
    }

    /// The header of an operation in a transaction; it has a revision only.
    fn header(&self) -> Option<ResponseHeader> {
        let revision = if self.written {
            self.revision.next()
        } else {
            self.revision
        };
        Some(ResponseHeader {
            revision: signed(revision),
            ..ResponseHeader::default()
        })
    }
}

pub(crate) fn delete_response(
    deleted: &[std::sync::Arc<optik_store::Version>],
    prev_kv: bool,
    header: Option<ResponseHeader>,
) -> DeleteRangeResponse {
    let told = if prev_kv { deleted } else { &[] };
    DeleteRangeResponse {
        header,
        deleted: signed_count(deleted.len() as u64),
        prev_kvs: told.iter().map(|version| key_value(version)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn txn_compare_negative_operand_is_below_everything() {
        let verdicts = [
            (Relation::Greater, (Relation::NotEqual, u64::MAX)),
            (Relation::NotEqual, (Relation::NotEqual, u64::MAX)),
            (Relation::Equal, (Relation::Less, 0)),
            (Relation::Less, (Relation::Less, 0)),
        ];
        for (asked, expected) in verdicts {
            assert_eq!(clamp_to_unsigned(asked, -1), expected, "{asked:?}");
            assert_eq!(clamp_to_unsigned(asked, 7), (asked, 7));
        }
    }

    #[test]
    fn txn_compare_operand_of_other_target_counts_as_zero() {
        let other = TargetUnion::Lease(9);
        let (_, operand) = operand(Relation::Equal, CompareTarget::Version, Some(&other));
        assert_eq!(operand, Operand::Version(0));
    }
}
