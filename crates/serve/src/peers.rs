//! The connections there are, seen from outside: which are quiet, and telling them to go.
//!
//! One sweep looks after all of them. A timer per connection would be reset by every
//! request; a counter that requests clear and sweeps raise costs next to nothing.

use futures::task::AtomicWaker;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

#[derive(Debug, Default)]
pub(crate) struct Peers {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    peers: BTreeMap<u64, Arc<Peer>>,
    next: u64,
    leaving: bool,
}

/// Sweeps without a request until a connection is asked to leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Before the first request.
    pub(crate) first: u32,
    /// After it.
    pub(crate) idle: u32,
}

impl Peers {
    /// Knows the connection until the guard is dropped.
    pub(crate) fn join(self: &Arc<Self>) -> Joined {
        let mut open = self.lock();
        let peer = Arc::new(Peer::default());
        if open.leaving {
            peer.order(Order::Leave);
        }
        let id = open.next;
        open.next += 1;
        open.peers.insert(id, Arc::clone(&peer));
        Joined {
            peers: Arc::clone(self),
            id,
            peer,
        }
    }

    /// Asks every connection, and those to come, to finish what they have begun.
    pub(crate) fn leave(&self) {
        let mut open = self.lock();
        open.leaving = true;
        open.peers
            .values()
            .for_each(|peer| peer.order(Order::Leave));
    }

    /// Cuts every connection off.
    pub(crate) fn cut(&self) {
        self.lock()
            .peers
            .values()
            .for_each(|peer| peer.order(Order::Cut));
    }

    /// Called at even intervals.
    pub(crate) fn sweep(&self, patience: Patience) {
        self.lock()
            .peers
            .values()
            .for_each(|peer| peer.sweep(patience));
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().expect("no holder of this lock panics")
    }
}

/// A connection's place among the peers.
pub(crate) struct Joined {
    peers: Arc<Peers>,
    id: u64,
    pub(crate) peer: Arc<Peer>,
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.peers.lock().peers.remove(&self.id);
    }
}

/// What a connection has been told. Only ever raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    Stay,
    Leave,
    Cut,
}

#[derive(Debug, Default)]
pub(crate) struct Peer {
    order: AtomicU8,
    waker: AtomicWaker,
    in_flight: AtomicU32,
    /// Whether there has been a request.
    begun: AtomicBool,
    quiet_sweeps: AtomicU32,
}

impl Peer {
    pub(crate) fn begin(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.begun.store(true, Ordering::Relaxed);
        self.quiet_sweeps.store(0, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }

    pub(crate) fn has_several_requests(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 1
    }

    /// The order of the moment; `waker` is woken when it changes.
    pub(crate) fn heed(&self, waker: &Waker) -> Order {
        self.waker.register(waker);
        match self.order.load(Ordering::Acquire) {
            0 => Order::Stay,
            1 => Order::Leave,
            _ => Order::Cut,
        }
    }

    fn order(&self, order: Order) {
        if self.order.fetch_max(order as u8, Ordering::AcqRel) < order as u8 {
            self.waker.wake();
        }
    }

    fn sweep(&self, patience: Patience) {
        if self.in_flight.load(Ordering::Relaxed) > 0 {
            return;
        }
        let begun = self.begun.load(Ordering::Relaxed);
        let limit = if begun { patience.idle } else { patience.first };
        let quiet = self.quiet_sweeps.fetch_add(1, Ordering::Relaxed);
        // One that does not leave when asked, as in the middle of a header, is cut off
        // at the next sweep.
        if quiet > limit {
            self.order(Order::Cut);
        } else if quiet == limit {
            self.order(Order::Leave);
        }
    }
}

/// A request between its header and the end of its answer.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<Peer>);

impl Drop for InFlight {
    fn drop(&mut self) {
        // The quiet begins now, not when the request came.
        self.0.quiet_sweeps.store(0, Ordering::Relaxed);
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience { first: 1, idle: 3 };

    fn order(peer: &Peer) -> Order {
        peer.heed(Waker::noop())
    }

    /// How many sweeps it takes to be asked to leave, and to be cut off.
    fn sweeps(peers: &Peers, peer: &Peer) -> (u32, u32) {
        let until = |wanted| {
            let mut count = 0;
            while order(peer) < wanted {
                peers.sweep(PATIENCE);
                count += 1;
            }
            count
        };
        (until(Order::Leave), until(Order::Cut))
    }

    #[test]
    fn the_silent_are_asked_to_leave_then_cut_off() {
        let peers = Arc::new(Peers::default());
        let silent = peers.join();
        assert_eq!(sweeps(&peers, &silent.peer), (2, 1));

        let idle = peers.join();
        let request = idle.peer.begin();
        for _ in 0..10 {
            peers.sweep(PATIENCE);
        }
        assert_eq!(order(&idle.peer), Order::Stay, "it has a request in flight");
        drop(request);
        assert_eq!(sweeps(&peers, &idle.peer), (4, 1));
    }

    #[test]
    fn late_comers_learn_that_all_are_leaving() {
        let peers = Arc::new(Peers::default());
        let early = peers.join();
        peers.leave();
        let late = peers.join();
        assert_eq!(order(&early.peer), Order::Leave);
        assert_eq!(order(&late.peer), Order::Leave);
        peers.cut();
        assert_eq!(order(&late.peer), Order::Cut);
        drop((early, late));
        assert!(peers.lock().peers.is_empty());
    }
}
