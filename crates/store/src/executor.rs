use std::future::poll_fn;
use std::task::Poll;
use tokio::runtime::{Builder, Handle};

/// Where an embedded store does its work: makes revisions, and tells watches of them.
#[derive(Clone, Debug, Default)]
pub enum Executor {
    /// On threads of its own. It can be asked from any runtime.
    #[default]
    DedicatedThreads,
    /// On the threads of a runtime, among its other tasks: no thread has to wake another,
    /// so that many small writes take less time. The runtime needs its clock
    /// (`enable_time`).
    ///
    /// While the disk is busy, one thread of the runtime waits for it. So give the runtime
    /// one thread more than there are processors. With a single one, all its tasks would
    /// wait for the disk.
    Runtime(Handle),
}

impl Executor {
    pub(crate) fn run(&self, name: &str, task: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::DedicatedThreads => {
                std::thread::Builder::new()
                    .name(name.to_owned())
                    // Spawned here: what comes here is supervised.
                    .spawn(move || block_on(task))
                    .expect("the operating system refuses a thread");
            }
            // Spawned here: the same.
            Self::Runtime(runtime) => drop(runtime.spawn(task)),
        }
    }
}

/// Runs one task on this thread, with nothing but a clock around it.
fn block_on(task: impl Future<Output = ()>) {
    Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime without input and output needs nothing of the operating system")
        .block_on(task);
}

/// Lets the tasks that wait for this thread go first, and sees to it that another thread is
/// awake. A task that is woken while it runs is put behind the others, where another thread
/// can take it, and one is called for it ([`tokio::task::yield_now`] calls nobody).
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
