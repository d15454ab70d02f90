//! The `list` verb: reads many objects at one revision.
//!
//! A list without a limit is encoded while it is read: a snapshot, a position in it, and one chunk
//! at a time. Only a page is gathered first, because its metadata holds the continue token of the
//! next page.

mod batch_writer;
mod item_scan;
mod list_stream;
mod pagination;
#[cfg(test)]
mod tests;

use crate::encoding::byte_rope::ByteRope;
use crate::encoding::encode_pool::{BufferQuota, EncodePool};
use crate::encoding::representation::ListEncoder;
use crate::handlers::list::batch_writer::{BatchWriter, list_head, list_metadata};
use crate::handlers::list::item_scan::{ItemScan, ItemSource};
use crate::handlers::list::list_stream::{stream_rest, stream_with_length};
use crate::handlers::list::pagination::find_page;
use crate::registry::crd::webhook_conversion::read_stored_as;
use crate::registry::served_resource::ServedResource;
use crate::request::list_options::ListPlan;
use crate::request::selection_predicate::SelectionPredicate;
use crate::server::webhook_client::WebhookClient;
use bytes::Bytes;
use futures::stream::{self, BoxStream, Stream, StreamExt};
use optik_object::Status;
use optik_store::Version;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// How much of a list is encoded before the response starts.
const FIRST_CHUNK_BYTES: usize = 64 * 1024;
/// `Retry-After` if too many lists are being converted.
const RETRY_SECONDS: u32 = 1;

/// The body of a list response.
pub(crate) enum ListBody {
    Whole(Bytes),
    Stream(BoxStream<'static, ByteRope>),
}

/// The parameters of a list.
pub(crate) struct ListRequest {
    pub(crate) kind: Arc<ServedResource>,
    pub(crate) namespace: Option<String>,
    pub(crate) selection: SelectionPredicate,
    pub(crate) plan: ListPlan,
    /// `None`: the encoding in which objects are stored.
    pub(crate) encoder: Option<ListEncoder>,
    /// The limit of bytes of this response that are encoded and not yet sent.
    pub(crate) buffer_quota: BufferQuota,
}

pub(crate) async fn list(
    outside: &WebhookClient,
    press: &Arc<EncodePool>,
    listing: ListRequest,
) -> Result<ListBody, Status> {
    let mut page = find_page(&outside.store, &listing).await?;
    let mut room = None;
    if listing.kind.converter().is_some() {
        let converted = Box::pin(convert_items(outside, press, &listing, page.source)).await?;
        page.source = converted.source;
        room = converted.room;
    }
    let metadata = list_metadata(&listing, &page);
    let made_by = (Arc::clone(press), listing.buffer_quota);
    let mut scan = ItemScan(page.source);
    let writer = BatchWriter {
        // Gathered objects are known to match the selector.
        selection: match scan.0 {
            ItemSource::Gathered(_) => SelectionPredicate::default(),
            ItemSource::Live { .. } => listing.selection,
        },
        kind: listing.kind,
        metadata,
        encoder: listing.encoder,
    };
    if writer
        .encoder
        .as_ref()
        .is_some_and(ListEncoder::needs_length)
    {
        let pieces = stream_with_length(made_by, scan, writer).await;
        return Ok(ListBody::Stream(hold_until_sent(pieces, room)));
    }
    let mut first = writer.begin(0);
    let versions = scan.next_batch(FIRST_CHUNK_BYTES).unwrap_or_default();
    if writer.is_slow(&versions) {
        let writer = Arc::new(writer);
        let jobs = BatchWriter::jobs(Arc::clone(&writer), versions, scan);
        let first = stream::once(std::future::ready(ByteRope::from(first)));
        let rest = stream_rest(made_by, jobs, writer, 0);
        return Ok(ListBody::Stream(hold_until_sent(first.chain(rest), room)));
    }
    let batch = writer.encode(&versions);
    let items = batch.items;
    let begin = batch.preceded_by(0);
    begin
        .chunks()
        .for_each(|part| first.extend_from_slice(part));
    if scan.is_at_end() {
        first.extend_from_slice(&writer.end(items));
        return Ok(ListBody::Whole(first.into()));
    }
    let first = stream::once(std::future::ready(ByteRope::from(first)));
    let writer = Arc::new(writer);
    let jobs = BatchWriter::jobs(Arc::clone(&writer), Vec::new(), scan);
    let rest = stream_rest(made_by, jobs, writer, items);
    Ok(ListBody::Stream(hold_until_sent(first.chain(rest), room)))
}

/// Streams `pieces` and releases the reserved buffer space with the last one.
fn hold_until_sent(
    pieces: impl Stream<Item = ByteRope> + Send + 'static,
    room: Option<OwnedSemaphorePermit>,
) -> BoxStream<'static, ByteRope> {
    let pieces = pieces.map(move |piece| {
        let _ = &room;
        piece
    });
    pieces.boxed()
}

struct ConvertedItems {
    source: ItemSource,
    room: Option<OwnedSemaphorePermit>,
}

/// Converts all items to the requested version. If a conversion webhook is involved, all items are
/// gathered first, because one failed conversion fails the whole list. Selectors are matched
/// against the stored version.
async fn convert_items(
    outside: &WebhookClient,
    press: &EncodePool,
    listing: &ListRequest,
    source: ItemSource,
) -> Result<ConvertedItems, Status> {
    let versions = select(listing, source);
    let room = reserve_for_conversion(press, &listing.kind, &versions)?;
    let versions = read_stored_as(outside, &listing.kind, versions).await?;
    Ok(ConvertedItems {
        source: ItemSource::Gathered(versions.into_iter()),
        room,
    })
}

/// Reserves buffer space, by stored size, for objects that are held until all of them are
/// converted. If there is none, the client is asked to retry.
fn reserve_for_conversion(
    press: &EncodePool,
    kind: &ServedResource,
    versions: &[Arc<Version>],
) -> Result<Option<OwnedSemaphorePermit>, Status> {
    if kind.converter().is_none() {
        return Ok(None);
    }
    let bytes = versions.iter().map(|version| version.value().len()).sum();
    let room = press.try_reserve_converted(bytes);
    let text = "too many objects are being converted, please try again later";
    let full = || Status::too_many_requests(text, RETRY_SECONDS);
    room.map(Some).ok_or_else(full)
}

fn select(listing: &ListRequest, source: ItemSource) -> Vec<Arc<Version>> {
    match source {
        ItemSource::Gathered(versions) => versions.collect(),
        ItemSource::Live { snapshot, rest } => {
            let entries = rest.iter().flat_map(|range| snapshot.entries(range));
            let selection = &listing.selection;
            let matching = entries.filter(|version| selection.matches(&listing.kind, version));
            matching.cloned().collect()
        }
    }
}

/// The items of a list for callers that process them before they render the list.
pub(crate) struct CollectedList {
    pub(crate) versions: Vec<Arc<Version>>,
    /// The encoded list up to its first item.
    pub(crate) head: Vec<u8>,
    /// Reserved buffer space, held as long as the versions, if a webhook converts them.
    pub(crate) room: Option<OwnedSemaphorePermit>,
}

pub(crate) async fn collect(
    outside: &WebhookClient,
    press: &EncodePool,
    listing: &ListRequest,
) -> Result<CollectedList, Status> {
    let page = find_page(&outside.store, listing).await?;
    let head = list_head(&listing.kind, &list_metadata(listing, &page));
    let versions = select(listing, page.source);
    Ok(CollectedList {
        room: reserve_for_conversion(press, &listing.kind, &versions)?,
        versions,
        head,
    })
}
