use std::future::poll_fn;
use std::task::Poll;
use tokio::runtime::{Builder, Handle};

/// The threads on which an embedded store runs its sequencer and its dispatcher.
#[derive(Clone, Debug, Default)]
pub enum Executor {
    /// Dedicated threads. The store can be called from any runtime.
    #[default]
    DedicatedThreads,
    /// The threads of a runtime, among its other tasks. No thread has to wake another one, so many
    /// small writes take less time. The runtime needs its timer (`enable_time`).
    ///
    /// While a sync is in progress, one thread of the runtime waits for it, so give the runtime one
    /// thread more than there are processors. With a single thread, all its tasks would wait for
    /// the disk.
    Runtime(Handle),
}

impl Executor {
    pub(crate) fn run(&self, name: &str, task: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::DedicatedThreads => {
                std::thread::Builder::new()
                    .name(name.to_owned())
                    // Spawned here: the tasks passed in are supervised.
                    .spawn(move || block_on(task))
                    .expect("the operating system refuses a thread");
            }
            // Spawned here: the tasks passed in are supervised.
            Self::Runtime(runtime) => drop(runtime.spawn(task)),
        }
    }
}

/// Runs one task on this thread, in a runtime that only has a timer.
fn block_on(task: impl Future<Output = ()>) {
    Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime without input and output needs nothing of the operating system")
        .block_on(task);
}

/// Yields to the tasks waiting for this thread and makes sure that another thread is awake. A task
/// that is woken while it runs is queued behind the others, where another thread can steal it, and
/// one is woken for it ([`tokio::task::yield_now`] wakes no thread).
pub(crate) async fn yield_to_others() {
    let mut waited = false;
    poll_fn(|cx| {
        if waited {
            return Poll::Ready(());
        }
        waited = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
