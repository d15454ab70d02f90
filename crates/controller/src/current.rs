//! Whether a cache has what the server has, by asking the server.
//!
//! A feed knows its revision, but a server says how far it is only now and then. So where
//! it has to be certain, names and revisions are compared.

use crate::api::{Api, Ask, SendError, accept};
use crate::backoff::Backoff;
use crate::entry::{Entry, Identity, numeric};
use crate::key::ObjectKey;
use crate::shelf::{Feed, Shelf};
use optik_object::{Tape, View};
use optik_platform::Entropy;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const PAGE: &str = "500";
const BACKOFF_MIN: Duration = Duration::from_millis(20);
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// What a server has: each object at its revision, and the revision of the whole.
struct There {
    objects: BTreeMap<ObjectKey, u64>,
    revision: u64,
}

/// Waits until a cache has everything that the server has at this moment.
pub(crate) async fn catch_up(api: &Api, shelf: &Shelf, entropy: &dyn Entropy) {
    for feed in &shelf.feeds {
        let mut backoff = Backoff::new(BACKOFF_MIN, BACKOFF_MAX);
        let there = loop {
            match list(api, shelf, feed).await {
                Ok(there) => break there,
                Err(_) => tokio::time::sleep(backoff.next(entropy)).await,
            }
        };
        // The sender lives as long as the shelf.
        let _ = feed.watch().wait_for(|_| has(shelf, feed, &there)).await;
    }
}

/// Whether a cache has everything that the server has at this moment.
pub(crate) async fn is_current(api: &Api, shelf: &Shelf, feed: &Feed) -> Result<bool, SendError> {
    let there = list(api, shelf, feed).await?;
    Ok(has(shelf, feed, &there))
}

/// The object of a name as the server has it, asked for until it answers.
pub(crate) async fn find(
    api: &Api,
    shelf: &Shelf,
    key: &ObjectKey,
    entropy: &dyn Entropy,
) -> Option<Arc<Entry>> {
    let path = shelf.kind.collection(key.namespace());
    let mut backoff = Backoff::new(BACKOFF_MIN, BACKOFF_MAX);
    loop {
        // A list, because whoever watches may list.
        let ask = Ask {
            query: vec![("fieldSelector", format!("metadata.name={}", key.name()))],
            accept: accept(shelf.kind.metadata_only, true),
            ..Ask::get(&path)
        };
        if let Ok(list) = api.send(ask).await {
            let mut tape = Tape::default();
            let list = tape.read(&list).ok()?;
            let item = list.get("items").and_then(|items| items.items().next())?;
            let identity = Identity::read(item)?;
            return Entry::read(item, identity, &shelf.kind, shelf.keep()).map(Arc::new);
        }
        tokio::time::sleep(backoff.next(entropy)).await;
    }
}

/// Whether everything is here at its revision or a later one, and nothing that is gone.
fn has(shelf: &Shelf, feed: &Feed, there: &There) -> bool {
    let reached = feed.progress().revision;
    if there.revision != 0 && reached >= there.revision {
        return true;
    }
    let here = shelf.list(feed.namespace.as_deref());
    let known = here.iter().filter(|entry| {
        let listed = there.objects.get(&entry.key);
        listed.is_some_and(|revision| entry.revision >= *revision)
    });
    let gone = |entry: &Arc<Entry>| {
        entry.revision <= there.revision && !there.objects.contains_key(&entry.key)
    };
    known.count() == there.objects.len() && !here.iter().any(gone)
}

async fn list(api: &Api, shelf: &Shelf, feed: &Feed) -> Result<There, SendError> {
    let path = shelf.kind.collection(feed.namespace.as_deref());
    let mut there = There {
        objects: BTreeMap::new(),
        revision: 0,
    };
    let mut next = String::new();
    let mut tape = Tape::default();
    loop {
        let mut query = shelf.selectors();
        query.push(("limit", PAGE.to_owned()));
        if !next.is_empty() {
            query.push(("continue", next));
        }
        let ask = Ask {
            query,
            accept: accept(true, true),
            ..Ask::get(&path)
        };
        let page = api.send(ask).await?;
        let strange = || SendError::Lost("a list makes no sense".into());
        let page = tape.read(&page).map_err(|_| strange())?;
        let items = page.get("items").into_iter().flat_map(View::items);
        let items = items.filter_map(Identity::read);
        there
            .objects
            .extend(items.map(|own| (own.key, own.revision)));
        let meta = |field| page.at(&["metadata", field]).and_then(View::text);
        there.revision = numeric(&meta("resourceVersion").unwrap_or_default());
        next = meta("continue").unwrap_or_default().into_owned();
        if next.is_empty() {
            return Ok(there);
        }
    }
}
