//! Many objects, at one revision.
//!
//! A list without a limit is written while it is read: a snapshot, a position in it,
//! and one chunk at a time. Only a page is gathered first, because its beginning
//! tells where the next one starts.

use crate::calling::Outside;
use crate::conversion::read_as;
use crate::form::{Ink, PaintError, Separation};
use crate::freshness::{Patience, reached, snapshot};
use crate::kinds::{Kind, Shown};
use crate::options::{Fresh, ListAt, ListPlan};
use crate::press::Press;
use crate::selection::Selection;
use bytes::Bytes;
use futures::stream::{self, BoxStream, Stream, StreamExt};
use optik_object::protobuf::Envelope;
use optik_object::{Continue, Snapshot as PageAt, Status};
use optik_store::{KeyRange, RangeError, RangeQuery, Revision, Snapshot, Store, Version};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// How much of a list is written before its beginning is sent.
const FIRST_BYTES: usize = 64 * 1024;
/// How much of what is stored makes a batch after that.
const BATCH_BYTES: usize = 256 * 1024;
/// How many objects a selector looks at before others may run.
const BATCH_OBJECTS_MAX: usize = 2048;

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

pub(crate) async fn list(
    outside: &Outside,
    press: &Arc<Press>,
    listing: Listing,
) -> Result<Listed, Status> {
    let mut page = find(&outside.store, &listing).await?;
    if listing.kind.converter().is_some() {
        page.source = Box::pin(converted(outside, &listing, page.source)).await?;
    }
    let metadata = metadata(&listing, &page);
    let mut scan = Scan(page.source);
    let writer = Writer {
        // What was gathered is known to match.
        selection: match scan.0 {
            Source::Gathered(_) => Selection::default(),
            Source::Live { .. } => listing.selection,
        },
        kind: listing.kind,
        metadata,
        ink: listing.ink,
    };
    if writer.ink.as_ref().is_some_and(Ink::needs_length) {
        return Ok(Listed::Pieces(
            measured(Arc::clone(press), scan, writer).await,
        ));
    }
    let mut first = writer.begin(0);
    let versions = scan.batch(FIRST_BYTES).unwrap_or_default();
    let batch = writer.make(&versions);
    let items = batch.items;
    first.extend_from_slice(&batch.after(0));
    if scan.is_at_end() {
        first.extend_from_slice(&writer.end(items));
        return Ok(Listed::Whole(first.into()));
    }
    let first = stream::once(std::future::ready(Bytes::from(first)));
    let rest = rest(Arc::clone(press), scan, writer, items);
    Ok(Listed::Pieces(first.chain(rest).boxed()))
}

/// Everything in the version that is asked for: where a webhook converts, all of it is
/// gathered first. Selectors look at what is stored.
async fn converted(outside: &Outside, listing: &Listing, source: Source) -> Result<Source, Status> {
    let kind = &listing.kind;
    let versions: Vec<Arc<Version>> = match source {
        Source::Gathered(versions) => versions.collect(),
        Source::Live { snapshot, rest } => {
            let entries = rest.iter().flat_map(|range| snapshot.entries(range));
            let matching = entries.filter(|version| listing.selection.matches(kind, version));
            matching.cloned().collect()
        }
    };
    let versions = read_as(outside, kind, versions).await?;
    Ok(Source::Gathered(versions.into_iter()))
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
    Live {
        snapshot: Snapshot,
        rest: Option<KeyRange>,
    },
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

/// The metadata of the list.
fn metadata(listing: &Listing, page: &Page) -> String {
    let mut text = format!(r#"{{"resourceVersion":"{}""#, page.at);
    let whole = listing.ink.as_ref().is_none_or(Ink::is_whole);
    if listing.kind.custom.is_some() && whole && page.next.is_none() {
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

/// What is left of a list of which so many items are written.
fn rest(press: Arc<Press>, scan: Scan, writer: Writer, items: u64) -> impl Stream<Item = Bytes> {
    let writer = Arc::new(writer);
    let batches = press.make(Writer::jobs(Arc::clone(&writer), scan));
    let state = Some((Box::pin(batches), writer, items));
    let pieces = stream::unfold(state, |state| async {
        let (mut batches, writer, mut items) = state?;
        let Some(batch) = batches.next().await else {
            return Some((Bytes::from(writer.end(items)), None));
        };
        let piece = batch.after(items);
        items += batch.items;
        Some((piece, Some((batches, writer, items))))
    });
    // An empty piece would be nothing to send.
    pieces.filter(|piece| std::future::ready(!piece.is_empty()))
}

/// A list whose length stands before its items. What there is no room to hold while
/// the length is found out is made a second time.
async fn measured(press: Arc<Press>, scan: Scan, writer: Writer) -> BoxStream<'static, Bytes> {
    let writer = Arc::new(writer);
    let mut held: Vec<Bytes> = Vec::new();
    let mut room = Vec::new();
    let mut full = false;
    let mut length = 0;
    {
        let jobs = Writer::jobs(Arc::clone(&writer), scan.clone());
        let mut batches = std::pin::pin!(Arc::clone(&press).make(jobs));
        while let Some(batch) = batches.next().await {
            length += batch.bytes.len();
            match press.hold(batch.bytes.len()).filter(|_| !full) {
                Some(permit) => {
                    room.push(permit);
                    held.push(batch.bytes);
                }
                None => full = true,
            }
        }
    }
    let first = stream::once(std::future::ready(Bytes::from(writer.begin(length))));
    let again = full.then(|| Writer::jobs(writer, scan).skip(held.len()));
    let again = press.make(again.into_iter().flatten());
    let last = stream::once(std::future::ready(Bytes::from_static(Envelope::END)));
    let held = stream::iter(held).map(move |piece| {
        // Given back with the last piece.
        let _ = &room;
        piece
    });
    let all = first.chain(held).chain(again.map(|batch| batch.bytes));
    all.chain(last)
        .filter(|piece| std::future::ready(!piece.is_empty()))
        .boxed()
}

/// What is still to be written.
#[derive(Clone)]
struct Scan(Source);

impl Scan {
    /// The next objects, about as many as have so many bytes.
    fn batch(&mut self, bytes: usize) -> Option<Vec<Arc<Version>>> {
        if self.is_at_end() {
            return None;
        }
        let mut batch = Batching::new(bytes);
        match &mut self.0 {
            Source::Gathered(versions) => {
                while !batch.is_full()
                    && let Some(version) = versions.next()
                {
                    batch.push(version);
                }
            }
            Source::Live { snapshot, rest } => {
                let range = rest.as_ref()?;
                let mut entries = snapshot.entries(range);
                while !batch.is_full()
                    && let Some(version) = entries.next()
                {
                    batch.push(Arc::clone(version));
                }
                let more = entries.next().is_some();
                let last = batch.versions.last().filter(|_| more);
                *rest = last.map(|version| range.after(version.key()));
            }
        }
        Some(batch.versions)
    }

    fn is_at_end(&self) -> bool {
        match &self.0 {
            Source::Live { rest, .. } => rest.is_none(),
            Source::Gathered(versions) => versions.as_slice().is_empty(),
        }
    }
}

/// Objects that are written together.
struct Batching {
    versions: Vec<Arc<Version>>,
    room: usize,
}

impl Batching {
    fn new(bytes: usize) -> Self {
        Self {
            versions: Vec::new(),
            room: bytes,
        }
    }

    fn is_full(&self) -> bool {
        self.room == 0 || self.versions.len() >= BATCH_OBJECTS_MAX
    }

    fn push(&mut self, version: Arc<Version>) {
        self.room = self.room.saturating_sub(version.value().len());
        self.versions.push(version);
    }
}

/// How a list is written.
struct Writer {
    kind: Arc<Kind>,
    selection: Selection,
    /// Of the list, as JSON.
    metadata: String,
    ink: Option<Ink>,
}

/// Some items of a list, and what separates them from those before.
struct Batch {
    bytes: Bytes,
    items: u64,
    separation: Separation,
}

impl Batch {
    /// What is sent after so many items.
    fn after(&self, items: u64) -> Bytes {
        let lead = self.separation.byte().is_some() && self.items > 0;
        let wanted = self.separation.before(items).is_some();
        self.bytes.slice(usize::from(lead && !wanted)..)
    }
}

impl Writer {
    fn begin(&self, length: usize) -> Vec<u8> {
        match &self.ink {
            None => head(&self.kind, &self.metadata),
            Some(ink) => ink.begin(&self.kind, &self.metadata, length),
        }
    }

    fn end(&self, items: u64) -> Vec<u8> {
        match &self.ink {
            None => b"]}\n".to_vec(),
            Some(ink) => ink.end(&self.kind, &self.metadata, items),
        }
    }

    fn separation(&self) -> Separation {
        match &self.ink {
            None => Separation::Between,
            Some(ink) => ink.separation(&self.kind),
        }
    }

    /// What makes the batches of a list, one after the other.
    fn jobs(
        writer: Arc<Self>,
        mut scan: Scan,
    ) -> impl Iterator<Item = impl FnOnce() -> Batch + Send + 'static> + Send {
        std::iter::from_fn(move || {
            let versions = scan.batch(BATCH_BYTES)?;
            let writer = Arc::clone(&writer);
            Some(move || writer.make(&versions))
        })
    }

    fn make(&self, versions: &[Arc<Version>]) -> Batch {
        let stored: usize = versions.iter().map(|version| version.value().len()).sum();
        // A revision and a comma for each.
        let mut out = Vec::with_capacity(stored + versions.len() * 48 + 1);
        let separation = self.separation();
        if let Some(byte) = separation.byte() {
            out.push(byte);
        }
        let items = self.write(versions, &mut out);
        if items == 0 {
            out.clear();
        }
        Batch {
            bytes: out.into(),
            items,
            separation,
        }
    }

    /// Writes what is selected, and what separates it; tells how many there are.
    fn write(&self, versions: &[Arc<Version>], out: &mut Vec<u8>) -> u64 {
        let separation = self.separation();
        let mut ink = self.ink.clone();
        let mut items = 0;
        for version in versions {
            if !self.selection.is_everything() && !self.selection.matches(&self.kind, version) {
                continue;
            }
            let mark = out.len();
            // Whether one stands before the first is not known here.
            if items > 0 {
                out.extend(separation.before(items));
            }
            match self.item(ink.as_mut(), version, out) {
                Ok(()) => items += 1,
                Err(error) => {
                    out.truncate(mark);
                    let key = String::from_utf8_lossy(version.key());
                    tracing::error!("{key} is left out of a list: {error}");
                }
            }
        }
        items
    }

    fn item(
        &self,
        ink: Option<&mut Ink>,
        version: &Version,
        out: &mut Vec<u8>,
    ) -> Result<(), PaintError> {
        let shown = Shown {
            typed: false,
            ..Shown::whole(version)
        };
        match ink {
            Some(ink) => ink.item(&self.kind, shown, out),
            None => Ok(self.kind.write(shown, out)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calling::Nobody;
    use crate::form::{Encoding, Form};
    use crate::kinds::Kinds;
    use crate::query::Query;
    use optik_platform::{SystemClock, SystemEntropy};
    use optik_store::{Options, Origin, Put, Txn};
    use serde_json::{Value, json};

    /// Several batches in every form.
    const OBJECTS: usize = 400;

    async fn filled() -> (Store, Arc<Kind>) {
        let kinds = Kinds::of(optik_catalog::builtin());
        let kind = Arc::clone(kinds.find("", "v1", "configmaps").unwrap());
        let store = Store::open(Options::ephemeral()).unwrap();
        for number in 0..OBJECTS {
            let name = format!("{number:04}");
            let object = json!({"kind": "ConfigMap", "apiVersion": "v1",
                "metadata": {"name": name, "namespace": "n", "labels": {"third": (number % 3).to_string()}},
                "data": {"text": "x".repeat(4096)}});
            let bytes = optik_object::encode(&object).unwrap();
            let put = Put::new(kind.key(Some("n"), &name), bytes);
            store
                .commit(Txn::put(put), Origin::default())
                .await
                .unwrap();
        }
        (store, kind)
    }

    async fn listed(
        store: &Store,
        press: Press,
        (kind, form, selector): (&Arc<Kind>, Form, &str),
    ) -> Vec<u8> {
        let query = format!("labelSelector={selector}");
        let listing = Listing {
            kind: Arc::clone(kind),
            namespace: Some("n".into()),
            selection: Selection::read(&Query::parse(&query).unwrap(), kind).unwrap(),
            plan: ListPlan {
                at: ListAt::Latest,
                limit: None,
            },
            ink: Ink::of(form, &SystemClock::default()),
        };
        let outside = Outside {
            caller: Arc::new(Nobody),
            store: store.clone(),
            entropy: Arc::new(SystemEntropy),
        };
        match list(&outside, &Arc::new(press), listing).await.unwrap() {
            Listed::Whole(body) => body.to_vec(),
            Listed::Pieces(pieces) => pieces.collect::<Vec<_>>().await.concat(),
        }
    }

    fn form(encoding: Encoding) -> Form {
        Form {
            encoding,
            ..Form::default()
        }
    }

    fn names(list: &Value) -> Vec<usize> {
        let items = list["items"].as_array().unwrap();
        let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().parse().unwrap();
        items.iter().map(name).collect()
    }

    #[tokio::test]
    async fn batches_make_one_document() {
        let (store, kind) = filled().await;
        for (selector, wanted) in [
            ("", (0..OBJECTS).collect()),
            ("third%3D1", (1..OBJECTS).step_by(3).collect()),
            ("third%3D9", vec![]),
        ] {
            for cores in [1, 4] {
                let of = |encoding| (&kind, form(encoding), selector);
                let json = listed(&store, Press::with(cores, 0), of(Encoding::Json)).await;
                let json: Value = serde_json::from_slice(&json).unwrap();
                assert_eq!(names(&json), wanted, "{selector}");
                let yaml = listed(&store, Press::with(cores, 0), of(Encoding::Yaml)).await;
                let yaml = optik_object::yaml::parse(&yaml).unwrap();
                assert_eq!(names(&yaml.value), wanted, "{selector}");
            }
        }
        store.close().await;
    }

    /// What there is no room to hold is made twice, and comes out once.
    #[tokio::test]
    async fn room_makes_no_difference() {
        let (store, kind) = filled().await;
        let asked = (&kind, form(Encoding::Protobuf), "");
        let whole = listed(&store, Press::with(1, 1 << 30), asked).await;
        assert!(whole.len() > OBJECTS * 4096);
        for (cores, room) in [(1, 0), (4, 0), (4, 600 << 10), (4, 1 << 30)] {
            let list = listed(&store, Press::with(cores, room), asked).await;
            assert!(list == whole, "{cores} {room}");
        }
        store.close().await;
    }
}
