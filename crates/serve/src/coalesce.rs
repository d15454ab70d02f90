//! Write coalescing: the small writes of one connection are gathered into one system call.
//!
//! The HTTP/2 implementation passes every frame to the socket by itself. A hundred watches on one
//! connection would cost a hundred system calls for each event; coalesced, they cost one. The
//! buffer is flushed when the connection has no more output for the moment:
//! [`FlushHandle::poll_flush_buffer`] is called after each poll of the connection.

use crate::connection::WRITE_BYTES_MAX;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The size limit of the buffer.
const COALESCED_BYTES_MAX: usize = WRITE_BYTES_MAX;

/// A stream whose writes are buffered; see [`FlushHandle`].
pub(crate) struct CoalescingWriter<S>(FlushHandle<S>);

/// The handle that flushes the buffer of a [`CoalescingWriter`].
pub(crate) struct FlushHandle<S>(Arc<Mutex<CoalescingBuffer<S>>>);

struct CoalescingBuffer<S> {
    stream: S,
    /// The buffer; the bytes from `sent` on have not been written.
    waiting: Vec<u8>,
    sent: usize,
}

pub(crate) fn coalesce<S>(stream: S) -> (CoalescingWriter<S>, FlushHandle<S>) {
    let inner = CoalescingBuffer {
        stream,
        waiting: Vec::new(),
        sent: 0,
    };
    let shared = Arc::new(Mutex::new(inner));
    (
        CoalescingWriter(FlushHandle(Arc::clone(&shared))),
        FlushHandle(shared),
    )
}

impl<S> FlushHandle<S> {
    /// Both handles belong to one task, so the lock is never contended.
    fn lock(&self) -> MutexGuard<'_, CoalescingBuffer<S>> {
        self.0.lock().expect("no holder of this lock panics")
    }
}

impl<S: AsyncWrite + Unpin> FlushHandle<S> {
    /// Writes the whole buffer to the stream.
    pub(crate) fn poll_flush_buffer(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.lock().poll_flush_buffer(cx)
    }
}

impl<S: AsyncWrite + Unpin> CoalescingBuffer<S> {
    fn poll_flush_buffer(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.waiting.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while self.sent < self.waiting.len() {
            let rest = &self.waiting[self.sent..];
            let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += sent;
        }
        self.waiting.clear();
        self.sent = 0;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// How many more bytes may be buffered; pending while the buffer is full.
    fn poll_capacity(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.waiting.len() >= COALESCED_BYTES_MAX {
            ready!(self.poll_flush_buffer(cx))?;
        }
        Poll::Ready(Ok(COALESCED_BYTES_MAX - self.waiting.len()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CoalescingWriter<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CoalescingWriter<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut inner = self.0.lock();
        let room = ready!(inner.poll_capacity(cx))?;
        let mut taken = 0;
        for part in parts {
            let length = part.len().min(room - taken);
            inner.waiting.extend_from_slice(&part[..length]);
            taken += length;
        }
        Poll::Ready(Ok(taken))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: the flush follows the current poll of the connection.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.0.lock();
        ready!(inner.poll_flush_buffer(cx))?;
        Pin::new(&mut inner.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test]
    async fn coalesced_writes_are_sent_together() {
        let (near, mut far) = duplex(1024);
        let (mut gathering, gathered) = coalesce(near);
        gathering.write_all(b"one ").await.expect("there is room");
        gathering.flush().await.expect("nothing to do");
        gathering.write_all(b"two").await.expect("there is room");
        let mut seen = [0; 16];
        let early = futures::poll!(std::pin::pin!(far.read(&mut seen)));
        assert!(early.is_pending(), "nothing was sent yet");
        let sent = poll_fn(|cx| gathered.poll_flush_buffer(cx)).await;
        sent.expect("the other end reads");
        let length = far.read(&mut seen).await.expect("something was sent");
        assert_eq!(&seen[..length], b"one two");
    }

    /// The buffer is bounded when the client reads slowly, and shutdown flushes all of it.
    #[tokio::test]
    async fn coalescing_buffer_is_bounded_and_flushed_at_shutdown() {
        let (near, mut far) = duplex(1000);
        let (mut gathering, gathered) = coalesce(near);
        let bytes: Vec<u8> = (0..3 * COALESCED_BYTES_MAX).map(|at| at as u8).collect();
        let copy = bytes.clone();
        // Spawned here: it belongs to one connection, and ends with it.
        let writer = tokio::spawn(async move {
            gathering.write_all(&copy).await?;
            gathering.shutdown().await
        });
        let mut seen = Vec::new();
        far.read_to_end(&mut seen).await.expect("it ends");
        writer.await.expect("no panic").expect("no error");
        assert!(seen == bytes);
        let most = gathered.lock().waiting.capacity();
        assert!(most <= 2 * COALESCED_BYTES_MAX, "{most}");
    }
}
