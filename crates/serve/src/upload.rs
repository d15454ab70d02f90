//! Reading what a client sends, but not more than we are willing to hold.

use crate::room::{Held, Room};
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::EXPECT;
use http_body::Body;
use optik_apiserver::BODY_BYTES_MAX;
use optik_object::Status;
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::timeout;

/// What is a little too long is received and thrown away; more is not worth it.
const DISCARDED_BYTES_MAX: u64 = 2 * BODY_BYTES_MAX as u64;
const DISCARDING_MAX: Duration = Duration::from_secs(1);

/// Shorter bodies need no room: as many as are carried out at a time fit.
const LONG_BYTES: usize = 64 * 1024;

/// And of those who are refused before anything is read.
const REFUSED_BYTES_MAX: u64 = 64 * 1024;
const REFUSED_MAX: Duration = Duration::from_millis(250);

/// Lets somebody who is refused finish sending, if that is little and soon: a stream that is
/// closed on what is being sent takes the answer with it, in some clients of HTTP/2.
pub(crate) async fn forget<B>(mut body: B, headers: &HeaderMap)
where
    B: Body<Data = Bytes, Error: std::fmt::Display> + Unpin,
{
    // Who asks first is not to send.
    let waits = headers.contains_key(EXPECT);
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

/// The whole body. A long one waits for room before it is read.
///
/// # Errors
/// 413 if it is too long, without keeping it if it says so itself; 400 if it breaks off.
pub(crate) async fn read<B>(mut body: B, room: &Room, user: &str) -> Result<Bytes, Status>
where
    B: Body<Data = Bytes, Error: std::fmt::Display> + Unpin,
{
    if body.is_end_stream() {
        return Ok(Bytes::new());
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
    let announced = usize::try_from(announced).unwrap_or(BODY_BYTES_MAX);
    if announced > LONG_BYTES {
        let held = room.hold(user, announced).await;
        return Ok(kept(
            held,
            rest(BytesMut::with_capacity(announced), body).await?,
        ));
    }
    // Most bodies come in one piece, which needs no copy.
    let Some(first) = piece(&mut body).await? else {
        return Ok(Bytes::new());
    };
    let Some(second) = piece(&mut body).await? else {
        return within(first.len()).map(|()| first);
    };
    let mut whole = BytesMut::from(first);
    whole.extend_from_slice(&second);
    while whole.len() <= LONG_BYTES {
        let Some(more) = piece(&mut body).await? else {
            return Ok(whole.freeze());
        };
        whole.extend_from_slice(&more);
    }
    // It did not say how long it would be.
    let held = room.hold(user, BODY_BYTES_MAX).await;
    Ok(kept(held, rest(whole, body).await?))
}

async fn rest<B>(mut whole: BytesMut, mut body: B) -> Result<Bytes, Status>
where
    B: Body<Data = Bytes, Error: std::fmt::Display> + Unpin,
{
    within(whole.len())?;
    while let Some(more) = piece(&mut body).await? {
        within(whole.len() + more.len())?;
        whole.extend_from_slice(&more);
    }
    Ok(whole.freeze())
}

fn kept(held: Option<Held>, body: Bytes) -> Bytes {
    match held {
        Some(held) => held.keep(body),
        None => body,
    }
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
