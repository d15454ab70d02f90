//! The send deadline of a response, and the permits that it holds until it is sent.
//!
//! hyper takes chunks from a body as fast as the client reads, and does not poll the body while the
//! client reads nothing. So a body cannot time out by itself: the task that sends it is given the
//! deadline ([`set_send_deadline`]) and checks it whenever it is pending ([`SendTimer`]).

use crate::byte_budget::BytePermit;
use crate::connection_table::RequestGuard;
use crate::max_in_flight::InflightPermit;
use bytes::{Buf, Bytes};
use futures::task::AtomicWaker;
use optik_apiserver::ByteRope;
use pin_project_lite::pin_project;
use std::cell::Cell;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// The minimum time to send a response that is ready at its deadline.
const SEND_TIME_MIN: Duration = Duration::from_secs(1);

/// The permits that a request holds until its work is done and its response is sent.
#[derive(Debug, Default)]
pub(crate) struct RequestPermits {
    pub(crate) inflight: Option<InflightPermit>,
    pub(crate) body_bytes: Option<BytePermit>,
}

/// A response that has not been sent completely. Dropped with its body and the last of its chunks.
#[derive(Debug)]
pub(crate) struct PendingResponse {
    _in_flight: RequestGuard,
    _held: RequestPermits,
    /// The number of chunks that are not yet sent.
    chunks: AtomicUsize,
    /// The waker of the body while it waits for the chunks.
    waker: AtomicWaker,
}

impl PendingResponse {
    pub(crate) fn new(in_flight: RequestGuard, held: RequestPermits) -> Arc<Self> {
        Arc::new(Self {
            _in_flight: in_flight,
            _held: held,
            chunks: AtomicUsize::new(0),
            waker: AtomicWaker::new(),
        })
    }

    /// Completes when all chunks are sent.
    pub(crate) fn poll_sent(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.waker.register(cx.waker());
        match self.chunks.load(Ordering::Acquire) {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }

    /// A chunk of the response; the response counts as unsent until the chunk is dropped.
    pub(crate) fn chunk(self: &Arc<Self>, piece: ByteRope) -> ResponseChunk {
        self.chunks.fetch_add(1, Ordering::Relaxed);
        ResponseChunk {
            piece,
            response: Some(Arc::clone(self)),
        }
    }
}

/// A chunk of a response on its way to the socket.
#[derive(Debug)]
pub(crate) struct ResponseChunk {
    piece: ByteRope,
    response: Option<Arc<PendingResponse>>,
}

impl ResponseChunk {
    /// A chunk that does not count: the response can be sent without it.
    pub(crate) fn uncounted(piece: ByteRope) -> Self {
        Self {
            piece,
            response: None,
        }
    }
}

impl Drop for ResponseChunk {
    fn drop(&mut self) {
        if let Some(unsent) = self.response.take()
            && unsent.chunks.fetch_sub(1, Ordering::AcqRel) == 1
        {
            unsent.waker.wake();
        }
    }
}

impl Buf for ResponseChunk {
    fn remaining(&self) -> usize {
        self.piece.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.piece.chunk()
    }

    fn chunks_vectored<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        self.piece.chunks_vectored(into)
    }

    fn advance(&mut self, count: usize) {
        self.piece.advance(count);
    }

    fn copy_to_bytes(&mut self, count: usize) -> Bytes {
        self.piece.copy_to_bytes(count)
    }
}

/// A response and its send deadline.
#[derive(Debug)]
struct SendDeadline {
    at: Instant,
    response: Weak<PendingResponse>,
}

thread_local! {
    /// The response that began in the current poll of the current task.
    static CURRENT_RESPONSE: Cell<Option<SendDeadline>> = const { Cell::new(None) };
}

/// Sets the send deadline for the task that is polling.
pub(crate) fn set_send_deadline(unsent: &Arc<PendingResponse>, at: Instant) {
    let at = at.max(Instant::now() + SEND_TIME_MIN);
    let unsent = Arc::downgrade(unsent);
    CURRENT_RESPONSE.set(Some(SendDeadline {
        at,
        response: unsent,
    }));
}

/// The response was not sent in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("client did not read the response before its send deadline")]
pub(crate) struct SendTimeout;

/// The send deadline of the response that a task is sending.
#[derive(Debug, Default)]
pub(crate) struct SendTimer {
    due: Option<SendDeadline>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl SendTimer {
    /// Polls a future that answers requests and sends the responses, one at a time.
    pub(crate) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, SendTimeout>> {
        let polled = work(cx);
        if let Some(due) = CURRENT_RESPONSE.take() {
            self.due = Some(due);
            self.timer = None;
        }
        if let Poll::Ready(done) = polled {
            return Poll::Ready(Ok(done));
        }
        let Some(due) = &self.due else {
            return Poll::Pending;
        };
        if due.response.strong_count() == 0 {
            *self = Self::default();
            return Poll::Pending;
        }
        let at = due.at;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
        timer.as_mut().poll(cx).map(|()| Err(SendTimeout))
    }
}

pin_project! {
    /// A task that serves one request; it ends early if the response is not sent in time.
    pub(crate) struct WithSendDeadline<F> {
        #[pin]
        task: F,
        deadline: SendTimer,
    }
}

impl<F> WithSendDeadline<F> {
    pub(crate) fn new(task: F) -> Self {
        Self {
            task,
            deadline: SendTimer::default(),
        }
    }
}

impl<F: Future> Future for WithSendDeadline<F> {
    type Output = Result<F::Output, SendTimeout>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let own = self.project();
        own.deadline.poll(cx, |cx| own.task.poll(cx))
    }
}
