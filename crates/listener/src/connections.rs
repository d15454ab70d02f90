//! How many connections there are at a time, and who makes room for others.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// How long we wait when there is no room, or no connection can be accepted, as when files
/// run out.
const PAUSE: Duration = Duration::from_millis(100);

/// So many connections at a time, on all ports that share this.
#[derive(Clone, Debug)]
pub struct Connections {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    slots: Arc<Semaphore>,
    strangers: Mutex<Strangers>,
}

/// Connections whose clients have not proven who they are.
#[derive(Debug, Default)]
struct Strangers {
    next: u64,
    /// In the order in which they came; without a task when that is about to begin.
    open: BTreeMap<u64, Option<AbortHandle>>,
}

/// One connection; counts until its last clone is dropped.
#[derive(Clone, Debug)]
pub struct Slot(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    number: u64,
    proven: AtomicBool,
    _permit: OwnedSemaphorePermit,
}

impl Connections {
    #[must_use]
    pub fn new(max: usize) -> Self {
        let max = max.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            shared: Arc::new(Shared {
                slots: Arc::new(Semaphore::new(max)),
                strangers: Mutex::default(),
            }),
        }
    }

    /// Accepts connections; `begin` starts the task of each. Never returns.
    ///
    /// When there are as many as there may be, the oldest stranger is let go for the next
    /// connection. So a flood of silent connections competes with itself: a client has as
    /// long to prove who it is as it takes to fill all slots.
    pub async fn accept_all(
        &self,
        listener: &TcpListener,
        mut begin: impl FnMut(TcpStream, Slot) -> AbortHandle,
    ) {
        loop {
            let stream = self.accept(listener).await;
            let slot = self.slot().await;
            let number = slot.0.number;
            let task = begin(stream, slot);
            self.shared.is_run_by(number, task);
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
                    self.shared.let_one_go();
                    sleep(PAUSE).await;
                }
            }
        }
    }

    async fn slot(&self) -> Slot {
        let slots = &self.shared.slots;
        let permit = loop {
            if let Ok(permit) = Arc::clone(slots).try_acquire_owned() {
                break permit;
            }
            self.shared.let_one_go();
            // Not for ever: who was let go may have something to finish.
            let permit = timeout(PAUSE, Arc::clone(slots).acquire_owned()).await;
            if let Ok(Ok(permit)) = permit {
                break permit;
            }
        };
        let mut strangers = self.shared.strangers();
        let number = strangers.next;
        strangers.next += 1;
        strangers.open.insert(number, None);
        Slot(Arc::new(Inner {
            shared: Arc::clone(&self.shared),
            number,
            proven: AtomicBool::new(false),
            _permit: permit,
        }))
    }
}

impl Shared {
    fn strangers(&self) -> MutexGuard<'_, Strangers> {
        // Nothing is left half done under this lock.
        self.strangers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn is_run_by(&self, number: u64, task: AbortHandle) {
        // It may have ended by now, or have been proven.
        if let Some(open) = self.strangers().open.get_mut(&number) {
            *open = Some(task);
        }
    }

    /// Ends the oldest connection of a stranger, if there is one.
    fn let_one_go(&self) {
        let mut strangers = self.strangers();
        let begun = strangers.open.iter().find(|(_, task)| task.is_some());
        let Some(number) = begun.map(|(number, _)| *number) else {
            return;
        };
        if let Some(Some(task)) = strangers.open.remove(&number) {
            task.abort();
        }
    }
}

impl Slot {
    /// The client has proven who it is: its connection makes room for nobody.
    pub fn prove(&self) {
        if !self.0.proven.swap(true, Ordering::Relaxed) {
            self.0.shared.strangers().open.remove(&self.0.number);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.strangers().open.remove(&self.number);
    }
}
