//! Long answers, made by more than one processor.
//!
//! A long list is cut into batches. While one is on its way to the client, the next
//! ones are made on other threads; they come out in their order. Few threads do this
//! for all requests: who finds none free makes its batches itself.

use futures::stream::{self, Stream};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinHandle, spawn_blocking, yield_now};

/// How many batches of an answer are made ahead at most.
const WIDTH_MAX: usize = 4;
/// As much is held in all of answers that cannot be sent as they are made.
const HELD_BYTES_MAX: usize = 128 << 20;
const KIB: usize = 1024;

#[derive(Debug)]
pub(crate) struct Press {
    width: usize,
    threads: Arc<Semaphore>,
    /// In KiB.
    room: Arc<Semaphore>,
    room_bytes: usize,
}

enum Turn<J, T> {
    Away(JoinHandle<T>),
    Here(J),
}

impl Press {
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with(cores, HELD_BYTES_MAX)
    }

    pub(crate) fn with(cores: usize, held_bytes: usize) -> Self {
        Self {
            width: cores.min(WIDTH_MAX),
            // With one processor there is nobody else to do it.
            threads: Arc::new(Semaphore::new(if cores > 1 { cores } else { 0 })),
            room: Arc::new(Semaphore::new(held_bytes / KIB)),
            room_bytes: held_bytes / KIB * KIB,
        }
    }

    /// What the jobs make, in the order of the jobs.
    pub(crate) fn make<J, T>(
        self: Arc<Self>,
        jobs: impl Iterator<Item = J> + Send,
    ) -> impl Stream<Item = T> + Send
    where
        J: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let turns: VecDeque<Turn<J, T>> = VecDeque::with_capacity(self.width);
        stream::unfold((self, jobs, turns), |(press, mut jobs, mut turns)| async {
            press.begin(&mut jobs, &mut turns);
            let made = match turns.pop_front()? {
                Turn::Away(away) => returned(away).await,
                Turn::Here(job) => {
                    let made = job();
                    yield_now().await;
                    made
                }
            };
            press.begin(&mut jobs, &mut turns);
            Some((made, (press, jobs, turns)))
        })
    }

    fn begin<J, T>(&self, jobs: &mut impl Iterator<Item = J>, turns: &mut VecDeque<Turn<J, T>>)
    where
        J: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        while turns.len() < self.width
            && let Some(job) = jobs.next()
        {
            turns.push_back(match Arc::clone(&self.threads).try_acquire_owned() {
                Ok(thread) => Turn::Away(spawn_blocking(move || {
                    let made = job();
                    drop(thread);
                    made
                })),
                Err(_) => Turn::Here(job),
            });
        }
    }

    /// Room to hold as much, if there is; it is free again when the permit goes.
    pub(crate) fn hold(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let kib = u32::try_from(bytes.div_ceil(KIB)).ok()?;
        Arc::clone(&self.room).try_acquire_many_owned(kib).ok()
    }

    /// The same for what cannot be had in pieces. What is longer than there can be room for
    /// is held while nothing else is.
    pub(crate) fn hold_whole(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        self.hold(bytes.min(self.room_bytes))
    }
}

async fn returned<T>(away: JoinHandle<T>) -> T {
    match away.await {
        Ok(made) => made,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is going, and so is whoever asked.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;

    /// However many threads there are, the order is that of the jobs.
    #[tokio::test]
    async fn batches_come_out_in_order() {
        for cores in [1, 2, 8] {
            let press = Arc::new(Press::with(cores, 0));
            let jobs = (0..500_u32).map(|number| move || number);
            let made: Vec<u32> = Arc::clone(&press).make(jobs).collect().await;
            assert!(made.iter().copied().eq(0..500), "{cores}");
        }
    }

    /// The threads are shared: who comes when all are taken is not kept waiting.
    #[tokio::test]
    async fn without_a_free_thread_the_batches_are_made_here() {
        let press = Arc::new(Press::with(2, 0));
        let _all = Arc::clone(&press.threads).try_acquire_many_owned(2);
        let here = std::thread::current().id();
        let jobs = (0..3).map(|_| || std::thread::current().id());
        let made: Vec<_> = Arc::clone(&press).make(jobs).collect().await;
        assert_eq!(made, [here; 3]);
    }

    #[tokio::test]
    async fn room_comes_back() {
        let press = Press::with(1, 2048);
        let held = press.hold(1025);
        assert!(held.is_some());
        assert!(press.hold(1).is_none());
        drop(held);
        assert!(press.hold(2048).is_some());
    }
}
