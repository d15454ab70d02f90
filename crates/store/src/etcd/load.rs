//! The initial load: reads the whole state at one revision, page by page.

use super::cluster_identity::{ClusterIdentity, ClusterMismatch};
use super::connection::{DialError, EtcdConnection, describe};
use super::wire::{Provenance, encode_range, encode_revision, version_from_kv};
use crate::index::Index;
use crate::key::KeyRange;
use crate::revision::Revision;
use crate::sync::Arc;
use optik_etcd_api::etcdserverpb::{RangeRequest, RangeResponse};
use std::time::Duration;
use tokio::time::timeout;

/// The page size adapts to this number of bytes.
const PAGE_BYTES_TARGET: usize = 8 << 20;
const PAGE_ENTRIES_FIRST: usize = 128;
const PAGE_ENTRIES_MIN: usize = 16;
const PAGE_ENTRIES_MAX: usize = 10_000;
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads all keys in `range` at the current revision.
pub(crate) async fn load(
    link: &EtcdConnection,
    range: &KeyRange,
    witness: &ClusterIdentity,
) -> Result<Index, DialError> {
    let before = witness.position();
    let mut entries = PAGE_ENTRIES_FIRST;
    let mut page = read_page(link, range, Revision::ZERO, entries).await?;
    let at = witness.check_linearizable(page.header.as_ref(), before)?;
    if at < Revision::FIRST {
        return Err(
            ClusterMismatch(format!("etcd stands at revision {at}, before its first")).into(),
        );
    }
    let mut index = Index::new(Revision::FIRST);
    loop {
        for kv in &page.kvs {
            index.insert(Arc::new(version_from_kv(kv, None, Provenance::default())));
        }
        let Some(last) = page.kvs.last().filter(|_| page.more) else {
            break;
        };
        let rest = range.after(&last.key);
        entries = next_page_entries(&page);
        page = read_page(link, &rest, at, entries).await?;
        witness.check_cluster(page.header.as_ref())?;
    }
    index.advance_to(at);
    Ok(index)
}

async fn read_page(
    link: &EtcdConnection,
    range: &KeyRange,
    at: Revision,
    entries: usize,
) -> Result<RangeResponse, DialError> {
    let (key, range_end) = encode_range(range);
    let request = RangeRequest {
        key,
        range_end,
        limit: i64::try_from(entries).unwrap_or(i64::MAX),
        revision: encode_revision(at),
        ..RangeRequest::default()
    };
    let mut kv = link.kv();
    let answer = timeout(PAGE_TIMEOUT, kv.range(request)).await;
    let answer = answer.map_err(|_| DialError::Unreachable("a page took too long".into()))?;
    // A refusal is retried too: the revision may be compacted during the read.
    let answer = answer.map_err(|status| DialError::Unreachable(describe(&status)))?;
    Ok(answer.into_inner())
}

fn next_page_entries(page: &RangeResponse) -> usize {
    let sizes = page.kvs.iter().map(|kv| kv.key.len() + kv.value.len());
    let average = sizes.sum::<usize>() / page.kvs.len().max(1);
    let fitting = PAGE_BYTES_TARGET / average.max(1);
    fitting.clamp(PAGE_ENTRIES_MIN, PAGE_ENTRIES_MAX)
}
