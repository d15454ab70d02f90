//! Many objects, at one revision.
//!
//! A list without a limit is written while it is read: a snapshot, a position in it,
//! and one chunk at a time. Only a page is gathered first, because its beginning
//! tells where the next one starts.

use crate::form::{Ink, Pieces};
use crate::freshness::{Patience, reached, snapshot};
use crate::kinds::{Kind, Shown};
use crate::options::{Fresh, ListAt, ListPlan};
use crate::selection::Selection;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use optik_object::protobuf::Envelope;
use optik_object::{Continue, Snapshot as PageAt, Status};
use optik_store::{KeyRange, RangeError, RangeQuery, Revision, Snapshot, Store, Version};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// How much of a list is written at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// How many objects a selector looks at before others may run.
const SCAN_OBJECTS_MAX: usize = 2048;

/// A list to be written.
pub(crate) enum Listed {
    Whole(Bytes),
    Pieces(BoxStream<'static, Bytes>),
}

/// What to list.
pub(crate) struct Listing {
    pub(crate) kind: Arc<Kind>,
    pub(crate) namespace: Option<String>,
    pub(crate) selection: Selection,
    pub(crate) plan: ListPlan,
    /// `None`: as it is stored.
    pub(crate) ink: Option<Ink>,
}

pub(crate) async fn list(store: &Store, listing: Listing) -> Result<Listed, Status> {
    let page = find(store, &listing).await?;
    let metadata = metadata(&listing.kind, &page);
    let mut writer = Writer {
        kind: listing.kind,
        selection: listing.selection,
        source: page.source,
        items: 0,
        ink: listing.ink,
        ended: false,
    };
    let mut first = match &mut writer.ink {
        None => head(&writer.kind, &metadata),
        Some(ink) => {
            ink.metadata = metadata.into();
            if ink.needs_length() {
                return Ok(Listed::Pieces(measured(writer).await));
            }
            ink.begin(&writer.kind, 0)
        }
    };
    if writer.fill(&mut first) == Progress::Done {
        return Ok(Listed::Whole(first.into()));
    }
    let first = stream::once(async move { Bytes::from(first) });
    let rest = writer.into_stream();
    // An empty piece would be nothing to send.
    let rest = rest.filter(|piece| std::future::ready(!piece.is_empty()));
    Ok(Listed::Pieces(first.chain(rest).boxed()))
}

/// A page, or the whole.
struct Page {
    at: Revision,
    source: Source,
    next: Option<Next>,
}

struct Next {
    token: String,
    /// Not told when a selector leaves objects out.
    remaining: Option<u64>,
}

/// Where the items come from.
#[derive(Clone)]
enum Source {
    /// The newest state of a snapshot, from a position on.
    Live { snapshot: Snapshot, rest: KeyRange },
    /// Objects that were gathered; they are known to match.
    Gathered(std::vec::IntoIter<Arc<Version>>),
}

async fn find(store: &Store, listing: &Listing) -> Result<Page, Status> {
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
        ListAt::Exact(revision) => {
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
        source: Source::Live { snapshot, rest },
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

/// The metadata of the list.
fn metadata(kind: &Kind, page: &Page) -> String {
    let mut text = format!(r#"{{"resourceVersion":"{}""#, page.at);
    if kind.custom.is_some() && page.next.is_none() {
        text.push_str(r#","continue":"""#);
    }
    if let Some(next) = &page.next {
        // A token has no character that needs escaping.
        text.push_str(&format!(r#","continue":"{}""#, next.token));
        if let Some(remaining) = next.remaining {
            text.push_str(&format!(r#","remainingItemCount":{remaining}"#));
        }
    }
    text.push('}');
    text
}

/// Everything before the first item.
fn head(kind: &Kind, metadata: &str) -> Vec<u8> {
    let text = format!(
        r#"{{"kind":"{}","apiVersion":"{}","metadata":{metadata},"items":["#,
        kind.resource.list_kind, kind.api_version
    );
    text.into()
}

/// A list whose length stands at its beginning.
async fn measured(writer: Writer) -> BoxStream<'static, Bytes> {
    let (kind, ink) = (Arc::clone(&writer.kind), writer.ink.clone());
    let begin = move |length| ink.map(|ink| ink.begin(&kind, length)).unwrap_or_default();
    crate::form::measured(writer, begin, Envelope::END).await
}

#[derive(Clone)]
struct Writer {
    kind: Arc<Kind>,
    selection: Selection,
    source: Source,
    items: u64,
    ink: Option<Ink>,
    ended: bool,
}

impl Pieces for Writer {
    fn next(&mut self) -> Option<Vec<u8>> {
        if self.ended {
            return None;
        }
        let mut out = Vec::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 4);
        self.ended = self.fill(&mut out) == Progress::Done;
        Some(out)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    More,
    Done,
}

impl Writer {
    fn into_stream(self) -> impl futures::Stream<Item = Bytes> + Send {
        stream::unfold(Some(self), |writer| async move {
            let mut writer = writer?;
            let mut out = Vec::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 4);
            let progress = writer.fill(&mut out);
            if out.is_empty() {
                // A selector that finds nothing for long must not hold the thread.
                tokio::task::yield_now().await;
            }
            let rest = (progress == Progress::More).then_some(writer);
            Some((Bytes::from(out), rest))
        })
    }

    /// Writes about a chunk; the end of the document too, if it comes.
    fn fill(&mut self, out: &mut Vec<u8>) -> Progress {
        let mut scanned = 0;
        let Self {
            kind,
            selection,
            source,
            items,
            ink,
            ended: _,
        } = self;
        let mut write = |version: &Version, out: &mut Vec<u8>| {
            let mark = out.len();
            let shown = Shown {
                typed: false,
                ..Shown::whole(version)
            };
            let written = match ink {
                None => {
                    if *items > 0 {
                        out.push(b',');
                    }
                    kind.write(shown, out).map_err(Into::into)
                }
                Some(ink) => ink.item(kind, shown, *items, out),
            };
            match written {
                Ok(()) => *items += 1,
                Err(error) => {
                    out.truncate(mark);
                    let key = String::from_utf8_lossy(version.key());
                    tracing::error!("{key} is left out of a list: {error}");
                }
            }
        };
        match source {
            Source::Gathered(versions) => {
                for version in versions.by_ref() {
                    write(&version, out);
                    if out.len() >= CHUNK_BYTES {
                        return Progress::More;
                    }
                }
            }
            Source::Live { snapshot, rest } => {
                let mut stopped = None;
                for version in snapshot.entries(rest) {
                    scanned += 1;
                    if selection.is_everything() || selection.matches(kind, version) {
                        write(version, out);
                    }
                    if out.len() >= CHUNK_BYTES || scanned >= SCAN_OBJECTS_MAX {
                        stopped = Some(rest.after(version.key()));
                        break;
                    }
                }
                if let Some(after) = stopped {
                    *rest = after;
                    return Progress::More;
                }
            }
        }
        match ink {
            None => out.extend_from_slice(b"]}\n"),
            Some(ink) => ink.end(kind, *items, out),
        }
        Progress::Done
    }
}
