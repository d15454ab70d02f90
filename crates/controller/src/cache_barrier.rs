//! A key is parked until the caches have seen what it wrote.
//!
//! Without this a reconcile would start from a cache that does not know of the last
//! one's writes yet, and do them again.

use crate::api_client::ApiClient;
use crate::cache_entry::CacheEntry;
use crate::freshness::get_live;
use crate::key::ObjectKey;
use crate::kind_cache::KindCache;
use optik_platform::Entropy;
use std::sync::Arc;
use std::time::Duration;

/// A cache that does not catch up is not waited for longer.
const BARRIER_WAIT_MAX: Duration = Duration::from_secs(30);
/// For servers whose revisions are no numbers: their caches cannot say how far they are.
const OPAQUE_REVISION_WAIT: Duration = Duration::from_secs(1);

/// What a key waits for.
#[derive(Clone, Debug)]
pub(crate) enum CacheBarrier {
    /// A revision that was written.
    Revision {
        cache: Arc<KindCache>,
        key: ObjectKey,
        revision: u64,
    },
    /// An object that was deleted: the answer does not always have a revision.
    Deletion {
        cache: Arc<KindCache>,
        key: ObjectKey,
        uid: u128,
    },
    /// An object that may be gone once its last finalizer is: then no revision of it comes.
    NewerRevision {
        cache: Arc<KindCache>,
        key: ObjectKey,
        uid: u128,
        from: u64,
    },
    /// A write whose answer was lost: what the server has of the object now, the cache
    /// must have.
    LiveState {
        cache: Arc<KindCache>,
        key: ObjectKey,
    },
}

impl CacheBarrier {
    /// Waits until it opens. Says whether it did in time.
    pub(crate) async fn wait(&self, api: &ApiClient, entropy: &dyn Entropy) -> bool {
        let opened = match self {
            Self::Revision {
                cache,
                key,
                revision,
            } => {
                tokio::time::timeout(BARRIER_WAIT_MAX, wait_for_revision(cache, key, *revision))
                    .await
            }
            Self::Deletion { cache, key, uid } => {
                let is_gone = |entry: &CacheEntry| entry.uid != *uid || entry.deleting;
                tokio::time::timeout(BARRIER_WAIT_MAX, wait_for_entry(cache, key, is_gone)).await
            }
            Self::NewerRevision {
                cache,
                key,
                uid,
                from,
            } => {
                let has_moved = |entry: &CacheEntry| entry.uid != *uid || entry.revision > *from;
                tokio::time::timeout(BARRIER_WAIT_MAX, wait_for_entry(cache, key, has_moved)).await
            }
            Self::LiveState { cache, key } => {
                tokio::time::timeout(
                    BARRIER_WAIT_MAX,
                    wait_for_live_state(cache, key, api, entropy),
                )
                .await
            }
        };
        opened.is_ok()
    }
}

async fn wait_for_revision(cache: &KindCache, key: &ObjectKey, revision: u64) {
    let Some(informer) = cache.informer_for(key) else {
        return;
    };
    if revision == 0 {
        tokio::time::sleep(OPAQUE_REVISION_WAIT).await;
        return;
    }
    // The sender lives as long as the shelf.
    let _ = informer
        .watch()
        .wait_for(|progress| progress.revision >= revision)
        .await;
}

/// Waits until there is no such object, or it is as it should be.
async fn wait_for_entry(
    cache: &KindCache,
    key: &ObjectKey,
    is_expected: impl Fn(&CacheEntry) -> bool,
) {
    let Some(informer) = cache.informer_for(key) else {
        return;
    };
    let is_so = || cache.get(key).is_none_or(|entry| is_expected(&entry));
    let _ = informer.watch().wait_for(|_| is_so()).await;
}

/// Waits until the cache has what the server has of an object.
async fn wait_for_live_state(
    cache: &KindCache,
    key: &ObjectKey,
    api: &ApiClient,
    entropy: &dyn Entropy,
) {
    match get_live(api, cache, key, entropy).await {
        // Whether a field selector lets it through, only the server knows.
        Some(_) if !cache.selection.fields.is_empty() && cache.get(key).is_none() => {}
        Some(live) if live.matches(&cache.labels) => {
            wait_for_revision(cache, key, live.revision).await;
        }
        Some(live) => wait_for_entry(cache, key, |entry| entry.revision >= live.revision).await,
        None => {
            let Some(stale) = cache.get(key) else {
                return;
            };
            wait_for_entry(cache, key, |entry| entry.uid != stale.uid).await;
        }
    }
}
