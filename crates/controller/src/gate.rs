//! A key is parked until the caches have seen what it wrote.
//!
//! Without this a reconcile would start from a cache that does not know of the last
//! one's writes yet, and do them again.

use crate::api::Api;
use crate::current::find;
use crate::entry::Entry;
use crate::key::ObjectKey;
use crate::shelf::Shelf;
use optik_platform::Entropy;
use std::sync::Arc;
use std::time::Duration;

/// A cache that does not catch up is not waited for longer.
const GATE_WAIT_MAX: Duration = Duration::from_secs(30);
/// For servers whose revisions are no numbers: their caches cannot say how far they are.
const BLIND_WAIT: Duration = Duration::from_secs(1);

/// What a key waits for.
#[derive(Clone, Debug)]
pub(crate) enum Gate {
    /// A revision that was written.
    Seen {
        shelf: Arc<Shelf>,
        key: ObjectKey,
        revision: u64,
    },
    /// An object that was deleted: the answer does not always have a revision.
    Gone {
        shelf: Arc<Shelf>,
        key: ObjectKey,
        uid: u128,
    },
    /// An object that may be gone once its last finalizer is: then no revision of it comes.
    Moved {
        shelf: Arc<Shelf>,
        key: ObjectKey,
        uid: u128,
        from: u64,
    },
    /// A write whose answer was lost: what the server has of the object now, the cache
    /// must have.
    Fresh { shelf: Arc<Shelf>, key: ObjectKey },
}

impl Gate {
    /// Waits until it opens. Says whether it did in time.
    pub(crate) async fn pass(&self, api: &Api, entropy: &dyn Entropy) -> bool {
        let opened = match self {
            Self::Seen {
                shelf,
                key,
                revision,
            } => tokio::time::timeout(GATE_WAIT_MAX, seen(shelf, key, *revision)).await,
            Self::Gone { shelf, key, uid } => {
                let is_gone = |entry: &Entry| entry.uid != *uid || entry.deleting;
                tokio::time::timeout(GATE_WAIT_MAX, until(shelf, key, is_gone)).await
            }
            Self::Moved {
                shelf,
                key,
                uid,
                from,
            } => {
                let has_moved = |entry: &Entry| entry.uid != *uid || entry.revision > *from;
                tokio::time::timeout(GATE_WAIT_MAX, until(shelf, key, has_moved)).await
            }
            Self::Fresh { shelf, key } => {
                tokio::time::timeout(GATE_WAIT_MAX, fresh(shelf, key, api, entropy)).await
            }
        };
        opened.is_ok()
    }
}

async fn seen(shelf: &Shelf, key: &ObjectKey, revision: u64) {
    let Some(feed) = shelf.feed_of(key) else {
        return;
    };
    if revision == 0 {
        tokio::time::sleep(BLIND_WAIT).await;
        return;
    }
    // The sender lives as long as the shelf.
    let _ = feed
        .watch()
        .wait_for(|progress| progress.revision >= revision)
        .await;
}

/// Waits until there is no such object, or it is as it should be.
async fn until(shelf: &Shelf, key: &ObjectKey, as_it_should: impl Fn(&Entry) -> bool) {
    let Some(feed) = shelf.feed_of(key) else {
        return;
    };
    let is_so = || shelf.get(key).is_none_or(|entry| as_it_should(&entry));
    let _ = feed.watch().wait_for(|_| is_so()).await;
}

/// Waits until the cache has what the server has of an object.
async fn fresh(shelf: &Shelf, key: &ObjectKey, api: &Api, entropy: &dyn Entropy) {
    match find(api, shelf, key, entropy).await {
        // Whether a field selector lets it through, only the server knows.
        Some(_) if !shelf.selection.fields.is_empty() && shelf.get(key).is_none() => {}
        Some(there) if there.matches(&shelf.labels) => seen(shelf, key, there.revision).await,
        Some(there) => until(shelf, key, |entry| entry.revision >= there.revision).await,
        None => {
            let Some(stale) = shelf.get(key) else {
                return;
            };
            until(shelf, key, |entry| entry.uid != stale.uid).await;
        }
    }
}
