//! A key is parked until the caches have seen what it wrote.
//!
//! Without this a reconcile would start from a cache that does not know of the last
//! one's writes yet, and do them again.

use crate::api::{Api, Ask};
use crate::backoff::Backoff;
use crate::entry::{Entry, numeric};
use crate::key::ObjectKey;
use crate::shelf::Shelf;
use optik_object::{Tape, View};
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
    /// A write whose answer was lost: whatever the server has now, the cache must have.
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
                let fresh = async {
                    let revision = current(shelf, key, api, entropy).await;
                    seen(shelf, key, revision).await;
                };
                tokio::time::timeout(GATE_WAIT_MAX, fresh).await
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

/// The server's revision, asked for until it answers.
async fn current(shelf: &Shelf, key: &ObjectKey, api: &Api, entropy: &dyn Entropy) -> u64 {
    let path = shelf.kind.collection(key.namespace());
    let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));
    loop {
        let ask = Ask {
            query: vec![("limit", "1".to_owned())],
            ..Ask::get(&path)
        };
        if let Ok(list) = api.send(ask).await {
            let mut tape = Tape::default();
            let list = tape.read(&list).ok();
            let revision = list.and_then(|list| list.at(&["metadata", "resourceVersion"]));
            return numeric(&revision.and_then(View::text).unwrap_or_default());
        }
        tokio::time::sleep(backoff.next(entropy)).await;
    }
}
