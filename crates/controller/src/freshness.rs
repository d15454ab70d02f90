//! Checks by a list whether a cache is up to date with the server.
//!
//! An informer has a revision, but a server reports its own only now and then. So where certainty
//! is needed, the names and revisions of all objects are compared.

use crate::api_client::{ApiClient, ClientRequest, SendError, accept};
use crate::backoff::Backoff;
use crate::cache_entry::{CacheEntry, ObjectIdentity, parse_revision};
use crate::key::ObjectKey;
use crate::kind_cache::{Informer, KindCache};
use optik_object::{JsonView, Tape};
use optik_platform::Entropy;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const PAGE_LIMIT: &str = "500";
const BACKOFF_MIN: Duration = Duration::from_millis(20);
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// The objects of the server with their revisions, and the revision of the list.
struct ServerListing {
    objects: BTreeMap<ObjectKey, u64>,
    revision: u64,
}

/// Waits until a cache contains everything that the server has at this moment.
pub(crate) async fn wait_until_fresh(api: &ApiClient, cache: &KindCache, entropy: &dyn Entropy) {
    for informer in &cache.informers {
        let mut backoff = Backoff::new(BACKOFF_MIN, BACKOFF_MAX);
        let listing = loop {
            match list_server(api, cache, informer).await {
                Ok(there) => break there,
                Err(_) => tokio::time::sleep(backoff.next(entropy)).await,
            }
        };
        // The sender lives as long as the cache.
        let _ = informer
            .watch()
            .wait_for(|_| contains_listing(cache, informer, &listing))
            .await;
    }
}

/// Whether a cache contains everything that the server has at this moment.
pub(crate) async fn is_fresh(
    api: &ApiClient,
    cache: &KindCache,
    informer: &Informer,
) -> Result<bool, SendError> {
    let listing = list_server(api, cache, informer).await?;
    Ok(contains_listing(cache, informer, &listing))
}

/// Returns an object as the server has it; retries until the server answers.
pub(crate) async fn get_live(
    api: &ApiClient,
    cache: &KindCache,
    key: &ObjectKey,
    entropy: &dyn Entropy,
) -> Option<Arc<CacheEntry>> {
    let path = cache.kind.collection_path(key.namespace());
    let mut backoff = Backoff::new(BACKOFF_MIN, BACKOFF_MAX);
    loop {
        // A list instead of a get: a controller that watches a kind is allowed to list it.
        let request = ClientRequest {
            query: vec![("fieldSelector", format!("metadata.name={}", key.name()))],
            accept: accept(cache.kind.metadata_only, true),
            ..ClientRequest::get(&path)
        };
        if let Ok(list) = api.send(request).await {
            let mut tape = Tape::default();
            let list = tape.read(&list).ok()?;
            let item = list.get("items").and_then(|items| items.items().next())?;
            let identity = ObjectIdentity::read(item)?;
            return CacheEntry::read(item, identity, &cache.kind, cache.options()).map(Arc::new);
        }
        tokio::time::sleep(backoff.next(entropy)).await;
    }
}

/// Whether the cache has each listed object at its revision or a later one, and no deleted object.
fn contains_listing(cache: &KindCache, informer: &Informer, listing: &ServerListing) -> bool {
    let reached = informer.progress().revision;
    if listing.revision != 0 && reached >= listing.revision {
        return true;
    }
    let here = cache.list(informer.namespace.as_deref());
    let known = here.iter().filter(|entry| {
        let listed = listing.objects.get(&entry.key);
        listed.is_some_and(|revision| entry.revision >= *revision)
    });
    let gone = |entry: &Arc<CacheEntry>| {
        entry.revision <= listing.revision && !listing.objects.contains_key(&entry.key)
    };
    known.count() == listing.objects.len() && !here.iter().any(gone)
}

async fn list_server(
    api: &ApiClient,
    cache: &KindCache,
    informer: &Informer,
) -> Result<ServerListing, SendError> {
    let path = cache.kind.collection_path(informer.namespace.as_deref());
    let mut listing = ServerListing {
        objects: BTreeMap::new(),
        revision: 0,
    };
    let mut next = String::new();
    let mut tape = Tape::default();
    loop {
        let mut query = cache.selectors();
        query.push(("limit", PAGE_LIMIT.to_owned()));
        if !next.is_empty() {
            query.push(("continue", next));
        }
        let request = ClientRequest {
            query,
            accept: accept(true, true),
            ..ClientRequest::get(&path)
        };
        let page = api.send(request).await?;
        let malformed = || SendError::Lost("malformed list response".into());
        let page = tape.read(&page).map_err(|_| malformed())?;
        let items = page.get("items").into_iter().flat_map(JsonView::items);
        let items = items.filter_map(ObjectIdentity::read);
        listing
            .objects
            .extend(items.map(|own| (own.key, own.revision)));
        let meta = |field| {
            page.get_path(&["metadata", field])
                .and_then(JsonView::as_str)
        };
        listing.revision = parse_revision(&meta("resourceVersion").unwrap_or_default());
        next = meta("continue").unwrap_or_default().into_owned();
        if next.is_empty() {
            return Ok(listing);
        }
    }
}
