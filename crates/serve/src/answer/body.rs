//! The body type that hyper is given.

use super::pieces::Pieces;
use crate::audit::Record;
use crate::peers::InFlight;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use optik_apiserver::Piece;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Known at once, or coming in pieces. The request counts as in flight until it is gone.
pub(crate) struct Body {
    content: Content,
    _in_flight: InFlight,
    /// What is written down about it when it ends.
    _record: Option<Box<Record>>,
}

pub(crate) enum Content {
    /// Empty when it has been taken.
    Whole(Bytes),
    Pieces(Box<Pieces>),
}

impl Body {
    pub(crate) fn new(content: Content, in_flight: InFlight, record: Option<Box<Record>>) -> Self {
        Self {
            content,
            _in_flight: in_flight,
            _record: record,
        }
    }
}

impl http_body::Body for Body {
    type Data = Piece;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, Infallible>>> {
        let next = match &mut self.content {
            Content::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Content::Whole(bytes) => Poll::Ready(Some(std::mem::take(bytes).into())),
            Content::Pieces(pieces) => pieces.poll_next(cx),
        };
        next.map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.content, Content::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Pieces(_) => SizeHint::default(),
        }
    }
}
