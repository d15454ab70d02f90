use crate::backoff::Backoff;
use crate::caught::{Caught, Exit};
use crate::registry::{Counted, Entry, Registry, TaskStatus};
use crate::task::Task;
use optik_platform::{Clock, SystemClock};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Looks after background tasks. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Supervisor {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    clock: Arc<dyn Clock>,
    registry: Registry,
    stopping: watch::Sender<bool>,
    spawned: Mutex<JoinSet<()>>,
}

impl Default for Supervisor {
    /// On the machine's clock.
    fn default() -> Self {
        Self::new(Arc::new(SystemClock::default()))
    }
}

impl Supervisor {
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            shared: Arc::new(Shared {
                clock,
                registry: Registry::default(),
                stopping: watch::Sender::new(false),
                spawned: Mutex::default(),
            }),
        }
    }

    /// Runs a task on the current runtime, until the supervisor is shut down.
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

    /// Runs a task wherever the result is polled: `start` makes it, again after each
    /// failure. Completes when the task completes, or ends after [`Supervisor::stop`].
    pub fn supervise<F, S>(&self, task: Task, mut start: S) -> impl Future<Output = ()> + use<F, S>
    where
        F: Future<Output = ()>,
        S: FnMut() -> F,
    {
        let shared = Arc::clone(&self.shared);
        let instance = shared.registry.register(task);
        async move {
            let entry = &instance.0;
            let mut backoff = Backoff::default();
            loop {
                let began = shared.clock.monotonic();
                let exit = Caught::new(async { start().await }, entry).await;
                let is_over = exit == Exit::Returned && task.completes;
                if is_over || shared.is_stopping() {
                    return;
                }
                // Counted as down before anybody can see that it panicked.
                let down = Counted::new(&entry.down);
                let pause = backoff.next(shared.clock.monotonic().since(began));
                note(entry, task.name, &exit, pause);
                if !shared.pause(pause, entry).await {
                    return;
                }
                entry.restarts.fetch_add(1, Ordering::Relaxed);
                drop(down);
            }
        }
    }

    /// Runs a task that cannot be started again: after a panic it stays failed, and
    /// `fail` sees to it that nobody relies on it any more. It may return.
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
        let work = Caught::new(work, &instance.0);
        async move {
            let Exit::Panicked(reason) = work.await else {
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

    /// From now on tasks that end are not started again, and none waits for its next start.
    pub fn stop(&self) {
        self.shared.stopping.send_replace(true);
    }

    /// Stops, and ends what was spawned.
    pub async fn shutdown(&self) {
        self.stop();
        let mut spawned = std::mem::take(&mut *self.spawned());
        spawned.shutdown().await;
    }

    /// The same without waiting for the end.
    pub fn abort(&self) {
        self.stop();
        self.spawned().abort_all();
    }

    /// Whether a task of this name runs. One that waits to be started again does not.
    #[must_use]
    pub fn is_up(&self, name: &str) -> bool {
        self.shared.registry.is_up(name)
    }

    /// All tasks, by name.
    #[must_use]
    pub fn tasks(&self) -> Vec<TaskStatus> {
        self.shared.registry.statuses()
    }

    /// What is counted, as Prometheus reads it.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.shared.registry.page()
    }

    /// Makes a task panic when it is polled next, which is soon. It stays down until the
    /// result is dropped.
    ///
    /// # Panics
    /// If there is no task of this name.
    #[cfg(feature = "failpoints")]
    pub fn panic_next(&self, name: &str) -> crate::Hold {
        let entry = self.shared.registry.find(name);
        crate::Hold::panic_next(entry.expect("a task of this name"))
    }

    fn spawned(&self) -> MutexGuard<'_, JoinSet<()>> {
        let spawned = &self.shared.spawned;
        spawned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// False if the supervisor stops meanwhile.
    async fn pause(&self, pause: Duration, entry: &Entry) -> bool {
        let mut stopping = self.stopping.subscribe();
        let paused = async {
            sleep(pause).await;
            #[cfg(feature = "failpoints")]
            entry.failpoint.released().await;
            #[cfg(not(feature = "failpoints"))]
            let _ = entry;
        };
        tokio::select! {
            // The sender lives as long as `self`.
            _ = stopping.wait_for(|stopping| *stopping) => false,
            () = paused => true,
        }
    }
}

fn note(entry: &Entry, task: &str, exit: &Exit, pause: Duration) {
    match exit {
        Exit::Panicked(reason) => {
            entry.panics.fetch_add(1, Ordering::Relaxed);
            tracing::error!(
                task,
                reason,
                ?pause,
                "a background task panicked; it starts again"
            );
        }
        Exit::Returned => {
            tracing::warn!(
                task,
                ?pause,
                "a background task ended by itself; it starts again"
            );
        }
    }
}
