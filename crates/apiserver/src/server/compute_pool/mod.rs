//! Compute pool: a few threads for CPU-heavy requests.
//!
//! Requests are handled on the threads that serve connections; a small one takes less time than
//! handing it over would. Decoding, patching, defaulting and validating three megabytes takes a
//! tenth of a second, during which that thread serves no other connection. So a request that is
//! large, or is about large objects, is handled here from beginning to end: a future that is polled
//! by these threads and holds none of them while it waits for the store or a webhook. Timers and
//! connections stay with the serving runtime.
//!
//! Users take turns (round robin), so a user with many large requests queues behind its own. A
//! request is started when there is capacity for its unpacked size, which is bounded in total and
//! per user. Administrators do not queue, so that they can always intervene.

mod fair_queue;
#[cfg(test)]
mod tests;

use crate::server::compute_pool::fair_queue::{FairQueue, Ticket, USER_WEIGHT_MAX};
use futures::FutureExt;
use futures::future::BoxFuture;
use optik_auth::User;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::{io, thread};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// A few threads and the queue of requests. Dropping it stops the threads.
#[derive(Debug)]
pub struct ComputePool {
    shared: Arc<PoolShared>,
}

#[derive(Debug)]
struct PoolShared {
    queue: Mutex<FairQueue<Arc<ComputeJob>>>,
    /// Notified when a job can run.
    work_available: Condvar,
    /// The runtime whose timers and connections the work uses.
    runtime: Handle,
}

/// One request.
struct ComputeJob {
    pool: Arc<PoolShared>,
    user: Arc<str>,
    /// Zero for administrators.
    weight: usize,
    progress: Mutex<JobProgress>,
}

struct JobProgress {
    state: JobState,
    /// `None` once it has ended.
    work: Option<BoxFuture<'static, ()>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobState {
    /// Not started: in the queue of its user.
    Queued,
    /// Started, not woken.
    Idle,
    /// Started, and woken.
    Runnable,
    Running,
    /// Woken while it ran.
    RunningWoken,
}

impl std::fmt::Debug for ComputeJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (user, weight) = (&self.user, self.weight);
        write!(f, "Job {{ user: {user:?}, weight: {weight} }}")
    }
}

impl ComputePool {
    /// Starts `threads` threads. Each calls `on_start` first, for instance to lower its priority
    /// below that of the serving threads.
    ///
    /// # Errors
    /// If a thread cannot be spawned.
    pub fn start(
        threads: usize,
        runtime: Handle,
        on_start: impl Fn() + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(PoolShared {
            queue: Mutex::default(),
            work_available: Condvar::new(),
            runtime,
        });
        let pool = Self { shared };
        for _ in 0..threads.max(1) {
            let (shared, on_start) = (Arc::clone(&pool.shared), on_start.clone());
            let thread = thread::Builder::new().name("compute".into());
            // Spawned here: pool threads run the jobs of all requests and catch their panics.
            thread.spawn(move || {
                on_start();
                shared.work_loop();
            })?;
        }
        Ok(pool)
    }

    /// Runs a user's work when it is the user's turn. Dropping the future cancels the work.
    ///
    /// # Panics
    /// If the work panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        user: Arc<User>,
        weight: usize,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let (tell, told) = oneshot::channel();
        let work = async move {
            let done = AssertUnwindSafe(work).catch_unwind().await;
            drop(tell.send(done));
        };
        let job = Arc::new(ComputeJob {
            pool: Arc::clone(&self.shared),
            user: user.name.as_str().into(),
            weight: match user.is_master() {
                true => 0,
                false => weight.min(USER_WEIGHT_MAX),
            },
            progress: Mutex::new(JobProgress {
                state: JobState::Queued,
                work: Some(work.boxed()),
            }),
        });
        let _asked = self.enqueue(&user, job);
        self.shared.work_available.notify_one();
        match told.await {
            Ok(Ok(done)) => done,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            // The pool is gone, and the server with it.
            Err(_) => std::future::pending().await,
        }
    }

    fn enqueue(&self, user: &User, job: Arc<ComputeJob>) -> JobHandle {
        let mut queue = self.shared.queue();
        let ticket = match user.is_master() {
            true => {
                queue.push_runnable(Arc::clone(&job));
                None
            }
            false => Some(queue.push(&job.user, job.weight, Arc::clone(&job))),
        };
        JobHandle { job, ticket }
    }
}

impl Drop for ComputePool {
    fn drop(&mut self) {
        let left = self.shared.queue().stop();
        self.shared.work_available.notify_all();
        drop(left);
    }
}

impl PoolShared {
    fn queue(&self) -> MutexGuard<'_, FairQueue<Arc<ComputeJob>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop of each thread, until the pool is dropped.
    fn work_loop(&self) {
        let _context = self.runtime.enter();
        while let Some(job) = self.next_job() {
            job.run();
        }
    }

    fn next_job(&self) -> Option<Arc<ComputeJob>> {
        let mut queue = self.queue();
        loop {
            if queue.is_stopped() {
                return None;
            }
            if let Some(job) = queue.next() {
                return Some(job);
            }
            let woken = self.work_available.wait(queue);
            queue = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl ComputeJob {
    fn progress(&self) -> MutexGuard<'_, JobProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(self: Arc<Self>) {
        let work = {
            let mut turn = self.progress();
            turn.state = JobState::Running;
            turn.work.take()
        };
        let done = work.is_none_or(|work| self.poll(work));
        if done {
            self.pool.queue().finish(&self.user, self.weight);
            // There may be capacity for several jobs now.
            self.pool.work_available.notify_all();
        }
    }

    /// Polls the work. Returns whether it has ended.
    fn poll(self: &Arc<Self>, mut work: BoxFuture<'static, ()>) -> bool {
        let waker = Waker::from(Arc::clone(self));
        let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
        if polled == Poll::Ready(()) {
            return true;
        }
        let again = {
            let mut turn = self.progress();
            turn.work = Some(work);
            let again = turn.state == JobState::RunningWoken;
            turn.state = if again {
                JobState::Runnable
            } else {
                JobState::Idle
            };
            again
        };
        if again {
            Self::reschedule(Arc::clone(self));
        }
        false
    }

    /// Makes a woken job runnable. A job left after the pool is gone is dropped here.
    fn reschedule(self: Arc<Self>) {
        let pool = Arc::clone(&self.pool);
        let mut queue = pool.queue();
        if queue.is_stopped() {
            drop(queue);
            return;
        }
        queue.push_runnable(self);
        drop(queue);
        pool.work_available.notify_one();
    }
}

impl Wake for ComputeJob {
    fn wake(self: Arc<Self>) {
        {
            let mut turn = self.progress();
            match turn.state {
                JobState::Idle => turn.state = JobState::Runnable,
                JobState::Running => {
                    turn.state = JobState::RunningWoken;
                    return;
                }
                JobState::Queued | JobState::Runnable | JobState::RunningWoken => return,
            }
        }
        Self::reschedule(self);
    }
}

/// The caller's handle of a job. On drop, a started job is finished and a queued one is cancelled.
struct JobHandle {
    job: Arc<ComputeJob>,
    ticket: Option<Ticket>,
}

impl Drop for JobHandle {
    fn drop(&mut self) {
        let ticket = self.ticket;
        let withdraw = |ticket| self.job.pool.queue().cancel(&self.job.user, ticket);
        // Dropped here, after the queue's lock is released.
        drop(ticket.and_then(withdraw));
    }
}
