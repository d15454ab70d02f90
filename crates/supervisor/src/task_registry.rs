//! The registry of tasks by name: their status and their metrics.

use crate::task::{Impact, Task};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The status of a task. Instances of the same name, for example one for each port, count as one
/// task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskStatus {
    pub name: &'static str,
    pub impact: Impact,
    pub is_up: bool,
    pub panics: u64,
    pub restarts: u64,
}

#[derive(Debug)]
pub(crate) struct TaskEntry {
    name: &'static str,
    impact: Impact,
    /// The number of instances, including those that are down.
    pub(crate) instances: AtomicUsize,
    /// The number of instances that wait for a restart.
    pub(crate) down: AtomicUsize,
    /// Whether an instance that cannot be restarted has failed.
    pub(crate) failed: AtomicBool,
    pub(crate) panics: AtomicU64,
    pub(crate) restarts: AtomicU64,
    #[cfg(feature = "failpoints")]
    pub(crate) failpoint: crate::failpoint::Failpoint,
}

impl TaskEntry {
    fn new(task: Task) -> Self {
        Self {
            name: task.name,
            impact: task.impact,
            instances: AtomicUsize::new(0),
            down: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            panics: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
            #[cfg(feature = "failpoints")]
            failpoint: crate::failpoint::Failpoint::default(),
        }
    }

    fn is_registered(&self) -> bool {
        self.instances.load(Ordering::SeqCst) > 0 || self.failed.load(Ordering::SeqCst)
    }

    fn is_up(&self) -> bool {
        self.down.load(Ordering::SeqCst) == 0 && !self.failed.load(Ordering::SeqCst)
    }

    fn status(&self) -> TaskStatus {
        TaskStatus {
            name: self.name,
            impact: self.impact,
            is_up: self.is_up(),
            panics: self.panics.load(Ordering::Relaxed),
            restarts: self.restarts.load(Ordering::Relaxed),
        }
    }
}

/// Increments a counter for as long as it lives.
pub(crate) struct CountGuard<'e>(&'e AtomicUsize);

impl<'e> CountGuard<'e> {
    pub(crate) fn new(counter: &'e AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::SeqCst);
        Self(counter)
    }
}

impl Drop for CountGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An entry of the registry, counted as one more instance while it is held.
pub(crate) struct Instance(pub(crate) Arc<TaskEntry>);

impl Drop for Instance {
    fn drop(&mut self) {
        self.0.instances.fetch_sub(1, Ordering::SeqCst);
    }
}

/// All entries, by name. Names are constants of the program, so there are few; counters outlive the
/// tasks.
#[derive(Debug, Default)]
pub(crate) struct TaskRegistry(Mutex<BTreeMap<&'static str, Arc<TaskEntry>>>);

impl TaskRegistry {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Arc<TaskEntry>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn register(&self, task: Task) -> Instance {
        let mut entries = self.lock();
        let entry = entries
            .entry(task.name)
            .or_insert_with(|| Arc::new(TaskEntry::new(task)));
        entry.instances.fetch_add(1, Ordering::SeqCst);
        Instance(Arc::clone(entry))
    }

    #[cfg(feature = "failpoints")]
    pub(crate) fn find(&self, name: &str) -> Option<Arc<TaskEntry>> {
        self.lock().get(name).cloned()
    }

    pub(crate) fn is_up(&self, name: &str) -> bool {
        self.lock().get(name).is_some_and(|entry| entry.is_up())
    }

    /// The status of all tasks that run, or should run.
    pub(crate) fn statuses(&self) -> Vec<TaskStatus> {
        let entries = self.lock();
        let known = entries.values().filter(|entry| entry.is_registered());
        known.map(|entry| entry.status()).collect()
    }

    pub(crate) fn render_metrics(&self) -> String {
        let statuses: Vec<_> = self.lock().values().map(|entry| entry.status()).collect();
        let mut page = String::new();
        let mut family = |name: &str, kind: &str, value: fn(&TaskStatus) -> u64| {
            // Writing to a string cannot fail.
            let _ = writeln!(page, "# TYPE {name} {kind}");
            for status in &statuses {
                let _ = writeln!(page, "{name}{{task=\"{}\"}} {}", status.name, value(status));
            }
        };
        family("optik_background_task_panics_total", "counter", |task| {
            task.panics
        });
        family("optik_background_task_restarts_total", "counter", |task| {
            task.restarts
        });
        family("optik_background_task_up", "gauge", |task| {
            u64::from(task.is_up)
        });
        page
    }
}
