//! Reading what a client sends, but not more than we are willing to hold.

use crate::options::Limits;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::Body;
use optik_access::User;
use optik_apiserver::BODY_BYTES_MAX;
use optik_object::Status;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
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
pub(crate) async fn forget<B>(mut body: B, waits: bool)
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

/// What long requests take of our memory: so much in all, and so much for each user. Who
/// finds no room waits, behind requests of their own first.
#[derive(Debug)]
pub(crate) struct Uploads {
    all: Arc<Semaphore>,
    /// Users who have room, or wait for it.
    users: Mutex<BTreeMap<String, Weak<Semaphore>>>,
    all_kib: u32,
    user_kib: u32,
}

/// Room for a body, until it is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    _all: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
}

impl Uploads {
    pub(crate) fn new(limits: &Limits) -> Self {
        let kib = |bytes: usize| u32::try_from(bytes / 1024).unwrap_or(u32::MAX);
        let all_kib = kib(limits.bodies_bytes_max);
        Self {
            all: Arc::new(Semaphore::new(all_kib as usize)),
            users: Mutex::default(),
            all_kib,
            user_kib: kib(limits.bodies_per_user_bytes_max).min(all_kib),
        }
    }

    /// Room for so many bytes. Administrators need none, as they need no place.
    async fn room(&self, user: &User, bytes: usize) -> Option<Room> {
        if user.is_master() {
            return None;
        }
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        // The user's own room first: who has a share of everybody's waits for nothing.
        let own = self.of_user(&user.name);
        let own = own.acquire_many_owned(kib.min(self.user_kib)).await;
        let all = Arc::clone(&self.all);
        let all = all.acquire_many_owned(kib.min(self.all_kib)).await;
        let (Ok(own), Ok(all)) = (own, all) else {
            unreachable!("these semaphores are never closed")
        };
        Some(Room {
            _all: all,
            _own: own,
        })
    }

    fn of_user(&self, name: &str) -> Arc<Semaphore> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = users.get(name).and_then(Weak::upgrade) {
            return known;
        }
        users.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(self.user_kib as usize));
        users.insert(name.to_owned(), Arc::downgrade(&own));
        own
    }
}

/// What a head takes of our memory, about.
pub(crate) fn head_bytes(headers: &HeaderMap) -> usize {
    let each = headers.iter();
    each.map(|(name, value)| name.as_str().len() + value.len() + HEADER_BYTES)
        .sum()
}

/// The whole body, and the room that it takes together with its head.
///
/// # Errors
/// 413 if it is too long, without keeping it if it says so itself; 400 if it breaks off.
pub(crate) async fn read<B>(
    mut body: B,
    head_bytes: usize,
    uploads: &Uploads,
    user: &User,
) -> Result<(Bytes, Option<Room>), Status>
where
    B: Body<Data = Bytes, Error: std::fmt::Display> + Unpin,
{
    if body.is_end_stream() && head_bytes <= SHORT_BYTES_MAX {
        return Ok((Bytes::new(), None));
    }
    let announced = body.size_hint().lower();
    if announced > BODY_BYTES_MAX as u64 {
        if announced <= DISCARDED_BYTES_MAX {
            // A client in the middle of sending reads no answer, and a connection that is
            // closed on what it sent takes the answer with it.
            let _ = timeout(DISCARDING_MAX, discard(&mut body)).await;
        }
        return Err(Status::body_too_large());
    }
    // One that does not say how long it is may become as long as any.
    let expected = match body.size_hint().exact() {
        Some(exact) => exact as usize,
        None => BODY_BYTES_MAX,
    };
    let mut room = None;
    if head_bytes + expected > SHORT_BYTES_MAX {
        room = uploads.room(user, head_bytes + expected).await;
    }
    Ok((collect(body).await?, room))
}

async fn collect<B>(mut body: B) -> Result<Bytes, Status>
where
    B: Body<Data = Bytes, Error: std::fmt::Display> + Unpin,
{
    // Most bodies come in one piece, which needs no copy.
    let Some(first) = piece(&mut body).await? else {
        return Ok(Bytes::new());
    };
    let Some(second) = piece(&mut body).await? else {
        return within(first.len()).map(|()| first);
    };
    let mut whole = BytesMut::from(first);
    let mut next = Some(second);
    while let Some(more) = next {
        within(whole.len() + more.len())?;
        whole.extend_from_slice(&more);
        next = piece(&mut body).await?;
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

    /// What a user sends waits behind what they sent before; others wait for everybody.
    #[tokio::test]
    async fn long_bodies_have_bounded_room() {
        let uploads = Uploads::new(&Limits {
            bodies_bytes_max: 3 << 20,
            bodies_per_user_bytes_max: 2 << 20,
            ..Limits::default()
        });
        let room = |name: &'static str, mib: usize| {
            let uploads = &uploads;
            async move { uploads.room(&user(name), mib << 20).await.is_some() }
        };
        let (kim, eve) = (user("kim"), user("eve"));
        let first = uploads.room(&kim, 2 << 20).now_or_never().unwrap().unwrap();
        assert!(
            room("kim", 1).now_or_never().is_none(),
            "that was her share"
        );
        let second = uploads.room(&eve, 1 << 20).now_or_never().unwrap();
        assert!(room("eve", 1).now_or_never().is_none(), "nobody has room");
        drop((first, second));
        for (head, body, counts) in [(200, 70_000, true), (70_000, 0, true), (200, 9_000, false)] {
            let body = http_body_util::Full::new(Bytes::from(vec![b' '; body]));
            let (_, room) = read(body, head, &uploads, &kim).await.unwrap();
            assert_eq!(room.is_some(), counts, "{head}");
        }
        // Larger than the share of a user: alone, but not never.
        assert_eq!(room("kim", 5).now_or_never(), Some(true));
        let admin = user("admin").and_in(optik_access::MASTERS);
        let unbounded = uploads.room(&admin, 100 << 20).now_or_never();
        assert!(unbounded.unwrap().is_none(), "administrators need none");
        assert_eq!(room("kim", 1).now_or_never(), Some(true));
        assert_eq!(
            uploads.users.lock().unwrap().len(),
            1,
            "others are forgotten"
        );
    }
}
