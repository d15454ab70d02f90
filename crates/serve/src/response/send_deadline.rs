//! What an answer holds while it is sent, and when that has to be over.
//!
//! hyper takes an answer from its body as fast as the other end reads, and does not ask
//! the body again while the other end reads nothing. So a body cannot give itself up: the
//! task that sends it is told until when it may take ([`announce`]), and looks at that
//! whenever it has nothing else to do ([`SendTimer`]).

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

/// What is left to an answer that is ready when its time is over.
const SEND_TIME_MIN: Duration = Duration::from_secs(1);

/// What a request keeps others from using until its work is done and its answer is sent.
#[derive(Debug, Default)]
pub(crate) struct RequestPermits {
    pub(crate) inflight: Option<InflightPermit>,
    pub(crate) body_bytes: Option<BytePermit>,
}

/// An answer that has not been sent. Gone with its body and the last of its chunks.
#[derive(Debug)]
pub(crate) struct PendingResponse {
    _in_flight: RequestGuard,
    _held: RequestPermits,
    /// How many chunks are on their way.
    chunks: AtomicUsize,
    /// Of the body, when it waits for them.
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

    /// A part of the answer, which is unsent as long as that is.
    pub(crate) fn chunk(self: &Arc<Self>, piece: ByteRope) -> ResponseChunk {
        self.chunks.fetch_add(1, Ordering::Relaxed);
        ResponseChunk {
            piece,
            response: Some(Arc::clone(self)),
        }
    }
}

/// A part of an answer on its way to the wire.
#[derive(Debug)]
pub(crate) struct ResponseChunk {
    piece: ByteRope,
    response: Option<Arc<PendingResponse>>,
}

impl ResponseChunk {
    /// A part without which the answer counts as sent.
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

/// An answer, and when it has to be sent.
#[derive(Debug)]
struct SendDeadline {
    at: Instant,
    response: Weak<PendingResponse>,
}

thread_local! {
    /// The answer that began in the current poll of the current task.
    static CURRENT_RESPONSE: Cell<Option<SendDeadline>> = const { Cell::new(None) };
}

/// Tells the task that calls us when the answer has to be sent.
pub(crate) fn set_send_deadline(unsent: &Arc<PendingResponse>, at: Instant) {
    let at = at.max(Instant::now() + SEND_TIME_MIN);
    let unsent = Arc::downgrade(unsent);
    CURRENT_RESPONSE.set(Some(SendDeadline {
        at,
        response: unsent,
    }));
}

/// An answer was not sent in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("client did not read the response before its send deadline")]
pub(crate) struct SendTimeout;

/// Of the answer that a task is sending.
#[derive(Debug, Default)]
pub(crate) struct SendTimer {
    due: Option<SendDeadline>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl SendTimer {
    /// Polls what answers requests and sends the answers, one at a time.
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
    /// A task that answers one request; ends early if the answer is not sent in time.
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
