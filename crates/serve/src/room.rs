//! Room for long bodies: what all of them may take while they are read and carried out.

use bytes::Bytes;
use optik_apiserver::BODY_BYTES_MAX;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const KIB: usize = 1024;
/// All long bodies together.
const ALL_BYTES_MAX: usize = 10 * BODY_BYTES_MAX;
/// And those of one user, so that who sends slowly keeps nobody but themselves waiting.
const USER_BYTES_MAX: usize = ALL_BYTES_MAX / 5;
/// Users who have nothing are forgotten when there are so many.
const USERS_MAX: usize = 1024;

pub(crate) struct Room {
    /// In KiB, as all permits.
    all: Arc<Semaphore>,
    users: Mutex<BTreeMap<Arc<str>, Weak<Semaphore>>>,
}

/// A part of the room. It is free again when this goes.
pub(crate) struct Held {
    _of_user: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
    /// Known as long as somebody holds a part.
    _user: Arc<Semaphore>,
}

/// A body that keeps its room until the last copy of it goes.
struct Kept {
    bytes: Bytes,
    _held: Held,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Default for Room {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(ALL_BYTES_MAX / KIB)),
            users: Mutex::default(),
        }
    }
}

impl Room {
    /// Waits for room for a body. It is asked for once, before the body is read: who holds a
    /// part and waits for more would wait for ever.
    pub(crate) async fn hold(&self, user: &str, bytes: usize) -> Option<Held> {
        let kib = u32::try_from(bytes.min(BODY_BYTES_MAX).div_ceil(KIB)).ok()?;
        let of = self.user(user);
        // That of the user first: who waits for it holds nothing that others want.
        let of_user = Arc::clone(&of).acquire_many_owned(kib).await.ok()?;
        let of_all = Arc::clone(&self.all).acquire_many_owned(kib).await.ok()?;
        Some(Held {
            _of_user: of_user,
            _of_all: of_all,
            _user: of,
        })
    }

    fn user(&self, name: &str) -> Arc<Semaphore> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = users.get(name).and_then(Weak::upgrade) {
            return known;
        }
        if users.len() >= USERS_MAX {
            users.retain(|_, user| user.strong_count() > 0);
        }
        let new = Arc::new(Semaphore::new(USER_BYTES_MAX / KIB));
        users.insert(name.into(), Arc::downgrade(&new));
        new
    }
}

impl Held {
    /// The body as it is, with its room.
    pub(crate) fn keep(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Kept { bytes, _held: self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn nobody_takes_all_the_room() {
        let room = Room::default();
        let mut held = Vec::new();
        for _ in 0..USER_BYTES_MAX / BODY_BYTES_MAX {
            held.push(room.hold("a", BODY_BYTES_MAX).await);
        }
        assert!(room.hold("a", BODY_BYTES_MAX).now_or_never().is_none());
        assert!(room.hold("b", BODY_BYTES_MAX).now_or_never().is_some());
        held.pop();
        assert!(room.hold("a", BODY_BYTES_MAX).now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_body_keeps_its_room_as_long_as_it_lives() {
        let room = Room::default();
        let held = room.hold("a", BODY_BYTES_MAX).await.expect("there is room");
        let body = held.keep(Bytes::from_static(b"abc"));
        let part = body.slice(1..);
        let left = || room.all.available_permits() * KIB;
        drop(body);
        assert_eq!(
            (&part[..], left()),
            (&b"bc"[..], ALL_BYTES_MAX - BODY_BYTES_MAX)
        );
        drop(part);
        assert_eq!(left(), ALL_BYTES_MAX);
    }

    #[tokio::test]
    async fn users_who_have_nothing_are_forgotten() {
        let room = Room::default();
        for user in 0..3 * USERS_MAX {
            drop(room.hold(&user.to_string(), 1).await);
        }
        assert!(room.users.lock().expect("nobody panicked").len() <= USERS_MAX);
    }
}
