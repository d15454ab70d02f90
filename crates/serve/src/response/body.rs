//! The response body type for hyper.

use super::body_stream::BodyStream;
use super::send_deadline::{PendingResponse, ResponseChunk, set_send_deadline};
use crate::audit::AuditRecord;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::time::Instant;

/// Longer responses keep their permits until their last byte has left this process. The memory of
/// unread shorter ones is bounded by the number of streams of a connection.
const UNCOUNTED_BYTES_MAX: usize = 8 * 1024;

/// A response body: whole, or streamed.
pub(crate) struct HttpBody {
    content: BodyContent,
    response: Arc<PendingResponse>,
    /// Long-running responses hold no permits.
    long_running: bool,
    /// The audit record, which is written when the body is dropped.
    _record: Option<Box<AuditRecord>>,
}

pub(crate) enum BodyContent {
    /// Empty once it has been taken.
    Whole(Bytes),
    Stream(Box<BodyStream>),
    /// The source has ended; all chunks have been handed to hyper.
    Drained,
}

impl HttpBody {
    /// `due` is the send deadline; `None` for long-running responses.
    pub(crate) fn new(
        content: BodyContent,
        unsent: Arc<PendingResponse>,
        due: Option<Instant>,
        record: Option<Box<AuditRecord>>,
    ) -> Self {
        if let Some(at) = due {
            set_send_deadline(&unsent, at);
        }
        Self {
            content,
            response: unsent,
            long_running: due.is_none(),
            _record: record,
        }
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<ResponseChunk>> {
        match &mut self.content {
            BodyContent::Whole(bytes) if bytes.is_empty() => return Poll::Ready(None),
            BodyContent::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                if bytes.len() <= UNCOUNTED_BYTES_MAX {
                    return Poll::Ready(Some(ResponseChunk::uncounted(bytes.into())));
                }
                self.content = BodyContent::Drained;
                return Poll::Ready(Some(self.response.chunk(bytes.into())));
            }
            BodyContent::Stream(pieces) => {
                if let Some(piece) = ready!(pieces.poll_next(cx)) {
                    return Poll::Ready(Some(match self.long_running {
                        true => ResponseChunk::uncounted(piece),
                        false => self.response.chunk(piece),
                    }));
                }
                // The source of the chunks is not needed while they are sent.
                self.content = BodyContent::Drained;
            }
            BodyContent::Drained => {}
        }
        self.response.poll_sent(cx).map(|()| None)
    }
}

impl http_body::Body for HttpBody {
    type Data = ResponseChunk;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<ResponseChunk>, Infallible>>> {
        let next = self.poll_chunk(cx);
        next.map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.content, BodyContent::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            BodyContent::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            BodyContent::Drained => SizeHint::with_exact(0),
            BodyContent::Stream(_) => SizeHint::default(),
        }
    }
}
