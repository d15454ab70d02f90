//! Reception of request bodies within size limits and memory budgets.

use crate::byte_budget::{ByteBudget, BytePermit};
use crate::max_in_flight::Overloaded;
use crate::options::Limits;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::Body;
use optik_apiserver::BODY_BYTES_MAX;
use optik_auth::User;
use optik_object::Status;
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::timeout;

/// A body that exceeds the limit by this much is received and discarded, so that the client reads
/// the 413; a longer one is not.
const DISCARDED_BYTES_MAX: u64 = 2 * BODY_BYTES_MAX as u64;
const DISCARD_TIME_MAX: Duration = Duration::from_secs(1);

/// The limits of what is drained for requests that are rejected before their body is read.
const DRAINED_BYTES_MAX: u64 = 64 * 1024;
const DRAIN_TIME_MAX: Duration = Duration::from_millis(250);

/// Reads and discards the rest of the body of a rejected request, within limits: some HTTP/2
/// clients lose the response when their stream is closed while they send. Nothing is read from a
/// client that waits for `100 Continue`.
async fn drain<B>(mut body: B, waits: bool)
where
    B: Body<Data = Bytes, Error: std::fmt::Display> + Unpin,
{
    if waits || body.is_end_stream() || body.size_hint().lower() > DRAINED_BYTES_MAX {
        return;
    }
    let little = async {
        let mut left = DRAINED_BYTES_MAX;
        while let Ok(Some(piece)) = next_chunk(&mut body).await {
            left = left.saturating_sub(piece.len() as u64);
            if left == 0 {
                return;
            }
        }
    };
    let _ = timeout(DRAIN_TIME_MAX, little).await;
}

/// Bodies up to this size are not budgeted; the in-flight limit bounds them.
const UNBUDGETED_BYTES_MAX: usize = 64 * 1024;
/// Estimated memory of a header beside its name and value.
const HEADER_OVERHEAD_BYTES: usize = 100;
/// Estimated memory of a waiting request beside its head and body.
const WAITING_OVERHEAD_BYTES: usize = 8 * 1024;

/// Estimated memory of a request head.
fn head_bytes(headers: &HeaderMap) -> usize {
    let each = headers.iter();
    each.map(|(name, value)| name.as_str().len() + value.len() + HEADER_OVERHEAD_BYTES)
        .sum()
}

/// Why a body is not received.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// The memory budget of waiting requests is used up.
    Overloaded,
    Invalid(Status),
}

impl From<Overloaded> for BodyError {
    fn from(_: Overloaded) -> Self {
        Self::Overloaded
    }
}

impl From<Status> for BodyError {
    fn from(status: Status) -> Self {
        Self::Invalid(status)
    }
}

/// The memory budgets of requests.
#[derive(Debug)]
pub(crate) struct BodyBudgets {
    /// Budget of long bodies that are received or worked on.
    working: ByteBudget,
    /// Budget of requests that wait for an in-flight permit or for the `working` budget. Their
    /// bodies are received while they wait: unread bytes would not count against their user, would
    /// occupy the window of the connection, and would block its other streams. A request that
    /// exceeds this budget gets 429.
    waiting: ByteBudget,
}

impl BodyBudgets {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            working: ByteBudget::new(limits.bodies_bytes_max, limits.bodies_per_user_bytes_max),
            waiting: ByteBudget::new(limits.waiting_bytes_max, limits.waiting_per_user_bytes_max),
        }
    }
}

/// The body of a request.
pub(crate) struct RequestBody<B> {
    body: B,
    head_bytes: usize,
    /// The whole body, if it was received while its request was waiting.
    buffered: Option<BufferedBody>,
}

struct BufferedBody {
    body: Bytes,
    permit: Option<BytePermit>,
}

impl<B> RequestBody<B>
where
    B: Body<Data = Bytes, Error: std::fmt::Display> + Unpin,
{
    pub(crate) fn new(body: B, headers: &HeaderMap) -> Self {
        Self {
            body,
            head_bytes: head_bytes(headers),
            buffered: None,
        }
    }

    /// Reads and discards the rest of the body, as [`drain`] does.
    pub(crate) async fn drain(self, waits: bool) {
        drain(self.body, waits).await;
    }

    /// Receives the whole body of a request that has to wait.
    ///
    /// # Errors
    /// As [`RequestBody::receive`].
    pub(crate) async fn buffer(
        &mut self,
        uploads: &BodyBudgets,
        user: &User,
    ) -> Result<(), BodyError> {
        if self.buffered.is_some() {
            return Ok(());
        }
        let expected = self.expected_bytes().await?;
        let bytes = WAITING_OVERHEAD_BYTES + self.head_bytes + expected;
        let room = uploads.waiting.try_acquire(user, bytes)?;
        let body = collect(&mut self.body).await?;
        // A body in one chunk may keep a larger buffer alive.
        let body = Bytes::copy_from_slice(&body);
        self.buffered = Some(BufferedBody { body, permit: room });
        Ok(())
    }

    /// The whole body, and the permit for the memory of body and head.
    ///
    /// # Errors
    /// 413 if it is too long, at once if its `Content-Length` says so; 400 if it breaks off.
    pub(crate) async fn receive(
        &mut self,
        uploads: &BodyBudgets,
        user: &User,
    ) -> Result<(Bytes, Option<BytePermit>), BodyError> {
        if self.buffered.is_none() {
            let bytes = self.head_bytes + self.expected_bytes().await?;
            let room = match bytes > UNBUDGETED_BYTES_MAX {
                true => uploads.working.try_acquire(user, bytes),
                false => Ok(None),
            };
            match room {
                Ok(room) => return Ok((collect(&mut self.body).await?, room)),
                Err(Overloaded) => self.buffer(uploads, user).await?,
            }
        }
        let early = self.buffered.take();
        let BufferedBody {
            body,
            permit: waited,
        } = early.expect("it has been received");
        let bytes = self.head_bytes + body.len();
        let mut room = None;
        if bytes > UNBUDGETED_BYTES_MAX {
            room = uploads.working.acquire(user, bytes).await;
        }
        drop(waited);
        Ok((body, room))
    }

    /// The announced length, or the maximum if none is announced.
    async fn expected_bytes(&mut self) -> Result<usize, Status> {
        let announced = self.body.size_hint().lower();
        if announced > BODY_BYTES_MAX as u64 {
            if announced <= DISCARDED_BYTES_MAX {
                // A client in the middle of sending does not read the response, and closing the
                // connection with unread bytes loses the response.
                let _ = timeout(DISCARD_TIME_MAX, discard(&mut self.body)).await;
            }
            return Err(Status::body_too_large());
        }
        Ok(match self.body.size_hint().exact() {
            _ if self.body.is_end_stream() => 0,
            Some(exact) => exact as usize,
            // A body without an announced length may reach the maximum.
            None => BODY_BYTES_MAX,
        })
    }
}

async fn collect<B>(body: &mut B) -> Result<Bytes, Status>
where
    B: Body<Data = Bytes, Error: std::fmt::Display> + Unpin,
{
    // Most bodies come in one chunk, which needs no copy.
    let Some(first) = next_chunk(body).await? else {
        return Ok(Bytes::new());
    };
    let Some(second) = next_chunk(body).await? else {
        return check_length(first.len()).map(|()| first);
    };
    let mut whole = BytesMut::from(first);
    let mut next = Some(second);
    while let Some(more) = next {
        check_length(whole.len() + more.len())?;
        whole.extend_from_slice(&more);
        next = next_chunk(body).await?;
    }
    Ok(whole.freeze())
}

async fn discard<B>(body: &mut B)
where
    B: Body<Data = Bytes, Error: std::fmt::Display> + Unpin,
{
    while let Ok(Some(_)) = next_chunk(body).await {}
}

fn check_length(bytes: usize) -> Result<(), Status> {
    if bytes > BODY_BYTES_MAX {
        return Err(Status::body_too_large());
    }
    Ok(())
}

async fn next_chunk<B>(body: &mut B) -> Result<Option<Bytes>, Status>
where
    B: Body<Data = Bytes, Error: std::fmt::Display> + Unpin,
{
    loop {
        match poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
            None => return Ok(None),
            Some(Err(error)) => {
                return Err(Status::bad_request(format!(
                    "cannot read the body: {error}"
                )));
            }
            // Trailers are ignored.
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn user(name: &str) -> User {
        User {
            name: name.into(),
            ..User::default()
        }
    }

    fn uploads() -> BodyBudgets {
        BodyBudgets::new(&Limits {
            bodies_bytes_max: 3 << 20,
            bodies_per_user_bytes_max: 1 << 20,
            waiting_bytes_max: 3 << 20,
            waiting_per_user_bytes_max: 1 << 20,
            ..Limits::default()
        })
    }

    fn upload(head_bytes: usize, body: usize) -> RequestBody<http_body_util::Full<Bytes>> {
        RequestBody {
            body: http_body_util::Full::new(Bytes::from(vec![b' '; body])),
            head_bytes,
            buffered: None,
        }
    }

    #[tokio::test]
    async fn long_request_bodies_take_byte_budget() {
        let (uploads, kim) = (uploads(), user("kim"));
        for (head, body, counts) in [(200, 70_000, true), (70_000, 0, true), (200, 9_000, false)] {
            let (received, room) = upload(head, body).receive(&uploads, &kim).await.unwrap();
            assert_eq!((received.len(), room.is_some()), (body, counts), "{head}");
        }
    }

    #[tokio::test]
    async fn queued_request_bodies_are_buffered_and_budgeted() {
        let (uploads, kim) = (uploads(), user("kim"));
        let working = upload(0, 1 << 20).receive(&uploads, &kim).await.unwrap();
        // `placed` has its permit, `waiting` waits for one: both bodies have been received.
        let mut long = upload(0, 300_000);
        let mut placed = Box::pin(long.receive(&uploads, &kim));
        assert!((&mut placed).now_or_never().is_none());
        let mut waiting = upload(0, 600_000);
        waiting.buffer(&uploads, &kim).await.unwrap();
        for (head, body) in [(0, 200_000), (200_000, 0)] {
            let mut more = upload(head, body);
            let refused = more.buffer(&uploads, &kim).await.unwrap_err();
            assert!(matches!(refused, BodyError::Overloaded), "{refused:?}");
            let refused = upload(head, body)
                .receive(&uploads, &kim)
                .await
                .unwrap_err();
            assert!(matches!(refused, BodyError::Overloaded), "{refused:?}");
        }
        let eve = user("eve");
        upload(0, 200_000).buffer(&uploads, &eve).await.unwrap();
        drop(working);
        let (body, room) = placed.await.unwrap();
        assert_eq!((body.len(), room.is_some()), (300_000, true));
        let (body, room) = waiting.receive(&uploads, &kim).await.unwrap();
        assert_eq!((body.len(), room.is_some()), (600_000, true));
        upload(0, 900_000).buffer(&uploads, &kim).await.unwrap();
    }
}
