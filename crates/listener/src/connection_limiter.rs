//! The limit of concurrent connections, and the eviction of unauthenticated ones.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// The pause when the limit is reached, or when accepting fails, for example for lack of file
/// descriptors.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// A limit of concurrent connections for all ports that share it.
#[derive(Clone, Debug)]
pub struct ConnectionLimiter {
    shared: Arc<ConnectionSlots>,
}

#[derive(Debug)]
struct ConnectionSlots {
    slots: Arc<Semaphore>,
    unauthenticated: Mutex<UnauthenticatedConnections>,
}

/// Connections whose clients have not been authenticated.
#[derive(Debug, Default)]
struct UnauthenticatedConnections {
    next: u64,
    /// Ordered by time of acceptance; `None` until the task of a connection has started.
    open: BTreeMap<u64, Option<AbortHandle>>,
}

/// The slot of one connection; it is released when its last clone is dropped.
#[derive(Clone, Debug)]
pub struct ConnectionSlot(Arc<ConnectionSlotInner>);

#[derive(Debug)]
struct ConnectionSlotInner {
    shared: Arc<ConnectionSlots>,
    number: u64,
    authenticated: AtomicBool,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionLimiter {
    #[must_use]
    pub fn new(max: usize) -> Self {
        let max = max.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            shared: Arc::new(ConnectionSlots {
                slots: Arc::new(Semaphore::new(max)),
                unauthenticated: Mutex::default(),
            }),
        }
    }

    /// Accepts connections; `begin` starts the task of each. Never returns.
    ///
    /// When the limit is reached, the oldest unauthenticated connection is evicted for the next
    /// one. So a flood of silent connections competes with itself: a client has as long to
    /// authenticate as it takes to fill all slots.
    pub async fn accept_all(
        &self,
        listener: &TcpListener,
        mut begin: impl FnMut(TcpStream, ConnectionSlot) -> AbortHandle,
    ) {
        loop {
            let stream = self.accept(listener).await;
            let slot = self.acquire_slot().await;
            let number = slot.0.number;
            let task = begin(stream, slot);
            self.shared.set_task(number, task);
        }
    }

    async fn accept(&self, listener: &TcpListener) -> TcpStream {
        let mut failing = false;
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return stream,
                Err(error) => {
                    if !failing {
                        tracing::warn!(%error, "cannot accept connections");
                    }
                    failing = true;
                    self.shared.evict_oldest();
                    sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    async fn acquire_slot(&self) -> ConnectionSlot {
        let slots = &self.shared.slots;
        let permit = loop {
            if let Ok(permit) = Arc::clone(slots).try_acquire_owned() {
                break permit;
            }
            self.shared.evict_oldest();
            // With a timeout: the evicted task may have something to finish.
            let permit = timeout(RETRY_PAUSE, Arc::clone(slots).acquire_owned()).await;
            if let Ok(Ok(permit)) = permit {
                break permit;
            }
        };
        let mut strangers = self.shared.unauthenticated();
        let number = strangers.next;
        strangers.next += 1;
        strangers.open.insert(number, None);
        ConnectionSlot(Arc::new(ConnectionSlotInner {
            shared: Arc::clone(&self.shared),
            number,
            authenticated: AtomicBool::new(false),
            _permit: permit,
        }))
    }
}

impl ConnectionSlots {
    fn unauthenticated(&self) -> MutexGuard<'_, UnauthenticatedConnections> {
        // A panic under this lock cannot leave the state inconsistent.
        self.unauthenticated
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn set_task(&self, number: u64, task: AbortHandle) {
        // The connection may have ended or been authenticated by now.
        if let Some(open) = self.unauthenticated().open.get_mut(&number) {
            *open = Some(task);
        }
    }

    /// Aborts the oldest unauthenticated connection, if there is one.
    fn evict_oldest(&self) {
        let mut strangers = self.unauthenticated();
        let begun = strangers.open.iter().find(|(_, task)| task.is_some());
        let Some(number) = begun.map(|(number, _)| *number) else {
            return;
        };
        if let Some(Some(task)) = strangers.open.remove(&number) {
            task.abort();
        }
    }
}

impl ConnectionSlot {
    /// Marks the client as authenticated; its connection is not evicted any more.
    pub fn mark_authenticated(&self) {
        if !self.0.authenticated.swap(true, Ordering::Relaxed) {
            self.0.shared.unauthenticated().open.remove(&self.0.number);
        }
    }
}

impl Drop for ConnectionSlotInner {
    fn drop(&mut self) {
        self.shared.unauthenticated().open.remove(&self.number);
    }
}
