//! Range requests: conversion to a query of the store, and of its result to a response.

use crate::convert::{key_range, key_value, revision, signed_count};
use optik_etcd_api::errors::{INVALID_SORT_OPTION, KEY_NOT_PROVIDED};
use optik_etcd_api::etcdserverpb::range_request::{SortOrder, SortTarget};
use optik_etcd_api::etcdserverpb::{RangeRequest, RangeResponse, ResponseHeader};
use optik_store::{RangeQuery, RangeResult, Revision, RevisionFilter, Version};
use std::cmp::Ordering;
use tonic::Status;

/// How the query result is sorted, limited and projected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RangeProjection {
    limit: Option<usize>,
    sort: Option<RangeSort>,
    keys_only: bool,
}

#[derive(Clone, Copy, Debug)]
struct RangeSort {
    by: SortTarget,
    descending: bool,
}

/// Splits a request into a query and the projection of its result.
pub(crate) fn parse_range(request: &RangeRequest) -> Result<(RangeQuery, RangeProjection), Status> {
    if request.key.is_empty() {
        return Err(KEY_NOT_PROVIDED.into());
    }
    let invalid = |_| Status::from(INVALID_SORT_OPTION);
    let order = SortOrder::try_from(request.sort_order).map_err(invalid)?;
    let target = SortTarget::try_from(request.sort_target).map_err(invalid)?;
    let limit = usize::try_from(request.limit).ok().filter(|max| *max > 0);
    // A sorted result must be complete before it is limited. This does not hold if only a sort
    // target is given: etcd then sorts the first keys only, and so does this façade.
    let fetched = limit.filter(|_| order == SortOrder::None);
    let query = RangeQuery {
        range: key_range(&request.key, &request.range_end),
        at: Some(request.revision)
            .filter(|number| *number > 0)
            .and_then(revision),
        // One more than requested, to compute `more`.
        limit: fetched.map(|limit| limit.saturating_add(1)),
        count_only: request.count_only,
        filter: revision_filter(request),
    };
    let shape = RangeProjection {
        limit,
        sort: sort(order, target),
        keys_only: request.keys_only,
    };
    Ok((query, shape))
}

/// The sort that is needed, if any: the store returns keys in order.
fn sort(order: SortOrder, by: SortTarget) -> Option<RangeSort> {
    match (order, by) {
        (SortOrder::None | SortOrder::Ascend, SortTarget::Key) => None,
        _ => Some(RangeSort {
            by,
            descending: order == SortOrder::Descend,
        }),
    }
}

/// The revision bounds of a request. Zero is no bound; a negative maximum admits nothing, a
/// negative minimum everything.
fn revision_filter(request: &RangeRequest) -> RevisionFilter {
    let min = |number: i64| Some(number).filter(|n| *n > 0).and_then(revision);
    let max = |number: i64| (number != 0).then(|| revision(number).unwrap_or(Revision::ZERO));
    RevisionFilter {
        mod_min: min(request.min_mod_revision),
        mod_max: max(request.max_mod_revision),
        create_min: min(request.min_create_revision),
        create_max: max(request.max_create_revision),
    }
}

impl RangeProjection {
    pub(crate) fn range_response(
        self,
        mut result: RangeResult,
        header: Option<ResponseHeader>,
    ) -> RangeResponse {
        if let Some(sort) = self.sort {
            result
                .entries
                .sort_by(|left, right| sort.compare(left, right));
        }
        let kept = self.limit.unwrap_or(usize::MAX);
        let more = result.entries.len() > kept;
        result.entries.truncate(kept);
        let mut kvs: Vec<_> = result.entries.iter().map(|v| key_value(v)).collect();
        if self.keys_only {
            kvs.iter_mut().for_each(|kv| kv.value.clear());
        }
        RangeResponse {
            header,
            kvs,
            more,
            count: signed_count(result.count),
        }
    }
}

impl RangeSort {
    fn compare(self, left: &Version, right: &Version) -> Ordering {
        let ascending = match self.by {
            SortTarget::Key => left.key().cmp(right.key()),
            SortTarget::Version => left.version().cmp(&right.version()),
            SortTarget::Create => left.create_revision().cmp(&right.create_revision()),
            SortTarget::Mod => left.mod_revision().cmp(&right.mod_revision()),
            SortTarget::Value => left.value().cmp(right.value()),
        };
        if self.descending {
            ascending.reverse()
        } else {
            ascending
        }
    }
}
