//! Reading what a client sends, but not more than we are willing to hold.

use crate::flow::Full;
use crate::memory::{Memory, Room};
use crate::options::Limits;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::Body;
use optik_access::User;
use optik_apiserver::BODY_BYTES_MAX;
use optik_object::Status;
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::timeout;

/// What is a little too long is received and thrown away; more is not worth it.
const DISCARDED_BYTES_MAX: u64 = 2 * BODY_BYTES_MAX as u64;
const DISCARDING_MAX: Duration = Duration::from_secs(1);

/// And of those who are refused before anything is read.
const REFUSED_BYTES_MAX: u64 = 64 * 1024;
const REFUSED_MAX: Duration = Duration::from_millis(250);

/// Lets somebody who is refused finish sending, if that is little and soon: a stream that is
/// closed on what is being sent takes the answer with it, in some clients of HTTP/2. Who
/// waits to be asked for the body is not to send it.
async fn forget<B>(mut body: B, waits: bool)
where
    B: Body<Data = Bytes, Error: std::fmt::Display> + Unpin,
{
    if waits || body.is_end_stream() || body.size_hint().lower() > REFUSED_BYTES_MAX {
        return;
    }
    let little = async {
        let mut left = REFUSED_BYTES_MAX;
        while let Ok(Some(piece)) = piece(&mut body).await {
            left = left.saturating_sub(piece.len() as u64);
            if left == 0 {
                return;
            }
        }
    };
    let _ = timeout(REFUSED_MAX, little).await;
}

/// Shorter requests are counted by their places.
const SHORT_BYTES_MAX: usize = 64 * 1024;
/// What a header takes beside its name and value, about.
const HEADER_BYTES: usize = 100;
/// What a request takes that waits, beside its head and body, about.
const WAITING_BYTES: usize = 8 * 1024;

/// What a head takes of our memory, about.
fn head_bytes(headers: &HeaderMap) -> usize {
    let each = headers.iter();
    each.map(|(name, value)| name.as_str().len() + value.len() + HEADER_BYTES)
        .sum()
}

/// Why a body is not received.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Those who wait take all the memory that is for them.
    Full,
    Bad(Status),
}

impl From<Full> for Refusal {
    fn from(_: Full) -> Self {
        Self::Full
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::Bad(status)
    }
}

/// What requests take of our memory.
#[derive(Debug)]
pub(crate) struct Uploads {
    /// Long ones that are received or worked on.
    working: Memory,
    /// Those who wait, for a place or for room among those. What a client sends is received
    /// meanwhile: unread it would not be counted by its user, but lie in its connection,
    /// and keep others on that from sending. Who finds no room here is to come again.
    waiting: Memory,
}

impl Uploads {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            working: Memory::new(limits.bodies_bytes_max, limits.bodies_per_user_bytes_max),
            waiting: Memory::new(limits.waiting_bytes_max, limits.waiting_per_user_bytes_max),
        }
    }
}

/// What comes behind the head of a request.
pub(crate) struct Upload<B> {
    body: B,
    head_bytes: usize,
    /// All of it, if it was received before its request had its turn.
    early: Option<Early>,
}

struct Early {
    body: Bytes,
    room: Option<Room>,
}

impl<B> Upload<B>
where
    B: Body<Data = Bytes, Error: std::fmt::Display> + Unpin,
{
    pub(crate) fn new(body: B, headers: &HeaderMap) -> Self {
        Self {
            body,
            head_bytes: head_bytes(headers),
            early: None,
        }
    }

    /// As [`forget`], for what is left of it.
    pub(crate) async fn forget(self, waits: bool) {
        forget(self.body, waits).await;
    }

    /// Receives all of it, for a request that has to wait.
    ///
    /// # Errors
    /// As [`Upload::take`].
    pub(crate) async fn wait(&mut self, uploads: &Uploads, user: &User) -> Result<(), Refusal> {
        if self.early.is_some() {
            return Ok(());
        }
        let expected = self.expected().await?;
        let bytes = WAITING_BYTES + self.head_bytes + expected;
        let room = uploads.waiting.at_once(user, bytes)?;
        let body = collect(&mut self.body).await?;
        // What comes in one piece may keep more than itself.
        let body = Bytes::copy_from_slice(&body);
        self.early = Some(Early { body, room });
        Ok(())
    }

    /// The whole body, and the room that it takes together with its head.
    ///
    /// # Errors
    /// 413 if it is too long, without keeping it if it says so itself; 400 if it breaks off.
    pub(crate) async fn take(
        &mut self,
        uploads: &Uploads,
        user: &User,
    ) -> Result<(Bytes, Option<Room>), Refusal> {
        if self.early.is_none() {
            let bytes = self.head_bytes + self.expected().await?;
            let room = match bytes > SHORT_BYTES_MAX {
                true => uploads.working.at_once(user, bytes),
                false => Ok(None),
            };
            match room {
                Ok(room) => return Ok((collect(&mut self.body).await?, room)),
                Err(Full) => self.wait(uploads, user).await?,
            }
        }
        let early = self.early.take();
        let Early { body, room: waited } = early.expect("it has been received");
        let bytes = self.head_bytes + body.len();
        let mut room = None;
        if bytes > SHORT_BYTES_MAX {
            room = uploads.working.room(user, bytes).await;
        }
        drop(waited);
        Ok((body, room))
    }

    /// How long it is, or may become.
    async fn expected(&mut self) -> Result<usize, Status> {
        let announced = self.body.size_hint().lower();
        if announced > BODY_BYTES_MAX as u64 {
            if announced <= DISCARDED_BYTES_MAX {
                // A client in the middle of sending reads no answer, and a connection that is
                // closed on what it sent takes the answer with it.
                let _ = timeout(DISCARDING_MAX, discard(&mut self.body)).await;
            }
            return Err(Status::body_too_large());
        }
        Ok(match self.body.size_hint().exact() {
            _ if self.body.is_end_stream() => 0,
            Some(exact) => exact as usize,
            // One that does not say how long it is may become as long as any.
            None => BODY_BYTES_MAX,
        })
    }
}

async fn collect<B>(body: &mut B) -> Result<Bytes, Status>
where
    B: Body<Data = Bytes, Error: std::fmt::Display> + Unpin,
{
    // Most bodies come in one piece, which needs no copy.
    let Some(first) = piece(body).await? else {
        return Ok(Bytes::new());
    };
    let Some(second) = piece(body).await? else {
        return within(first.len()).map(|()| first);
    };
    let mut whole = BytesMut::from(first);
    let mut next = Some(second);
    while let Some(more) = next {
        within(whole.len() + more.len())?;
        whole.extend_from_slice(&more);
        next = piece(body).await?;
    }
    Ok(whole.freeze())
}

async fn discard<B>(body: &mut B)
where
    B: Body<Data = Bytes, Error: std::fmt::Display> + Unpin,
{
    while let Ok(Some(_)) = piece(body).await {}
}

fn within(bytes: usize) -> Result<(), Status> {
    if bytes > BODY_BYTES_MAX {
        return Err(Status::body_too_large());
    }
    Ok(())
}

async fn piece<B>(body: &mut B) -> Result<Option<Bytes>, Status>
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
            // Trailers mean nothing to us.
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

    fn uploads() -> Uploads {
        Uploads::new(&Limits {
            bodies_bytes_max: 3 << 20,
            bodies_per_user_bytes_max: 1 << 20,
            waiting_bytes_max: 3 << 20,
            waiting_per_user_bytes_max: 1 << 20,
            ..Limits::default()
        })
    }

    fn upload(head_bytes: usize, body: usize) -> Upload<http_body_util::Full<Bytes>> {
        Upload {
            body: http_body_util::Full::new(Bytes::from(vec![b' '; body])),
            head_bytes,
            early: None,
        }
    }

    #[tokio::test]
    async fn what_is_long_takes_room() {
        let (uploads, kim) = (uploads(), user("kim"));
        for (head, body, counts) in [(200, 70_000, true), (70_000, 0, true), (200, 9_000, false)] {
            let (received, room) = upload(head, body).take(&uploads, &kim).await.unwrap();
            assert_eq!((received.len(), room.is_some()), (body, counts), "{head}");
        }
    }

    #[tokio::test]
    async fn whoever_waits_is_received_and_counted() {
        let (uploads, kim) = (uploads(), user("kim"));
        let working = upload(0, 1 << 20).take(&uploads, &kim).await.unwrap();
        // This one has a place, that one waits for it: both have come.
        let mut long = upload(0, 300_000);
        let mut placed = Box::pin(long.take(&uploads, &kim));
        assert!((&mut placed).now_or_never().is_none());
        let mut waiting = upload(0, 600_000);
        waiting.wait(&uploads, &kim).await.unwrap();
        for (head, body) in [(0, 200_000), (200_000, 0)] {
            let mut more = upload(head, body);
            let refused = more.wait(&uploads, &kim).await.unwrap_err();
            assert!(matches!(refused, Refusal::Full), "{refused:?}");
            let refused = upload(head, body).take(&uploads, &kim).await.unwrap_err();
            assert!(matches!(refused, Refusal::Full), "{refused:?}");
        }
        let eve = user("eve");
        upload(0, 200_000).wait(&uploads, &eve).await.unwrap();
        drop(working);
        let (body, room) = placed.await.unwrap();
        assert_eq!((body.len(), room.is_some()), (300_000, true));
        let (body, room) = waiting.take(&uploads, &kim).await.unwrap();
        assert_eq!((body.len(), room.is_some()), (600_000, true));
        upload(0, 900_000).wait(&uploads, &kim).await.unwrap();
    }
}
