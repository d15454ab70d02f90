//! Cache barriers: a key is parked until the caches contain its writes.
//!
//! Without them, a reconcile could start from a cache that does not contain the writes of the
//! previous one yet, and repeat them.

use crate::api_client::ApiClient;
use crate::cache_entry::CacheEntry;
use crate::freshness::get_live;
use crate::key::ObjectKey;
use crate::kind_cache::KindCache;
use optik_platform::Entropy;
use std::sync::Arc;
use std::time::Duration;

/// The time limit for a cache to catch up.
const BARRIER_WAIT_MAX: Duration = Duration::from_secs(30);
/// The wait for servers whose resourceVersions are not numbers: the progress of their caches is
/// unknown.
const OPAQUE_REVISION_WAIT: Duration = Duration::from_secs(1);

/// What a key waits for.
#[derive(Clone, Debug)]
pub(crate) enum CacheBarrier {
    /// The cache must reach the revision of a write.
    Revision {
        cache: Arc<KindCache>,
        key: ObjectKey,
        revision: u64,
    },
    /// A deleted object must be gone or being deleted. The response to a deletion does not always
    /// have a revision.
    Deletion {
        cache: Arc<KindCache>,
        key: ObjectKey,
        uid: u128,
    },
    /// The object must be gone or have a newer revision. It may be gone once its last finalizer is
    /// removed, and then no newer revision arrives.
    NewerRevision {
        cache: Arc<KindCache>,
        key: ObjectKey,
        uid: u128,
        from: u64,
    },
    /// A write whose response was lost: the cache must reach what the server has of the object now.
    LiveState {
        cache: Arc<KindCache>,
        key: ObjectKey,
    },
}

impl CacheBarrier {
    /// Waits until the cache has caught up. Returns `false` if it did not in time.
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
    // The sender lives as long as the cache.
    let _ = informer
        .watch()
        .wait_for(|progress| progress.revision >= revision)
        .await;
}

/// Waits until the object is gone, or is as expected.
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

/// Waits until the cache has the server's version of an object.
async fn wait_for_live_state(
    cache: &KindCache,
    key: &ObjectKey,
    api: &ApiClient,
    entropy: &dyn Entropy,
) {
    match get_live(api, cache, key, entropy).await {
        // Whether a field selector matches the object is known only to the server.
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
