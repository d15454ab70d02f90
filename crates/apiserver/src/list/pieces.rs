//! A list in pieces, made a little before they are sent.

use super::scan::Scan;
use super::writer::{Batch, Writer};
use crate::piece::Piece;
use crate::press::{Job, Press, Share};
use bytes::{Buf, Bytes};
use futures::stream::{self, BoxStream, Stream, StreamExt};
use optik_object::protobuf::Envelope;
use std::sync::Arc;

/// What is left of a list of which so many items are written.
pub(super) fn rest<J>(
    (press, share): (Arc<Press>, Share),
    jobs: impl Iterator<Item = Job<J>> + Send,
    writer: Arc<Writer>,
    items: u64,
) -> impl Stream<Item = Piece>
where
    J: FnOnce() -> Batch + Send + 'static,
{
    let batches = press.make(share, jobs);
    let state = Some((Box::pin(batches), writer, items));
    let pieces = stream::unfold(state, |state| async {
        let (mut batches, writer, items) = state?;
        let Some(batch) = batches.next().await else {
            return Some((Piece::from(writer.end(items)), None));
        };
        let after = items + batch.items;
        Some((batch.after(items), Some((batches, writer, after))))
    });
    pieces.filter(is_something)
}

/// An empty piece would be nothing to send.
fn is_something(piece: &Piece) -> std::future::Ready<bool> {
    std::future::ready(piece.has_remaining())
}

/// A list whose length stands before its items. What there is no room to hold while
/// the length is found out is made a second time.
pub(super) async fn measured(
    (press, share): (Arc<Press>, Share),
    scan: Scan,
    writer: Writer,
) -> BoxStream<'static, Piece> {
    let writer = Arc::new(writer);
    let mut held: Vec<Piece> = Vec::new();
    let mut room = Vec::new();
    let mut full = false;
    let mut length = 0;
    {
        let jobs = Writer::jobs(Arc::clone(&writer), Vec::new(), scan.clone());
        let mut batches = std::pin::pin!(Arc::clone(&press).make(share.clone(), jobs));
        while let Some(batch) = batches.next().await {
            let bytes = batch.piece.remaining();
            length += bytes;
            match press.hold(bytes).filter(|_| !full) {
                Some(permit) => {
                    room.push(permit);
                    held.push(batch.piece);
                }
                None => full = true,
            }
        }
    }
    let first = stream::once(std::future::ready(Piece::from(writer.begin(length))));
    let again = full.then(|| Writer::jobs(writer, Vec::new(), scan).skip(held.len()));
    let again = press.make(share, again.into_iter().flatten());
    let last = Piece::from(Bytes::from_static(Envelope::END));
    let last = stream::once(std::future::ready(last));
    let held = stream::iter(held).map(move |piece| {
        // Given back with the last piece.
        let _ = &room;
        piece
    });
    let all = first.chain(held).chain(again.map(|batch| batch.piece));
    all.chain(last)
        .map(Piece::from)
        .filter(is_something)
        .boxed()
}
