//! Many objects, at one revision.
//!
//! A list without a limit is written while it is read: a snapshot, a position in it,
//! and one chunk at a time. Only a page is gathered first, because its beginning
//! tells where the next one starts.

mod page;
mod pieces;
mod scan;
#[cfg(test)]
mod tests;
mod writer;

use crate::calling::Outside;
use crate::conversion::read_as;
use crate::form::Ink;
use crate::kinds::Kind;
use crate::options::ListPlan;
use crate::piece::Piece;
use crate::press::{Press, Share};
use crate::selection::Selection;
use bytes::Bytes;
use futures::stream::{self, BoxStream, Stream, StreamExt};
use optik_object::Status;
use optik_store::Version;
use page::find;
use pieces::{measured, rest};
use scan::{Scan, Source};
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use writer::{Writer, head, metadata};

/// How much of a list is written before its beginning is sent.
const FIRST_BYTES: usize = 64 * 1024;
/// When to come again if too many lists are being converted.
const RETRY_SECONDS: u32 = 1;

/// A list to be written.
pub(crate) enum Listed {
    Whole(Bytes),
    Pieces(BoxStream<'static, Piece>),
}

/// What to list.
pub(crate) struct Listing {
    pub(crate) kind: Arc<Kind>,
    pub(crate) namespace: Option<String>,
    pub(crate) selection: Selection,
    pub(crate) plan: ListPlan,
    /// `None`: as it is stored.
    pub(crate) ink: Option<Ink>,
    /// What may lie around of the answer.
    pub(crate) share: Share,
}

pub(crate) async fn list(
    outside: &Outside,
    press: &Arc<Press>,
    listing: Listing,
) -> Result<Listed, Status> {
    let mut page = find(&outside.store, &listing).await?;
    let mut room = None;
    if listing.kind.converter().is_some() {
        let converted = Box::pin(converted(outside, press, &listing, page.source)).await?;
        page.source = converted.source;
        room = converted.room;
    }
    let metadata = metadata(&listing, &page);
    let made_by = (Arc::clone(press), listing.share);
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
        let pieces = measured(made_by, scan, writer).await;
        return Ok(Listed::Pieces(held(pieces, room)));
    }
    let mut first = writer.begin(0);
    let versions = scan.batch(FIRST_BYTES).unwrap_or_default();
    if writer.is_long(&versions) {
        let writer = Arc::new(writer);
        let jobs = Writer::jobs(Arc::clone(&writer), versions, scan);
        let first = stream::once(std::future::ready(Piece::from(first)));
        let rest = rest(made_by, jobs, writer, 0);
        return Ok(Listed::Pieces(held(first.chain(rest), room)));
    }
    let batch = writer.make(&versions);
    let items = batch.items;
    let begin = batch.after(0);
    begin.parts().for_each(|part| first.extend_from_slice(part));
    if scan.is_at_end() {
        first.extend_from_slice(&writer.end(items));
        return Ok(Listed::Whole(first.into()));
    }
    let first = stream::once(std::future::ready(Piece::from(first)));
    let writer = Arc::new(writer);
    let jobs = Writer::jobs(Arc::clone(&writer), Vec::new(), scan);
    let rest = rest(made_by, jobs, writer, items);
    Ok(Listed::Pieces(held(first.chain(rest), room)))
}

/// Room that is given back with the last piece.
fn held(
    pieces: impl Stream<Item = Piece> + Send + 'static,
    room: Option<OwnedSemaphorePermit>,
) -> BoxStream<'static, Piece> {
    let pieces = pieces.map(move |piece| {
        let _ = &room;
        piece
    });
    pieces.boxed()
}

struct Converted {
    source: Source,
    room: Option<OwnedSemaphorePermit>,
}

/// Everything in the version that is asked for: where a webhook converts, all of it is
/// gathered first, because a conversion that fails fails the whole list. Selectors look at
/// what is stored.
async fn converted(
    outside: &Outside,
    press: &Press,
    listing: &Listing,
    source: Source,
) -> Result<Converted, Status> {
    let versions = matching(listing, source);
    let room = room_to_convert(press, &listing.kind, &versions)?;
    let versions = read_as(outside, &listing.kind, versions).await?;
    Ok(Converted {
        source: Source::Gathered(versions.into_iter()),
        room,
    })
}

/// Room for objects that are held until all of them are converted, by what is stored of
/// them. Whoever comes when there is none comes again.
fn room_to_convert(
    press: &Press,
    kind: &Kind,
    versions: &[Arc<Version>],
) -> Result<Option<OwnedSemaphorePermit>, Status> {
    if kind.converter().is_none() {
        return Ok(None);
    }
    let bytes = versions.iter().map(|version| version.value().len()).sum();
    let room = press.hold_whole(bytes);
    let text = "too many objects are being converted, please try again later";
    let full = || Status::too_many_requests(text, RETRY_SECONDS);
    room.map(Some).ok_or_else(full)
}

fn matching(listing: &Listing, source: Source) -> Vec<Arc<Version>> {
    match source {
        Source::Gathered(versions) => versions.collect(),
        Source::Live { snapshot, rest } => {
            let entries = rest.iter().flat_map(|range| snapshot.entries(range));
            let selection = &listing.selection;
            let matching = entries.filter(|version| selection.matches(&listing.kind, version));
            matching.cloned().collect()
        }
    }
}

/// What a list has, for those who do something about it before they show it.
pub(crate) struct Gathered {
    pub(crate) versions: Vec<Arc<Version>>,
    /// The list up to its first item.
    pub(crate) head: Vec<u8>,
    /// Held as long as the versions are, if a webhook converts them.
    pub(crate) room: Option<OwnedSemaphorePermit>,
}

pub(crate) async fn gather(
    outside: &Outside,
    press: &Press,
    listing: &Listing,
) -> Result<Gathered, Status> {
    let page = find(&outside.store, listing).await?;
    let head = head(&listing.kind, &metadata(listing, &page));
    let versions = matching(listing, page.source);
    Ok(Gathered {
        room: room_to_convert(press, &listing.kind, &versions)?,
        versions,
        head,
    })
}
