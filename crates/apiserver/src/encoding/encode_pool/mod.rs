//! Encode pool: encodes long responses on more than one processor.
//!
//! A long list is cut into batches. While one batch is sent to the client, the next ones are
//! encoded on other threads; they are sent in order. A few threads are shared by all requests. A
//! batch that is quick to encode is encoded by the caller if no thread is free.
//!
//! A batch is encoded when there is quota to hold it until it is sent, in total and per user: a
//! client that reads a hundred lists slowly delays only itself.

mod buffer_quota;

pub(crate) use crate::encoding::encode_pool::buffer_quota::BufferQuota;

use crate::encoding::encode_pool::buffer_quota::{BufferPermit, BufferQuotas};
use futures::stream::{self, Stream};
use optik_auth::User;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinHandle, spawn_blocking, yield_now};

/// Maximum number of batches of one response that are encoded ahead.
const BATCHES_AHEAD_MAX: usize = 4;
/// Total bytes held for objects that a conversion webhook converts.
const CONVERTED_BYTES_MAX: usize = 128 << 20;
/// Total bytes held for responses whose length is needed before their items.
const MEASURED_BYTES_MAX: usize = 32 << 20;
const KIB: usize = 1024;

#[derive(Debug)]
pub(crate) struct EncodePool {
    width: usize,
    threads: Arc<Semaphore>,
    /// Quotas for batches that are encoded and not sent.
    quotas: BufferQuotas,
    /// In KiB, as is the next field.
    converted: Arc<Semaphore>,
    converted_bytes: usize,
    measured: Arc<Semaphore>,
}

/// A job that encodes one batch.
pub(crate) struct EncodeJob<F> {
    /// Estimated size of the encoded batch.
    pub(crate) bytes: usize,
    /// Whether encoding takes long: then the job always waits for a thread.
    pub(crate) is_slow: bool,
    pub(crate) run: F,
}

/// The batches of one response, in order.
struct OrderedBatches<I, J, T> {
    pool: Arc<EncodePool>,
    quota: BufferQuota,
    jobs: I,
    /// The next job, if there was no quota or no thread for it.
    next: Option<EncodeJob<J>>,
    ahead: VecDeque<JoinHandle<(T, BufferPermit)>>,
    /// The permit of the batch that was returned last.
    sent: Option<BufferPermit>,
}

impl EncodePool {
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with_limits(cores, CONVERTED_BYTES_MAX)
    }

    pub(crate) fn with_limits(cores: usize, held_bytes: usize) -> Self {
        let room = |bytes: usize| Arc::new(Semaphore::new(bytes / KIB));
        Self {
            width: cores.min(BATCHES_AHEAD_MAX),
            // With one processor there is no other thread to encode on.
            threads: Arc::new(Semaphore::new(if cores > 1 { cores } else { 0 })),
            quotas: BufferQuotas::default(),
            converted: room(held_bytes),
            converted_bytes: held_bytes / KIB * KIB,
            measured: room(held_bytes.min(MEASURED_BYTES_MAX)),
        }
    }

    /// The encoding quota of a user.
    pub(crate) fn quota_for(&self, user: &User) -> BufferQuota {
        match user.is_master() {
            true => BufferQuota::Unbounded,
            false => self.quotas.for_user(&user.name),
        }
    }

    /// The results of the jobs, in the order of the jobs.
    pub(crate) fn run_ordered<J, T>(
        self: Arc<Self>,
        share: BufferQuota,
        jobs: impl Iterator<Item = EncodeJob<J>> + Send,
    ) -> impl Stream<Item = T> + Send
    where
        J: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let line = OrderedBatches {
            ahead: VecDeque::with_capacity(self.width),
            pool: self,
            quota: share,
            jobs,
            next: None,
            sent: None,
        };
        stream::unfold(line, |mut line| async {
            let made = line.next().await?;
            Some((made, line))
        })
    }
}

impl<I, J, T> OrderedBatches<I, J, T>
where
    I: Iterator<Item = EncodeJob<J>>,
    J: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    async fn next(&mut self) -> Option<T> {
        self.sent = None;
        self.start_ahead();
        let (made, room) = match self.ahead.pop_front() {
            Some(away) => join(away).await,
            None => self.run_next().await?,
        };
        self.sent = Some(room);
        self.start_ahead();
        Some(made)
    }

    /// Starts jobs for which there is quota and a thread.
    fn start_ahead(&mut self) {
        while self.ahead.len() < self.pool.width
            && let Some(job) = self.next.take().or_else(|| self.jobs.next())
        {
            let thread = Arc::clone(&self.pool.threads).try_acquire_owned();
            let room = thread.ok().zip(self.quota.try_acquire(job.bytes));
            let Some((thread, room)) = room else {
                self.next = Some(job);
                return;
            };
            self.ahead.push_back(spawn_encode(job, thread, room));
        }
    }

    /// Runs the next job once this user has quota for it.
    async fn run_next(&mut self) -> Option<(T, BufferPermit)> {
        let job = self.next.take().or_else(|| self.jobs.next())?;
        let room = self.quota.acquire(job.bytes).await;
        if job.is_slow && self.pool.width > 1 {
            let thread = Arc::clone(&self.pool.threads).acquire_owned().await;
            let thread = thread.ok()?;
            return Some(join(spawn_encode(job, thread, room)).await);
        }
        let made = (job.run)();
        yield_now().await;
        Some((made, room))
    }
}

/// Encodes on another thread.
fn spawn_encode<J, T>(
    job: EncodeJob<J>,
    thread: OwnedSemaphorePermit,
    room: BufferPermit,
) -> JoinHandle<(T, BufferPermit)>
where
    J: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    spawn_blocking(move || {
        let made = (job.run)();
        drop(thread);
        (made, room)
    })
}

impl EncodePool {
    /// Reserves memory for encoding items whose total length is needed first, if available;
    /// released with the permit.
    pub(crate) fn try_reserve_measured(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        try_acquire(&self.measured, bytes)
    }

    /// Reserves memory for converted objects, which cannot be encoded in batches. A list larger
    /// than the limit is held only while nothing else is.
    pub(crate) fn try_reserve_converted(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        try_acquire(&self.converted, bytes.min(self.converted_bytes))
    }
}

fn try_acquire(room: &Arc<Semaphore>, bytes: usize) -> Option<OwnedSemaphorePermit> {
    let kib = u32::try_from(bytes.div_ceil(KIB)).ok()?;
    Arc::clone(room).try_acquire_many_owned(kib).ok()
}

async fn join<T>(away: JoinHandle<T>) -> T {
    match away.await {
        Ok(made) => made,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and the caller with it.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{FutureExt, StreamExt};

    fn jobs<F>(
        is_long: bool,
        runs: impl Iterator<Item = F> + Send,
    ) -> impl Iterator<Item = EncodeJob<F>> + Send {
        runs.map(move |run| EncodeJob {
            bytes: KIB,
            is_slow: is_long,
            run,
        })
    }

    /// Jobs stay in order for every number of threads.
    #[tokio::test]
    async fn encode_pool_keeps_batch_order() {
        for cores in [1, 2, 8] {
            let press = Arc::new(EncodePool::with_limits(cores, 0));
            for is_long in [false, true] {
                let jobs = jobs(is_long, (0..500_u32).map(|number| move || number));
                let made = Arc::clone(&press).run_ordered(BufferQuota::Unbounded, jobs);
                let made: Vec<u32> = made.collect().await;
                assert!(made.iter().copied().eq(0..500), "{cores}");
            }
        }
    }

    /// The threads are shared: a request that finds all of them taken encodes inline.
    #[tokio::test]
    async fn encode_pool_encodes_inline_when_no_thread_is_free() {
        let press = Arc::new(EncodePool::with_limits(2, 0));
        let _all = Arc::clone(&press.threads).try_acquire_many_owned(2);
        let here = std::thread::current().id();
        let quick = jobs(false, (0..3).map(|_| || std::thread::current().id()));
        let made = Arc::clone(&press).run_ordered(BufferQuota::Unbounded, quick);
        assert_eq!(made.collect::<Vec<_>>().await, [here; 3]);
        // Slow jobs would block a serving thread.
        let long = jobs(true, (0..3).map(|_| || std::thread::current().id()));
        let mut made = Box::pin(Arc::clone(&press).run_ordered(BufferQuota::Unbounded, long));
        assert!(made.next().now_or_never().is_none());
    }

    /// A client that does not read gets no further batches encoded and does not delay others.
    #[tokio::test]
    async fn encode_pool_stops_encoding_for_slow_readers() {
        let press = Arc::new(EncodePool::with_limits(4, 0));
        let user = |name: &str| {
            let name = name.into();
            press.quota_for(&User {
                name,
                ..User::default()
            })
        };
        let list = |name: &str| {
            let jobs = (0..2).map(|number| EncodeJob {
                bytes: buffer_quota::USER_BYTES_MAX,
                is_slow: true,
                run: move || number,
            });
            Box::pin(Arc::clone(&press).run_ordered(user(name), jobs))
        };
        let (mut slow, mut other, mut stranger) = (list("a"), list("a"), list("b"));
        assert_eq!(slow.next().await, Some(0));
        assert!(other.next().now_or_never().is_none());
        assert_eq!(stranger.next().await, Some(0));
        drop(slow);
        assert_eq!(other.next().await, Some(0));
        assert_eq!(other.next().await, Some(1));
        assert_eq!(other.next().await, None);
    }

    #[tokio::test]
    async fn encode_pool_releases_reserved_memory() {
        let press = EncodePool::with_limits(1, 2048);
        let held = press.try_reserve_measured(1025);
        assert!(held.is_some());
        assert!(press.try_reserve_measured(1).is_none());
        drop(held);
        assert!(press.try_reserve_measured(2048).is_some());
    }
}
