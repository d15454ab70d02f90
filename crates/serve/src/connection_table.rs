//! The table of open connections, for idle timeouts and graceful shutdown.
//!
//! One periodic sweep covers all connections. A timer per connection would be reset by every
//! request; a counter that requests reset and sweeps increment costs next to nothing.

use futures::task::AtomicWaker;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

#[derive(Debug, Default)]
pub(crate) struct ConnectionTable {
    open: Mutex<OpenConnections>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    connections: BTreeMap<u64, Arc<ConnectionHandle>>,
    next: u64,
    draining: bool,
}

/// The number of sweeps without a request until a connection is asked to close.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdleLimits {
    /// Before the first request.
    pub(crate) before_first_request: u32,
    /// After the first request.
    pub(crate) idle: u32,
}

impl ConnectionTable {
    /// Adds a connection to the table; dropping the guard removes it.
    pub(crate) fn register(self: &Arc<Self>) -> ConnectionGuard {
        let mut open = self.lock();
        let peer = Arc::new(ConnectionHandle::default());
        if open.draining {
            peer.raise_signal(DrainSignal::Drain);
        }
        let id = open.next;
        open.next += 1;
        open.connections.insert(id, Arc::clone(&peer));
        ConnectionGuard {
            table: Arc::clone(self),
            id,
            peer,
        }
    }

    /// Asks every present and future connection to finish its requests and close.
    pub(crate) fn drain_all(&self) {
        let mut open = self.lock();
        open.draining = true;
        open.connections
            .values()
            .for_each(|peer| peer.raise_signal(DrainSignal::Drain));
    }

    /// Cuts every connection off.
    pub(crate) fn abort_all(&self) {
        self.lock()
            .connections
            .values()
            .for_each(|peer| peer.raise_signal(DrainSignal::Abort));
    }

    /// One sweep; the caller calls it at even intervals.
    pub(crate) fn sweep(&self, patience: IdleLimits) {
        self.lock()
            .connections
            .values()
            .for_each(|peer| peer.sweep(patience));
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().expect("no holder of this lock panics")
    }
}

/// The entry of a connection in the table.
pub(crate) struct ConnectionGuard {
    table: Arc<ConnectionTable>,
    id: u64,
    pub(crate) peer: Arc<ConnectionHandle>,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.table.lock().connections.remove(&self.id);
    }
}

/// The signal that a connection has received; it only ever rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DrainSignal {
    Continue,
    Drain,
    Abort,
}

#[derive(Debug, Default)]
pub(crate) struct ConnectionHandle {
    signal: AtomicU8,
    waker: AtomicWaker,
    in_flight: AtomicU32,
    /// Whether the connection has served a request.
    has_served: AtomicBool,
    quiet_sweeps: AtomicU32,
}

impl ConnectionHandle {
    pub(crate) fn begin_request(self: &Arc<Self>) -> RequestGuard {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.has_served.store(true, Ordering::Relaxed);
        self.quiet_sweeps.store(0, Ordering::Relaxed);
        RequestGuard(Arc::clone(self))
    }

    pub(crate) fn has_several_requests(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 1
    }

    /// The current signal; `waker` is woken when it changes.
    pub(crate) fn poll_signal(&self, waker: &Waker) -> DrainSignal {
        self.waker.register(waker);
        match self.signal.load(Ordering::Acquire) {
            0 => DrainSignal::Continue,
            1 => DrainSignal::Drain,
            _ => DrainSignal::Abort,
        }
    }

    fn raise_signal(&self, order: DrainSignal) {
        if self.signal.fetch_max(order as u8, Ordering::AcqRel) < order as u8 {
            self.waker.wake();
        }
    }

    fn sweep(&self, patience: IdleLimits) {
        if self.in_flight.load(Ordering::Relaxed) > 0 {
            return;
        }
        let begun = self.has_served.load(Ordering::Relaxed);
        let limit = if begun {
            patience.idle
        } else {
            patience.before_first_request
        };
        let quiet = self.quiet_sweeps.fetch_add(1, Ordering::Relaxed);
        // A connection that ignores the signal to drain, for example in the middle of a header, is
        // cut off at the next sweep.
        if quiet > limit {
            self.raise_signal(DrainSignal::Abort);
        } else if quiet == limit {
            self.raise_signal(DrainSignal::Drain);
        }
    }
}

/// A request in flight, from its header to the end of its response.
#[derive(Debug)]
pub(crate) struct RequestGuard(Arc<ConnectionHandle>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        // The idle time begins at the end of the request, not at its start.
        self.0.quiet_sweeps.store(0, Ordering::Relaxed);
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: IdleLimits = IdleLimits {
        before_first_request: 1,
        idle: 3,
    };

    fn order(peer: &ConnectionHandle) -> DrainSignal {
        peer.poll_signal(Waker::noop())
    }

    /// The number of sweeps until the connection is asked to drain, and until it is cut off.
    fn sweeps(peers: &ConnectionTable, peer: &ConnectionHandle) -> (u32, u32) {
        let until = |wanted| {
            let mut count = 0;
            while order(peer) < wanted {
                peers.sweep(PATIENCE);
                count += 1;
            }
            count
        };
        (until(DrainSignal::Drain), until(DrainSignal::Abort))
    }

    #[test]
    fn idle_connections_are_drained_then_aborted() {
        let peers = Arc::new(ConnectionTable::default());
        let silent = peers.register();
        assert_eq!(sweeps(&peers, &silent.peer), (2, 1));

        let idle = peers.register();
        let request = idle.peer.begin_request();
        for _ in 0..10 {
            peers.sweep(PATIENCE);
        }
        assert_eq!(
            order(&idle.peer),
            DrainSignal::Continue,
            "it has a request in flight"
        );
        drop(request);
        assert_eq!(sweeps(&peers, &idle.peer), (4, 1));
    }

    #[test]
    fn connections_opened_during_shutdown_are_drained() {
        let peers = Arc::new(ConnectionTable::default());
        let early = peers.register();
        peers.drain_all();
        let late = peers.register();
        assert_eq!(order(&early.peer), DrainSignal::Drain);
        assert_eq!(order(&late.peer), DrainSignal::Drain);
        peers.abort_all();
        assert_eq!(order(&late.peer), DrainSignal::Abort);
        drop((early, late));
        assert!(peers.lock().connections.is_empty());
    }
}
