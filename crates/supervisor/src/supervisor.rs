//! The [`Supervisor`]: runs background tasks and restarts them after failures.

use crate::catch_panic::{CatchPanic, TaskExit};
use crate::restart_backoff::RestartBackoff;
use crate::task::Task;
use crate::task_registry::{CountGuard, TaskEntry, TaskRegistry, TaskStatus};
use optik_platform::{Clock, SystemClock};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Supervises background tasks. Clones are cheap and share their state.
#[derive(Clone, Debug)]
pub struct Supervisor {
    shared: Arc<SupervisorShared>,
}

#[derive(Debug)]
struct SupervisorShared {
    clock: Arc<dyn Clock>,
    registry: TaskRegistry,
    stopping: watch::Sender<bool>,
    spawned: Mutex<JoinSet<()>>,
}

impl Default for Supervisor {
    /// A supervisor that uses the system clock.
    fn default() -> Self {
        Self::new(Arc::new(SystemClock::default()))
    }
}

impl Supervisor {
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            shared: Arc::new(SupervisorShared {
                clock,
                registry: TaskRegistry::default(),
                stopping: watch::Sender::new(false),
                spawned: Mutex::default(),
            }),
        }
    }

    /// Spawns a task on the current runtime; it runs until the supervisor is shut down.
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn spawn<F>(&self, task: Task, start: impl FnMut() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let supervised = self.supervise(task, start);
        self.spawned().spawn(supervised);
    }

    /// Runs a task wherever the returned future is polled. `start` creates the task, and again
    /// after each failure. Completes when the task completes, or ends after [`Supervisor::stop`].
    pub fn supervise<F, S>(&self, task: Task, mut start: S) -> impl Future<Output = ()> + use<F, S>
    where
        F: Future<Output = ()>,
        S: FnMut() -> F,
    {
        let shared = Arc::clone(&self.shared);
        let instance = shared.registry.register(task);
        async move {
            let entry = &instance.0;
            let mut backoff = RestartBackoff::default();
            loop {
                let began = shared.clock.monotonic();
                let exit = CatchPanic::new(async { start().await }, entry).await;
                let is_over = exit == TaskExit::Returned && task.completes;
                if is_over || shared.is_stopping() {
                    return;
                }
                // Counted as down before the panic is visible to others.
                let down = CountGuard::new(&entry.down);
                let pause = backoff.next(shared.clock.monotonic().since(began));
                record_exit(entry, task.name, &exit, pause);
                if !shared.pause(pause, entry).await {
                    return;
                }
                entry.restarts.fetch_add(1, Ordering::Relaxed);
                drop(down);
            }
        }
    }

    /// Runs a task that cannot be restarted: after a panic it stays failed, and `fail` is called to
    /// disable what depends on it. The task may return.
    pub fn supervise_once<F, C>(
        &self,
        task: Task,
        work: F,
        fail: C,
    ) -> impl Future<Output = ()> + use<F, C>
    where
        F: Future<Output = ()>,
        C: FnOnce(&str),
    {
        let instance = self.shared.registry.register(task);
        let work = CatchPanic::new(work, &instance.0);
        async move {
            let TaskExit::Panicked(reason) = work.await else {
                return;
            };
            let entry = &instance.0;
            entry.failed.store(true, Ordering::SeqCst);
            entry.panics.fetch_add(1, Ordering::Relaxed);
            tracing::error!(
                task = task.name,
                reason,
                "a background task panicked, and cannot be started again"
            );
            fail(&reason);
        }
    }

    /// Stops restarting tasks, and ends the pauses of those that wait for a restart.
    pub fn stop(&self) {
        self.shared.stopping.send_replace(true);
    }

    /// Stops, aborts all spawned tasks and waits for their end.
    pub async fn shutdown(&self) {
        self.stop();
        let mut spawned = std::mem::take(&mut *self.spawned());
        spawned.shutdown().await;
    }

    /// Stops and aborts all spawned tasks without waiting for their end.
    pub fn abort(&self) {
        self.stop();
        self.spawned().abort_all();
    }

    /// Whether a task of this name runs. A task that waits for its restart does not.
    #[must_use]
    pub fn is_up(&self, name: &str) -> bool {
        self.shared.registry.is_up(name)
    }

    /// The status of all tasks, by name.
    #[must_use]
    pub fn tasks(&self) -> Vec<TaskStatus> {
        self.shared.registry.statuses()
    }

    /// The metrics of all tasks, in the text format of Prometheus.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.shared.registry.render_metrics()
    }

    /// Makes a task panic at its next poll, which it triggers. The task stays down until the result
    /// is dropped.
    ///
    /// # Panics
    /// If there is no task of this name.
    #[cfg(feature = "failpoints")]
    pub fn panic_next(&self, name: &str) -> crate::FailpointHold {
        let entry = self.shared.registry.find(name);
        crate::FailpointHold::panic_next(entry.expect("a task of this name"))
    }

    fn spawned(&self) -> MutexGuard<'_, JoinSet<()>> {
        let spawned = &self.shared.spawned;
        spawned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SupervisorShared {
    fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Waits for the pause before a restart; returns false if the supervisor stops meanwhile.
    async fn pause(&self, pause: Duration, entry: &TaskEntry) -> bool {
        let mut stopping = self.stopping.subscribe();
        let paused = async {
            sleep(pause).await;
            #[cfg(feature = "failpoints")]
            entry.failpoint.released().await;
            #[cfg(not(feature = "failpoints"))]
            let _ = entry;
        };
        tokio::select! {
            // Cannot fail: the sender lives as long as `self`.
            _ = stopping.wait_for(|stopping| *stopping) => false,
            () = paused => true,
        }
    }
}

fn record_exit(entry: &TaskEntry, task: &str, exit: &TaskExit, pause: Duration) {
    match exit {
        TaskExit::Panicked(reason) => {
            entry.panics.fetch_add(1, Ordering::Relaxed);
            tracing::error!(
                task,
                reason,
                ?pause,
                "a background task panicked; it starts again"
            );
        }
        TaskExit::Returned => {
            tracing::warn!(
                task,
                ?pause,
                "a background task ended by itself; it starts again"
            );
        }
    }
}
