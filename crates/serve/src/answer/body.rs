//! The body type that hyper is given.

use super::pieces::Pieces;
use super::sending::{Chunk, Unsent, announce};
use crate::audit::Record;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::time::Instant;

/// Longer answers keep what they hold until their last byte has left this process. What a
/// reader can leave lying about of shorter ones is bounded by the streams of a connection.
const UNCOUNTED_BYTES_MAX: usize = 8 * 1024;

/// Known at once, or coming in pieces.
pub(crate) struct Body {
    content: Content,
    unsent: Arc<Unsent>,
    /// Streams without end hold nothing that others wait for.
    long_running: bool,
    /// What is written down about it when it ends.
    _record: Option<Box<Record>>,
}

pub(crate) enum Content {
    /// Empty when it has been taken.
    Whole(Bytes),
    Pieces(Box<Pieces>),
    /// All of it is on its way.
    Taken,
}

impl Body {
    /// `due` is when an answer has to be sent that is no stream without end.
    pub(crate) fn new(
        content: Content,
        unsent: Arc<Unsent>,
        due: Option<Instant>,
        record: Option<Box<Record>>,
    ) -> Self {
        if let Some(at) = due {
            announce(&unsent, at);
        }
        Self {
            content,
            unsent,
            long_running: due.is_none(),
            _record: record,
        }
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Chunk>> {
        match &mut self.content {
            Content::Whole(bytes) if bytes.is_empty() => return Poll::Ready(None),
            Content::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                if bytes.len() <= UNCOUNTED_BYTES_MAX {
                    return Poll::Ready(Some(Chunk::uncounted(bytes.into())));
                }
                self.content = Content::Taken;
                return Poll::Ready(Some(self.unsent.chunk(bytes.into())));
            }
            Content::Pieces(pieces) => {
                if let Some(piece) = ready!(pieces.poll_next(cx)) {
                    return Poll::Ready(Some(match self.long_running {
                        true => Chunk::uncounted(piece),
                        false => self.unsent.chunk(piece),
                    }));
                }
                // What made the pieces is not needed while they are sent.
                self.content = Content::Taken;
            }
            Content::Taken => {}
        }
        self.unsent.poll_sent(cx).map(|()| None)
    }
}

impl http_body::Body for Body {
    type Data = Chunk;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Chunk>, Infallible>>> {
        let next = self.poll_chunk(cx);
        next.map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.content, Content::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Taken => SizeHint::with_exact(0),
            Content::Pieces(_) => SizeHint::default(),
        }
    }
}
