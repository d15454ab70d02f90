//! Encodes a list in batches.

use crate::encoding::byte_rope::{ByteRope, RopeBuilder};
use crate::encoding::encode_pool::EncodeJob;
use crate::encoding::representation::{ListEncoder, Separation, SerializeError};
use crate::handlers::list::ListRequest;
use crate::handlers::list::item_scan::ItemScan;
use crate::handlers::list::pagination::ListPage;
use crate::registry::served_resource::{ObjectView, ServedResource};
use crate::request::selection_predicate::SelectionPredicate;
use bytes::Buf;
use optik_store::Version;
use std::sync::Arc;

/// Bytes of stored objects in a batch.
const BATCH_BYTES: usize = 256 * 1024;
/// Bytes of stored objects in a batch if they are sent as stored and no selector is applied.
const REFERENCED_BATCH_BYTES: usize = 1024 * 1024;
/// Batches of more bytes take about a millisecond to convert to another encoding.
const SLOW_BATCH_BYTES_MIN: usize = 192 * 1024;
/// Shorter objects are copied: sending many small parts by reference costs more than that.
const REFERENCED_BYTES_MIN: usize = 2048;
/// Space for a resourceVersion and a comma.
const REVISION_BYTES: usize = 48;
/// Usual size of the fields at the beginning of an object that identify it.
const HEAD_BYTES: usize = 256;

/// How many objects are prefetched together; they lie scattered in memory.
const PREFETCHED_OBJECTS: usize = 32;
/// The size of a cache line.
const CACHE_LINE_BYTES: usize = 64;

/// Encodes the items of one list.
pub(super) struct BatchWriter {
    pub(super) kind: Arc<ServedResource>,
    pub(super) selection: SelectionPredicate,
    /// The metadata of the list, as JSON.
    pub(super) metadata: String,
    pub(super) encoder: Option<ListEncoder>,
}

/// Some encoded items of a list, without the separator before the first.
pub(super) struct EncodedBatch {
    pub(super) bytes: ByteRope,
    pub(super) items: u64,
    separation: Separation,
}

impl EncodedBatch {
    /// The bytes of the batch with its leading separator, if `items` items were sent before it.
    pub(super) fn preceded_by(mut self, items: u64) -> ByteRope {
        let lead = self.separation.byte().is_some() && self.items > 0;
        let wanted = self.separation.before(items).is_some();
        self.bytes.advance(usize::from(lead && !wanted));
        self.bytes
    }
}

impl BatchWriter {
    pub(super) fn begin(&self, length: usize) -> Vec<u8> {
        match &self.encoder {
            None => list_head(&self.kind, &self.metadata),
            Some(ink) => ink.begin(&self.kind, &self.metadata, length),
        }
    }

    pub(super) fn end(&self, items: u64) -> Vec<u8> {
        match &self.encoder {
            None => b"]}\n".to_vec(),
            Some(ink) => ink.end(&self.kind, &self.metadata, items),
        }
    }

    fn separation(&self) -> Separation {
        match &self.encoder {
            None => Separation::Between,
            Some(ink) => ink.separation(&self.kind),
        }
    }

    /// The encode jobs of a list, one for each batch, in order; the first batch is `read`, which
    /// was scanned already.
    pub(super) fn jobs(
        writer: Arc<Self>,
        mut read: Vec<Arc<Version>>,
        mut scan: ItemScan,
    ) -> impl Iterator<Item = EncodeJob<impl FnOnce() -> EncodedBatch + Send + 'static>> + Send
    {
        let bytes = if writer.shows_as_stored() && writer.selection.matches_everything() {
            REFERENCED_BATCH_BYTES
        } else {
            BATCH_BYTES
        };
        std::iter::from_fn(move || {
            let versions = match read.is_empty() {
                true => scan.next_batch(bytes)?,
                false => std::mem::take(&mut read),
            };
            let (bytes, is_long) = (writer.room(&versions), writer.is_slow(&versions));
            let writer = Arc::clone(&writer);
            Some(EncodeJob {
                bytes,
                is_slow: is_long,
                run: move || writer.encode(&versions),
            })
        })
    }

    /// The estimated size of an encoded batch. Other encodings may be longer than the stored bytes.
    fn room(&self, versions: &[Arc<Version>]) -> usize {
        let laid = self.shows_as_stored();
        let bytes: usize = versions
            .iter()
            .map(|version| encoded_size(version, laid))
            .sum();
        if laid { bytes } else { 2 * bytes }
    }

    /// Whether encoding a batch takes long enough to count as slow (see [`SLOW_BATCH_BYTES_MIN`]).
    pub(super) fn is_slow(&self, versions: &[Arc<Version>]) -> bool {
        !self.shows_as_stored() && self.room(versions) > SLOW_BATCH_BYTES_MIN
    }

    pub(super) fn encode(&self, versions: &[Arc<Version>]) -> EncodedBatch {
        let laid = self.shows_as_stored();
        let room = versions
            .iter()
            .map(|version| encoded_size(version, laid))
            .sum();
        let mut sheaf = RopeBuilder::with_capacity(room);
        let separation = self.separation();
        sheaf.written().extend(separation.byte());
        let items = self.write(versions, &mut sheaf);
        if items == 0 {
            sheaf.truncate(0);
        }
        EncodedBatch {
            bytes: sheaf.finish(),
            items,
            separation,
        }
    }

    fn shows_as_stored(&self) -> bool {
        self.encoder.is_none() && self.kind.shows_as_stored()
    }

    /// Writes the selected items with their separators; returns their number.
    fn write(&self, versions: &[Arc<Version>], sheaf: &mut RopeBuilder) -> u64 {
        let separation = self.separation();
        let mut ink = self.encoder.clone();
        let mut items = 0;
        let some = versions.chunks(PREFETCHED_OBJECTS);
        for version in some.inspect(|some| prefetch(some)).flatten() {
            if !self.selection.matches_everything() && !self.selection.matches(&self.kind, version)
            {
                continue;
            }
            let mark = sheaf.written().len();
            // Whether a separator is needed before the first item is not known here.
            if items > 0 {
                sheaf.written().extend(separation.before(items));
            }
            let written = match ink.as_mut() {
                Some(ink) => ink.item(&self.kind, untyped(version), sheaf.written()),
                None => self.append_stored(version, sheaf),
            };
            match written {
                Ok(()) => items += 1,
                Err(error) => {
                    sheaf.truncate(mark);
                    let key = String::from_utf8_lossy(version.key());
                    tracing::error!("cannot encode {key}; omitted from list: {error}");
                }
            }
        }
        items
    }

    /// Long objects are sent by reference to the stored bytes.
    fn append_stored(
        &self,
        version: &Arc<Version>,
        sheaf: &mut RopeBuilder,
    ) -> Result<(), SerializeError> {
        let shown = untyped(version);
        let Some(spliced) = self.kind.splice(shown) else {
            return Ok(self.kind.write(shown, sheaf.written())?);
        };
        if version.value().len() - spliced.tail_offset() < REFERENCED_BYTES_MIN {
            spliced.write_to(sheaf.written());
        } else {
            spliced.write_head_to(sheaf.written());
            sheaf.append_stored(version, spliced.tail_offset());
        }
        Ok(())
    }
}

/// Touches the beginning and the end of objects. Touched one by one, each would wait for memory;
/// touched together, they wait once.
fn prefetch(versions: &[Arc<Version>]) {
    let seen = versions.iter().fold(0, |seen, version| {
        let value = version.value();
        let begin = value.iter().take(HEAD_BYTES).step_by(CACHE_LINE_BYTES);
        begin
            .chain(value.last())
            .fold(seen, |seen, byte| seen ^ byte)
    });
    std::hint::black_box(seen);
}

/// The estimated encoded size of an item.
fn encoded_size(version: &Version, laid: bool) -> usize {
    let length = version.value().len();
    if laid && length >= REFERENCED_BYTES_MIN {
        HEAD_BYTES
    } else {
        length + REVISION_BYTES
    }
}

/// An item without `kind` and `apiVersion`: list items omit them.
fn untyped(version: &Version) -> ObjectView<'_> {
    ObjectView {
        typed: false,
        ..ObjectView::from_version(version)
    }
}

/// The metadata of a list, as JSON: resourceVersion, continue token and remaining item count.
pub(super) fn list_metadata(listing: &ListRequest, page: &ListPage) -> String {
    let mut text = format!(r#"{{"resourceVersion":"{}""#, page.at);
    let whole = listing.encoder.as_ref().is_none_or(ListEncoder::is_whole);
    if listing.kind.custom.is_some() && whole && page.next.is_none() {
        text.push_str(r#","continue":"""#);
    }
    if let Some(next) = &page.next {
        // A continue token has no character that needs escaping.
        text.push_str(&format!(r#","continue":"{}""#, next.continue_token));
        if let Some(remaining) = next.remaining_item_count {
            text.push_str(&format!(r#","remainingItemCount":{remaining}"#));
        }
    }
    text.push('}');
    text
}

/// The encoded list up to its first item.
pub(super) fn list_head(kind: &ServedResource, metadata: &str) -> Vec<u8> {
    let text = format!(
        r#"{{"kind":"{}","apiVersion":"{}","metadata":{metadata},"items":["#,
        kind.resource.list_kind, kind.api_version
    );
    text.into()
}
