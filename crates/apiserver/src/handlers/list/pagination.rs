//! Pagination: which objects a list or a page contains, and the continue token after it.

use crate::handlers::freshness::{WaitPolicy, snapshot, wait_until_fresh};
use crate::handlers::list::ListRequest;
use crate::handlers::list::item_scan::ItemSource;
use crate::request::list_options::{Freshness, ListAt};
use optik_object::{ContinueRevision as PageAt, ContinueToken, Status};
use optik_store::{KeyRange, RangeError, RangeQuery, Revision, Snapshot, Store, Version};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// A page of a list, or the whole list.
pub(super) struct ListPage {
    pub(super) at: Revision,
    pub(super) source: ItemSource,
    pub(super) next: Option<NextPage>,
}

pub(super) struct NextPage {
    pub(super) continue_token: String,
    /// `None` if a selector leaves objects out.
    pub(super) remaining_item_count: Option<u64>,
}

pub(super) async fn find_page(store: &Store, listing: &ListRequest) -> Result<ListPage, Status> {
    let kind = &*listing.kind;
    let limit = listing.plan.limit;
    let by_name = listing.selection.only_name();
    let patience = match by_name {
        Some(_) => WaitPolicy::Fail,
        None => WaitPolicy::for_kind(kind),
    };
    match &listing.plan.at {
        ListAt::Latest => latest_page(
            listing,
            snapshot(store, Freshness::Latest, patience).await?,
            limit,
        ),
        ListAt::Any => latest_page(
            listing,
            snapshot(store, Freshness::Any, patience).await?,
            limit,
        ),
        ListAt::NotOlderThan(revision) => {
            let patience = WaitPolicy::for_kind(kind);
            let fresh = Freshness::NotOlderThan(*revision);
            latest_page(listing, snapshot(store, fresh, patience).await?, limit)
        }
        ListAt::Page(revision) if single_key_range(listing).is_some() => {
            let fresh = Freshness::NotOlderThan(*revision);
            latest_page(listing, snapshot(store, fresh, patience).await?, limit)
        }
        ListAt::Exact(revision) | ListAt::Page(revision) => {
            let snapshot = wait_until_fresh(store, *revision, patience).await?;
            page_at_revision(listing, &snapshot, *revision, None)
        }
        ListAt::Rest(rest) => {
            let start = rest.start.as_str();
            match rest.revision {
                PageAt::Exact(revision) => {
                    let revision = Revision::new(revision);
                    let snapshot = wait_until_fresh(store, revision, patience).await?;
                    page_at_revision(listing, &snapshot, revision, Some(start))
                }
                PageAt::Latest => {
                    let snapshot = snapshot(store, Freshness::Latest, patience).await?;
                    page_at_revision(listing, &snapshot, snapshot.revision(), Some(start))
                }
            }
        }
    }
}

/// The state of a snapshot without a limit; it is encoded while it is read.
fn latest_page(
    listing: &ListRequest,
    snapshot: Snapshot,
    limit: Option<NonZeroUsize>,
) -> Result<ListPage, Status> {
    let at = snapshot.revision();
    let narrow = single_key_range(listing);
    if limit.is_some() && narrow.is_none() {
        return page_at_revision(listing, &snapshot, at, None);
    }
    let namespace = listing.namespace.as_deref();
    let rest = narrow.unwrap_or_else(|| listing.kind.range(namespace));
    Ok(ListPage {
        at,
        source: ItemSource::Live {
            snapshot,
            rest: Some(rest),
        },
        next: None,
    })
}

/// The key range of a field selector on `metadata.name`: one key.
fn single_key_range(listing: &ListRequest) -> Option<KeyRange> {
    let name = listing.selection.only_name()?;
    let namespace = listing.namespace.as_deref();
    // Across namespaces the name alone does not determine a key.
    if listing.kind.is_namespaced() && namespace.is_none() {
        return None;
    }
    Some(KeyRange::one(listing.kind.key(namespace, name)))
}

/// The state at a revision, possibly an old one, or a page of that state.
fn page_at_revision(
    listing: &ListRequest,
    snapshot: &Snapshot,
    at: Revision,
    start: Option<&str>,
) -> Result<ListPage, Status> {
    let namespace = listing.namespace.as_deref();
    let collection = listing.kind.collection(namespace);
    let narrow = single_key_range(listing);
    let limit = listing.plan.limit.filter(|_| narrow.is_none());
    let range = narrow.unwrap_or_else(|| match start {
        Some(start) => range_from(&collection, start),
        None => listing.kind.range(namespace),
    });
    let gathered = gather(listing, snapshot, PageQuery { range, at, limit });
    let gathered = gathered.map_err(|error| expired(error, start))?;
    let next = gathered.more_after.map(|key| {
        let key = String::from_utf8_lossy(&key[collection.len()..]);
        NextPage {
            continue_token: ContinueToken::after(PageAt::Exact(at.get()), &key).encode(),
            remaining_item_count: listing
                .selection
                .matches_everything()
                .then_some(gathered.remaining),
        }
    });
    Ok(ListPage {
        at,
        source: ItemSource::Gathered(gathered.versions.into_iter()),
        next,
    })
}

fn range_from(collection: &str, start: &str) -> KeyRange {
    let whole = KeyRange::prefix(collection);
    match whole.end() {
        Some(end) => KeyRange::between(format!("{collection}{start}"), end),
        None => KeyRange::from_key(format!("{collection}{start}")),
    }
}

struct PageQuery {
    range: KeyRange,
    at: Revision,
    limit: Option<NonZeroUsize>,
}

struct PageItems {
    versions: Vec<Arc<Version>>,
    /// The key of the last object of the page, if objects follow it.
    more_after: Option<Vec<u8>>,
    remaining: u64,
}

/// Gathers the objects of a page. The limit counts matching objects; whether more objects remain is
/// judged by all objects, as upstream does.
fn gather(
    listing: &ListRequest,
    snapshot: &Snapshot,
    gathering: PageQuery,
) -> Result<PageItems, RangeError> {
    let PageQuery { range, at, limit } = gathering;
    let limit = limit.map_or(usize::MAX, NonZeroUsize::get);
    let plain = listing.selection.matches_everything();
    let mut query = RangeQuery::new(range);
    query.at = Some(at);
    query.limit = plain.then_some(limit).filter(|limit| *limit < usize::MAX);
    let found = snapshot.range(&query)?;
    let total = found.count;
    let mut versions = Vec::new();
    let mut seen = 0;
    for version in found.entries {
        seen += 1;
        if plain || listing.selection.matches(&listing.kind, &version) {
            versions.push(version);
            if versions.len() >= limit {
                break;
            }
        }
    }
    let remaining = total - seen;
    let last = versions.last().filter(|_| remaining > 0);
    let more_after = last.map(|version| version.key().to_vec());
    Ok(PageItems {
        more_after,
        versions,
        remaining,
    })
}

fn expired(error: RangeError, start: Option<&str>) -> Status {
    match (error, start) {
        (RangeError::Compacted { .. }, None) => Status::list_expired(),
        (RangeError::Compacted { .. }, Some(start)) => {
            let fresh = ContinueToken {
                revision: PageAt::Latest,
                start: start.into(),
            };
            Status::continue_expired(&fresh.encode())
        }
        // The caller has waited for the revision before.
        (RangeError::Future { newest }, _) => {
            Status::too_large_resource_version(newest.next().get(), newest.get(), 1)
        }
    }
}
