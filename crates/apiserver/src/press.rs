//! Long answers, made by more than one processor.
//!
//! A long list is cut into batches. While one is on its way to the client, the next
//! ones are made on other threads; they come out in their order. Few threads do this
//! for all requests. What is quickly made is made by who asks, if none of them is free.
//!
//! A batch is made when there is room to hold it until it is sent, in all and for each user:
//! who reads a hundred lists slowly waits for themselves.

mod share;

pub(crate) use share::Share;

use futures::stream::{self, Stream};
use optik_access::User;
use share::{Room, Shares};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinHandle, spawn_blocking, yield_now};

/// How many batches of an answer are made ahead at most.
const WIDTH_MAX: usize = 4;
/// As much is held of objects that a webhook converts, in all.
const CONVERTED_BYTES_MAX: usize = 128 << 20;
/// And of answers whose length is told before them.
const MEASURED_BYTES_MAX: usize = 32 << 20;
const KIB: usize = 1024;

#[derive(Debug)]
pub(crate) struct Press {
    width: usize,
    threads: Arc<Semaphore>,
    /// For batches that are made and not sent.
    shares: Shares,
    /// In KiB, as the next one.
    converted: Arc<Semaphore>,
    converted_bytes: usize,
    measured: Arc<Semaphore>,
}

/// What makes a batch.
pub(crate) struct Job<F> {
    /// About what is held of it.
    pub(crate) bytes: usize,
    /// Whether it takes more than a moment: then it waits for a thread.
    pub(crate) is_long: bool,
    pub(crate) run: F,
}

/// The batches of one answer.
struct Line<I, J, T> {
    press: Arc<Press>,
    share: Share,
    jobs: I,
    /// The next one, if there was no room or no thread for it.
    next: Option<Job<J>>,
    ahead: VecDeque<JoinHandle<(T, Room)>>,
    /// Of the batch that was handed out last.
    sent: Option<Room>,
}

impl Press {
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with(cores, CONVERTED_BYTES_MAX)
    }

    pub(crate) fn with(cores: usize, held_bytes: usize) -> Self {
        let room = |bytes: usize| Arc::new(Semaphore::new(bytes / KIB));
        Self {
            width: cores.min(WIDTH_MAX),
            // With one processor there is nobody else to do it.
            threads: Arc::new(Semaphore::new(if cores > 1 { cores } else { 0 })),
            shares: Shares::default(),
            converted: room(held_bytes),
            converted_bytes: held_bytes / KIB * KIB,
            measured: room(held_bytes.min(MEASURED_BYTES_MAX)),
        }
    }

    /// What a user may be answered with at a time.
    pub(crate) fn share_of(&self, user: &User) -> Share {
        match user.is_master() {
            true => Share::Unbounded,
            false => self.shares.of(&user.name),
        }
    }

    /// What the jobs make, in the order of the jobs.
    pub(crate) fn make<J, T>(
        self: Arc<Self>,
        share: Share,
        jobs: impl Iterator<Item = Job<J>> + Send,
    ) -> impl Stream<Item = T> + Send
    where
        J: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let line = Line {
            ahead: VecDeque::with_capacity(self.width),
            press: self,
            share,
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

impl<I, J, T> Line<I, J, T>
where
    I: Iterator<Item = Job<J>>,
    J: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    async fn next(&mut self) -> Option<T> {
        self.sent = None;
        self.begin();
        let (made, room) = match self.ahead.pop_front() {
            Some(away) => returned(away).await,
            None => self.wait_for_one().await?,
        };
        self.sent = Some(room);
        self.begin();
        Some(made)
    }

    /// Begins what there is room and a thread for.
    fn begin(&mut self) {
        while self.ahead.len() < self.press.width
            && let Some(job) = self.next.take().or_else(|| self.jobs.next())
        {
            let thread = Arc::clone(&self.press.threads).try_acquire_owned();
            let room = thread.ok().zip(self.share.try_take(job.bytes));
            let Some((thread, room)) = room else {
                self.next = Some(job);
                return;
            };
            self.ahead.push_back(away(job, thread, room));
        }
    }

    /// The next one, when it is this user's turn.
    async fn wait_for_one(&mut self) -> Option<(T, Room)> {
        let job = self.next.take().or_else(|| self.jobs.next())?;
        let room = self.share.take(job.bytes).await;
        if job.is_long && self.press.width > 1 {
            let thread = Arc::clone(&self.press.threads).acquire_owned().await;
            let thread = thread.ok()?;
            return Some(returned(away(job, thread, room)).await);
        }
        let made = (job.run)();
        yield_now().await;
        Some((made, room))
    }
}

/// Another thread makes it.
fn away<J, T>(job: Job<J>, thread: OwnedSemaphorePermit, room: Room) -> JoinHandle<(T, Room)>
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

impl Press {
    /// Room to hold as much while its length is found out, if there is; it is free again when
    /// the permit goes.
    pub(crate) fn hold(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        taken(&self.measured, bytes)
    }

    /// The same for what is converted, and cannot be had in pieces. What is longer than there
    /// can be room for is held while nothing else is.
    pub(crate) fn hold_whole(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        taken(&self.converted, bytes.min(self.converted_bytes))
    }
}

fn taken(room: &Arc<Semaphore>, bytes: usize) -> Option<OwnedSemaphorePermit> {
    let kib = u32::try_from(bytes.div_ceil(KIB)).ok()?;
    Arc::clone(room).try_acquire_many_owned(kib).ok()
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
    use futures::{FutureExt, StreamExt};

    fn jobs<F>(
        is_long: bool,
        runs: impl Iterator<Item = F> + Send,
    ) -> impl Iterator<Item = Job<F>> + Send {
        runs.map(move |run| Job {
            bytes: KIB,
            is_long,
            run,
        })
    }

    /// However many threads there are, the order is that of the jobs.
    #[tokio::test]
    async fn batches_come_out_in_order() {
        for cores in [1, 2, 8] {
            let press = Arc::new(Press::with(cores, 0));
            for is_long in [false, true] {
                let jobs = jobs(is_long, (0..500_u32).map(|number| move || number));
                let made = Arc::clone(&press).make(Share::Unbounded, jobs);
                let made: Vec<u32> = made.collect().await;
                assert!(made.iter().copied().eq(0..500), "{cores}");
            }
        }
    }

    /// The threads are shared: who comes when all are taken is not kept waiting.
    #[tokio::test]
    async fn without_a_free_thread_the_batches_are_made_here() {
        let press = Arc::new(Press::with(2, 0));
        let _all = Arc::clone(&press.threads).try_acquire_many_owned(2);
        let here = std::thread::current().id();
        let quick = jobs(false, (0..3).map(|_| || std::thread::current().id()));
        let made = Arc::clone(&press).make(Share::Unbounded, quick);
        assert_eq!(made.collect::<Vec<_>>().await, [here; 3]);
        // What is long would keep others from being served.
        let long = jobs(true, (0..3).map(|_| || std::thread::current().id()));
        let mut made = Box::pin(Arc::clone(&press).make(Share::Unbounded, long));
        assert!(made.next().now_or_never().is_none());
    }

    /// Who does not take what is made gets no more, and keeps nobody else waiting.
    #[tokio::test]
    async fn what_is_not_taken_is_not_made() {
        let press = Arc::new(Press::with(4, 0));
        let user = |name: &str| {
            let name = name.into();
            press.share_of(&User {
                name,
                ..User::default()
            })
        };
        let list = |name: &str| {
            let jobs = (0..2).map(|number| Job {
                bytes: share::USER_BYTES_MAX,
                is_long: true,
                run: move || number,
            });
            Box::pin(Arc::clone(&press).make(user(name), jobs))
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
    async fn room_comes_back() {
        let press = Press::with(1, 2048);
        let held = press.hold(1025);
        assert!(held.is_some());
        assert!(press.hold(1).is_none());
        drop(held);
        assert!(press.hold(2048).is_some());
    }
}
