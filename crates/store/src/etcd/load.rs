//! The whole state at one revision, page by page.

use super::link::{Link, LinkError, describe};
use super::wire::{Provenance, bounds, signed, version};
use super::witness::{Betrayal, Witness};
use crate::index::Index;
use crate::key::KeyRange;
use crate::revision::Revision;
use crate::sync::Arc;
use optik_etcd_api::etcdserverpb::{RangeRequest, RangeResponse};
use std::time::Duration;
use tokio::time::timeout;

/// Pages grow and shrink towards this size.
const PAGE_BYTES: usize = 8 << 20;
const PAGE_ENTRIES_FIRST: usize = 128;
const PAGE_ENTRIES_MIN: usize = 16;
const PAGE_ENTRIES_MAX: usize = 10_000;
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads everything in `range` as it is now.
pub(crate) async fn load(
    link: &Link,
    range: &KeyRange,
    witness: &Witness,
) -> Result<Index, LinkError> {
    let before = witness.seen();
    let mut entries = PAGE_ENTRIES_FIRST;
    let mut page = read(link, range, Revision::ZERO, entries).await?;
    let at = witness.check(page.header.as_ref(), before)?;
    if at < Revision::FIRST {
        return Err(Betrayal(format!("etcd stands at revision {at}, before its first")).into());
    }
    let mut index = Index::new(Revision::FIRST);
    loop {
        for kv in &page.kvs {
            index.insert(Arc::new(version(kv, None, Provenance::default())));
        }
        let Some(last) = page.kvs.last().filter(|_| page.more) else {
            break;
        };
        let rest = range.after(&last.key);
        entries = next_size(&page);
        page = read(link, &rest, at, entries).await?;
        witness.check_cluster(page.header.as_ref())?;
    }
    index.advance_to(at);
    Ok(index)
}

async fn read(
    link: &Link,
    range: &KeyRange,
    at: Revision,
    entries: usize,
) -> Result<RangeResponse, LinkError> {
    let (key, range_end) = bounds(range);
    let request = RangeRequest {
        key,
        range_end,
        limit: i64::try_from(entries).unwrap_or(i64::MAX),
        revision: signed(at),
        ..RangeRequest::default()
    };
    let mut kv = link.kv();
    let answer = timeout(PAGE_TIMEOUT, kv.range(request)).await;
    let answer = answer.map_err(|_| LinkError::Unreachable("a page took too long".into()))?;
    // Even a refusal is worth another try: the revision may be compacted while we read.
    let answer = answer.map_err(|status| LinkError::Unreachable(describe(&status)))?;
    Ok(answer.into_inner())
}

fn next_size(page: &RangeResponse) -> usize {
    let sizes = page.kvs.iter().map(|kv| kv.key.len() + kv.value.len());
    let average = sizes.sum::<usize>() / page.kvs.len().max(1);
    let fitting = PAGE_BYTES / average.max(1);
    fitting.clamp(PAGE_ENTRIES_MIN, PAGE_ENTRIES_MAX)
}
