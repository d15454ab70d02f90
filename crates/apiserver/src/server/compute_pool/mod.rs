//! Long work, on a few threads of its own.
//!
//! Requests are carried out where connections are served, and small ones take less than it
//! costs to hand them over. To decode, patch, default and validate three megabytes takes a
//! tenth of a second, and for as long nobody else is served by that thread. So a request that
//! is long, or is about something long, is carried out here from its beginning to its end: a
//! future that is polled by these threads, and waits for the store or for webhooks without
//! one. Timers and connections stay with the runtime that serves.
//!
//! Users take turns, so that who sends many long requests waits behind themselves. A request
//! is begun when there is room for what it will be unpacked to, which is bounded for all
//! together and for each user. Administrators wait for nobody: they must be able to help.

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

/// A few threads, and those who wait for them. Dropping it stops them.
#[derive(Debug)]
pub struct ComputePool {
    shared: Arc<PoolShared>,
}

#[derive(Debug)]
struct PoolShared {
    queue: Mutex<FairQueue<Arc<ComputeJob>>>,
    /// Rung when there is something to do.
    work_available: Condvar,
    /// Whose timers and connections the work uses.
    runtime: Handle,
}

/// One request.
struct ComputeJob {
    pool: Arc<PoolShared>,
    user: Arc<str>,
    /// Nothing for administrators.
    weight: usize,
    progress: Mutex<JobProgress>,
}

struct JobProgress {
    state: JobState,
    /// `None` at its end.
    work: Option<BoxFuture<'static, ()>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobState {
    /// Not begun: in the queue of its user.
    Queued,
    /// Begun; nobody has woken it.
    Idle,
    /// Begun, and woken.
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
    /// Starts so many threads. Each calls `on_start` first, for instance to be less urgent than
    /// those that serve.
    ///
    /// # Errors
    /// If a thread cannot be made.
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
            // Spawned here: a thread runs what others ask for, and catches their panics.
            thread.spawn(move || {
                on_start();
                shared.work_loop();
            })?;
        }
        Ok(pool)
    }

    /// Carries out what a user asked for, when it is their turn. Dropping this gives it up.
    ///
    /// # Panics
    /// If the work does.
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
            // The pool is gone, and so is the server.
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

    /// What each thread does until the pool goes.
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
            // There may be room for several now.
            self.pool.work_available.notify_all();
        }
    }

    /// Whether it is at its end.
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

    /// What is left of a pool that is gone is dropped where it is woken.
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

/// Whoever asked for a job. What is begun is finished when they go; what is not is forgotten.
struct JobHandle {
    job: Arc<ComputeJob>,
    ticket: Option<Ticket>,
}

impl Drop for JobHandle {
    fn drop(&mut self) {
        let ticket = self.ticket;
        let withdraw = |ticket| self.job.pool.queue().cancel(&self.job.user, ticket);
        // Dropped here, when the queue is not locked any more.
        drop(ticket.and_then(withdraw));
    }
}
