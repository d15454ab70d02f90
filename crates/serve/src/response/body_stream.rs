//! A streamed response body: indentation, compression and the end of the stream.

use super::indent::Indenter;
use bytes::{Buf, Bytes};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use optik_apiserver::ByteRope;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::Write;
use std::task::{Context, Poll, ready};

/// Speed before size: a client that reads so much is likely to be near.
const GZIP_LEVEL: Compression = Compression::fast();

/// Chunks from the handler, indented and compressed as requested. The end of the source, or of the
/// server, ends the stream cleanly.
pub(crate) struct BodyStream {
    source: BoxStream<'static, ByteRope>,
    stop: Option<BoxFuture<'static, ()>>,
    indenter: Option<Indenter>,
    /// Chunks that were taken from the source and indented already.
    buffered: VecDeque<ByteRope>,
    gzip: GzipState,
}

enum GzipState {
    Off,
    Active(Box<GzEncoder<Vec<u8>>>),
    Finished,
}

impl BodyStream {
    pub(crate) fn new(source: BoxStream<'static, ByteRope>) -> Self {
        Self {
            source,
            stop: None,
            indenter: None,
            buffered: VecDeque::new(),
            gzip: GzipState::Off,
        }
    }

    pub(crate) fn indented(mut self) -> Self {
        self.indenter = Some(Indenter::default());
        self
    }

    /// Ends the stream when `stop` completes, even if the source has more.
    pub(crate) fn until(mut self, stop: BoxFuture<'static, ()>) -> Self {
        self.stop = Some(stop);
        self
    }

    pub(crate) fn compressed(mut self) -> Self {
        let encoder = GzEncoder::new(Vec::new(), GZIP_LEVEL);
        self.gzip = GzipState::Active(Box::new(encoder));
        self
    }

    /// Reads ahead until more than `bytes` are buffered; if the body is shorter, returns the whole
    /// body as `Err`.
    pub(crate) async fn buffer_more_than(mut self, bytes: usize) -> Result<Self, Bytes> {
        let mut held = 0;
        while held <= bytes {
            let Some(piece) = poll_fn(|cx| self.poll_source(cx)).await else {
                return Err(concat(self.buffered));
            };
            held += piece.remaining();
            self.buffered.push_back(piece);
        }
        Ok(self)
    }

    /// The next chunk, indented.
    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Option<ByteRope>> {
        loop {
            let piece = match self.source.as_mut().poll_next(cx) {
                Poll::Ready(piece) => piece,
                Poll::Pending => return self.poll_stop(cx),
            };
            let (Some(piece), Some(indenter)) = (&piece, &mut self.indenter) else {
                return Poll::Ready(piece);
            };
            let mut out = Vec::with_capacity(piece.remaining() * 2);
            piece
                .chunks()
                .for_each(|part| indenter.push(part, &mut out));
            if !out.is_empty() {
                return Poll::Ready(Some(out.into()));
            }
        }
    }

    fn poll_stop(&mut self, cx: &mut Context<'_>) -> Poll<Option<ByteRope>> {
        match &mut self.stop {
            Some(stop) => stop.as_mut().poll(cx).map(|()| None),
            None => Poll::Pending,
        }
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<ByteRope>> {
        loop {
            let piece = match self.buffered.pop_front() {
                Some(piece) => Some(piece),
                None if matches!(self.gzip, GzipState::Finished) => None,
                None => ready!(self.poll_source(cx)),
            };
            let GzipState::Active(encoder) = &mut self.gzip else {
                return Poll::Ready(piece);
            };
            let out = match piece {
                Some(piece) => {
                    for part in piece.chunks() {
                        encoder.write_all(part).expect("a vector takes everything");
                    }
                    std::mem::take(encoder.get_mut())
                }
                None => {
                    encoder.try_finish().expect("a vector takes everything");
                    let out = std::mem::take(encoder.get_mut());
                    self.gzip = GzipState::Finished;
                    out
                }
            };
            if !out.is_empty() {
                return Poll::Ready(Some(out.into()));
            }
        }
    }
}

fn concat(pieces: VecDeque<ByteRope>) -> Bytes {
    match <[ByteRope; 1]>::try_from(Vec::from(pieces)) {
        Ok([one]) => one.into_bytes(),
        Err(many) => {
            let parts: Vec<&[u8]> = many.iter().flat_map(ByteRope::chunks).collect();
            parts.concat().into()
        }
    }
}
