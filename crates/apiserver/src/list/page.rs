//! Which objects a list has.

use super::Listing;
use super::scan::Source;
use crate::freshness::{Patience, reached, snapshot};
use crate::options::{Fresh, ListAt};
use optik_object::{Continue, Snapshot as PageAt, Status};
use optik_store::{KeyRange, RangeError, RangeQuery, Revision, Snapshot, Store, Version};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// A page, or the whole.
pub(super) struct Page {
    pub(super) at: Revision,
    pub(super) source: Source,
    pub(super) next: Option<Next>,
}

pub(super) struct Next {
    pub(super) token: String,
    /// Not told when a selector leaves objects out.
    pub(super) remaining: Option<u64>,
}

pub(super) async fn find(store: &Store, listing: &Listing) -> Result<Page, Status> {
    let kind = &*listing.kind;
    let limit = listing.plan.limit;
    let by_name = listing.selection.only_name();
    let patience = match by_name {
        Some(_) => Patience::None,
        None => Patience::of(kind),
    };
    match &listing.plan.at {
        ListAt::Latest => current(
            listing,
            snapshot(store, Fresh::Latest, patience).await?,
            limit,
        ),
        ListAt::Any => current(listing, snapshot(store, Fresh::Any, patience).await?, limit),
        ListAt::NotOlderThan(revision) => {
            let patience = Patience::of(kind);
            let fresh = Fresh::NotOlderThan(*revision);
            current(listing, snapshot(store, fresh, patience).await?, limit)
        }
        ListAt::Page(revision) if narrowed(listing).is_some() => {
            let fresh = Fresh::NotOlderThan(*revision);
            current(listing, snapshot(store, fresh, patience).await?, limit)
        }
        ListAt::Exact(revision) | ListAt::Page(revision) => {
            let snapshot = reached(store, *revision, patience).await?;
            exact(listing, &snapshot, *revision, None)
        }
        ListAt::Rest(rest) => {
            let start = rest.start.as_str();
            match rest.at {
                PageAt::Exact(revision) => {
                    let revision = Revision::new(revision);
                    let snapshot = reached(store, revision, patience).await?;
                    exact(listing, &snapshot, revision, Some(start))
                }
                PageAt::Latest => {
                    let snapshot = snapshot(store, Fresh::Latest, patience).await?;
                    exact(listing, &snapshot, snapshot.revision(), Some(start))
                }
            }
        }
    }
}

/// The state of a snapshot; all of it is written as it is read.
fn current(
    listing: &Listing,
    snapshot: Snapshot,
    limit: Option<NonZeroUsize>,
) -> Result<Page, Status> {
    let at = snapshot.revision();
    let narrow = narrowed(listing);
    if limit.is_some() && narrow.is_none() {
        return exact(listing, &snapshot, at, None);
    }
    let namespace = listing.namespace.as_deref();
    let rest = narrow.unwrap_or_else(|| listing.kind.range(namespace));
    Ok(Page {
        at,
        source: Source::Live {
            snapshot,
            rest: Some(rest),
        },
        next: None,
    })
}

/// A selector that names an object leaves one key to look at.
fn narrowed(listing: &Listing) -> Option<KeyRange> {
    let name = listing.selection.only_name()?;
    let namespace = listing.namespace.as_deref();
    // Across namespaces the name alone is no key.
    if listing.kind.is_namespaced() && namespace.is_none() {
        return None;
    }
    Some(KeyRange::one(listing.kind.key(namespace, name)))
}

/// The state at a revision that may be past, or a page of it.
fn exact(
    listing: &Listing,
    snapshot: &Snapshot,
    at: Revision,
    start: Option<&str>,
) -> Result<Page, Status> {
    let namespace = listing.namespace.as_deref();
    let collection = listing.kind.collection(namespace);
    let narrow = narrowed(listing);
    let limit = listing.plan.limit.filter(|_| narrow.is_none());
    let range = narrow.unwrap_or_else(|| match start {
        Some(start) => rest_of(&collection, start),
        None => listing.kind.range(namespace),
    });
    let gathered = gather(listing, snapshot, Gathering { range, at, limit });
    let gathered = gathered.map_err(|error| expired(error, start))?;
    let next = gathered.more_after.map(|key| {
        let key = String::from_utf8_lossy(&key[collection.len()..]);
        Next {
            token: Continue::after(PageAt::Exact(at.get()), &key).encode(),
            remaining: listing
                .selection
                .is_everything()
                .then_some(gathered.remaining),
        }
    });
    Ok(Page {
        at,
        source: Source::Gathered(gathered.versions.into_iter()),
        next,
    })
}

fn rest_of(collection: &str, start: &str) -> KeyRange {
    let whole = KeyRange::prefix(collection);
    match whole.end() {
        Some(end) => KeyRange::between(format!("{collection}{start}"), end),
        None => KeyRange::from_key(format!("{collection}{start}")),
    }
}

struct Gathering {
    range: KeyRange,
    at: Revision,
    limit: Option<NonZeroUsize>,
}

struct Gathered {
    versions: Vec<Arc<Version>>,
    /// The key of the last object of the page, if there are objects after it.
    more_after: Option<Vec<u8>>,
    remaining: u64,
}

/// Finds the objects of a page. The limit counts objects that match; whether more
/// remain is judged by all objects, as upstream does.
fn gather(
    listing: &Listing,
    snapshot: &Snapshot,
    gathering: Gathering,
) -> Result<Gathered, RangeError> {
    let Gathering { range, at, limit } = gathering;
    let limit = limit.map_or(usize::MAX, NonZeroUsize::get);
    let plain = listing.selection.is_everything();
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
    Ok(Gathered {
        more_after,
        versions,
        remaining,
    })
}

fn expired(error: RangeError, start: Option<&str>) -> Status {
    match (error, start) {
        (RangeError::Compacted { .. }, None) => Status::list_expired(),
        (RangeError::Compacted { .. }, Some(start)) => {
            let fresh = Continue {
                at: PageAt::Latest,
                start: start.into(),
            };
            Status::continue_expired(&fresh.encode())
        }
        // Whoever asks has waited for the revision before.
        (RangeError::Future { newest }, _) => {
            Status::revision_too_large(newest.next().get(), newest.get(), 1)
        }
    }
}
