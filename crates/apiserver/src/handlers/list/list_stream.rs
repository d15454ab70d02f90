//! Streams a list in chunks that are encoded shortly before they are sent.

use crate::encoding::byte_rope::ByteRope;
use crate::encoding::encode_pool::{BufferQuota, EncodeJob, EncodePool};
use crate::handlers::list::batch_writer::{BatchWriter, EncodedBatch};
use crate::handlers::list::item_scan::ItemScan;
use bytes::{Buf, Bytes};
use futures::stream::{self, BoxStream, Stream, StreamExt};
use optik_object::protobuf::Envelope;
use std::sync::Arc;

/// Streams the rest of a list, of which `items` items are written already.
pub(super) fn stream_rest<J>(
    (press, share): (Arc<EncodePool>, BufferQuota),
    jobs: impl Iterator<Item = EncodeJob<J>> + Send,
    writer: Arc<BatchWriter>,
    items: u64,
) -> impl Stream<Item = ByteRope>
where
    J: FnOnce() -> EncodedBatch + Send + 'static,
{
    let batches = press.run_ordered(share, jobs);
    let state = Some((Box::pin(batches), writer, items));
    let pieces = stream::unfold(state, |state| async {
        let (mut batches, writer, items) = state?;
        let Some(batch) = batches.next().await else {
            return Some((ByteRope::from(writer.end(items)), None));
        };
        let after = items + batch.items;
        Some((batch.preceded_by(items), Some((batches, writer, after))))
    });
    pieces.filter(is_not_empty)
}

/// Whether a chunk has bytes; empty chunks are not sent.
fn is_not_empty(piece: &ByteRope) -> std::future::Ready<bool> {
    std::future::ready(piece.has_remaining())
}

/// Streams a list in an encoding that puts its length before its items. Batches for which there is
/// no buffer space while the length is computed are encoded a second time.
pub(super) async fn stream_with_length(
    (press, share): (Arc<EncodePool>, BufferQuota),
    scan: ItemScan,
    writer: BatchWriter,
) -> BoxStream<'static, ByteRope> {
    let writer = Arc::new(writer);
    let mut held: Vec<ByteRope> = Vec::new();
    let mut room = Vec::new();
    let mut full = false;
    let mut length = 0;
    {
        let jobs = BatchWriter::jobs(Arc::clone(&writer), Vec::new(), scan.clone());
        let mut batches = std::pin::pin!(Arc::clone(&press).run_ordered(share.clone(), jobs));
        while let Some(batch) = batches.next().await {
            let bytes = batch.bytes.remaining();
            length += bytes;
            match press.try_reserve_measured(bytes).filter(|_| !full) {
                Some(permit) => {
                    room.push(permit);
                    held.push(batch.bytes);
                }
                None => full = true,
            }
        }
    }
    let first = stream::once(std::future::ready(ByteRope::from(writer.begin(length))));
    let again = full.then(|| BatchWriter::jobs(writer, Vec::new(), scan).skip(held.len()));
    let again = press.run_ordered(share, again.into_iter().flatten());
    let last = ByteRope::from(Bytes::from_static(Envelope::END));
    let last = stream::once(std::future::ready(last));
    let held = stream::iter(held).map(move |piece| {
        // The buffer space is released with the last piece.
        let _ = &room;
        piece
    });
    let all = first.chain(held).chain(again.map(|batch| batch.bytes));
    all.chain(last)
        .map(ByteRope::from)
        .filter(is_not_empty)
        .boxed()
}
